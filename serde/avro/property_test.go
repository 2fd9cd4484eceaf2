package avro_test

import (
	"bytes"
	"math"
	"math/big"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/linkedin/goavro/v2"
	"pgregory.net/rapid"

	"github.com/headrace/headrace/serde/avro"
)

// all has every kind of type.
type all struct {
	Null     struct{}
	Bool     bool
	Int      int32
	Small    int8
	Long     int64
	Unsigned uint64
	Float    float32
	Double   float64
	Bytes    []byte
	Text     string
	Suit     suit
	Hash     [3]byte
	Longs    []int64
	Map      map[string]string
	Maps     []map[string][]int32
	Maybe    *string
	Record   test
	Records  []test
	Tree     *tree
	Union    choice
	Date     time.Time
	Clock    time.Duration
	Millis   time.Time
	Micros   time.Time
	Decimal  *big.Rat
	Fixed    *big.Rat
	UUID     [16]byte
	Duration avro.Duration
	End      string
}

type tree struct {
	Children []tree
	Next     *tree
}

const allSchema = `{"type":"record","name":"all","fields":[
	{"name":"Null","type":"null"},
	{"name":"Bool","type":"boolean"},
	{"name":"Int","type":"int"},
	{"name":"Small","type":"int"},
	{"name":"Long","type":"long"},
	{"name":"Unsigned","type":"long"},
	{"name":"Float","type":"float"},
	{"name":"Double","type":"double"},
	{"name":"Bytes","type":"bytes"},
	{"name":"Text","type":"string"},
	{"name":"Suit","type":{"type":"enum","name":"Suit","symbols":["SPADES","HEARTS"]}},
	{"name":"Hash","type":{"type":"fixed","name":"Hash","size":3}},
	{"name":"Longs","type":{"type":"array","items":"long"}},
	{"name":"Map","type":{"type":"map","values":"string"}},
	{"name":"Maps","type":{"type":"array","items":{"type":"map","values":{"type":"array","items":"int"}}}},
	{"name":"Maybe","type":["null","string"]},
	{"name":"Record","type":{"type":"record","name":"test","fields":[{"name":"a","type":"long"},{"name":"b","type":"string"}]}},
	{"name":"Records","type":{"type":"array","items":"test"}},
	{"name":"Tree","type":["null",{"type":"record","name":"Tree","fields":[
		{"name":"Children","type":{"type":"array","items":"Tree"}},{"name":"Next","type":["null","Tree"]}]}]},
	{"name":"Union","type":["string","null","test",{"type":"map","values":"int"},"bytes"]},
	{"name":"Date","type":{"type":"int","logicalType":"date"}},
	{"name":"Clock","type":{"type":"int","logicalType":"time-millis"}},
	{"name":"Millis","type":{"type":"long","logicalType":"timestamp-millis"}},
	{"name":"Micros","type":{"type":"long","logicalType":"timestamp-micros"}},
	{"name":"Decimal","type":{"type":"bytes","logicalType":"decimal","precision":20,"scale":4}},
	{"name":"Fixed","type":{"type":"fixed","name":"Money","size":9,"logicalType":"decimal","precision":20,"scale":2}},
	{"name":"UUID","type":{"type":"string","logicalType":"uuid"}},
	{"name":"Duration","type":{"type":"fixed","name":"Span","size":12,"logicalType":"duration"}},
	{"name":"End","type":"string"}]}`

