package pebblestore

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/headrace/headrace/state"
)

// formatNumber is the number of what this file lays out, and of which stores mean what. It goes up with every change that an
// older version would read wrongly.
const formatNumber = 1

// A key in Pebble is the number of a store, 4 bytes, big-endian, and the key in the store. Number 0 holds what is known of the
// task itself, by a tag:
//
//	F            format number, 4 bytes
//	N            the number of the next new store, 4 bytes
//	S<name>      number of the store, 4 bytes, and its kind, 1 byte
//	P<number>    position: topic id 16, offset 8, leader epoch 4, applied at 8 bytes
//
// All numbers are big-endian.
const (
	prefixLen = 4

	tagFormat   = 'F'
	tagNext     = 'N'
	tagStore    = 'S'
	tagPosition = 'P'

	storeLen    = 5
	positionLen = 16 + 8 + 4 + 8
)

var (
	keyFormat = []byte{0, 0, 0, 0, tagFormat}
	keyNext   = []byte{0, 0, 0, 0, tagNext}
	// All keys of number 0 are below metaEnd.
	metaEnd = prefixOf(1)
)

func prefixOf(number uint32) []byte { return binary.BigEndian.AppendUint32(nil, number) }

func storeKey(name string) []byte { return append([]byte{0, 0, 0, 0, tagStore}, name...) }

func positionKey(number uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{0, 0, 0, 0, tagPosition}, number)
}

func encodeStore(number uint32, kind state.Kind) []byte {
	return append(binary.BigEndian.AppendUint32(nil, number), byte(kind))
}

// encodePosition writes p into to, which has positionLen bytes.
func encodePosition(to []byte, p *state.Position) {
	copy(to, p.TopicID[:])
	binary.BigEndian.PutUint64(to[16:], uint64(p.Offset))
	binary.BigEndian.PutUint32(to[24:], uint32(p.LeaderEpoch))
	binary.BigEndian.PutUint64(to[28:], uint64(p.AppliedAt))
}

func decodePosition(from []byte) (p state.Position, err error) {
	if len(from) != positionLen {
		return p, fmt.Errorf("a position has %d bytes, want %d", len(from), positionLen)
	}
	copy(p.TopicID[:], from)
	p.Offset = int64(binary.BigEndian.Uint64(from[16:]))
	p.LeaderEpoch = int32(binary.BigEndian.Uint32(from[24:]))
	p.AppliedAt = int64(binary.BigEndian.Uint64(from[28:]))
	return p, nil
}

// catalog is what number 0 says.
type catalog struct {
	format    uint32 // 0 if nothing has been written yet
	next      uint32
	stores    map[string]kept
	positions map[uint32]state.Position
}

// kept is a store as it was left.
type kept struct {
	number uint32
	kind   state.Kind
}

// add takes in one entry of number 0.
func (c *catalog) add(key, value []byte) error {
	switch tag, rest := key[prefixLen], key[prefixLen+1:]; {
	case bytes.Equal(key, keyFormat) && len(value) == 4:
		c.format = binary.BigEndian.Uint32(value)
	case bytes.Equal(key, keyNext) && len(value) == 4:
		c.next = binary.BigEndian.Uint32(value)
	case tag == tagStore && len(rest) > 0 && len(value) == storeLen:
		c.stores[string(rest)] = kept{binary.BigEndian.Uint32(value), state.Kind(value[4])}
	case tag == tagPosition && len(rest) == 4:
		p, err := decodePosition(value)
		if err != nil {
			return err
		}
		c.positions[binary.BigEndian.Uint32(rest)] = p
	default:
		return fmt.Errorf("unknown entry %q = %q in the table of stores", key[prefixLen:], value)
	}
	return nil
}

// check says whether the catalog makes sense.
func (c *catalog) check() error {
	used := make(map[uint32]string, len(c.stores))
	for name, s := range c.stores {
		if s.number == 0 || s.number >= c.next {
			return fmt.Errorf("store %q has the number %d, which is not one of 1 to %d", name, s.number, int64(c.next)-1)
		}
		if other, twice := used[s.number]; twice {
			return fmt.Errorf("stores %q and %q both have the number %d", name, other, s.number)
		}
		used[s.number] = name
	}
	return nil
}
