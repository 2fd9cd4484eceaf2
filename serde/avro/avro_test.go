package avro_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/serde/avro"
)

var compareRats = cmp.Comparer(func(a, b *big.Rat) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Cmp(b) == 0
})

func ptr[T any](v T) *T { return &v }

func must[T any](t testing.TB, schema string, opts ...avro.Option) *avro.Serde[T] {
	t.Helper()
	s, err := avro.New[T](schema, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// golden checks that v encodes to want, which is hexadecimal with spaces, and that want decodes to v.
func golden[T any](schema string, v T, want string) func(t *testing.T) {
	return func(t *testing.T) {
		t.Helper()
		s := must[T](t, schema)
		got, err := s.Append([]byte("before"), v)
		if err != nil {
			t.Fatal(err)
		}
		b := unhex(t, want)
		if !bytes.Equal(got, append([]byte("before"), b...)) {
			t.Errorf("Append(%v) = %x, want %x", v, got[len("before"):], b)
		}
		back, err := s.Decode(b)
		if diff := cmp.Diff(v, back, compareRats, cmp.AllowUnexported(derived{})); err != nil || diff != "" {
			t.Errorf("Decode(%x): %v, -want +got:\n%s", b, err, diff)
		}
	}
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

type (
	suit  string
	hash  [4]byte
	cents int64
	test  struct {
		A int64  `avro:"a"`
		B string `avro:"b"`
	}
	list struct {
		Value int32 `avro:"value"`
		Next  *list `avro:"next"`
	}
	base struct {
		ID int64 `avro:"id"`
	}
	derived struct {
		base
		Name    string
		Ignored func() `avro:"-"`
	}
	choice struct {
		Text *string          `avro:"string"`
		Test *test            `avro:"test"`
		Many map[string]int32 `avro:"map"`
		Raw  []byte           `avro:"bytes"`
	}
)

const (
	testSchema   = `{"type":"record","name":"test","fields":[{"name":"a","type":"long"},{"name":"b","type":"string"}]}`
	listSchema   = `{"type":"record","name":"LongList","fields":[{"name":"value","type":"int"},{"name":"next","type":["null","LongList"]}]}`
	choiceSchema = `["null","string",{"type":"record","name":"x.test","fields":[{"name":"a","type":"long"},{"name":"b","type":"string"}]},
		{"type":"map","values":"int"},"bytes"]`
)

// The bytes are worked out from the specification's chapter on binary encoding, some are its own examples.
func TestGolden(t *testing.T) {
	t.Parallel()
	noon := time.Date(1970, 1, 2, 12, 0, 0, 0, time.UTC)
	for name, f := range map[string]func(*testing.T){
		"null":         golden(`"null"`, struct{}{}, ""),
		"false":        golden(`"boolean"`, false, "00"),
		"true":         golden(`{"type":"boolean"}`, true, "01"),
		"int 0":        golden(`"int"`, int32(0), "00"),
		"int -1":       golden(`"int"`, int8(-1), "01"),
		"int 1":        golden(`"int"`, 1, "02"),
		"int -2":       golden(`"int"`, int16(-2), "03"),
		"int -64":      golden(`"int"`, int64(-64), "7f"),
		"int 64":       golden(`"int"`, uint8(64), "80 01"),
		"int max":      golden(`"int"`, int32(math.MaxInt32), "fe ff ff ff 0f"),
		"int min":      golden(`"int"`, int32(math.MinInt32), "ff ff ff ff 0f"),
		"long max":     golden(`"long"`, uint64(math.MaxInt64), "fe ff ff ff ff ff ff ff ff 01"),
		"long min":     golden(`"long"`, cents(math.MinInt64), "ff ff ff ff ff ff ff ff ff 01"),
		"float":        golden(`"float"`, float32(1.5), "00 00 c0 3f"),
		"double":       golden(`"double"`, 1.5, "00 00 00 00 00 00 f8 3f"),
		"bytes":        golden(`"bytes"`, []byte{0xff, 0}, "04 ff 00"),
		"no bytes":     golden(`"bytes"`, []byte{}, "00"),
		"string":       golden(`"string"`, "foo", "06 66 6f 6f"),
		"not UTF-8":    golden(`"string"`, "\xff", "02 ff"),
		"enum":         golden(`{"type":"enum","name":"Foo","symbols":["A","B","C","D"]}`, suit("D"), "06"),
		"fixed":        golden(`{"type":"fixed","name":"h","size":4}`, hash{1, 2, 3, 4}, "01 02 03 04"),
		"fixed slice":  golden(`{"type":"fixed","name":"h","size":4}`, []byte{1, 2, 3, 4}, "01 02 03 04"),
		"array":        golden(`{"type":"array","items":"long"}`, []int64{3, 27}, "04 06 36 00"),
		"array bytes":  golden(`{"type":"array","items":"int"}`, []uint8{3, 27}, "04 06 36 00"),
		"empty array":  golden(`{"type":"array","items":"long"}`, []int64{}, "00"),
		"map":          golden(`{"type":"map","values":"int"}`, map[string]int32{"b": 2, "a": 1, "c": 3}, "06 02 61 02 02 62 04 02 63 06 00"),
		"map of suits": golden(`{"type":"map","values":"int"}`, map[suit]int32{"b": 2, "a": 1, "c": 3}, "06 02 61 02 02 62 04 02 63 06 00"),
		"empty map":    golden(`{"type":"map","values":"int"}`, map[string]int32{}, "00"),
		"map of nulls": golden(`{"type":"map","values":["null","string"]}`, map[string]*string{"a": ptr("x"), "b": nil}, "04 02 61 02 02 78 02 62 00 00"),
		"record":       golden(testSchema, test{27, "foo"}, "36 06 66 6f 6f"),
		"pointer":      golden(testSchema, &test{27, "foo"}, "36 06 66 6f 6f"),
		"embedded": golden(`{"type":"record","name":"d","fields":[{"name":"Name","type":"string"},{"name":"id","type":"int"}]}`,
			derived{base: base{ID: 1}, Name: "a"}, "02 61 02"),
		"recursive": golden(listSchema, list{1, &list{2, nil}}, "02 02 04 00"),
		"no list":   golden(listSchema, list{1, nil}, "02 00"),
		"absent":    golden(`["null","string"]`, (*string)(nil), "00"),
		"present":   golden(`["null","string"]`, ptr("a"), "02 02 61"),
		"null last": golden(`["string","null"]`, (*string)(nil), "02"),
		"nil slice": golden(`["null",{"type":"array","items":"int"}]`, []int32(nil), "00"),
		"no slice":  golden(`["null",{"type":"array","items":"int"}]`, []int32{}, "02 00"),
		"nil map":   golden(`["null",{"type":"map","values":"int"}]`, map[string]int32(nil), "00"),
		"no map":    golden(`["null",{"type":"map","values":"int"}]`, map[string]int32{}, "02 00"),
		"nil bytes": golden(`["null","bytes"]`, []byte(nil), "00"),
		"empty":     golden(`["null","bytes"]`, []byte{}, "02 00"),
		"one":       golden(`["int"]`, 1, "00 02"),
		"only null": golden(`["null"]`, struct{}{}, "00"),

		"choice null":    golden(choiceSchema, choice{}, "00"),
		"choice string":  golden(choiceSchema, choice{Text: ptr("a")}, "02 02 61"),
		"choice record":  golden(choiceSchema, choice{Test: &test{27, "foo"}}, "04 36 06 66 6f 6f"),
		"choice map":     golden(choiceSchema, choice{Many: map[string]int32{"a": 1}}, "06 02 02 61 02 00"),
		"choice bytes":   golden(choiceSchema, choice{Raw: []byte{}}, "08 00"),
		"choice pointer": golden(choiceSchema, &choice{Text: ptr("a")}, "02 02 61"),

		"date":          golden(`{"type":"int","logicalType":"date"}`, noon.Truncate(24*time.Hour), "02"),
		"date before":   golden(`{"type":"int","logicalType":"date"}`, time.Date(1969, 12, 31, 0, 0, 0, 0, time.UTC), "01"),
		"date as int":   golden(`{"type":"int","logicalType":"date"}`, int32(1), "02"),
		"time-millis":   golden(`{"type":"int","logicalType":"time-millis"}`, 32*time.Millisecond, "40"),
		"time-micros":   golden(`{"type":"long","logicalType":"time-micros"}`, 32*time.Microsecond, "40"),
		"millis":        golden(`{"type":"long","logicalType":"timestamp-millis"}`, time.UnixMilli(-1).UTC(), "01"),
		"micros":        golden(`{"type":"long","logicalType":"timestamp-micros"}`, time.UnixMicro(64).UTC(), "80 01"),
		"nanos":         golden(`{"type":"long","logicalType":"timestamp-nanos"}`, time.Unix(0, -64).UTC(), "7f"),
		"local millis":  golden(`{"type":"long","logicalType":"local-timestamp-millis"}`, time.UnixMilli(1).UTC(), "02"),
		"local micros":  golden(`{"type":"long","logicalType":"local-timestamp-micros"}`, time.UnixMicro(1).UTC(), "02"),
		"local nanos":   golden(`{"type":"long","logicalType":"local-timestamp-nanos"}`, time.Unix(0, 1).UTC(), "02"),
		"absent moment": golden(`["null",{"type":"long","logicalType":"timestamp-millis"}]`, (*time.Time)(nil), "00"),
		"far millis":    golden(`{"type":"long","logicalType":"timestamp-millis"}`, time.UnixMilli(math.MinInt64).UTC(), "ff ff ff ff ff ff ff ff ff 01"),
		"span in long":  golden(`"long"`, time.Duration(1), "02"),

		"decimal 1.23":   golden(`{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}`, big.NewRat(123, 100), "02 7b"),
		"decimal 1.28":   golden(`{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}`, big.NewRat(128, 100), "04 00 80"),
		"decimal -1":     golden(`{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}`, big.NewRat(-1, 1), "02 9c"),
		"decimal -1.28":  golden(`{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}`, big.NewRat(-128, 100), "02 80"),
		"decimal 0":      golden(`{"type":"bytes","logicalType":"decimal","precision":4}`, big.NewRat(0, 1), "02 00"),
		"decimal fixed":  golden(`{"type":"fixed","size":4,"name":"d","logicalType":"decimal","precision":4}`, big.NewRat(-1, 1), "ff ff ff ff"),
		"no decimal":     golden(`["null",{"type":"bytes","logicalType":"decimal","precision":4}]`, (*big.Rat)(nil), "00"),
		"decimal as raw": golden(`{"type":"bytes","logicalType":"decimal","precision":4}`, []byte{1}, "02 01"),
		"precision 0":    golden(`{"type":"bytes","logicalType":"decimal","precision":0}`, []byte{1}, "02 01"),
		"unknown type":   golden(`{"type":"bytes","logicalType":"moon-phase"}`, []byte{1}, "02 01"),
		"uuid string": golden(`{"type":"string","logicalType":"uuid"}`, "01234567-89ab-cdef-fedc-ba9876543210",
			"48"+hex.EncodeToString([]byte("01234567-89ab-cdef-fedc-ba9876543210"))),
		"uuid bytes": golden(`{"type":"string","logicalType":"uuid"}`, [16]byte{1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32, 0x10},
			"48"+hex.EncodeToString([]byte("01234567-89ab-cdef-fedc-ba9876543210"))),
		"uuid fixed": golden(`{"type":"fixed","size":16,"name":"u","logicalType":"uuid"}`, [16]byte{15: 1}, "0000000000000000 0000000000000001"),
		"duration":   golden(`{"type":"fixed","size":12,"name":"d","logicalType":"duration"}`, avro.Duration{1, 2, 1000}, "01000000 02000000 e8030000"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t)
		})
	}
}

// What is finer than the unit goes down, and a wall clock is written as it is read.
func TestTimesInPlaces(t *testing.T) {
	t.Parallel()
	place := time.FixedZone("", 2*3600)
	in := time.Date(1970, 1, 2, 1, 0, 0, 1_999_999, place)
	for logical, want := range map[string]time.Time{
		"timestamp-millis":       time.Date(1970, 1, 1, 23, 0, 0, 1_000_000, time.UTC),
		"timestamp-micros":       time.Date(1970, 1, 1, 23, 0, 0, 1_999_000, time.UTC),
		"timestamp-nanos":        time.Date(1970, 1, 1, 23, 0, 0, 1_999_999, time.UTC),
		"local-timestamp-millis": time.Date(1970, 1, 2, 1, 0, 0, 1_000_000, time.UTC),
		"local-timestamp-nanos":  time.Date(1970, 1, 2, 1, 0, 0, 1_999_999, time.UTC),
		"date":                   time.Date(1970, 1, 2, 0, 0, 0, 0, time.UTC),
	} {
		typ := "long"
		if logical == "date" {
			typ = "int"
		}
		s := must[time.Time](t, fmt.Sprintf(`{"type":%q,"logicalType":%q}`, typ, logical))
		b, err := s.Append(nil, in)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.Decode(b); err != nil || got != want {
			t.Errorf("%s: %v came back as %v, %v; want %v", logical, in, got, err, want)
		}
	}
}

func refuse[T any](schema string, v T, want string) func(t *testing.T) {
	return func(t *testing.T) {
		t.Helper()
		_, err := must[T](t, schema).Append(nil, v)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Append(%v): %v; want an error with %q", v, err, want)
		}
	}
}