func sample() all {
	return all{
		Bool: true, Int: -1, Small: 7, Long: 1 << 40, Unsigned: 3, Float: 1.5, Double: -2.25, Bytes: []byte{1}, Text: "text", Suit: "HEARTS",
		Hash: [3]byte{1, 2, 3}, Longs: []int64{1, -1}, Map: map[string]string{"k": "v"}, Maps: []map[string][]int32{{"a": {1, 2}}},
		Maybe: ptr("maybe"), Record: test{1, "r"}, Records: []test{{2, "s"}}, Tree: &tree{Children: []tree{{Children: []tree{}}}, Next: &tree{Children: []tree{}}},
		Union: choice{Test: &test{3, "t"}}, Date: time.Date(2001, 2, 3, 0, 0, 0, 0, time.UTC), Clock: time.Hour,
		Millis: time.UnixMilli(981173106789).UTC(), Micros: time.UnixMicro(981173106789012).UTC(),
		Decimal: big.NewRat(-12345, 10000), Fixed: big.NewRat(199, 100), UUID: [16]byte{1, 15: 2}, Duration: avro.Duration{1, 2, 3},
	}
}

func drawAll(t *rapid.T) all {
	text := rapid.String()
	tests := rapid.Custom(func(t *rapid.T) test { return test{rapid.Int64().Draw(t, "a"), text.Draw(t, "b")} })
	units := rapid.Int64Range(-1<<62, 1<<62)
	var trees func(depth int) *rapid.Generator[tree]
	trees = func(depth int) *rapid.Generator[tree] {
		if depth == 0 {
			return rapid.Just(tree{Children: []tree{}})
		}
		return rapid.Custom(func(t *rapid.T) tree {
			return tree{rapid.SliceOfN(trees(depth-1), 0, 2).Draw(t, "children"), rapid.Ptr(trees(depth-1), true).Draw(t, "next")}
		})
	}
	v := all{
		Bool: rapid.Bool().Draw(t, "bool"), Int: rapid.Int32().Draw(t, "int"), Small: rapid.Int8().Draw(t, "small"), Long: rapid.Int64().Draw(t, "long"),
		Unsigned: rapid.Uint64Max(math.MaxInt64).Draw(t, "unsigned"), Float: rapid.Float32().Draw(t, "float"), Double: rapid.Float64().Draw(t, "double"),
		Bytes: rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"), Text: text.Draw(t, "text"), Suit: rapid.SampledFrom([]suit{"SPADES", "HEARTS"}).Draw(t, "suit"),
		Longs: rapid.SliceOf(rapid.Int64()).Draw(t, "longs"), Map: rapid.MapOf(text, text).Draw(t, "map"),
		Maps:  rapid.SliceOf(rapid.MapOf(text, rapid.SliceOf(rapid.Int32()))).Draw(t, "maps"),
		Maybe: rapid.Ptr(text, true).Draw(t, "maybe"), Record: tests.Draw(t, "record"), Records: rapid.SliceOf(tests).Draw(t, "records"),
		Tree: rapid.Ptr(trees(3), true).Draw(t, "tree"), Date: time.Unix(86400*int64(rapid.Int32().Draw(t, "date")), 0).UTC(),
		Clock:  time.Duration(rapid.IntRange(0, 86_399_999).Draw(t, "clock")) * time.Millisecond,
		Millis: time.UnixMilli(rapid.Int64().Draw(t, "millis")).UTC(), Micros: time.UnixMicro(rapid.Int64().Draw(t, "micros")).UTC(),
		Decimal: big.NewRat(units.Draw(t, "decimal"), 10_000), Fixed: big.NewRat(units.Draw(t, "fixed"), 100),
		Duration: avro.Duration{Months: rapid.Uint32().Draw(t, "months"), Millis: rapid.Uint32().Draw(t, "ms")}, End: text.Draw(t, "end"),
	}
	copy(v.UUID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "uuid"))
	copy(v.Hash[:], rapid.SliceOfN(rapid.Byte(), 3, 3).Draw(t, "hash"))
	switch rapid.IntRange(0, 4).Draw(t, "branch") {
	case 1:
		v.Union.Text = ptr(text.Draw(t, "text"))
	case 2:
		v.Union.Test = ptr(tests.Draw(t, "test"))
	case 3:
		v.Union.Many = rapid.MapOf(text, rapid.Int32()).Draw(t, "many")
	case 4:
		v.Union.Raw = rapid.SliceOf(rapid.Byte()).Draw(t, "raw")
	}
	return v
}

