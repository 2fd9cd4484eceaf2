package changelog

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/headrace/headrace/state"
)

// ErrNullKey is wrapped by Decode for a record whose key is null. Such a record belongs to no key: a table skips and counts it.
// In a changelog of ours there is none.
var ErrNullKey = errors.New("the record's key is null")

const (
	startSize    = 8
	endSize      = 8
	sequenceSize = 4
)

// Record is what a changelog topic holds of a mutation.
type Record struct {
	// Key is not nil.
	Key []byte
	// Value is nil for a deleted key: a tombstone. A value that is there but empty is not nil.
	Value []byte
	// Time is the record's timestamp in Unix milliseconds: the event time of the value.
	Time int64
}

// Encode returns the record for a mutation of the store that spec describes. now is the timestamp of a deletion, which has none of
// its own: the event time of the record in process, in Unix milliseconds.
//
// The record aliases the mutation and dst, to which Encode appends what it has to build; it returns the longer dst. After an
// error dst is as long as it was. A mutation that is not in store layout is an error, and so is a store whose changelog is its
// source topic: nothing is ever written there.
func Encode(dst []byte, spec state.Spec, m state.Mutation, now int64) (Record, []byte, error) {
	if spec.SourceTopic != "" {
		return Record{}, dst, fmt.Errorf("changelog: store %q is restored from topic %q and has no changelog to write to", spec.Name, spec.SourceTopic)
	}
	r := Record{Key: m.Key, Time: now}
	n := len(dst)
	switch spec.Kind {
	case state.KeyValueKind:
	case state.WindowKind, state.SlidingKind:
		start, key, ok := splitWindow(spec.Kind, m.Key)
		if !ok {
			return Record{}, dst, fmt.Errorf("changelog: store %q: malformed key: %d bytes are too few for the start of its window", spec.Name, len(m.Key))
		}
		dst = append(dst, key...)
		dst = binary.BigEndian.AppendUint64(dst, uint64(start))
		dst = binary.BigEndian.AppendUint32(dst, 0)
		r.Key = dst[n:len(dst):len(dst)]
	case state.SessionKind:
		start, end, key, ok := state.SplitSessionKey(m.Key)
		if !ok {
			return Record{}, dst, fmt.Errorf("changelog: store %q: malformed key: %d bytes that are not those of a session's", spec.Name, len(m.Key))
		}
		dst = append(dst, key...)
		dst = binary.BigEndian.AppendUint64(dst, uint64(end))
		dst = binary.BigEndian.AppendUint64(dst, uint64(start))
		r.Key = dst[n:len(dst):len(dst)]
	default:
		return Record{}, dst, fmt.Errorf("changelog: store %q: unknown kind %s", spec.Name, spec.Kind)
	}
	if r.Key == nil {
		r.Key = []byte{} // Kafka refuses a null key in a compacted topic; an empty one is fine
	}
	if m.Value == nil {
		return r, dst, nil
	}
	at, value, err := state.SplitValue(m.Value)
	if err != nil {
		return Record{}, dst[:n], fmt.Errorf("changelog: store %q: %w", spec.Name, err)
	}
	r.Time, r.Value = at, value
	return r, dst, nil
}

// Decode returns the mutation that a record stands for; store becomes its Store. The record comes from the store's changelog or,
// for a table, from its source topic.
//
// The mutation aliases the record and dst, to which Decode appends what it has to build; it returns the longer dst. After an
// error dst is as long as it was. A record without a key is [ErrNullKey]. The time of a tombstone is lost: a store keeps none for
// a key that is not there.
func Decode(dst []byte, store int, spec state.Spec, r Record) (state.Mutation, []byte, error) {
	if r.Key == nil {
		return state.Mutation{}, dst, fmt.Errorf("changelog: store %q: %w", spec.Name, ErrNullKey)
	}
	m := state.Mutation{Store: store, Key: r.Key}
	switch spec.Kind {
	case state.KeyValueKind:
	case state.WindowKind, state.SlidingKind:
		inner := len(r.Key) - startSize - sequenceSize
		if inner < 0 {
			return state.Mutation{}, dst, fmt.Errorf("changelog: store %q: malformed key: %d bytes, want %d for a window's start and sequence and those of the key before them; was the topic written by a store of another kind?",
				spec.Name, len(r.Key), startSize+sequenceSize)
		}
		if seq := binary.BigEndian.Uint32(r.Key[inner+startSize:]); seq != 0 {
			// Two of these may be different entries, and would be one here.
			return state.Mutation{}, dst, fmt.Errorf("changelog: store %q: malformed key: %d bytes with sequence %d, want 0; was the topic written by a window store that keeps duplicates?",
				spec.Name, len(r.Key), seq)
		}
		n, start := len(dst), int64(binary.BigEndian.Uint64(r.Key[inner:]))
		if spec.Kind == state.SlidingKind {
			dst = state.AppendSlidingKey(dst, start, r.Key[:inner])
		} else {
			dst = state.AppendWindowKey(dst, start, r.Key[:inner])
		}
		m.Key = dst[n:len(dst):len(dst)]
	case state.SessionKind:
		inner := len(r.Key) - endSize - startSize
		if inner < 0 {
			return state.Mutation{}, dst, fmt.Errorf("changelog: store %q: malformed key: %d bytes, want %d for a session's end and start and those of the key before them; was the topic written by a store of another kind?",
				spec.Name, len(r.Key), endSize+startSize)
		}
		end, start := int64(binary.BigEndian.Uint64(r.Key[inner:])), int64(binary.BigEndian.Uint64(r.Key[inner+endSize:]))
		if end < start {
			return state.Mutation{}, dst, fmt.Errorf("changelog: store %q: malformed key: a session from %d to %d ends before it starts; was the topic written by a store of another kind?",
				spec.Name, start, end)
		}
		n := len(dst)
		dst = state.AppendSessionKey(dst, start, end, r.Key[:inner])
		m.Key = dst[n:len(dst):len(dst)]
	default:
		return state.Mutation{}, dst, fmt.Errorf("changelog: store %q: unknown kind %s", spec.Name, spec.Kind)
	}
	if r.Value != nil {
		n := len(dst)
		dst = state.AppendValue(dst, r.Time, r.Value)
		m.Value = dst[n:len(dst):len(dst)]
	}
	return m, dst, nil
}

func splitWindow(kind state.Kind, b []byte) (start int64, key []byte, ok bool) {
	if kind == state.SlidingKind {
		return state.SplitSlidingKey(b)
	}
	return state.SplitWindowKey(b)
}
