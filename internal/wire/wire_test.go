package wire

import (
	"bufio"
	"encoding/hex"
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The values whose bytes testdata/format1.txt and format2.txt keep. Neither may ever change: the bytes are in people's brokers.
var (
	commits = map[string]Commit{
		"commit-empty": {},
		"commit-fresh": {
			TransactionalID: "flights-a1-0", Sequence: 1,
			Source: SourceClock{MaxTime: math.MinInt64, Watermark: math.MinInt64},
		},
		"commit-outside": {
			TransactionalID: "flights-a1-0", Sequence: 300,
			Source:    SourceClock{MaxTime: 1_357_002_000_000, Watermark: 1_357_001_100_000},
			Operators: []OperatorClock{{Name: "delay-stats", Values: []int64{1_357_001_100_000, math.MinInt64, -1}}, {Name: "none"}},
		},
		"commit-repartition": {
			TransactionalID: "flights-a1-1", Sequence: math.MaxUint64,
			Source: SourceClock{
				MaxTime: math.MinInt64, Watermark: math.MinInt64, Producers: 4,
				Channels: []Channel{{0, 1_357_001_100_000, Active}, {1, 1_357_001_100_500, Active}, {3, math.MinInt64, Active}},
			},
		},
	}
	// Those that format 1 cannot say.
	commits2 = map[string]Commit{
		"commit-idle": {
			TransactionalID: "flights-a1-0", Sequence: 301,
			Source: SourceClock{
				MaxTime: 1_357_002_000_000, Watermark: 1_357_001_100_000, Ahead: 3_900_000, Idle: true,
				Generator: []int64{7, math.MinInt64, -1},
			},
		},
		"commit-never-held": {
			TransactionalID: "flights-a1-0", Sequence: 2,
			Source: SourceClock{MaxTime: math.MinInt64, Watermark: math.MinInt64, Idle: true},
		},
		"commit-channels": {
			TransactionalID: "flights-a1-1", Sequence: 12,
			Source: SourceClock{
				MaxTime: math.MinInt64, Watermark: 1_357_001_100_000, Producers: 300,
				Channels: []Channel{{0, 1_357_001_100_000, Active}, {1, math.MinInt64, Idle}, {299, math.MaxInt64, End}},
			},
		},
	}
	reports = map[string]Report{
		"report-active": {SubTopology: 0, Producer: 3, Producers: 4, Watermark: 1_357_001_100_000},
		"report-idle":   {SubTopology: 2, Producer: 0, Producers: 1, Watermark: math.MinInt64, State: Idle},
		"report-end":    {SubTopology: 200, Producer: 999, Producers: 1000, Watermark: math.MaxInt64, State: End},
	}
	members = map[string]Member{
		"member":       {Instance: "a1b2c3", Worker: 2, Topology: 0x0123456789abcdef},
		"member-empty": {},
	}
	assignments = map[string]Assignment{
		"assignment":            {Topology: 0x0123456789abcdef},
		"assignment-unfinished": {Topology: 1, Unfinished: true},
	}
)

func golden(t *testing.T, file string) map[string][]byte {
	t.Helper()
	return goldenIn(t, "testdata/"+file)
}

func goldenIn(t *testing.T, file string) map[string][]byte {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := map[string][]byte{}
	for s := bufio.NewScanner(f); s.Scan(); {
		name, text, ok := strings.Cut(s.Text(), " ")
		if !ok || strings.HasPrefix(name, "#") {
			continue
		}
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[name] = b
	}
	return all
}

func checkGolden[T any](t *testing.T, all map[string][]byte, values map[string]T, enc func([]byte, T) []byte, dec func([]byte) (T, error)) {
	t.Helper()
	for name, v := range values {
		want, ok := all[name]
		if !ok {
			t.Errorf("%s is not in the file", name)
			if enc != nil {
				t.Errorf("its bytes are %x", enc(nil, v))
			}
			continue
		}
		delete(all, name)
		if enc != nil {
			if diff := cmp.Diff(hex.EncodeToString(want), hex.EncodeToString(enc(nil, v))); diff != "" {
				t.Errorf("%s: bytes (-golden +now):\n%s", name, diff)
			}
		}
		got, err := dec(want)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if diff := cmp.Diff(v, got); diff != "" {
			t.Errorf("%s: value (-want +decoded):\n%s", name, diff)
		}
	}
}

func TestFormat1KeepsItsBytes(t *testing.T) {
	t.Parallel()
	all := golden(t, "format1.txt")
	checkGolden(t, all, commits, nil, DecodeCommitBytes) // it is only read: an application that is upgraded finds its clocks
	checkGolden(t, all, reports, AppendReport, DecodeReport)
	checkGolden(t, all, members, AppendMember, DecodeMember)
	checkGolden(t, all, assignments, AppendAssignment, DecodeAssignment)
	for name := range all {
		t.Errorf("%s is in the file, but no value has that name", name)
	}
}

func TestFormat2KeepsItsBytes(t *testing.T) {
	t.Parallel()
	all := golden(t, "format2.txt")
	checkGolden(t, all, commits, AppendCommit, DecodeCommitBytes)
	checkGolden(t, all, commits2, AppendCommit, DecodeCommitBytes)
	for name := range all {
		t.Errorf("%s is in the file, but no value has that name", name)
	}
}

// Whatever is encoded comes back, behind whatever was in dst before.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	i64 := rapid.OneOf(rapid.Int64(), rapid.Just(int64(math.MinInt64)), rapid.Just(int64(math.MaxInt64)))
	i31 := rapid.Int32Range(0, math.MaxInt32)
	rapid.Check(t, func(t *rapid.T) {
		c := Commit{
			TransactionalID: rapid.String().Draw(t, "id"),
			Sequence:        rapid.Uint64().Draw(t, "sequence"),
			Source: SourceClock{
				MaxTime: i64.Draw(t, "max"), Watermark: i64.Draw(t, "watermark"),
				Idle:      rapid.Bool().Draw(t, "idle"),
				Producers: rapid.Int32Range(0, 20).Draw(t, "producers"),
			},
		}
		if told := i64.Draw(t, "told"); told > c.Source.Watermark {
			c.Source.Ahead = uint64(told) - uint64(c.Source.Watermark)
			if c.Source.Told() != told {
				t.Fatalf("%d ahead of %d is %d, want %d", c.Source.Ahead, c.Source.Watermark, c.Source.Told(), told)
			}
		}
		for range rapid.IntRange(0, 3).Draw(t, "generator") {
			c.Source.Generator = append(c.Source.Generator, i64.Draw(t, "value"))
		}
		for p := range c.Source.Producers {
			if rapid.Bool().Draw(t, "reported") {
				c.Source.Channels = append(c.Source.Channels, Channel{p, i64.Draw(t, "channel"), ReportState(rapid.IntRange(0, 2).Draw(t, "state"))})
			}
		}
		for range rapid.IntRange(0, 3).Draw(t, "operators") {
			op := OperatorClock{Name: rapid.String().Draw(t, "name")}
			for range rapid.IntRange(0, 3).Draw(t, "values") {
				op.Values = append(op.Values, i64.Draw(t, "value"))
			}
			c.Operators = append(c.Operators, op)
		}
		text := EncodeCommit(c)
		got, ours, err := DecodeCommit(text)
		if err != nil || !ours {
			t.Fatalf("DecodeCommit(%q): ours %t, %v", text, ours, err)
		}
		if diff := cmp.Diff(c, got); diff != "" {
			t.Fatal(diff)
		}

		producers := rapid.Int32Range(1, math.MaxInt32).Draw(t, "n")
		rep := Report{
			SubTopology: i31.Draw(t, "sub"), Producers: producers, Producer: rapid.Int32Range(0, producers-1).Draw(t, "producer"),
			Watermark: i64.Draw(t, "w"), State: ReportState(rapid.IntRange(0, 2).Draw(t, "state")),
		}
		gotRep, err := DecodeReport(AppendReport([]byte("before"), rep)[len("before"):])
		if err != nil || gotRep != rep {
			t.Fatalf("got %+v, %v, want %+v", gotRep, err, rep)
		}

		m := Member{Instance: rapid.String().Draw(t, "instance"), Worker: i31.Draw(t, "worker"), Topology: rapid.Uint64().Draw(t, "topology")}
		gotM, err := DecodeMember(AppendMember(nil, m))
		if err != nil || gotM != m {
			t.Fatalf("got %+v, %v, want %+v", gotM, err, m)
		}

		a := Assignment{Topology: rapid.Uint64().Draw(t, "topology"), Unfinished: rapid.Bool().Draw(t, "unfinished")}
		gotA, err := DecodeAssignment(AppendAssignment(nil, a))
		if err != nil || gotA != a {
			t.Fatalf("got %+v, %v, want %+v", gotA, err, a)
		}
	})
}

