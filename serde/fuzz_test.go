package serde_test

import (
	"bytes"
	"testing"

	"github.com/headrace/headrace/serde"
)

// fuzz gives hostile bytes to Decode: it answers or refuses, and never panics
// nor changes them. What it takes encodes to the same bytes where a value has
// one encoding, and otherwise to bytes that are stable from then on.
func fuzz[T any](f *testing.F, s serde.Serde[T], one bool, seeds ...string) {
	f.Helper()
	for _, b := range seeds {
		f.Add([]byte(b))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		v, err := s.Decode(b)
		if !bytes.Equal(b, before) {
			t.Fatalf("Decode changed %x to %x", before, b)
		}
		if err != nil {
			return
		}
		first, err := s.Append(nil, v)
		if err != nil {
			t.Fatalf("%x decodes to %v, which does not encode: %v", b, v, err)
		}
		if one && !bytes.Equal(first, b) {
			t.Fatalf("%x decodes to %v, which encodes to %x", b, v, first)
		}
		again, err := s.Decode(first)
		if err != nil {
			t.Fatalf("Decode(%x): %v", first, err)
		}
		second, err := s.Append([]byte{0}, again)
		if err != nil || !bytes.Equal(second[1:], first) {
			t.Fatalf("%x decodes to %v, which encodes to %x, %v", first, again, second, err)
		}
	})
}

func FuzzString(f *testing.F) { fuzz(f, serde.String(), true, "", "AMS", "\xff\xfe", "é") }
func FuzzBytes(f *testing.F)  { fuzz(f, serde.Bytes(), true, "", "\x00", "\xff") }
func FuzzInt16(f *testing.F)  { fuzz(f, serde.Int16(), true, "", "\x00\x01", "abc") }
func FuzzInt32(f *testing.F)  { fuzz(f, serde.Int32(), true, "", "\x00\x01\x02\x03", "abc") }
func FuzzInt64(f *testing.F)  { fuzz(f, serde.Int64(), true, "", "12345678", "abc") }

func FuzzFloat32(f *testing.F) { fuzz(f, serde.Float32(), true, "", "\x7f\xc0\x00\x01", "abc") }

// A NaN comes back as another one.
func FuzzFloat64(f *testing.F) {
	fuzz(f, serde.Float64(), false, "", "\x7f\xf8\x00\x00\x00\x00\x00\x01", "abc")
}

func FuzzBool(f *testing.F) { fuzz(f, serde.Bool(), true, "", "\x00", "\x01", "\x02", "ab") }

// Upper case comes back as lower case.
func FuzzUUID(f *testing.F) {
	fuzz(f, serde.UUID(), false, "", "01234567-89ab-cdef-fedc-ba9876543210", "01234567-89AB-CDEF-FEDC-BA9876543210", "01234567+89ab-cdef-fedc-ba987654321g")
}

func FuzzOrderedInt16(f *testing.F) { fuzz(f, serde.OrderedInt16(), true, "", "\x80\x00", "abc") }
func FuzzOrderedInt32(f *testing.F) { fuzz(f, serde.OrderedInt32(), true, "", "\x80\x00\x00\x00", "a") }
func FuzzOrderedInt64(f *testing.F) { fuzz(f, serde.OrderedInt64(), true, "", "12345678", "abc") }

func FuzzOrderedFloat32(f *testing.F) {
	fuzz(f, serde.OrderedFloat32(), true, "", "\xff\xc0\x00\x00", "\xff\xc0\x00\x01", "\x00\x00\x00\x00")
}

func FuzzOrderedFloat64(f *testing.F) {
	fuzz(f, serde.OrderedFloat64(), true, "", "\xff\xf8\x00\x00\x00\x00\x00\x00", "\x00\x00\x00\x00\x00\x00\x00\x00")
}

func FuzzOrderedPair(f *testing.F) {
	s := serde.OrderedPair(serde.OrderedPair(serde.Bytes(), serde.OrderedInt16()), serde.String())
	seed, err := s.Append(nil, serde.Pair[serde.Pair[[]byte, int16], string]{
		First: serde.Pair[[]byte, int16]{First: []byte("a\x00b"), Second: -32768}, Second: "\x00\x01",
	})
	if err != nil {
		f.Fatal(err)
	}
	fuzz(f, s, true, "", "\x00", "\x00\x01", "a\x00\xffb\x00\x01c", string(seed))
}

func FuzzOrderedPairFixed(f *testing.F) {
	fuzz(f, serde.OrderedPair(serde.OrderedInt32(), serde.Bytes()), true, "", "abcd", "abcde", "abc")
}

func FuzzJSON(f *testing.F) {
	fuzz(f, serde.JSON[account](), false, "", "null", `{"id":"a","cents":5,"tags":{"b":"c"}}`, `{"id":"\ud800"}`, `{} {}`, `[`)
}
