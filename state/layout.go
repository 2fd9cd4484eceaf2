package state

import (
	"encoding/binary"
	"fmt"
)

// Sizes of what the store layout puts before keys and values.
const (
	startSize = 8
	timeSize  = 8
)

// AppendValue appends a value in store layout to dst: at, in Unix milliseconds, and then value.
func AppendValue(dst []byte, at int64, value []byte) []byte {
	return append(binary.BigEndian.AppendUint64(dst, uint64(at)), value...)
}

// SplitValue takes a value in store layout apart. value aliases b and is not nil.
func SplitValue(b []byte) (at int64, value []byte, err error) {
	if len(b) < timeSize {
		return 0, nil, fmt.Errorf("state: malformed value: %d bytes are too few for its %d-byte timestamp", len(b), timeSize)
	}
	return int64(binary.BigEndian.Uint64(b)), b[timeSize:], nil
}

// AppendWindowKey appends the key of a window store to dst: the start of the window, in Unix milliseconds and as bytes that sort
// as the numbers do, and then key.
func AppendWindowKey(dst []byte, start int64, key []byte) []byte {
	return append(AppendWindowStart(dst, start), key...)
}

// AppendWindowStart appends what the keys of all windows with that start begin with. It is a bound for Scan.
func AppendWindowStart(dst []byte, start int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(start)^(1<<63))
}

// SplitWindowKey takes a key of a window store apart. key aliases b and is not nil. ok is false if b is too short to be one.
func SplitWindowKey(b []byte) (start int64, key []byte, ok bool) {
	if len(b) < startSize {
		return 0, nil, false
	}
	return int64(binary.BigEndian.Uint64(b) ^ (1 << 63)), b[startSize:], true
}
