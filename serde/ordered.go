package serde

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Ordered is a [Serde] whose byte order is the order of the values: for all a
// and b, bytes.Compare of their encodings is negative, zero or positive as a is
// less than, equal to or greater than b. Keys that are ranged over need one.
// Each value has exactly one encoding.
//
// [String], [Bytes], [Bool] and [UUID] keep the order as they are; the numbers
// do in the serdes whose names begin with Ordered, which are not Kafka's
// encodings: another reader of the topic must know about them.
type Ordered[T any] interface {
	Serde[T]

	// OrderedWidth promises the order and returns the length in bytes that
	// every encoding has, or 0 when lengths vary.
	OrderedWidth() int
}

const (
	sign16 = 1 << 15
	sign32 = 1 << 31
	sign64 = 1 << 63
)

// OrderedInt16 encodes in two bytes, big endian, with the sign bit flipped.
func OrderedInt16() Ordered[int16] { return orderedInt16{} }

type orderedInt16 struct{}

func (orderedInt16) Append(dst []byte, v int16) ([]byte, error) {
	return binary.BigEndian.AppendUint16(dst, uint16(v)^sign16), nil
}

func (orderedInt16) Decode(b []byte) (int16, error) {
	if len(b) != 2 {
		return 0, wrongLength("OrderedInt16", 2, len(b))
	}
	return int16(binary.BigEndian.Uint16(b) ^ sign16), nil
}

func (orderedInt16) OrderedWidth() int { return 2 }

// OrderedInt32 encodes in four bytes, big endian, with the sign bit flipped.
func OrderedInt32() Ordered[int32] { return orderedInt32{} }

type orderedInt32 struct{}

func (orderedInt32) Append(dst []byte, v int32) ([]byte, error) {
	return binary.BigEndian.AppendUint32(dst, uint32(v)^sign32), nil
}

func (orderedInt32) Decode(b []byte) (int32, error) {
	if len(b) != 4 {
		return 0, wrongLength("OrderedInt32", 4, len(b))
	}
	return int32(binary.BigEndian.Uint32(b) ^ sign32), nil
}

func (orderedInt32) OrderedWidth() int { return 4 }

// OrderedInt64 encodes in eight bytes, big endian, with the sign bit flipped.
func OrderedInt64() Ordered[int64] { return orderedInt64{} }

type orderedInt64 struct{}

func (orderedInt64) Append(dst []byte, v int64) ([]byte, error) {
	return binary.BigEndian.AppendUint64(dst, uint64(v)^sign64), nil
}

func (orderedInt64) Decode(b []byte) (int64, error) {
	if len(b) != 8 {
		return 0, wrongLength("OrderedInt64", 8, len(b))
	}
	return int64(binary.BigEndian.Uint64(b) ^ sign64), nil
}

func (orderedInt64) OrderedWidth() int { return 8 }

// OrderedFloat32 is [OrderedFloat64] in four bytes.
func OrderedFloat32() Ordered[float32] { return orderedFloat32{} }

type orderedFloat32 struct{}

func (orderedFloat32) Append(dst []byte, v float32) ([]byte, error) {
	bits := math.Float32bits(v)
	switch {
	case v != v:
		bits = nan32 | sign32
	case bits&sign32 != 0:
		bits = ^bits
	default:
		bits |= sign32
	}
	return binary.BigEndian.AppendUint32(dst, bits), nil
}

func (orderedFloat32) Decode(b []byte) (float32, error) {
	if len(b) != 4 {
		return 0, wrongLength("OrderedFloat32", 4, len(b))
	}
	bits := binary.BigEndian.Uint32(b)
	if bits&sign32 != 0 {
		bits ^= sign32
	} else {
		bits = ^bits
	}
	v := math.Float32frombits(bits)
	if v != v && bits != nan32 {
		return 0, fmt.Errorf("serde: OrderedFloat32: %x is not the one encoding of NaN, %x", b, uint32(nan32|sign32))
	}
	return v, nil
}

func (orderedFloat32) OrderedWidth() int { return 4 }

// OrderedFloat64 encodes in eight bytes, big endian: the IEEE 754 bits with the
// sign bit flipped, and all the others with it where the number is negative.
//
// The order is that of Java's Double.compare: −Inf first, −0 before +0, which
// are two different keys, and NaN behind +Inf. All NaNs are one key, so a NaN's
// own bits do not survive.
func OrderedFloat64() Ordered[float64] { return orderedFloat64{} }

type orderedFloat64 struct{}

func (orderedFloat64) Append(dst []byte, v float64) ([]byte, error) {
	bits := math.Float64bits(v)
	switch {
	case v != v:
		bits = nan64 | sign64
	case bits&sign64 != 0:
		bits = ^bits
	default:
		bits |= sign64
	}
	return binary.BigEndian.AppendUint64(dst, bits), nil
}

func (orderedFloat64) Decode(b []byte) (float64, error) {
	if len(b) != 8 {
		return 0, wrongLength("OrderedFloat64", 8, len(b))
	}
	bits := binary.BigEndian.Uint64(b)
	if bits&sign64 != 0 {
		bits ^= sign64
	} else {
		bits = ^bits
	}
	v := math.Float64frombits(bits)
	if v != v && bits != nan64 {
		return 0, fmt.Errorf("serde: OrderedFloat64: %x is not the one encoding of NaN, %x", b, uint64(nan64|sign64))
	}
	return v, nil
}

func (orderedFloat64) OrderedWidth() int { return 8 }