func TestForeignMetadataIsNotOurs(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "headrace-3-6e1c", "hr", "hr2:AQ", "aHIxOg"} {
		if c, ours, err := DecodeCommit(text); ours || err != nil || !cmp.Equal(c, Commit{}) {
			t.Errorf("DecodeCommit(%q) = %+v, %t, %v; want nothing", text, c, ours, err)
		}
	}
}

func TestUnknownFormatSaysWhatIsKnown(t *testing.T) {
	t.Parallel()
	_, ours, errCommit := DecodeCommit("hr1:Aw")
	if !ours {
		t.Error("metadata with our prefix is not ours")
	}
	_, errReport := DecodeReport([]byte{2, 0, 0, 0, 1, 0})
	_, errMember := DecodeMember([]byte{2})
	_, errAssignment := DecodeAssignment([]byte{2})
	if !errors.Is(errCommit, ErrFormat) || !strings.Contains(errCommit.Error(), "format 3: this program knows format 1 and 2 only") {
		t.Errorf("got %v", errCommit)
	}
	for _, err := range []error{errReport, errMember, errAssignment} {
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "format 2: this program knows format 1") {
			t.Errorf("got %v", err)
		}
	}
}

// Each of these differs from good bytes in one thing.
func TestCorruptBytesAreRefused(t *testing.T) {
	t.Parallel()
	good := AppendCommit(nil, commits["commit-outside"])
	bad := map[string][]byte{
		"nothing":  nil,
		"trailing": append(append([]byte{}, good...), 0),
		// id "", sequence 0, MaxTime, Watermark, producers, count, …
		"huge count of channels":  {1, 0, 0, 0, 0, 9, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1},
		"huge id":                 {1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1},
		"same producer twice":     {1, 0, 0, 0, 0, 9, 2, 3, 1, 0, 1, 0},
		"producer too large":      {1, 0, 0, 0, 0, 9, 1, 9, 1, 0},
		"producers do not fit":    {1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0, 0},
		"huge count of operators": {1, 0, 0, 0, 0, 0, 0, 0x7f},
		"huge count of values":    {1, 0, 0, 0, 0, 0, 0, 1, 0, 0x7f},
		"flags":                   {2, 0, 0, 8, 0, 0, 0, 0, 0},
		"not ahead":               {2, 0, 0, 2, 0, 0, 0, 0, 0, 0},
		"ahead of all time":       {2, 0, 0, 2, 0, 3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0},
		"generator of nothing":    {2, 0, 0, 4, 0, 0, 0, 0, 0, 0},
		"channel state":           {2, 0, 0, 0, 0, 0, 9, 1, 3, 0, 0},
		"channel far away":        {2, 0, 0, 0, 0, 0, 9, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0, 0},
		"number of 11 bytes":      {1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, 0, 0},
	}
	for i := range good {
		bad["cut at "+string(rune('0'+i))] = good[:i]
	}
	for name, b := range bad {
		if c, err := DecodeCommitBytes(b); !errors.Is(err, ErrCorrupt) || !cmp.Equal(c, Commit{}) {
			t.Errorf("%s: got %+v, %v", name, c, err)
		}
	}
	if _, _, err := DecodeCommit("hr1:!"); !errors.Is(err, ErrCorrupt) {
		t.Errorf("text that is not base64: %v", err)
	}
	for name, b := range map[string][]byte{
		"state":    {1, 3, 0, 0, 1, 0},
		"producer": {1, 0, 0, 1, 1, 0},
		"cut":      {1, 0, 0, 0, 1},
		"trailing": {1, 0, 0, 0, 1, 0, 0},
	} {
		if _, err := DecodeReport(b); !errors.Is(err, ErrCorrupt) {
			t.Errorf("report, %s: %v", name, err)
		}
	}
	if _, err := DecodeMember([]byte{1, 0, 0, 1, 2, 3, 4, 5, 6, 7}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("member cut: %v", err)
	}
	for _, b := range [][]byte{nil, {1, 1, 2, 3, 4, 5, 6, 7, 8}, {1, 1, 2, 3, 4, 5, 6, 7, 8, 2}, {1, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0}} {
		if _, err := DecodeAssignment(b); !errors.Is(err, ErrCorrupt) {
			t.Errorf("assignment %x: %v", b, err)
		}
	}
}