func TestAppendRefuses(t *testing.T) {
	t.Parallel()
	loop := &list{Value: 1}
	loop.Next = loop
	for name, f := range map[string]func(*testing.T){
		"int too large":    refuse(`"int"`, int64(math.MaxInt32)+1, "2147483648 is too large for int"),
		"int too small":    refuse(`"int"`, int64(math.MinInt32)-1, "too large for int"),
		"uint64":           refuse(`"long"`, uint64(math.MaxInt64)+1, "too large for long"),
		"uint32":           refuse(`"int"`, uint32(math.MaxUint32), "too large for int"),
		"symbol":           refuse(`{"type":"enum","name":"E","symbols":["A"]}`, "B", `"B" is no symbol of enum E`),
		"fixed":            refuse(`{"type":"fixed","name":"h","size":4}`, []byte{1}, "1 bytes for fixed h of 4 bytes"),
		"nil record":       refuse(testSchema, (*test)(nil), "record test has no null"),
		"nil decimal":      refuse(`{"type":"bytes","logicalType":"decimal","precision":4}`, (*big.Rat)(nil), "has no null"),
		"nil choice":       refuse(choiceSchema, (*choice)(nil), "a struct without a branch"),
		"two branches":     refuse(choiceSchema, choice{Text: ptr(""), Raw: []byte{}}, "more than one branch: string and bytes"),
		"rounded decimal":  refuse(`{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}`, big.NewRat(1, 3), "more than 2 digits behind the point"),
		"long decimal":     refuse(`{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}`, big.NewRat(100, 1), "more digits than bytes (decimal 4,2)"),
		"no time of day":   refuse(`{"type":"int","logicalType":"time-millis"}`, 24*time.Hour, "no time of day"),
		"negative of day":  refuse(`{"type":"int","logicalType":"time-millis"}`, -time.Nanosecond, "no time of day"),
		"far date":         refuse(`{"type":"int","logicalType":"date"}`, time.Date(9_000_000, 1, 1, 0, 0, 0, 0, time.UTC), "too large for int (date)"),
		"far nanos":        refuse(`{"type":"long","logicalType":"timestamp-nanos"}`, time.Time{}, "too far away for timestamp-nanos"),
		"far micros":       refuse(`{"type":"long","logicalType":"timestamp-micros"}`, time.Date(9_000_000, 1, 1, 0, 0, 0, 0, time.UTC), "too far away"),
		"uuid":             refuse(`{"type":"string","logicalType":"uuid"}`, "x", "serde: UUID"),
		"pointers in ring": refuse(listSchema, loop, "nested deeper than the limit"),
		"place": refuse(`{"type":"record","name":"r","fields":[{"name":"m","type":{"type":"map","values":{"type":"array","items":"int"}}}]}`,
			struct {
				M map[string][]int64 `avro:"m"`
			}{map[string][]int64{"k": {0, 1 << 40}}}, "m.k.1: 1099511627776"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t)
		})
	}
	s := must[struct {
		A *string `avro:"string"`
		B *int32  `avro:"int"`
	}](t, `["string","int"]`)
	var none struct {
		A *string `avro:"string"`
		B *int32  `avro:"int"`
	}
	if _, err := s.Append(nil, none); err == nil || !strings.Contains(err.Error(), "without a branch") {
		t.Errorf("a union without null took nothing: %v", err)
	}
}

