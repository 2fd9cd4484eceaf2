package window

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/headrace/headrace/serde"
)

// SessionKeyCodec is the serde of a [Key] of a session, as Kafka Streams writes it
// to topics: the bytes of the inner key, then the end and the start, in eight bytes
// each, big endian. Both bounds are on the wire; the end is the session's last
// timestamp, inclusive. [SessionKeySerde] makes it.
//
// It allocates what the inner serde does, and aliases what that aliases.
type SessionKeyCodec[K any] struct{ inner serde.Serde[K] }

// SessionKeySerde makes the serde of the keys of sessions with this serde for the
// inner key. Kafka Streams: SessionWindowedSerde.
func SessionKeySerde[K any](inner serde.Serde[K]) SessionKeyCodec[K] {
	return SessionKeyCodec[K]{inner}
}

// SizeMillis returns math.MaxInt64: sessions have no size in common.
func (c SessionKeyCodec[K]) SizeMillis() int64 { return math.MaxInt64 }

// Validate reports a missing inner serde.
func (c SessionKeyCodec[K]) Validate() error {
	if c.inner == nil {
		return errors.New("window: SessionKeySerde: the serde of the inner key is nil")
	}
	return nil
}

// Append implements [serde.Serde].
func (c SessionKeyCodec[K]) Append(dst []byte, k Key[K]) ([]byte, error) {
	if c.inner == nil {
		return dst, c.Validate()
	}
	dst, err := c.inner.Append(dst, k.Key)
	if err != nil {
		return dst, fmt.Errorf("window: SessionKeySerde: inner key: %w", err)
	}
	dst = binary.BigEndian.AppendUint64(dst, uint64(k.End))
	return binary.BigEndian.AppendUint64(dst, uint64(k.Start)), nil
}

// Decode implements [serde.Serde]. A session that ends before it starts is an error.
func (c SessionKeyCodec[K]) Decode(b []byte) (Key[K], error) {
	if c.inner == nil {
		return Key[K]{}, c.Validate()
	}
	inner, err := InnerSessionKey(b)
	if err != nil {
		return Key[K]{}, err
	}
	end := int64(binary.BigEndian.Uint64(b[len(inner):]))
	start := int64(binary.BigEndian.Uint64(b[len(inner)+startLen:]))
	if end < start {
		return Key[K]{}, fmt.Errorf("window: SessionKeySerde: a session from %d to %d ends before it starts; the key was probably not written as a session's", start, end)
	}
	k, err := c.inner.Decode(inner)
	if err != nil {
		return Key[K]{}, fmt.Errorf("window: SessionKeySerde: inner key: %w", err)
	}
	return Key[K]{Key: k, Start: start, End: end}, nil
}

// PartitionKey returns the part of an encoded key that the record is partitioned
// by: [InnerSessionKey]. A sink finds it by this method, so that all sessions of a
// key are in one partition, and in that of the key itself.
func (c SessionKeyCodec[K]) PartitionKey(b []byte) ([]byte, error) { return InnerSessionKey(b) }

// InnerSessionKey returns the bytes of the inner key in an encoded key of a
// session. It points into b and does not allocate.
func InnerSessionKey(b []byte) ([]byte, error) {
	n := len(b) - 2*startLen
	if n < 0 {
		return nil, fmt.Errorf("window: SessionKeySerde: want at least %d bytes for end and start, got %d; the key was probably not written as a session's", 2*startLen, len(b))
	}
	return b[:n:n], nil
}
