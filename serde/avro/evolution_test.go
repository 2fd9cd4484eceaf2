package avro_test

import (
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/serde/avro"
)

// evolve writes in by one schema and reads it as another; want is what comes out.
func evolve[W, R any](writer string, in W, reader string, want R) func(t *testing.T) {
	return func(t *testing.T) {
		t.Helper()
		b, err := must[W](t, writer).Append(nil, in)
		if err != nil {
			t.Fatal(err)
		}
		got, err := must[R](t, reader, avro.WrittenBy(writer)).Decode(b)
		if diff := cmp.Diff(want, got, compareRats); err != nil || diff != "" {
			t.Errorf("Decode(%x): %v, -want +got:\n%s", b, err, diff)
		}
	}
}

// evolveNot wants an error when the serde is made (in is nil), or when in is decoded.
func evolveNot[R, W any](writer string, in *W, reader, want string) func(t *testing.T) {
	return func(t *testing.T) {
		t.Helper()
		s, err := avro.New[R](reader, avro.WrittenBy(writer))
		if in != nil {
			if err != nil {
				t.Fatalf("New: %v; only values that cannot be read should be refused", err)
			}
			b, err2 := must[W](t, writer).Append(nil, *in)
			if err2 != nil {
				t.Fatal(err2)
			}
			_, err = s.Decode(b)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want an error with %q", err, want)
		}
	}
}

func none() *string { return nil }

func rec(name string, fields ...string) string {
	return `{"type":"record","name":"` + name + `","fields":[` + strings.Join(fields, ",") + `]}`
}