// A value comes back as it was, its bytes do not depend on the order of a map, and goavro reads the same from them: what it writes again of
// its own form are the same bytes, but for the order of maps, which is random there.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	s := must[all](t, allSchema)
	single := must[all](t, allSchema, avro.SingleObject())
	peer := newPeer(t, s.Schema())
	rapid.Check(t, func(t *rapid.T) {
		v := drawAll(t)
		b, err := s.Append(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		back, err := s.Decode(b)
		if diff := cmp.Diff(v, back, compareRats, cmpopts.EquateNaNs()); err != nil || diff != "" {
			t.Fatalf("Decode(%x): %v, -want +got:\n%s", b, err, diff)
		}
		again, err := s.Append(nil, back)
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%x is written again as %x, %v", b, again, err)
		}
		theirs := peer.again(t, b)
		if got, err := s.Decode(theirs); err != nil || !cmp.Equal(v, got, compareRats, cmpopts.EquateNaNs()) {
			t.Fatalf("what goavro makes of %x is %x, which decodes to %v, %v", b, theirs, got, err)
		}
		object, err := single.Append(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		if _, rest, err := peer.codec.NativeFromSingle(object); err != nil || len(rest) > 0 {
			t.Fatalf("goavro reads the single object %x: %x left, %v", object, rest, err)
		}
	})
}

// peer is goavro, which knows nothing of logical types here: its decimals are not the specification's.
type peer struct{ codec *goavro.Codec }

func newPeer(t testing.TB, canonical string) peer {
	t.Helper()
	codec, err := goavro.NewCodec(canonical)
	if err != nil {
		t.Fatal(err)
	}
	return peer{codec}
}

// again has goavro decode b and encode what it got.
func (p peer) again(t interface{ Fatalf(string, ...any) }, b []byte) []byte {
	native, rest, err := p.codec.NativeFromBinary(b)
	if err != nil || len(rest) > 0 {
		t.Fatalf("goavro reads %x: %x left, %v", b, rest, err)
	}
	out, err := p.codec.BinaryFromNative(nil, native)
	if err != nil {
		t.Fatalf("goavro writes what it read of %x: %v", b, err)
	}
	return out
}

