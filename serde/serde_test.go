package serde_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/serde"
)

// Type inference finds K in whatever is passed as a Serde of K.
func keyOf[K any](serde.Serde[K]) (k K) { return k }

var (
	_ string                      = keyOf(serde.String())
	_ int64                       = keyOf(serde.Int64())
	_ serde.Pair[int64, [16]byte] = keyOf(serde.OrderedPair(serde.OrderedInt64(), serde.UUID()))
	_ map[string]int              = keyOf(serde.JSON[map[string]int]())

	_ serde.Ordered[serde.Pair[string, string]] = serde.PairSerde[string, string]{}
)

type account struct {
	ID    string            `json:"id"`
	Cents int64             `json:"cents"`
	Tags  map[string]string `json:"tags,omitempty"`
}

func decodeError[T any](s serde.Serde[T]) func([]byte) error {
	return func(b []byte) error {
		v, err := s.Decode(b)
		var zero T
		if err != nil && !cmp.Equal(v, zero) {
			return errors.New("not the zero value next to: " + err.Error())
		}
		return err
	}
}

func TestDecodeErrorsNameSerdeWantedAndGot(t *testing.T) {
	t.Parallel()
	const other = "; the topic was probably written with another serializer"
	pair := serde.OrderedPair(serde.String(), serde.OrderedInt32())
	fixedPair := serde.OrderedPair(serde.OrderedInt32(), serde.String())
	for _, c := range []struct {
		decode func([]byte) error
		in     string
		want   string
	}{
		{decodeError(serde.Int16()), "abc", "serde: Int16: want 2 bytes, got 3" + other},
		{decodeError(serde.Int32()), "abc", "serde: Int32: want 4 bytes, got 3" + other},
		{decodeError(serde.Int64()), "", "serde: Int64: want 8 bytes, got 0" + other},
		{decodeError(serde.Float32()), "abc", "serde: Float32: want 4 bytes, got 3" + other},
		{decodeError(serde.Float64()), "123456789", "serde: Float64: want 8 bytes, got 9" + other},
		{decodeError(serde.Bool()), "", "serde: Bool: want 1 bytes, got 0" + other},
		{decodeError(serde.Bool()), "\x02", "serde: Bool: want byte 0x00 or 0x01, got 0x02" + other},
		{decodeError(serde.UUID()), "1-1-1-1-1", "serde: UUID: want 36 bytes, got 9" + other},
		{decodeError(serde.UUID()), "01234567-89ab-cdef+fedc-ba9876543210", "serde: UUID: want '-' at byte 18, got 0x2b"},
		{decodeError(serde.UUID()), "01234567-89ab-cdef-fedc-ba987654321g", "serde: UUID: group at byte 24: encoding/hex: invalid byte: U+0067 'g'"},
		{decodeError(serde.OrderedInt16()), "a", "serde: OrderedInt16: want 2 bytes, got 1" + other},
		{decodeError(serde.OrderedInt32()), "a", "serde: OrderedInt32: want 4 bytes, got 1" + other},
		{decodeError(serde.OrderedInt64()), "a", "serde: OrderedInt64: want 8 bytes, got 1" + other},
		{decodeError(serde.OrderedFloat32()), "a", "serde: OrderedFloat32: want 4 bytes, got 1" + other},
		{decodeError(serde.OrderedFloat64()), "a", "serde: OrderedFloat64: want 8 bytes, got 1" + other},
		{decodeError(serde.OrderedFloat32()), "\xff\xc0\x00\x01", "serde: OrderedFloat32: ffc00001 is not the one encoding of NaN, ffc00000"},
		{decodeError(serde.OrderedFloat64()), "\x00\x00\x00\x00\x00\x00\x00\x00", "serde: OrderedFloat64: 0000000000000000 is not the one encoding of NaN, fff8000000000000"},
		{decodeError(pair), "abc", "serde: OrderedPair: the first part has no end (00 01); the key was probably written with another serializer"},
		{decodeError(pair), "abc\x00", "serde: OrderedPair: the first part has no end (00 01); the key was probably written with another serializer"},
		{decodeError(pair), "abc\x00\x02", "serde: OrderedPair: want 00 01 or 00 ff at byte 3, got 00 02"},
		{decodeError(pair), "abc\x00\x01ab", "serde: OrderedPair: second part: serde: OrderedInt32: want 4 bytes, got 2" + other},
		{decodeError(fixedPair), "abc", "serde: OrderedPair: want at least 4 bytes, got 3"},
		{decodeError(serde.JSON[account]()), `{"id":"a"`, "serde: JSON[serde_test.account]: decode 9 bytes: unexpected end of JSON input"},
		{decodeError(serde.JSON[account]()), `{"id":"a","cents":"x"}`, "serde: JSON[serde_test.account]: decode 22 bytes: json: cannot unmarshal string into Go struct field account.cents of type int64"},
		{decodeError(serde.JSON[account]()), `{"id":"a"} x`, "serde: JSON[serde_test.account]: decode 12 bytes: invalid character 'x' after top-level value"},
		{decodeError(serde.JSON[account]()), `{}{}`, "serde: JSON[serde_test.account]: decode 4 bytes: invalid character '{' after top-level value"},
		{decodeError(serde.JSON[int]()), ``, "serde: JSON[int]: decode 0 bytes: unexpected end of JSON input"},
	} {
		got := "no error"
		if err := c.decode([]byte(c.in)); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("Decode(%q):\n got %s\nwant %s", c.in, got, c.want)
		}
	}
}

