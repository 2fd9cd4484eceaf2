package serde_test

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/headrace/headrace/serde"
)

const seed = 20130909

// checkOrder checks all pairs of values: order, equality, round trip, width.
func checkOrder[T any](t *testing.T, name string, s serde.Ordered[T], compare func(a, b T) int, values []T) {
	t.Helper()
	encoded := make([][]byte, len(values))
	for i, v := range values {
		b, err := s.Append(nil, v)
		if err != nil {
			t.Fatalf("%s: Append(%v): %v", name, v, err)
		}
		if w := s.OrderedWidth(); w != 0 && w != len(b) {
			t.Fatalf("%s: Append(%v) has %d bytes, OrderedWidth is %d", name, v, len(b), w)
		}
		// What is in front must not matter: 00 bytes before are not escaped.
		if after, err := s.Append([]byte{0, 0, 1}, v); err != nil || !bytes.Equal(after[3:], b) || !bytes.HasPrefix(after, []byte{0, 0, 1}) {
			t.Fatalf("%s: Append(%v) behind 000001 is %x, %v, want %x", name, v, after, err, b)
		}
		back, err := s.Decode(b)
		if err != nil || compare(back, v) != 0 {
			t.Fatalf("%s (seed %d): %v encodes to %x, decodes to %v, %v", name, seed, v, b, back, err)
		}
		encoded[i] = b
	}
	for i, a := range values {
		for j, b := range values {
			if got, want := bytes.Compare(encoded[i], encoded[j]), compare(a, b); got != want {
				t.Fatalf("%s (seed %d): bytes of %v and %v compare %d, values %d: %x, %x", name, seed, a, b, got, want, encoded[i], encoded[j])
			}
		}
	}
}

// compareFloats is Java's Double.compare: −0 before +0, all NaNs equal and last.
func compareFloats(a, b float64) int {
	switch aNaN, bNaN := a != a, b != b; {
	case aNaN && bNaN:
		return 0
	case aNaN:
		return 1
	case bNaN:
		return -1
	case a == b:
		return cmp.Compare(b2i(math.Signbit(b)), b2i(math.Signbit(a)))
	}
	return cmp.Compare(a, b)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestOrderIsKept(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(seed, 0))

	i64 := []int64{0, 1, -1, 255, 256, -256, math.MinInt64, math.MaxInt64, math.MinInt32, math.MaxInt32, math.MinInt16, math.MaxInt16}
	for range 150 {
		i64 = append(i64, int64(rnd.Uint64())>>rnd.IntN(64))
	}
	var i32 []int32
	var i16 []int16
	for _, v := range i64 {
		i32, i16 = append(i32, int32(v)), append(i16, int16(v))
	}
	checkOrder(t, "OrderedInt64", serde.OrderedInt64(), cmp.Compare[int64], i64)
	checkOrder(t, "OrderedInt32", serde.OrderedInt32(), cmp.Compare[int32], i32)
	checkOrder(t, "OrderedInt16", serde.OrderedInt16(), cmp.Compare[int16], i16)

	f64 := []float64{
		0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1), math.NaN(), math.Copysign(math.NaN(), -1), math.Float64frombits(nanWithPayload),
		math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64, -math.SmallestNonzeroFloat64,
	}
	for range 150 {
		f64 = append(f64, math.Float64frombits(rnd.Uint64()), rnd.NormFloat64())
	}
	var f32 []float32
	for _, v := range f64 {
		f32 = append(f32, float32(v))
	}
	checkOrder(t, "OrderedFloat64", serde.OrderedFloat64(), compareFloats, f64)
	checkOrder(t, "OrderedFloat32", serde.OrderedFloat32(), func(a, b float32) int { return compareFloats(float64(a), float64(b)) }, f32)

	// Bytes that escaping has to get right come often.
	alphabet := []byte{0, 0, 0, 1, 2, 0xfe, 0xff, 0xff, 'a'}
	text := func() []byte {
		b := make([]byte, rnd.IntN(6))
		for i := range b {
			b[i] = alphabet[rnd.IntN(len(alphabet))]
		}
		return b
	}
	raw := [][]byte{{}, {0}, {0, 0}, {0, 1}, {0, 0xff}, {0xff}, {1}}
	for range 150 {
		raw = append(raw, text())
	}
	var str []string
	for _, v := range raw {
		str = append(str, string(v))
	}
	checkOrder(t, "Bytes", serde.Bytes(), bytes.Compare, raw)
	checkOrder(t, "String", serde.String(), cmp.Compare[string], str)
	checkOrder(t, "Bool", serde.Bool(), func(a, b bool) int { return cmp.Compare(b2i(a), b2i(b)) }, []bool{true, false})

	var ids [][16]byte
	for range 100 {
		var id [16]byte
		for i := range id {
			id[i] = byte(rnd.IntN(3) * 100)
		}
		ids = append(ids, id)
	}
	checkOrder(t, "UUID", serde.UUID(), func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) }, ids)

	var ss []serde.Pair[string, string]
	var si []serde.Pair[string, int64]
	var is []serde.Pair[int64, string]
	var deep []serde.Pair[serde.Pair[string, string], string]
	few := []int64{math.MinInt64, -256, -1, 0, 1, 255, math.MaxInt64}
	for range 300 {
		n := few[rnd.IntN(len(few))]
		a, b, c := string(text()), string(text()), string(text())
		ss = append(ss, serde.Pair[string, string]{First: a, Second: b})
		si = append(si, serde.Pair[string, int64]{First: a, Second: n})
		is = append(is, serde.Pair[int64, string]{First: n, Second: b})
		deep = append(deep, serde.Pair[serde.Pair[string, string], string]{First: ss[len(ss)-1], Second: c})
	}
	compareSS := func(a, b serde.Pair[string, string]) int {
		return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Second, b.Second))
	}
	checkOrder(t, "Pair of strings", serde.OrderedPair(serde.String(), serde.String()), compareSS, ss)
	checkOrder(t, "Pair of string and int", serde.OrderedPair(serde.String(), serde.OrderedInt64()), func(a, b serde.Pair[string, int64]) int {
		return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Second, b.Second))
	}, si)
	checkOrder(t, "Pair of int and string", serde.OrderedPair(serde.OrderedInt64(), serde.String()), func(a, b serde.Pair[int64, string]) int {
		return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Second, b.Second))
	}, is)
	checkOrder(t, "Pair of a pair", serde.OrderedPair(serde.OrderedPair(serde.String(), serde.String()), serde.String()),
		func(a, b serde.Pair[serde.Pair[string, string], string]) int {
			return cmp.Or(compareSS(a.First, b.First), cmp.Compare(a.Second, b.Second))
		}, deep)
	checkOrder(t, "Pair of fixed widths", serde.OrderedPair(serde.Bool(), serde.OrderedInt16()), func(a, b serde.Pair[bool, int16]) int {
		return cmp.Or(cmp.Compare(b2i(a.First), b2i(b.First)), cmp.Compare(a.Second, b.Second))
	}, []serde.Pair[bool, int16]{{First: true, Second: -1}, {First: false, Second: 5}, {First: true, Second: 0}, {First: false, Second: -5}})
}

