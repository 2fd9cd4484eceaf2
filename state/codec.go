package state

import (
	"encoding/binary"
	"fmt"

	"github.com/headrace/headrace/serde"
)

// codec encodes and decodes for the views. Its buffers are lent until the next call; stores copy what they keep.
type codec[K, V any] struct {
	name     string
	key      serde.Serde[K]
	value    serde.Serde[V]
	keyBuf   []byte
	valueBuf []byte
}

func (c *codec[K, V]) appendKey(dst []byte, k K) ([]byte, error) {
	dst, err := c.key.Append(dst, k)
	if err != nil {
		return nil, fmt.Errorf("state: store %q: encode key: %w", c.name, err)
	}
	return dst, nil
}

func (c *codec[K, V]) encodeKey(k K) ([]byte, error) {
	b, err := c.appendKey(c.keyBuf[:0], k)
	if err != nil {
		return nil, err
	}
	c.keyBuf = b
	return b, nil
}

func (c *codec[K, V]) encodeWindowKey(start int64, k K) ([]byte, error) {
	b, err := c.appendKey(AppendWindowStart(c.keyBuf[:0], start), k)
	if err != nil {
		return nil, err
	}
	c.keyBuf = b
	return b, nil
}

func (c *codec[K, V]) encodeValue(v V, at int64) ([]byte, error) {
	b, err := c.value.Append(binary.BigEndian.AppendUint64(c.valueBuf[:0], uint64(at)), v)
	if err != nil {
		return nil, fmt.Errorf("state: store %q: encode value: %w", c.name, err)
	}
	c.valueBuf = b
	return b, nil
}

func (c *codec[K, V]) decodeKey(b []byte) (K, error) {
	k, err := c.key.Decode(b)
	if err != nil {
		return k, fmt.Errorf("state: store %q: decode key: %w; was the store written with another serde?", c.name, err)
	}
	return k, nil
}

func (c *codec[K, V]) decodeValue(b []byte) (v V, at int64, err error) {
	at, b, err = SplitValue(b)
	if err != nil {
		return v, 0, fmt.Errorf("state: store %q: %w", c.name, err)
	}
	v, err = c.value.Decode(b)
	if err != nil {
		return v, 0, fmt.Errorf("state: store %q: decode value: %w; was the store written with another serde?", c.name, err)
	}
	return v, at, nil
}

func (c *codec[K, V]) wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("state: store %q: %s: %w", c.name, what, err)
}