func TestBytesAliases(t *testing.T) {
	t.Parallel()
	in := []byte("abc")
	got, err := serde.Bytes().Decode(in)
	if err != nil || len(got) != 3 || &got[0] != &in[0] {
		t.Errorf("Decode copied: %q, %v", got, err)
	}
	empty, err := serde.Bytes().Decode([]byte{})
	if err != nil || empty == nil {
		t.Errorf("empty decodes to %v, %v, want empty and not nil", empty, err)
	}
}

func TestStringKeepsWhatIsNotUTF8(t *testing.T) {
	t.Parallel()
	in := []byte("a\xff\xc0b")
	v, err := serde.String().Decode(in)
	if err != nil || v != string(in) {
		t.Fatalf("Decode = %q, %v", v, err)
	}
	if out, err := serde.String().Append(nil, v); err != nil || !bytes.Equal(out, in) {
		t.Errorf("Append = %q, %v, want %q", out, err, in)
	}
	in[0] = 'X'
	if v[0] != 'a' {
		t.Error("the string aliases the bytes")
	}
}

func TestUUIDTakesUpperCase(t *testing.T) {
	t.Parallel()
	v, err := serde.UUID().Decode([]byte("01234567-89AB-CDEF-FEDC-BA9876543210"))
	if err != nil || hex.EncodeToString(v[:]) != "0123456789abcdeffedcba9876543210" {
		t.Errorf("Decode = %x, %v", v, err)
	}
}

type celsius float64

func (c *celsius) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]float64{"c": float64(*c)})
}

func (c *celsius) UnmarshalJSON(b []byte) error {
	var m map[string]float64
	err := json.Unmarshal(b, &m)
	*c = celsius(m["c"])
	return err
}

func TestJSON(t *testing.T) {
	t.Parallel()
	s := serde.JSON[account]()
	in := account{ID: "<é&>", Cents: -5, Tags: map[string]string{"b": "2", "a": "1"}}
	got, err := s.Append([]byte("before"), in)
	if err != nil {
		t.Fatal(err)
	}
	if want := `before{"id":"<é&>","cents":-5,"tags":{"a":"1","b":"2"}}`; string(got) != want {
		t.Errorf("Append = %s, want %s", got, want)
	}
	back, err := s.Decode([]byte(" " + string(got[len("before"):]) + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(in, back); diff != "" {
		t.Errorf("round trip (-want +got):\n%s", diff)
	}

	// An encoding that failed leaves nothing to the one after it.
	f := serde.JSON[float64]()
	if _, err := f.Append(nil, math.Inf(1)); err == nil || err.Error() != "serde: JSON[float64]: encode: json: unsupported value: +Inf" {
		t.Errorf("Append(+Inf): %v", err)
	}
	if got, err := f.Append(nil, 1.5); err != nil || string(got) != "1.5" {
		t.Errorf("Append(1.5) = %s, %v", got, err)
	}

	c := serde.JSON[celsius]()
	if got, err := c.Append(nil, 20); err != nil || string(got) != `{"c":20}` {
		t.Errorf("pointer receiver: %s, %v", got, err)
	}
	if got, err := c.Decode([]byte(`{"c":20}`)); err != nil || got != 20 {
		t.Errorf("pointer receiver: %v, %v", got, err)
	}

	if got, err := s.Decode([]byte("null")); err != nil || !cmp.Equal(got, account{}) {
		t.Errorf("null decodes to %v, %v", got, err)
	}
}

func TestJSONIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	s := serde.JSON[account]()
	done := make(chan string)
	for i := range 4 {
		go func() {
			id := strings.Repeat(string(rune('a'+i)), i+1)
			var buf []byte
			for range 200 {
				var err error
				if buf, err = s.Append(buf[:0], account{ID: id}); err != nil {
					done <- err.Error()
					return
				}
				if v, err := s.Decode(buf); err != nil || v.ID != id {
					done <- "want " + id + ", got " + string(buf)
					return
				}
			}
			done <- ""
		}()
	}
	for range 4 {
		if problem := <-done; problem != "" {
			t.Error(problem)
		}
	}
}

// Not parallel: it counts allocations.
func TestPlainSerdesDoNotAllocate(t *testing.T) {
	buf := make([]byte, 0, 64)
	str, raw, i64, f64, id := serde.String(), serde.Bytes(), serde.Int64(), serde.Float64(), serde.UUID()
	pair := serde.OrderedPair(serde.Bytes(), serde.OrderedInt64())
	key := serde.Pair[[]byte, int64]{First: []byte("account1"), Second: -7}
	sum := 0
	for name, f := range map[string]func(){
		"String.Append": func() { b, _ := str.Append(buf[:0], "account1"); sum += len(b) },
		"Bytes":         func() { b, _ := raw.Append(buf[:0], key.First); v, _ := raw.Decode(b); sum += len(v) },
		"Int64":         func() { b, _ := i64.Append(buf[:0], 5); v, _ := i64.Decode(b); sum += int(v) },
		"Float64":       func() { b, _ := f64.Append(buf[:0], 5); v, _ := f64.Decode(b); sum += int(v) },
		"UUID":          func() { b, _ := id.Append(buf[:0], [16]byte{1}); v, _ := id.Decode(b); sum += int(v[0]) },
		"OrderedPair":   func() { b, _ := pair.Append(buf[:0], key); v, _ := pair.Decode(b); sum += int(v.Second) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
	if sum == 0 {
		t.Error("nothing ran")
	}
}
