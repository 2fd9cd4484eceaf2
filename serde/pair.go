package serde

import (
	"bytes"
	"errors"
	"fmt"
)

// Pair is a key of two parts.
type Pair[A, B any] struct {
	First  A
	Second B
}

// PairSerde is the [Ordered] serde of a [Pair]; [OrderedPair] makes it.
type PairSerde[A, B any] struct {
	first  Ordered[A]
	second Ordered[B]
}

// OrderedPair encodes pairs so that their bytes sort by First, then by Second.
// Three parts are a pair of a pair.
//
// The second part follows the first as it is. A first part of fixed width stands
// as it is, too; one of varying length has each 00 written as 00 ff and ends
// with 00 01, so that a shorter value sorts before those it begins.
func OrderedPair[A, B any](first Ordered[A], second Ordered[B]) PairSerde[A, B] {
	return PairSerde[A, B]{first: first, second: second}
}

const (
	escape     = 0x00 // begins a two-byte sequence in a first part
	escapedNul = 0xff // after escape: a 00 of the value
	terminator = 0x01 // after escape: the end of the part, below any escaped 00
)

// Append implements [Serde].
func (s PairSerde[A, B]) Append(dst []byte, v Pair[A, B]) ([]byte, error) {
	dst, err := s.Prefix(dst, v.First)
	if err != nil {
		return dst, err
	}
	if dst, err = s.second.Append(dst, v.Second); err != nil {
		return dst, fmt.Errorf("serde: OrderedPair: second part: %w", err)
	}
	return dst, nil
}

// Prefix appends the bytes with which exactly the pairs whose first part is
// first begin: the prefix to scan to see them all.
func (s PairSerde[A, B]) Prefix(dst []byte, first A) ([]byte, error) {
	from := len(dst)
	dst, err := s.first.Append(dst, first)
	if err != nil {
		return dst, fmt.Errorf("serde: OrderedPair: first part: %w", err)
	}
	if w := s.first.OrderedWidth(); w > 0 {
		if got := len(dst) - from; got != w {
			return dst, fmt.Errorf("serde: OrderedPair: first part: its serde promises %d bytes and wrote %d", w, got)
		}
		return dst, nil
	}
	// Escape in place, from the end, so that nothing is copied aside.
	nuls := bytes.Count(dst[from:], []byte{escape})
	r := len(dst) - 1
	for range nuls {
		dst = append(dst, 0)
	}
	for w := len(dst) - 1; w > r; r-- {
		if dst[r] == escape {
			dst[w] = escapedNul
			w--
		}
		dst[w] = dst[r]
		w--
	}
	return append(dst, escape, terminator), nil
}

// Decode implements [Serde]. It allocates only where the first part holds a 00
// that had to be escaped, and what the parts' own serdes allocate.
func (s PairSerde[A, B]) Decode(b []byte) (Pair[A, B], error) {
	first, second, err := s.split(b)
	if err != nil {
		return Pair[A, B]{}, err
	}
	var v Pair[A, B]
	if v.First, err = s.first.Decode(first); err != nil {
		return Pair[A, B]{}, fmt.Errorf("serde: OrderedPair: first part: %w", err)
	}
	if v.Second, err = s.second.Decode(second); err != nil {
		return Pair[A, B]{}, fmt.Errorf("serde: OrderedPair: second part: %w", err)
	}
	return v, nil
}

func (s PairSerde[A, B]) split(b []byte) (first, second []byte, err error) {
	if w := s.first.OrderedWidth(); w > 0 {
		if len(b) < w {
			return nil, nil, fmt.Errorf("serde: OrderedPair: want at least %d bytes, got %d", w, len(b))
		}
		return b[:w:w], b[w:], nil
	}
	var unescaped []byte // stays nil while first can alias b
	from := 0
	for {
		i := bytes.IndexByte(b[from:], escape)
		if i < 0 || from+i+1 == len(b) {
			return nil, nil, errors.New("serde: OrderedPair: the first part has no end (00 01); the key was probably written with another serializer")
		}
		i += from
		switch b[i+1] {
		case terminator:
			if unescaped == nil {
				return b[:i:i], b[i+2:], nil
			}
			return append(unescaped, b[from:i]...), b[i+2:], nil
		case escapedNul:
			unescaped = append(append(unescaped, b[from:i]...), escape)
			from = i + 2
		default:
			return nil, nil, fmt.Errorf("serde: OrderedPair: want 00 01 or 00 ff at byte %d, got 00 %02x", i, b[i+1])
		}
	}
}

// OrderedWidth implements [Ordered].
func (s PairSerde[A, B]) OrderedWidth() int {
	a, b := s.first.OrderedWidth(), s.second.OrderedWidth()
	if a == 0 || b == 0 {
		return 0
	}
	return a + b
}