func mistake[T any](schema, want string, opts ...avro.Option) func(t *testing.T) {
	return func(t *testing.T) {
		t.Helper()
		_, err := avro.New[T](schema, opts...)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "avro: Serde["+reflect.TypeFor[T]().String()+"]: ") {
			t.Errorf("New: %v; want an error with %q", err, want)
		}
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	type wrong struct {
		A string `avro:"a"`
		B string `avro:"b"`
	}
	type nested struct {
		Inner []wrong `avro:"inner"`
	}
	type extra struct {
		test
		C int
	}
	type twice struct {
		A int64  `avro:"a"`
		B string `avro:"a"`
	}
	type hidden struct {
		A int64  `avro:"a"`
		_ string `avro:"b"`
	}
	type comma struct {
		A int64 `avro:"a,omitempty"`
	}
	type half struct {
		Text *string `avro:"string"`
	}
	type plain struct {
		Text string `avro:"string"`
		Int  *int32 `avro:"int"`
	}
	for name, f := range map[string]func(*testing.T){
		"kind":           mistake[wrong](testSchema, "field a (Go avro_test.wrong.A): Go type string cannot hold Avro type long; use int64 or another integer type"),
		"nested":         mistake[nested](`{"type":"record","name":"n","fields":[{"name":"inner","type":{"type":"array","items":`+testSchema+`}}]}`, "field inner.[].a (Go avro_test.wrong.A)"),
		"missing":        mistake[base](testSchema, `Go type avro_test.base has no field for field "a" (long) of record test; add one with the tag `+"`avro:\"a\"`"),
		"both":           mistake[base](testSchema, `record test has no field "id" for the Go field avro_test.base.ID`),
		"extra":          mistake[extra](testSchema, `no field "C"`),
		"twice":          mistake[twice](testSchema, `Go fields A and B of avro_test.twice both have the name "a"`),
		"hidden":         mistake[hidden](testSchema, "has a tag and is not exported"),
		"comma":          mistake[comma](testSchema, "is not a name"),
		"any":            mistake[any](`"string"`, "Go type interface {} cannot hold"),
		"any in union":   mistake[any](`["string","int"]`, "use a struct with a pointer for each branch"),
		"no pointer":     mistake[string](`["null","string"]`, "Go type string has no nil for the null of Avro type union [null, string]; use *string"),
		"half":           mistake[half](`["string","int"]`, "no field for the branch int of a union"),
		"plain branch":   mistake[plain](`["string","int"]`, "field Text: string has no nil"),
		"double":         mistake[float32](`"double"`, "use float64"),
		"float":          mistake[float64](`"float"`, "use float32"),
		"fixed":          mistake[[3]byte](`{"type":"fixed","name":"f","size":4}`, "cannot hold Avro type fixed f of 4 bytes; use [4]byte"),
		"span":           mistake[time.Duration](`{"type":"long","logicalType":"timestamp-millis"}`, "use time.Time"),
		"time":           mistake[time.Time](`"long"`, "use int64"),
		"rat":            mistake[*big.Rat](`{"type":"bytes","logicalType":"decimal","precision":2,"scale":3}`, "use []byte"),
		"rat in fixed":   mistake[*big.Rat](`{"type":"fixed","name":"d","size":1,"logicalType":"decimal","precision":3}`, "use [1]byte"),
		"map key":        mistake[map[int]string](`{"type":"map","values":"string"}`, "a map with strings as keys"),
		"not JSON":       mistake[string](`string`, "schema: not JSON"),
		"two schemas":    mistake[string](`"string" "int"`, "more than one JSON value"),
		"unknown":        mistake[string](`"String"`, `unknown type "String"`),
		"number":         mistake[string](`1`, "want a name, an object or an array"),
		"field array":    mistake[test](`{"type":"record","name":"r","fields":[{"name":"a","type":"array","items":"int"}]}`, `field "a": type "array" stands where a whole type should`),
		"no name":        mistake[test](`{"type":"record","fields":[]}`, "a type record has no name"),
		"bad name":       mistake[test](`{"type":"record","name":"a-b","fields":[]}`, "schema: Record ought to have valid name"),
		"bad field":      mistake[test](`{"type":"record","name":"r","fields":[{"name":"a b","type":"int"}]}`, "schema: Record"),
		"field twice":    mistake[test](`{"type":"record","name":"r","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}`, "ought to have unique name"),
		"defined twice":  mistake[test](`{"type":"record","name":"r","fields":[{"name":"a","type":{"type":"fixed","name":"r","size":1}}]}`, "the name is defined twice"),
		"union twice":    mistake[string](`["int","int"]`, "a union has int twice"),
		"union in union": mistake[string](`["int",["string"]]`, "branch 1 of a union is a union"),
		"empty union":    mistake[string](`[]`, "no branches"),
		"no symbols":     mistake[string](`{"type":"enum","name":"E","symbols":[]}`, "symbols"),
		"symbol twice":   mistake[string](`{"type":"enum","name":"E","symbols":["A","A"]}`, "twice"),
		"enum default":   mistake[string](`{"type":"enum","name":"E","symbols":["A"],"default":"B"}`, "none of its symbols"),
		"fixed 0":        mistake[[0]byte](`{"type":"fixed","name":"f","size":0}`, "want 1 to 999999"),
		"huge fixed":     mistake[[]byte](`{"type":"fixed","name":"f","size":1e9}`, "want 1 to 999999"),
		"huge decimal":   mistake[*big.Rat](`{"type":"bytes","logicalType":"decimal","precision":1000000000}`, "at most 10000"),
		"default":        mistake[test](`{"type":"record","name":"r","fields":[{"name":"a","type":"int","default":"x"}]}`, `record r, field "a": default: "x" is no int`),
		"endless default": mistake[test](`{"type":"record","name":"r","fields":[{"name":"a","type":{"type":"record","name":"s","fields":[{"name":"b","type":"s","default":{}}]}}]}`,
			"nested too deep"),
		"depth":       mistake[string](`"string"`, "MaxDepth(0)", avro.MaxDepth(0)),
		"size":        mistake[string](`"string"`, "MaxSize(-1)", avro.MaxSize(-1)),
		"two writers": mistake[string](`"string"`, "WrittenBy 2 times without SingleObject", avro.WrittenBy(`"string"`), avro.WrittenBy(`"bytes"`)),
		"bad writer":  mistake[string](`"string"`, "WrittenBy: schema: unknown type", avro.WrittenBy(`"text"`)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t)
		})
	}
}