func TestEvolution(t *testing.T) {
	t.Parallel()
	type ab = struct{ A, B int32 }
	type ba = struct{ B, A int32 }
	type a = struct{ A int32 }
	type c = struct{ C int32 }
	type inner struct {
		X int32
		Y []string
	}
	type defaults struct {
		A  int32
		Z  struct{}
		Bo bool
		I  int32
		L  int64
		F  float32
		D  float64
		By []byte
		S  string
		E  string
		Fx [2]byte
		Ar []int32
		Ma map[string]string
		R  inner
		U  *string
		V  *string
		T  time.Time
		De *big.Rat
	}
	fa, fb := `{"name":"A","type":"int"}`, `{"name":"B","type":"int"}`
	defaulted := rec("r", fa,
		`{"name":"Z","type":"null","default":null}`, `{"name":"Bo","type":"boolean","default":true}`,
		`{"name":"I","type":"int","default":-5}`, `{"name":"L","type":"long","default":9223372036854775807}`,
		`{"name":"F","type":"float","default":1}`, `{"name":"D","type":"double","default":1.25}`,
		`{"name":"By","type":"bytes","default":"\u00ff\u0001"}`, `{"name":"S","type":"string","default":"é"}`,
		`{"name":"E","type":{"type":"enum","name":"E","symbols":["P","Q"]},"default":"Q"}`,
		`{"name":"Fx","type":{"type":"fixed","name":"Fx","size":2},"default":"\u0001\u0002"}`,
		`{"name":"Ar","type":{"type":"array","items":"int"},"default":[1,2]}`,
		`{"name":"Ma","type":{"type":"map","values":"string"},"default":{"k":"v","l":"w"}}`,
		`{"name":"R","type":`+rec("inner", `{"name":"X","type":"int","default":7}`, `{"name":"Y","type":{"type":"array","items":"string"}}`)+`,"default":{"Y":["y"]}}`,
		`{"name":"U","type":["null","string"],"default":null}`, `{"name":"V","type":["null","string"],"default":"later branch"}`,
		`{"name":"T","type":{"type":"long","logicalType":"timestamp-millis"},"default":1}`,
		`{"name":"De","type":{"type":"bytes","logicalType":"decimal","precision":3,"scale":1},"default":"\u000f"}`)

	for name, f := range map[string]func(*testing.T){
		"same":             evolve(rec("r", fa, fb), ab{1, 2}, rec("r", fa, fb), ab{1, 2}),
		"order":            evolve(rec("r", fa, fb), ab{1, 2}, rec("r", fb, fa), ba{2, 1}),
		"field gone":       evolve(rec("r", fa, fb), ab{1, 2}, rec("r", fb), struct{ B int32 }{2}),
		"field new":        evolve(rec("r", fa), a{1}, rec("r", fa, `{"name":"B","type":"int","default":9}`), ab{1, 9}),
		"no default":       evolveNot[ab](rec("r", fa), none(), rec("r", fa, fb), `written without field "B", which has no default`),
		"every default":    evolve(rec("r", fa), a{1}, defaulted, defaults{1, struct{}{}, true, -5, 1<<63 - 1, 1, 1.25, []byte{0xff, 1}, "é", "Q", [2]byte{1, 2}, []int32{1, 2}, map[string]string{"k": "v", "l": "w"}, inner{7, []string{"y"}}, nil, ptr("later branch"), time.UnixMilli(1).UTC(), big.NewRat(15, 10)}),
		"field alias":      evolve(rec("r", fa), a{1}, rec("r", `{"name":"C","type":"int","aliases":["X","A"]}`), c{1}),
		"name over alias":  evolve(rec("r", fa, fb), ab{1, 2}, rec("r", `{"name":"A","type":"int"}`, `{"name":"C","type":"int","aliases":["A","B"]}`), struct{ A, C int32 }{1, 2}),
		"alias is a name":  evolve(rec("r", fa, fb), ab{1, 2}, rec("r", `{"name":"C","type":"int","aliases":["A","B"]}`, fa), struct{ C, A int32 }{2, 1}),
		"record name":      evolveNot[a](rec("r", fa), none(), rec("s", fa), `written as record r, which is not record s; give that the alias "r"`),
		"short name":       evolve(rec("x.r", fa), a{1}, rec("y.r", fa), a{1}),
		"record alias":     evolve(rec("x.r", fa), a{1}, `{"type":"record","name":"x.s","aliases":["r"],"fields":[`+fa+`]}`, a{1}),
		"int as long":      evolve(`"int"`, -3, `"long"`, int64(-3)),
		"int as float":     evolve(`"int"`, -3, `"float"`, float32(-3)),
		"int as double":    evolve(`"int"`, -3, `"double"`, -3.0),
		"long as float":    evolve(`"long"`, int64(1<<24+1), `"float"`, float32(1<<24)),
		"long as double":   evolve(`"long"`, int64(1<<53+1), `"double"`, float64(1<<53)),
		"float as double":  evolve(`"float"`, float32(1.5), `"double"`, 1.5),
		"string as bytes":  evolve(`"string"`, "é", `"bytes"`, []byte("é")),
		"bytes as string":  evolve(`"bytes"`, []byte{0xff}, `"string"`, "\xff"),
		"long as int":      evolveNot[int32](`"long"`, none(), `"int"`, "written as long, which cannot be read as int"),
		"double as float":  evolveNot[float32](`"double"`, none(), `"float"`, "written as double, which cannot be read as float"),
		"float as long":    evolveNot[int64](`"float"`, none(), `"long"`, "written as float"),
		"int as string":    evolveNot[string](`"int"`, none(), `"string"`, "written as int"),
		"int as boolean":   evolveNot[bool](`"int"`, none(), `"boolean"`, "written as int"),
		"string as enum":   evolveNot[string](`"string"`, none(), `{"type":"enum","name":"E","symbols":["A"]}`, "written as string"),
		"bytes as fixed":   evolveNot[[1]byte](`"bytes"`, none(), `{"type":"fixed","name":"F","size":1}`, "written as bytes"),
		"fixed size":       evolveNot[[2]byte](`{"type":"fixed","name":"F","size":1}`, none(), `{"type":"fixed","name":"F","size":2}`, "written as fixed F of 1 bytes"),
		"fixed alias":      evolve(`{"type":"fixed","name":"F","size":1}`, [1]byte{7}, `{"type":"fixed","name":"G","aliases":["F"],"size":1}`, []byte{7}),
		"array items":      evolve(`{"type":"array","items":"int"}`, []int32{1, 2}, `{"type":"array","items":"double"}`, []float64{1, 2}),
		"map values":       evolve(`{"type":"map","values":"int"}`, map[string]int32{"a": 1}, `{"type":"map","values":["null","long"]}`, map[string]*int64{"a": ptr(int64(1))}),
		"array as map":     evolveNot[map[string]int](`{"type":"array","items":"int"}`, none(), `{"type":"map","values":"int"}`, "written as array of int"),
		"symbols":          evolve(`{"type":"enum","name":"E","symbols":["A","B"]}`, "B", `{"type":"enum","name":"E","symbols":["C","B","A"]}`, "B"),
		"symbol default":   evolve(`{"type":"enum","name":"E","symbols":["A","B"]}`, "B", `{"type":"enum","name":"E","symbols":["C","A"],"default":"C"}`, "C"),
		"symbol unknown":   evolveNot[string](`{"type":"enum","name":"E","symbols":["A","B"]}`, ptr("B"), `{"type":"enum","name":"E","symbols":["A"]}`, `"B" is no symbol of enum E, which has no default`),
		"enum name":        evolveNot[string](`{"type":"enum","name":"E","symbols":["A"]}`, none(), `{"type":"enum","name":"F","symbols":["A"]}`, "alias"),
		"widened to null":  evolve(`"string"`, "a", `["null","string"]`, ptr("a")),
		"union promotes":   evolve(`"int"`, 1, `["null","double"]`, ptr(1.0)),
		"first that fits":  evolve(`"int"`, 1, `["string","double","long"]`, numbers{Double: ptr(1.0)}),
		"same type first":  evolve(`"long"`, int64(1), `["string","double","long"]`, numbers{Long: ptr(int64(1))}),
		"narrowed":         evolve(`["null","int"]`, ptr(int32(1)), `"long"`, int64(1)),
		"narrowed null":    evolveNot[int64](`["null","int"]`, ptr((*int32)(nil)), `"long"`, "written as null, which cannot be read as long"),
		"narrowed all":     evolveNot[int64](`["null","string"]`, none(), `"long"`, "written as string"),
		"no branch":        evolveNot[*int64](`"string"`, none(), `["null","long"]`, "written as string, which cannot be read as union [null, long]"),
		"unions":           evolve(`["string","null"]`, ptr("a"), `["null","string"]`, ptr("a")),
		"null of unions":   evolve(`["string","null"]`, (*string)(nil), `["null","string"]`, (*string)(nil)),
		"union grows":      evolve(`["null","long"]`, ptr(int64(5)), `["null","string","double","long"]`, numbers{Long: ptr(int64(5))}),
		"recursive":        evolve(listSchema, list{1, &list{2, nil}}, strings.ReplaceAll(listSchema, `"int"`, `"long"`), list{1, &list{2, nil}}),
		"logical new":      evolve(`"long"`, 5, `{"type":"long","logicalType":"timestamp-millis"}`, time.UnixMilli(5).UTC()),
		"logical gone":     evolve(`{"type":"int","logicalType":"date"}`, 5, `"long"`, int64(5)),
		"other unit":       evolveNot[time.Time](`{"type":"long","logicalType":"timestamp-micros"}`, none(), `{"type":"long","logicalType":"timestamp-millis"}`, "written as long (timestamp-micros), which cannot be read as long (timestamp-millis)"),
		"other scale":      evolveNot[*big.Rat](`{"type":"bytes","logicalType":"decimal","precision":4,"scale":1}`, none(), `{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}`, "decimal 4,1"),
		"other precision":  evolveNot[*big.Rat](`{"type":"bytes","logicalType":"decimal","precision":4}`, none(), `{"type":"bytes","logicalType":"decimal","precision":5}`, "decimal 4,0"),
		"int range":        evolveNot[int8](`"int"`, ptr(int32(128)), `"long"`, "128 is too large for int8"),
		"negative as uint": evolveNot[uint8](`"int"`, ptr(int32(-1)), `"long"`, "-1 does not fit uint8"),
		"deep mistake": evolveNot[struct{ R a }](rec("o", `{"name":"R","type":`+rec("r", `{"name":"A","type":"string"}`)+`}`), none(),
			rec("o", `{"name":"R","type":`+rec("r", fa)+`}`), "WrittenBy: field R.A: written as string"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t)
		})
	}
}

