//go:build !race

// Under the race detector sync.Pool drops some of what it is given.

package avro_test

import "testing"

// The documented allocations are kept to: none for writing, and for reading the strings and what pointers point to.
func TestAllocations(t *testing.T) {
	v := flight()
	in, err := flightSerde.Append(nil, v)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 0, 64)
	if n := testing.AllocsPerRun(100, func() { buf, _ = flightSerde.Append(buf[:0], v) }); n >= 1 {
		t.Errorf("Append allocates %v times", n)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = flightSerde.Decode(in) }); n >= 4 {
		t.Errorf("Decode allocates %v times; want one each for carrier, gate, and what gate points to", n)
	}
}