// A default that is not of its type is an error even where nothing needs it.
func TestDefaultMistakes(t *testing.T) {
	t.Parallel()
	for _, in := range []struct{ typ, def, want string }{
		{`"null"`, `0`, "0 is no null"},
		{`"boolean"`, `"true"`, `"true" is no boolean`},
		{`"int"`, `2147483648`, "2147483648 is no int"},
		{`"int"`, `1.5`, "1.5 is no int"},
		{`"int"`, `null`, "is no int"},
		{`"long"`, `9223372036854775808`, "is no long"},
		{`"double"`, `"NaN"`, `"NaN" is no double`},
		{`"double"`, `1e999`, "is no double"},
		{`"string"`, `1`, "1 is no string"},
		{`"bytes"`, `"\u0100"`, "is no bytes"},
		{`"bytes"`, `[1]`, "is no bytes"},
		{`{"type":"fixed","name":"F","size":2}`, `"a"`, `"a" is no fixed F of 2 bytes`},
		{`{"type":"enum","name":"E","symbols":["A"]}`, `"B"`, `"B" is no enum E`},
		{`{"type":"array","items":"int"}`, `{}`, "is no array of int"},
		{`{"type":"array","items":"int"}`, `["a"]`, `"a" is no int`},
		{`{"type":"map","values":"int"}`, `[]`, "is no map of int"},
		{`{"type":"map","values":"int"}`, `{"a":"b"}`, `"b" is no int`},
		{rec("s", `{"name":"A","type":"int"}`), `{}`, `field "A" is missing`},
		{rec("s", `{"name":"A","type":"int"}`), `{"A":true}`, `field "A": true is no int`},
		{rec("s", `{"name":"A","type":"int"}`), `1`, "1 is no record s"},
		{`["null","int"]`, `"a"`, `"a" is no union [null, int]`},
		{`{"type":"array","items":"string"}`, `["` + strings.Repeat("a", 1<<20) + `","b"]`, "longer than 1048576 bytes"},
	} {
		_, err := avro.New[base](rec("r", `{"name":"f","type":`+in.typ+`,"default":`+in.def+`}`))
		if err == nil || !strings.Contains(err.Error(), `record r, field "f": default: `) || !strings.Contains(err.Error(), in.want) {
			t.Errorf("%.80s with the default %.80s: %.300v; want an error with %q", in.typ, in.def, err, in.want)
		}
	}
}

