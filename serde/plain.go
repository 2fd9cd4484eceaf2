package serde

import (
	"encoding/binary"
	"fmt"
	"math"
)

// String is the serde of Kafka's StringSerializer: the bytes of the string,
// UTF-8 by convention. Decode copies.
//
// Bytes that are not UTF-8 are kept as they are, where Kafka's deserializer
// puts U+FFFD in their place, so that a round trip loses nothing. The byte order
// is Go's order of strings.
func String() Ordered[string] { return stringSerde{} }

type stringSerde struct{}

func (stringSerde) Append(dst []byte, v string) ([]byte, error) { return append(dst, v...), nil }
func (stringSerde) Decode(b []byte) (string, error)             { return string(b), nil }
func (stringSerde) OrderedWidth() int                           { return 0 }

// Bytes is the serde of Kafka's ByteArraySerializer: the bytes themselves.
//
// Decode returns its argument: no copy, no allocation, and the same rule, that
// the bytes are not to be changed, holds for whoever gets them. A value kept in
// memory keeps the fetched batch it points into; clone it to keep it long.
// Append of nil writes an empty value, not null.
func Bytes() Ordered[[]byte] { return bytesSerde{} }

type bytesSerde struct{}

func (bytesSerde) Append(dst, v []byte) ([]byte, error) { return append(dst, v...), nil }
func (bytesSerde) Decode(b []byte) ([]byte, error)      { return b, nil }
func (bytesSerde) OrderedWidth() int                    { return 0 }

// Int16 is the serde of Kafka's ShortSerializer: two bytes, big endian, two's complement.
func Int16() Serde[int16] { return int16Serde{} }

type int16Serde struct{}

func (int16Serde) Append(dst []byte, v int16) ([]byte, error) {
	return binary.BigEndian.AppendUint16(dst, uint16(v)), nil
}

func (int16Serde) Decode(b []byte) (int16, error) {
	if len(b) != 2 {
		return 0, wrongLength("Int16", 2, len(b))
	}
	return int16(binary.BigEndian.Uint16(b)), nil
}

// Int32 is the serde of Kafka's IntegerSerializer: four bytes, big endian, two's complement.
func Int32() Serde[int32] { return int32Serde{} }

type int32Serde struct{}

func (int32Serde) Append(dst []byte, v int32) ([]byte, error) {
	return binary.BigEndian.AppendUint32(dst, uint32(v)), nil
}

func (int32Serde) Decode(b []byte) (int32, error) {
	if len(b) != 4 {
		return 0, wrongLength("Int32", 4, len(b))
	}
	return int32(binary.BigEndian.Uint32(b)), nil
}

// Int64 is the serde of Kafka's LongSerializer: eight bytes, big endian, two's
// complement. Negative numbers sort behind positive ones in it; keys that are
// ranged over take [OrderedInt64].
func Int64() Serde[int64] { return int64Serde{} }

type int64Serde struct{}

func (int64Serde) Append(dst []byte, v int64) ([]byte, error) {
	return binary.BigEndian.AppendUint64(dst, uint64(v)), nil
}

func (int64Serde) Decode(b []byte) (int64, error) {
	if len(b) != 8 {
		return 0, wrongLength("Int64", 8, len(b))
	}
	return int64(binary.BigEndian.Uint64(b)), nil
}

// Float32 is the serde of Kafka's FloatSerializer: the IEEE 754 bits, big
// endian. The bits of a NaN are kept.
func Float32() Serde[float32] { return float32Serde{} }

type float32Serde struct{}

func (float32Serde) Append(dst []byte, v float32) ([]byte, error) {
	return binary.BigEndian.AppendUint32(dst, math.Float32bits(v)), nil
}

func (float32Serde) Decode(b []byte) (float32, error) {
	if len(b) != 4 {
		return 0, wrongLength("Float32", 4, len(b))
	}
	return math.Float32frombits(binary.BigEndian.Uint32(b)), nil
}

// Float64 is the serde of Kafka's DoubleSerializer: the IEEE 754 bits, big
// endian. As there, and unlike [Float32], every NaN is written as the one NaN
// 7ff8000000000000.
func Float64() Serde[float64] { return float64Serde{} }

type float64Serde struct{}

// nan64 and nan32 are the NaNs that Java calls canonical; Go's math.NaN is another one.
const (
	nan64 = 0x7ff8_0000_0000_0000
	nan32 = 0x7fc0_0000
)

func (float64Serde) Append(dst []byte, v float64) ([]byte, error) {
	bits := math.Float64bits(v)
	if v != v {
		bits = nan64
	}
	return binary.BigEndian.AppendUint64(dst, bits), nil
}

func (float64Serde) Decode(b []byte) (float64, error) {
	if len(b) != 8 {
		return 0, wrongLength("Float64", 8, len(b))
	}
	return math.Float64frombits(binary.BigEndian.Uint64(b)), nil
}

// Bool is the serde of Kafka's BooleanSerializer: one byte, 0 or 1. Any other
// byte is an error. false sorts before true.
func Bool() Ordered[bool] { return boolSerde{} }

type boolSerde struct{}

func (boolSerde) Append(dst []byte, v bool) ([]byte, error) {
	if v {
		return append(dst, 1), nil
	}
	return append(dst, 0), nil
}

func (boolSerde) Decode(b []byte) (bool, error) {
	if len(b) != 1 {
		return false, wrongLength("Bool", 1, len(b))
	}
	if b[0] > 1 {
		return false, fmt.Errorf("serde: Bool: want byte 0x00 or 0x01, got 0x%02x; the topic was probably written with another serializer", b[0])
	}
	return b[0] == 1, nil
}

func (boolSerde) OrderedWidth() int { return 1 }