type numbers struct {
	Text   *string  `avro:"string"`
	Double *float64 `avro:"double"`
	Long   *int64   `avro:"long"`
}

// Whatever the writer has and the reader has not is passed over.
func TestSkips(t *testing.T) {
	t.Parallel()
	type end struct{ End string }
	wide := must[all](t, allSchema)
	writer := strings.Replace(allSchema, `"name":"all"`, `"name":"end"`, 1)
	s := must[end](t, rec("end", `{"name":"End","type":"string"}`), avro.WrittenBy(writer))
	v := sample()
	v.End = "here"
	b, err := wide.Append(nil, v)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Decode(b); err != nil || got.End != "here" {
		t.Errorf("Decode: %q, %v; want what comes last", got.End, err)
	}
	for i := range b {
		if _, err := s.Decode(b[:i]); err == nil {
			t.Errorf("Decode took the first %d of %d bytes", i, len(b))
		}
	}
}

// A default belongs to the value that it is in.
func TestDefaultsAreNotShared(t *testing.T) {
	t.Parallel()
	s := must[struct{ A []int32 }](t, rec("r", `{"name":"A","type":{"type":"array","items":"int"},"default":[1]}`), avro.WrittenBy(rec("r")))
	first, err := s.Decode(nil)
	if err != nil {
		t.Fatal(err)
	}
	first.A[0] = 2
	if second, err := s.Decode(nil); err != nil || second.A[0] != 1 {
		t.Errorf("Decode: %v, %v; changed through another value", second, err)
	}
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	s := must[int64](t, `"long"`, avro.WrittenBy(`"int"`))
	if _, err := s.Append(nil, 1); err == nil || !strings.Contains(err.Error(), "only reads") {
		t.Errorf("Append: %v; want it refused, since Decode reads another schema", err)
	}
	same := must[int64](t, `"long"`, avro.WrittenBy(`{"type":"long"}`))
	if _, err := same.Append(nil, 1); err != nil {
		t.Errorf("Append: %v, and the schemas are the same", err)
	}
}