// An error says what would fit.
func TestWanted(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		`"null"`: "struct{}", `"boolean"`: "bool", `"int"`: "int32 or", `"long"`: "int64 or", `"float"`: "float32", `"double"`: "float64",
		`"bytes"`: "[]byte", `"string"`: "string", `{"type":"array","items":"int"}`: "a slice", rec("r"): "a struct",
		`{"type":"enum","name":"E","symbols":["A"]}`:                     "string",
		`{"type":"int","logicalType":"date"}`:                            "time.Time",
		`{"type":"long","logicalType":"time-micros"}`:                    "time.Duration",
		`{"type":"bytes","logicalType":"decimal","precision":1}`:         "*big.Rat",
		`{"type":"string","logicalType":"uuid"}`:                         "[16]byte",
		`{"type":"fixed","name":"F","size":12,"logicalType":"duration"}`: "avro.Duration",
		`["null"]`: "struct{}",
	} {
		if _, err := avro.New[complex128](schema); err == nil || !strings.Contains(err.Error(), "Go type complex128 cannot hold Avro type ") || !strings.Contains(err.Error(), "; use "+want) {
			t.Errorf("%s: %v; want an error with %q", schema, err, want)
		}
	}
}

func TestOfKeepsItsMistake(t *testing.T) {
	t.Parallel()
	s := avro.Of[string](`"int"`)
	_, encode := s.Append(nil, "")
	_, decode := s.Decode(nil)
	if s.Err() == nil || encode != s.Err() || decode != s.Err() {
		t.Errorf("Err: %v, Append: %v, Decode: %v; want the same mistake", s.Err(), encode, decode)
	}
	if err := avro.Of[string](`"string"`).Err(); err != nil {
		t.Errorf("Err: %v, and nothing is wrong", err)
	}
}

