package window

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/headrace/headrace/serde"
)

// Key is a key in a window: Start inclusive, End exclusive, in Unix milliseconds.
// It is the key of windowed results. Kafka Streams: Windowed.
type Key[K any] struct {
	Key        K
	Start, End int64
}

// String returns the key and the bounds as Kafka Streams prints them:
// "[AMS@0/60000]". An end that is not known, as [KeySerde] without a size leaves
// it, is a question mark: "[AMS@0/?]".
func (k Key[K]) String() string {
	if k.End == math.MaxInt64 {
		return fmt.Sprintf("[%v@%d/?]", k.Key, k.Start)
	}
	return fmt.Sprintf("[%v@%d/%d]", k.Key, k.Start, k.End)
}

// Interval returns the bounds as times in UTC.
func (k Key[K]) Interval() (start, end time.Time) {
	return time.UnixMilli(k.Start).UTC(), time.UnixMilli(k.End).UTC()
}

// KeyCodec is the serde of [Key], as Kafka Streams writes it to topics: the bytes
// of the inner key, then the start in eight bytes, big endian. [KeySerde] makes it.
//
// The end is not on the wire: Append ignores it, and Decode adds what
// [KeyCodec.For] or [KeyCodec.Size] has said of the windows. Without it every End
// decodes to math.MaxInt64, which is what Kafka's TimeWindowedDeserializer does
// by default.
//
// It allocates what the inner serde does, and aliases what that aliases.
type KeyCodec[K any] struct {
	inner  serde.Serde[K]
	ends   Ends  // nil if not known
	sizeMs int64 // of windows that have one, math.MaxInt64 otherwise
	err    error // what is wrong with the size
}

// KeySerde makes the serde of windowed keys with this serde for the inner key.
func KeySerde[K any](inner serde.Serde[K]) KeyCodec[K] {
	return KeyCodec[K]{inner: inner, sizeMs: math.MaxInt64}
}

// Ends is what knows the end of a window by its start: [Windows], [CountWindows].
type Ends interface{ End(start int64) int64 }

// For returns the codec for these windows, with which Decode knows the end.
func (c KeyCodec[K]) For(w Ends) KeyCodec[K] {
	c.ends, c.sizeMs, c.err = w, math.MaxInt64, nil
	if f, ok := w.(Fixed); ok {
		c.sizeMs = f.sizeMs
	}
	return c
}

// Size is For windows of this size. A size that is not positive or not in whole
// milliseconds is an error of Validate and of every Decode.
func (c KeyCodec[K]) Size(d time.Duration) KeyCodec[K] {
	c = c.For(Tumbling(d))
	if c.err = checkMillis("size", d, time.Millisecond); c.err != nil {
		c.err = fmt.Errorf("window: KeySerde: %w", c.err)
	}
	return c
}

// SizeMillis returns the size of the windows in milliseconds, and math.MaxInt64
// where none was said or they have none in common.
func (c KeyCodec[K]) SizeMillis() int64 { return c.sizeMs }

// Validate reports a missing inner serde and a bad size.
func (c KeyCodec[K]) Validate() error {
	if c.inner == nil {
		return errors.New("window: KeySerde: the serde of the inner key is nil")
	}
	return c.err
}

// Append implements [serde.Serde].
func (c KeyCodec[K]) Append(dst []byte, k Key[K]) ([]byte, error) {
	if c.inner == nil {
		return dst, c.Validate()
	}
	dst, err := c.inner.Append(dst, k.Key)
	if err != nil {
		return dst, fmt.Errorf("window: KeySerde: inner key: %w", err)
	}
	return binary.BigEndian.AppendUint64(dst, uint64(k.Start)), nil
}

// Decode implements [serde.Serde].
func (c KeyCodec[K]) Decode(b []byte) (Key[K], error) {
	if c.inner == nil || c.err != nil {
		return Key[K]{}, c.Validate()
	}
	inner, err := InnerKey(b)
	if err != nil {
		return Key[K]{}, err
	}
	k, err := c.inner.Decode(inner)
	if err != nil {
		return Key[K]{}, fmt.Errorf("window: KeySerde: inner key: %w", err)
	}
	start := int64(binary.BigEndian.Uint64(b[len(inner):]))
	end := int64(math.MaxInt64)
	if c.ends != nil {
		end = c.ends.End(start)
	}
	return Key[K]{Key: k, Start: start, End: end}, nil
}

// PartitionKey returns the part of an encoded key that the record is partitioned
// by: [InnerKey]. A sink finds it by this method, so that all windows of a key
// are in one partition, and in that of the key itself.
func (c KeyCodec[K]) PartitionKey(b []byte) ([]byte, error) { return InnerKey(b) }

const startLen = 8

// InnerKey returns the bytes of the inner key in an encoded windowed key. It
// points into b and does not allocate.
func InnerKey(b []byte) ([]byte, error) {
	n := len(b) - startLen
	if n < 0 {
		return nil, fmt.Errorf("window: KeySerde: want at least %d bytes for the start, got %d; the key was probably written without a window", startLen, len(b))
	}
	return b[:n:n], nil
}