// Each of these would cost a naive decoder gigabytes, its stack, or minutes.
func TestHostile(t *testing.T) {
	t.Parallel()
	huge := "fe ff ff ff ff ff ff ff ff 01" // a length of 2^63-1
	type none struct{}
	for name, in := range map[string]struct {
		decode func([]byte) error
		b      string
		want   string
	}{
		"string":         {decoder[string](t, `"string"`), huge, "a length of 9223372036854775807, and 0 bytes are left"},
		"negative":       {decoder[string](t, `"string"`), "01", "a length of -1"},
		"bytes":          {decoder[[]byte](t, `"bytes"`), "80 80 80 80 08", "a length of 1073741824"},
		"array":          {decoder[[]int64](t, `{"type":"array","items":"long"}`), huge, "a block of"},
		"array of bools": {decoder[[]bool](t, `{"type":"array","items":"boolean"}`), "08 01 01 00", "a block of 4 items, and 3 bytes are left"},
		"block size":     {decoder[[]int64](t, `{"type":"array","items":"long"}`), "01 7e 02 00", "a block of 63 bytes, and 2 are left"},
		"negative size":  {decoder[[]int64](t, `{"type":"array","items":"long"}`), "01 01 02 00", "a block of -1 bytes"},
		"wrong size":     {decoder[[]int64](t, `{"type":"array","items":"long"}`), "01 04 02 02 00", "a block ends at byte 3 and said 4"},
		"least count":    {decoder[[]int64](t, `{"type":"array","items":"long"}`), "ff ff ff ff ff ff ff ff ff 01 00", "a block of 9223372036854775808 items"},
		"nulls":          {decoder[[]struct{}](t, `{"type":"array","items":"null"}`), "80 80 80 80 08 00", "takes more memory than the limit"},
		"many nulls":     {decoder[[]struct{}](t, `{"type":"array","items":"null"}`), huge, "a block of"},
		"skipped nulls":  {decoder[none](t, rec("r"), avro.WrittenBy(rec("r", `{"name":"a","type":{"type":"array","items":"null"}}`))), "80 80 80 80 08 00", "takes more memory"},
		"empty records":  {decoder[[]none](t, `{"type":"array","items":`+rec("r")+`}`), "80 80 80 80 08 00", "takes more memory"},
		"large items":    {decoder[[]*[4096]byte](t, `{"type":"array","items":["null",{"type":"fixed","name":"f","size":4096}]}`), "80 80 80 80 08 00", "a block of 1073741824 items"},
		"map":            {decoder[map[string]int64](t, `{"type":"map","values":"long"}`), huge, "a block of"},
		"key twice":      {decoder[map[string]int64](t, `{"type":"map","values":"long"}`), "04 02 61 02 02 61 02 00", "comes twice"},
		"enum":           {decoder[string](t, `{"type":"enum","name":"E","symbols":["A"]}`), "02", "symbol 1 of 1"},
		"negative enum":  {decoder[string](t, `{"type":"enum","name":"E","symbols":["A"]}`), "01", "symbol -1 of 1"},
		"union":          {decoder[*string](t, `["null","string"]`), huge, "branch 9223372036854775807 of 2"},
		"boolean":        {decoder[bool](t, `"boolean"`), "02", "0x02 is no boolean"},
		"int":            {decoder[int64](t, `"int"`), "80 80 80 80 10", "2147483648 is no int"},
		"long of 70 bit": {decoder[int64](t, `"long"`), "ff ff ff ff ff ff ff ff ff 7f", "longer than 64 bits"},
		"endless long":   {decoder[int64](t, `"long"`), strings.Repeat("ff", 11), "longer than 64 bits"},
		"cut long":       {decoder[int64](t, `"long"`), "ff ff", "ends too early"},
		"time of day":    {decoder[time.Duration](t, `{"type":"int","logicalType":"time-millis"}`), "01", "no time-millis"},
		"no decimal":     {decoder[*big.Rat](t, `{"type":"bytes","logicalType":"decimal","precision":2}`), "00", "a decimal of no bytes"},
		"large decimal":  {decoder[*big.Rat](t, `{"type":"bytes","logicalType":"decimal","precision":2}`), "02 64", "more digits than"},
		"trailing":       {decoder[int64](t, `"long"`), "02 00", "decode 2 bytes: at byte 1: the value has ended"},
		"nothing":        {decoder[int64](t, `"long"`), "", "decode 0 bytes: at byte 0: the value ends too early"},
		"float":          {decoder[float32](t, `"float"`), "00 00 00", "ends too early"},
		"double":         {decoder[float64](t, `"double"`), "00 00 00", "ends too early"},
		"deep list":      {decoder[list](t, listSchema), strings.Repeat("00 02", 1000), "nested deeper than the limit"},
		"deep tree":      {decoder[nest](t, nestSchema), strings.Repeat("02", 1_000_000), "nested deeper than the limit"},
		"deep skip":      {decoder[none](t, rec("r"), avro.WrittenBy(rec("r", `{"name":"a","type":`+nestSchema+`}`))), strings.Repeat("02", 1_000_000), "nested deeper"},
		"long key":       {decoder[map[string]bool](t, `{"type":"map","values":"boolean"}`), "02 c8 01" + strings.Repeat("61", 100) + "02 00", "byte 104: " + strings.Repeat("a", 64) + "…: 0x02"},
		"place":          {decoder[[]test](t, `{"type":"array","items":`+testSchema+`}`), "04 02 00 02 05", "at byte 5: 1.b: a length of -3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := unhex(t, in.b)
			if err := in.decode(b); err == nil || !strings.Contains(err.Error(), in.want) {
				t.Errorf("%v; want an error with %q", err, in.want)
			}
		})
	}
}

