package restore

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// readUncommitted is the number that Kafka has for it.
const readUncommitted = 0

// At returns the record at an offset, nil if there is none: it has been compacted away or trimmed, the log ends before, or a marker is there.
//
// The caller must know from elsewhere that the record's transaction has committed. It is read whether or not transactions are open in the
// partition: of other tasks that share it, nobody need wait for the end.
func (r *Restorer) At(ctx context.Context, topic string, part int32, offset int64) (*kgo.Record, error) {
	p := partition{topic, part}
	var rec *kgo.Record
	err := r.retry(ctx, func() error {
		places, err := r.places(ctx, []partition{p})
		if err != nil {
			return err
		}
		got, err := r.slot(ctx, func() (fetched, error) {
			return r.fetchAt(ctx, readUncommitted, kgo.ReadUncommitted(), p, places[p], offset, -1, offset+1)
		})
		switch {
		case errors.Is(err, kerr.OffsetOutOfRange):
			return nil
		case err != nil:
			return err
		case len(got.records) > 0 && got.records[0].Offset == offset && !got.records[0].Attrs.IsControl():
			rec = got.records[0]
			return nil
		}
		return got.err
	})
	if err != nil {
		return nil, fmt.Errorf("restore: read %s@%d: %w", p, offset, err)
	}
	return rec, nil
}

// Each calls f with each committed record of a partition, up to the end that its log has now. Where a transaction is open below that, it
// waits for its end.
func (r *Restorer) Each(ctx context.Context, topic string, part int32, f func(*kgo.Record)) error {
	p := partition{topic, part}
	logs, err := r.logs(ctx, []partition{p})
	if err != nil {
		return fmt.Errorf("restore: read %s: %w", p, err)
	}
	next, end, blocked := logs[p].start, logs[p].end, 0
	for next < end {
		wait := false
		err := r.retry(ctx, func() error {
			places, err := r.places(ctx, []partition{p})
			if err != nil {
				return err
			}
			got, err := r.slot(ctx, func() (fetched, error) { return r.fetch(ctx, p, places[p], next, -1, end) })
			if err != nil {
				return err
			}
			for _, rec := range got.records {
				if rec.Offset >= next && rec.Offset < end && !rec.Attrs.IsControl() {
					f(rec)
				}
			}
			switch {
			case got.next > next:
				next = got.next
			case got.err != nil:
				return got.err
			case got.stable < end:
				wait = true
			default:
				next = end // what was there has been compacted away
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("restore: read %s@%d: %w", p, next, err)
		}
		if !wait {
			blocked = 0
			continue
		}
		blocked++
		if err := pause(ctx, blocked); err != nil {
			return fmt.Errorf("restore: %s@%d is in an open transaction: %w", p, next, err)
		}
	}
	return nil
}

// slot waits for a free one, and fetches.
func (r *Restorer) slot(ctx context.Context, fetch func() (fetched, error)) (fetched, error) {
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return fetched{}, ctx.Err()
	}
	defer func() { <-r.slots }()
	return fetch()
}