// The canonical forms follow the specification's transformation; the fingerprint of "int" is in Avro's own tests.
func TestSchema(t *testing.T) {
	t.Parallel()
	s := must[struct {
		A []*suit          `avro:"a"`
		B map[string]*hash `avro:"b"`
		C struct {
			D *suit `avro:"d"`
		} `avro:"c"`
	}](t, `{"namespace":"x.y","doc":"…","name":"R","type":"record","aliases":["Q"],"fields":[
		{"name":"a","doc":"…","type":{"items":["null",{"type":"enum","name":"E","symbols":["A"],"default":"A"}],"type":"array"},"default":[]},
		{"name":"b","type":{"type":"map","values":["null",{"type":"fixed","name":"z.F","size":4}]}},
		{"name":"c","type":{"type":"record","name":"S","namespace":"z","fields":[{"name":"d","type":["null","x.y.E"]}]}}]}`)
	want := `{"name":"x.y.R","type":"record","fields":[` +
		`{"name":"a","type":{"type":"array","items":["null",{"name":"x.y.E","type":"enum","symbols":["A"]}]}},` +
		`{"name":"b","type":{"type":"map","values":["null",{"name":"z.F","type":"fixed","size":4}]}},` +
		`{"name":"c","type":{"name":"z.S","type":"record","fields":[{"name":"d","type":["null","x.y.E"]}]}}]}`
	if diff := cmp.Diff(want, s.Schema()); diff != "" {
		t.Errorf("canonical form, -want +got:\n%s", diff)
	}
	i := must[time.Time](t, `{"type":"int","logicalType":"date"}`)
	if i.Schema() != `"int"` || i.Fingerprint() != 0x7275d51a3f395c8f {
		t.Errorf("Schema %s, fingerprint %016x", i.Schema(), i.Fingerprint())
	}
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	s := must[test](t, testSchema)
	done := make(chan error)
	for i := range 4 {
		go func() {
			for n := range 500 {
				v := test{int64(i*1000 + n), fmt.Sprint(i, n)}
				b, err := s.Append(nil, v)
				if err == nil {
					var got test
					if got, err = s.Decode(b); err == nil && got != v {
						err = fmt.Errorf("%v came back as %v", v, got)
					}
				}
				if err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