type nest struct{ In []nest }

const nestSchema = `{"type":"record","name":"nest","fields":[{"name":"In","type":{"type":"array","items":"nest"}}]}`

func decoder[T any](t *testing.T, schema string, opts ...avro.Option) func([]byte) error {
	t.Helper()
	s := must[T](t, schema, opts...)
	return func(b []byte) error {
		_, err := s.Decode(b)
		return err
	}
}

// Blocks with and without a size, and several of them, are one array.
func TestBlocks(t *testing.T) {
	t.Parallel()
	s := must[[]int64](t, `{"type":"array","items":"long"}`)
	m := must[map[string]int64](t, `{"type":"map","values":"long"}`)
	skip := must[struct{ B int32 }](t, rec("r", `{"name":"B","type":"int"}`),
		avro.WrittenBy(rec("r", `{"name":"A","type":{"type":"array","items":"long"}}`, `{"name":"B","type":"int"}`)))
	for _, in := range []string{"06 02 04 06 00", "01 02 02 04 04 06 00", "02 02 03 04 04 06 00", "05 06 02 04 06 00"} {
		b := unhex(t, in)
		if got, err := s.Decode(b); err != nil || !cmp.Equal(got, []int64{1, 2, 3}) {
			t.Errorf("Decode(%s) = %v, %v; want 1, 2, 3", in, got, err)
		}
		if got, err := skip.Decode(append(b, 8)); err != nil || got.B != 4 {
			t.Errorf("behind %s stands %v, %v; want 4", in, got, err)
		}
	}
	for _, in := range []string{"01 08 02 61 02 00", "01 04 02 61 02 00", "02 02 61 02 01 08 02 62 04 00"} { // sizes that are too large or too small
		if got, err := m.Decode(unhex(t, in)); err == nil {
			t.Errorf("Decode(%s) = %v", in, got)
		}
	}
	if got, err := m.Decode(unhex(t, "02 02 61 02 01 06 02 62 04 00")); err != nil || !cmp.Equal(got, map[string]int64{"a": 1, "b": 2}) {
		t.Errorf("Decode = %v, %v; want both blocks", got, err)
	}
}

// What a call leaves behind in the memory that the next one works in is not seen, and a value is not changed through the bytes it came from.
func TestNothingIsShared(t *testing.T) {
	t.Parallel()
	s := must[all](t, allSchema)
	full, err := s.Append(nil, sample())
	if err != nil {
		t.Fatal(err)
	}
	bare := all{
		Suit: "SPADES", Bytes: []byte{}, Longs: []int64{}, Map: map[string]string{}, Maps: []map[string][]int32{}, Records: []test{},
		Date: time.Unix(0, 0).UTC(), Millis: time.UnixMilli(0).UTC(), Micros: time.UnixMicro(0).UTC(), Decimal: new(big.Rat), Fixed: new(big.Rat),
	}
	empty, err := s.Append(nil, bare)
	if err != nil {
		t.Fatal(err)
	}
	for i := range full { // most of them fail halfway
		v, err := s.Decode(full[:len(full)-i])
		if diff := cmp.Diff(all{}, v, compareRats); err != nil && diff != "" {
			t.Fatalf("an error comes with a value:\n%s", diff)
		}
		got, err := s.Decode(empty)
		if diff := cmp.Diff(bare, got, compareRats); err != nil || diff != "" {
			t.Fatalf("after %d bytes less: %v, -want +got:\n%s", i, err, diff)
		}
	}
	v, err := s.Decode(full)
	if err != nil {
		t.Fatal(err)
	}
	clear(full)
	if diff := cmp.Diff(sample(), v, compareRats); diff != "" {
		t.Errorf("the value has changed with its bytes, -want +got:\n%s", diff)
	}
}