func TestSingleObject(t *testing.T) {
	t.Parallel()
	old := must[int32](t, `"int"`, avro.SingleObject())
	b, err := old.Append([]byte{9}, 3)
	if want := unhex(t, "09 c301 8f5c393f1ad57572 06"); err != nil || string(b) != string(want) {
		t.Fatalf("Append = %x, %v; want %x", b, err, want)
	}
	b = b[1:]
	s := must[float64](t, `"double"`, avro.SingleObject(), avro.WrittenBy(`"int"`), avro.WrittenBy(`"long"`))
	if v, err := s.Decode(b); err != nil || v != 3 {
		t.Errorf("Decode of an older writer's: %v, %v", v, err)
	}
	own, err := s.Append(nil, 1.5)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := s.Decode(own); err != nil || v != 1.5 {
		t.Errorf("Decode of its own: %v, %v", v, err)
	}
	for what, in := range map[string]struct{ b, want string }{
		"unknown writer": {"c301 0100000000000000 06", "fingerprint is 0000000000000001, which is none of 3 known"},
		"plain":          {"06", "no single object"},
		"header only":    {"c301 8f5c393f1ad57572", "at byte 10: the value ends too early"},
		"cut header":     {"c301 8f5c393f1ad575", "no single object"},
		"trailing":       {"c301 8f5c393f1ad57572 06 00", "at byte 11: the value has ended"},
	} {
		if _, err := s.Decode(unhex(t, in.b)); err == nil || !strings.Contains(err.Error(), in.want) {
			t.Errorf("%s: %v; want an error with %q", what, err, in.want)
		}
	}
}