const nanWithPayload = 0x7ff0_0000_0000_1234

// A prefix is that of all pairs with this first part, and of no others.
func TestPrefixIsExact(t *testing.T) {
	t.Parallel()
	s := serde.OrderedPair(serde.String(), serde.String())
	parts := []string{"", "a", "ab", "a\x00", "a\x00\x01", "a\x00\xff", "\x00", "\xff"}
	for _, first := range parts {
		prefix, err := s.Prefix(nil, first)
		if err != nil {
			t.Fatal(err)
		}
		for _, other := range parts {
			for _, second := range parts {
				b, err := s.Append(nil, serde.Pair[string, string]{First: other, Second: second})
				if err != nil {
					t.Fatal(err)
				}
				if got := bytes.HasPrefix(b, prefix); got != (first == other) {
					t.Errorf("the prefix of %q begins the pair %q, %q: %v", first, other, second, got)
				}
			}
		}
	}
}

// The encodings outlive the process that wrote them, so they never change.
func TestOrderedGoldenBytes(t *testing.T) {
	t.Parallel()
	pair := serde.OrderedPair(serde.String(), serde.OrderedInt16())
	fixed := serde.OrderedPair(serde.OrderedInt16(), serde.String())
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"Int16 -1", must(serde.OrderedInt16(), -1), "7fff"},
		{"Int16 0", must(serde.OrderedInt16(), 0), "8000"},
		{"Int32 -2", must(serde.OrderedInt32(), -2), "7ffffffe"},
		{"Int64 min", must(serde.OrderedInt64(), math.MinInt64), "0000000000000000"},
		{"Int64 1", must(serde.OrderedInt64(), 1), "8000000000000001"},
		{"Float32 1", must(serde.OrderedFloat32(), 1), "bf800000"},
		{"Float32 -1", must(serde.OrderedFloat32(), -1), "407fffff"},
		{"Float32 NaN", must(serde.OrderedFloat32(), float32(math.NaN())), "ffc00000"},
		{"Float64 -0", must(serde.OrderedFloat64(), math.Copysign(0, -1)), "7fffffffffffffff"},
		{"Float64 0", must(serde.OrderedFloat64(), 0), "8000000000000000"},
		{"Float64 -Inf", must(serde.OrderedFloat64(), math.Inf(-1)), "000fffffffffffff"},
		{"Float64 +Inf", must(serde.OrderedFloat64(), math.Inf(1)), "fff0000000000000"},
		{"Float64 NaN", must(serde.OrderedFloat64(), math.NaN()), "fff8000000000000"},
		{"Pair", must(pair, serde.Pair[string, int16]{First: "a\x00b\x00", Second: 5}), "6100ff6200ff00018005"},
		{"Pair, empty first", must(pair, serde.Pair[string, int16]{Second: -5}), "00017ffb"},
		{"Pair, fixed first", must(fixed, serde.Pair[int16, string]{First: 1, Second: "a\x00"}), "80016100"},
	} {
		if got := hex.EncodeToString(c.b); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func must[T any](s serde.Serde[T], v T) []byte {
	b, err := s.Append(nil, v)
	if err != nil {
		panic(err)
	}
	return b
}

// liar promises a width that it does not keep.
type liar struct{ serde.Ordered[string] }

func (liar) OrderedWidth() int { return 4 }

func TestPairRefusesAWidthNotKept(t *testing.T) {
	t.Parallel()
	s := serde.OrderedPair[string, string](liar{serde.String()}, serde.String())
	_, err := s.Append(nil, serde.Pair[string, string]{First: "abc"})
	if want := "serde: OrderedPair: first part: its serde promises 4 bytes and wrote 3"; err == nil || err.Error() != want {
		t.Errorf("Append: %v, want %s", err, want)
	}
}

func TestPlainInt64IsNotOrdered(t *testing.T) {
	t.Parallel()
	// Why the Ordered ones exist: −1 sorts last in Kafka's encoding.
	encoded := [][]byte{must(serde.Int64(), -1), must(serde.Int64(), 0), must(serde.Int64(), 1)}
	if slices.IsSortedFunc(encoded, bytes.Compare) {
		t.Error("Kafka's encoding sorts -1, 0, 1")
	}
	if _, ok := serde.Int64().(serde.Ordered[int64]); ok {
		t.Error("Int64 passes as Ordered")
	}
}