// A reader lets MaxSize bytes be allocated, and what it is made of.
func TestMaxSize(t *testing.T) {
	t.Parallel()
	items := `{"type":"array","items":["null","long"]}`
	b, err := must[[]*int64](t, items).Append(nil, make([]*int64, 1000))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := must[[]*int64](t, items, avro.MaxSize(8000)).Decode(b); err != nil {
		t.Errorf("1000 pointers of 8 bytes: %v", err)
	}
	if _, err := must[[]*int64](t, items, avro.MaxSize(7999)).Decode(b); err == nil {
		t.Error("1000 pointers of 8 bytes fit into 7999")
	}
}

func TestMaxDepth(t *testing.T) {
	t.Parallel()
	deep := list{Value: 1, Next: &list{Value: 2, Next: &list{Value: 3}}}
	b, err := must[list](t, listSchema, avro.MaxDepth(3)).Append(nil, deep)
	if err != nil {
		t.Fatal(err)
	}
	s := must[list](t, listSchema, avro.MaxDepth(2))
	if _, err := s.Decode(b); err == nil {
		t.Error("Decode goes 3 deep where 2 is the limit")
	}
	if _, err := s.Append(nil, deep); err == nil {
		t.Error("Append goes 3 deep where 2 is the limit")
	}
}

// FuzzDecode: any bytes get a value or an error, at bounded cost. What is taken is stable from the first encoding on, and goavro takes it too.
func FuzzDecode(f *testing.F) {
	const limit = 1 << 16
	s := must[all](f, allSchema, avro.MaxSize(limit), avro.MaxDepth(32))
	skip := must[struct{ End string }](f, rec("all", `{"name":"End","type":"string"}`), avro.WrittenBy(allSchema), avro.MaxSize(limit), avro.MaxDepth(32))
	peer := newPeer(f, s.Schema())
	b, err := s.Append(nil, sample())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte{})
	f.Add(bytes.Replace(b, []byte{4, 2, 1, 0}, []byte{3, 4, 2, 1, 0}, 1)) // a block with its size
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		var from, to runtime.MemStats
		runtime.ReadMemStats(&from)
		v, err := s.Decode(b)
		runtime.ReadMemStats(&to)
		if got, most := to.TotalAlloc-from.TotalAlloc, uint64(8*limit+1<<20); got > most {
			t.Fatalf("Decode of %d bytes allocated %d, limit %d", len(b), got, limit)
		}
		if !bytes.Equal(b, before) {
			t.Fatalf("Decode changed %x to %x", before, b)
		}
		short, skipErr := skip.Decode(b)
		if err != nil {
			return
		}
		if skipErr == nil && short.End != v.End {
			t.Fatalf("End is %q, and %q behind what is skipped", v.End, short.End)
		}
		first, err := s.Append(nil, v)
		if err != nil {
			t.Fatalf("%x decodes to %v, which does not encode: %v", b, v, err)
		}
		again, err := s.Decode(first)
		if err != nil {
			t.Fatalf("Decode(%x): %v", first, err)
		}
		second, err := s.Append(nil, again)
		if err != nil || !bytes.Equal(first, second) {
			t.Fatalf("%x becomes %x and then %x, %v", b, first, second, err)
		}
		theirs, err := s.Decode(peer.again(t, b))
		if diff := cmp.Diff(v, theirs, compareRats, cmpopts.EquateNaNs()); err != nil || diff != "" {
			t.Fatalf("goavro takes %x for something else: %v\n%s", b, err, diff)
		}
	})
}

// FuzzSchema: any text is a schema or an error.
func FuzzSchema(f *testing.F) {
	for _, s := range []string{allSchema, listSchema, choiceSchema, `"int"`, `{"type":{"type":"int"}}`, `[]`, `{"type":"fixed","size":1e400,"name":"x"}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, schema string) {
		s := avro.Of[all](schema)
		if s.Err() == nil && s.Schema() == "" {
			t.Fatalf("%q is taken and has no canonical form", schema)
		}
	})
}
