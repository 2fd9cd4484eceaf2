package main

import (
	"testing"

	"github.com/headrace/headrace/changelog"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
)

type order struct {
	ID     string  `json:"id"`
	Amount float64 `json:"amount"`
	Lines  int     `json:"lines"`
}

func BenchmarkSerdeBytes(b *testing.B)   { roundTrip(b, serde.Bytes(), make([]byte, 100)) }
func BenchmarkSerdeString(b *testing.B)  { roundTrip(b, serde.String(), "a key of twenty byte") }
func BenchmarkSerdeInt64(b *testing.B)   { roundTrip(b, serde.Int64(), int64(1<<40)) }
func BenchmarkSerdeOrdered(b *testing.B) { roundTrip(b, serde.OrderedInt64(), int64(-1<<40)) }
func BenchmarkSerdeJSON(b *testing.B) {
	roundTrip(b, serde.JSON[order](), order{"a key of twenty byte", 12.5, 3})
}

func BenchmarkSerdePair(b *testing.B) {
	roundTrip(b, serde.OrderedPair(serde.String(), serde.OrderedInt64()), serde.Pair[string, int64]{First: "a key", Second: 7})
}

// roundTrip encodes into memory that is used again, as outputs are, and decodes.
func roundTrip[T any](b *testing.B, s serde.Serde[T], v T) {
	buf := make([]byte, 0, 256)
	b.ReportAllocs()
	for b.Loop() {
		enc, err := s.Append(buf, v)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.Decode(enc); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkChangelogKeyValue(b *testing.B) {
	changelogs(b, state.Spec{Name: "s", Kind: state.KeyValueKind}, make([]byte, 8))
}

func BenchmarkChangelogWindow(b *testing.B) {
	changelogs(b, state.Spec{Name: "s", Kind: state.WindowKind}, state.AppendWindowKey(nil, 60_000, make([]byte, 8)))
}

// changelogs makes the record of a mutation, and the mutation of the record.
func changelogs(b *testing.B, spec state.Spec, key []byte) {
	m := state.Mutation{Key: key, Value: state.AppendValue(nil, 60_001, make([]byte, 8))}
	out, back := make([]byte, 0, 256), make([]byte, 0, 256)
	b.ReportAllocs()
	for b.Loop() {
		r, _, err := changelog.Encode(out, spec, m, 0)
		if err != nil {
			b.Fatal(err)
		}
		if _, _, err := changelog.Decode(back, 0, spec, r); err != nil {
			b.Fatal(err)
		}
	}
}
