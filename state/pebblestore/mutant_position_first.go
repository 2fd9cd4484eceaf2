//go:build mutant_position_first

package pebblestore

import "github.com/headrace/headrace/state"

func (b *backend) positionFirst(positions []*state.Position) error {
	batch := b.db.NewBatch()
	defer batch.Close()
	for i, p := range positions {
		if p == nil {
			continue
		}
		value := make([]byte, positionLen)
		encodePosition(value, p)
		if err := batch.Set(b.stores[i].at, value, nil); err != nil {
			return err
		}
	}
	if err := b.commit("apply to", batch); err != nil {
		return err
	}
	return b.db.Flush()
}
