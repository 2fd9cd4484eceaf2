package serde_test

import (
	"bytes"
	"encoding/hex"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/headrace/headrace/serde"
)

// A vector checks one line of testdata: that value encodes to the bytes, and
// that the bytes decode to what encodes to them again.
func checkVector[T any](t *testing.T, s serde.Serde[T], v T, want []byte) {
	t.Helper()
	got, err := s.Append([]byte("before"), v)
	if err != nil {
		t.Fatalf("Append(%v): %v", v, err)
	}
	if !bytes.Equal(got, append([]byte("before"), want...)) {
		t.Errorf("Append(%v) = %x, Kafka writes %x", v, got[len("before"):], want)
	}
	back, err := s.Decode(want)
	if err != nil {
		t.Fatalf("Decode(%x): %v", want, err)
	}
	again, err := s.Append(nil, back)
	if err != nil {
		t.Fatalf("Append(%v): %v", back, err)
	}
	if !bytes.Equal(again, want) {
		t.Errorf("Decode(%x) = %v, which encodes to %x", want, back, again)
	}
}

func TestPlainSerdesWriteKafkasBytes(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("testdata/kafka-clients.tsv")
	if err != nil {
		t.Fatal(err)
	}
	unhex := func(s string) []byte {
		b, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	number := func(s string, base, bits int) int64 {
		n, err := strconv.ParseInt(s, base, bits)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	bitsOf := func(s string) uint64 {
		n, err := strconv.ParseUint(s, 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	seen := map[string]int{}
	for line := range strings.Lines(string(file)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if len(f) != 3 {
			t.Fatalf("line %q has %d fields, want 3", line, len(f))
		}
		kind, value, want := f[0], f[1], unhex(f[2])
		seen[kind]++
		switch kind {
		case "String":
			checkVector(t, serde.String(), string(unhex(value)), want)
		case "Bytes":
			checkVector(t, serde.Bytes(), unhex(value), want)
		case "Int16":
			checkVector(t, serde.Int16(), int16(number(value, 10, 16)), want)
		case "Int32":
			checkVector(t, serde.Int32(), int32(number(value, 10, 32)), want)
		case "Int64":
			checkVector(t, serde.Int64(), number(value, 10, 64), want)
		case "Float32":
			checkVector(t, serde.Float32(), math.Float32frombits(uint32(bitsOf(value))), want)
		case "Float64":
			checkVector(t, serde.Float64(), math.Float64frombits(bitsOf(value)), want)
		case "Bool":
			checkVector(t, serde.Bool(), value == "true", want)
		case "UUID":
			checkVector(t, serde.UUID(), [16]byte(unhex(value)), want)
		default:
			t.Fatalf("no serde for %q", kind)
		}
	}
	for _, kind := range []string{"String", "Bytes", "Int16", "Int32", "Int64", "Float32", "Float64", "Bool", "UUID"} {
		if seen[kind] == 0 {
			t.Errorf("testdata has no vector for %s", kind)
		}
	}
}