// The clock of a task that 128 others feed has to fit in an offset's metadata with room for operators.
func TestCommitIsSmall(t *testing.T) {
	t.Parallel()
	c := Commit{TransactionalID: "flights-6e1c0d2f-3", Sequence: 1 << 40, Source: SourceClock{Producers: 128}}
	for p := range int32(128) {
		c.Source.Channels = append(c.Source.Channels, Channel{p, 1_357_001_100_000 + int64(p%7)*60_000, ReportState(p % 2)})
	}
	if n := len(EncodeCommit(c)); n > MaxMetadata/3 {
		t.Errorf("%d bytes, want at most %d", n, MaxMetadata/3)
	}
}

func TestReportsDoNotAllocate(t *testing.T) {
	buf := make([]byte, 0, 64)
	rep := reports["report-active"]
	if n := testing.AllocsPerRun(100, func() {
		buf = AppendReport(buf[:0], rep)
		if got, err := DecodeReport(buf); err != nil || got != rep {
			t.Fatal(got, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzDecode(f *testing.F) {
	for _, all := range []map[string]Commit{commits, commits2} {
		for _, c := range all {
			f.Add(AppendCommit(nil, c))
		}
	}
	f.Add([]byte{1, 0, 0, 0, 0, 9, 2, 3, 1, 1, 1, 0})
	for _, r := range reports {
		f.Add(AppendReport(nil, r))
	}
	for _, m := range members {
		f.Add(AppendMember(nil, m))
	}
	for _, a := range assignments {
		f.Add(AppendAssignment(nil, a))
	}
	// What decodes at all means the same after another round.
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := DecodeCommitBytes(b); err == nil {
			again, ours, err := DecodeCommit(EncodeCommit(c))
			if !ours || err != nil || !cmp.Equal(c, again) {
				t.Errorf("commit %+v came back as %+v, %v", c, again, err)
			}
		}
		if r, err := DecodeReport(b); err == nil {
			if again, err := DecodeReport(AppendReport(nil, r)); err != nil || r != again {
				t.Errorf("report %+v came back as %+v, %v", r, again, err)
			}
		}
		if a, err := DecodeAssignment(b); err == nil {
			if again, err := DecodeAssignment(AppendAssignment(nil, a)); err != nil || a != again {
				t.Errorf("assignment %+v came back as %+v, %v", a, again, err)
			}
		}
		if m, err := DecodeMember(b); err == nil {
			if again, err := DecodeMember(AppendMember(nil, m)); err != nil || m != again {
				t.Errorf("member %+v came back as %+v, %v", m, again, err)
			}
		}
		if _, _, err := DecodeCommit(string(b)); err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrFormat) {
			t.Error(err)
		}
	})
}
