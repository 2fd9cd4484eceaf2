package changelog_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/changelog"
	"github.com/headrace/headrace/state"
)

var (
	totals  = state.Spec{Name: "totals", Kind: state.KeyValueKind}
	perHour = state.Spec{Name: "per-hour", Kind: state.WindowKind, Retention: 3_600_000}
	visits  = state.Spec{Name: "visits", Kind: state.SessionKind, Retention: 60_000}
	sliding = state.Spec{Name: "sliding", Kind: state.SlidingKind, Retention: 60_000}
	table   = state.Spec{Name: "airports", Kind: state.KeyValueKind, SourceTopic: "airports"}
)

// deletedAt is the time that the golden tombstones were written with.
const deletedAt = 1_700_000_000_042

type golden struct {
	name     string
	spec     state.Spec
	mutation state.Mutation
	record   changelog.Record
}

func readGolden(t testing.TB) []golden {
	t.Helper()
	data, err := os.ReadFile("testdata/records.tsv")
	if err != nil {
		t.Fatal(err)
	}
	var all []golden
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 7 {
			t.Fatalf("%d columns, want 7: %s", len(f), line)
		}
		unhex := func(s string) []byte {
			switch s {
			case "-":
				return nil
			case `""`:
				return []byte{}
			}
			b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
			if err != nil {
				t.Fatalf("%s: %v", f[0], err)
			}
			return b
		}
		g := golden{name: f[0], spec: map[string]state.Spec{"key-value": totals, "window": perHour, "session": visits, "sliding": sliding}[f[1]]}
		g.mutation = state.Mutation{Store: 3, Key: unhex(f[2]), Value: unhex(f[3])}
		g.record = changelog.Record{Key: unhex(f[4]), Value: unhex(f[5])}
		if g.record.Time, err = strconv.ParseInt(f[6], 10, 64); err != nil {
			t.Fatal(err)
		}
		all = append(all, g)
	}
	if len(all) < 8 {
		t.Fatalf("%d golden records, want 8 at least", len(all))
	}
	return all
}

func TestGolden(t *testing.T) {
	t.Parallel()
	for _, g := range readGolden(t) {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			r, dst, err := changelog.Encode([]byte("before"), g.spec, g.mutation, deletedAt)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(g.record, r); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
			if !bytes.HasPrefix(dst, []byte("before")) {
				t.Errorf("dst is %q, want it to go on from what it was", dst)
			}
			m, dst, err := changelog.Decode([]byte("before"), 3, g.spec, g.record)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(g.mutation, m); diff != "" {
				t.Errorf("mutation (-want +got):\n%s", diff)
			}
			if !bytes.HasPrefix(dst, []byte("before")) {
				t.Errorf("dst is %q, want it to go on from what it was", dst)
			}
		})
	}
}

// TestManyInOneBuffer: what was appended for one record stays as the buffer grows under the next ones.
func TestManyInOneBuffer(t *testing.T) {
	t.Parallel()
	all := readGolden(t)
	var dst []byte
	var records []changelog.Record
	var mutations []state.Mutation
	for range 50 {
		for _, g := range all {
			var r changelog.Record
			var m state.Mutation
			var err error
			if r, dst, err = changelog.Encode(dst, g.spec, g.mutation, deletedAt); err != nil {
				t.Fatal(err)
			}
			if m, dst, err = changelog.Decode(dst, 3, g.spec, g.record); err != nil {
				t.Fatal(err)
			}
			records, mutations = append(records, r), append(mutations, m)
			_ = append(r.Key, "grown"...) // must not reach into what comes next
			_ = append(m.Key, "grown"...)
			_ = append(m.Value, "grown"...)
		}
	}
	for i := range records {
		g := all[i%len(all)]
		if diff := cmp.Diff(g.record, records[i]); diff != "" {
			t.Fatalf("record %d (-want +got):\n%s", i, diff)
		}
		if diff := cmp.Diff(g.mutation, mutations[i]); diff != "" {
			t.Fatalf("mutation %d (-want +got):\n%s", i, diff)
		}
	}
}

func TestNilKeyBecomesEmpty(t *testing.T) {
	t.Parallel()
	r, _, err := changelog.Encode(nil, totals, state.Mutation{}, 1)
	if err != nil || r.Key == nil || len(r.Key) != 0 {
		t.Errorf("key %v, %v; want an empty one that is not null", r.Key, err)
	}
}

// TestSourceTopic: the user's records are read as they are, and never written.
func TestSourceTopic(t *testing.T) {
	t.Parallel()
	m, _, err := changelog.Decode(nil, 1, table, changelog.Record{Key: []byte("ZRH"), Value: []byte("Zürich"), Time: 5})
	want := state.Mutation{Store: 1, Key: []byte("ZRH"), Value: state.AppendValue(nil, 5, []byte("Zürich"))}
	if diff := cmp.Diff(want, m); diff != "" || err != nil {
		t.Errorf("%v, mutation (-want +got):\n%s", err, diff)
	}
	if _, _, err := changelog.Encode(nil, table, m, 1); err == nil || !strings.Contains(err.Error(), `topic "airports"`) {
		t.Errorf("encode for a table: %v, want an error that names the topic", err)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	noKind := state.Spec{Name: "strange"}
	encode := func(spec state.Spec, key, value []byte) error {
		_, dst, err := changelog.Encode([]byte("abc"), spec, state.Mutation{Key: key, Value: value}, 1)
		if string(dst) != "abc" {
			t.Errorf("after %v dst is %q", err, dst)
		}
		return err
	}
	decode := func(spec state.Spec, key []byte) error {
		_, dst, err := changelog.Decode([]byte("abc"), 0, spec, changelog.Record{Key: key, Value: []byte("v")})
		if string(dst) != "abc" {
			t.Errorf("after %v dst is %q", err, dst)
		}
		return err
	}
	for _, c := range []struct {
		name string
		err  error
		says []string
	}{
		{"encode short value", encode(totals, []byte("k"), make([]byte, 7)), []string{`"totals"`, "7 bytes"}},
		{"encode empty value", encode(totals, []byte("k"), []byte{}), []string{`"totals"`, "0 bytes"}},
		{"encode short window value", encode(perHour, make([]byte, 9), make([]byte, 7)), []string{`"per-hour"`, "7 bytes"}},
		{"encode short window key", encode(perHour, make([]byte, 7), nil), []string{`"per-hour"`, "7 bytes"}},
		{"encode unknown kind", encode(noKind, []byte("k"), nil), []string{`"strange"`, "kind(0)"}},
		{"decode short window key", decode(perHour, make([]byte, 11)), []string{`"per-hour"`, "11 bytes, want 12"}},
		{"decode sequence", decode(perHour, []byte("k\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x02")), []string{`"per-hour"`, "13 bytes", "258"}},
		{"encode short session key", encode(visits, make([]byte, 16), nil), []string{`"visits"`, "16 bytes"}},
		{"encode index of sessions", encode(visits, state.AppendSessionIndex(nil, 1, 2, nil), nil), []string{`"visits"`, "not those of a session"}},
		{"encode short session value", encode(visits, state.AppendSessionKey(nil, 1, 2, nil), make([]byte, 7)), []string{`"visits"`, "7 bytes"}},
		{"encode index of sliding windows", encode(sliding, state.AppendSlidingIndex(nil, 1, nil), nil), []string{`"sliding"`, "start of its window"}},
		{"decode short session key", decode(visits, make([]byte, 15)), []string{`"visits"`, "15 bytes, want 16"}},
		{"decode backward session", decode(visits, []byte("k\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02")), []string{`"visits"`, "from 2 to 1"}},
		{"decode null key", decode(totals, nil), []string{`"totals"`, "null"}},
		{"decode unknown kind", decode(noKind, []byte("k")), []string{`"strange"`, "kind(0)"}},
	} {
		if c.err == nil {
			t.Errorf("%s: no error", c.name)
			continue
		}
		for _, s := range c.says {
			if !strings.Contains(c.err.Error(), s) {
				t.Errorf("%s: error %q does not say %s", c.name, c.err, s)
			}
		}
		if got, want := errors.Is(c.err, changelog.ErrNullKey), c.name == "decode null key"; got != want {
			t.Errorf("%s: is ErrNullKey %v, want %v", c.name, got, want)
		}
	}
}

// FuzzDecode: whatever decodes encodes to the same record again, and nothing panics.
func FuzzDecode(f *testing.F) {
	specs := []state.Spec{totals, perHour, visits, sliding}
	for _, g := range readGolden(f) {
		f.Add(byte(slices.Index(specs, g.spec)), g.record.Key, g.record.Value, g.record.Value == nil, g.record.Time)
	}
	f.Fuzz(func(t *testing.T, kind byte, key, value []byte, tombstone bool, at int64) {
		spec := specs[int(kind)%len(specs)]
		if key == nil {
			key = []byte{}
		}
		if tombstone {
			value = nil
		} else if value == nil {
			value = []byte{}
		}
		want := changelog.Record{Key: key, Value: value, Time: at}
		m, dst, err := changelog.Decode(nil, 0, spec, want)
		if err != nil {
			return
		}
		got, _, err := changelog.Encode(dst, spec, m, at)
		if err != nil {
			t.Fatalf("decoded, but does not encode: %v", err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("record (-want +got):\n%s", diff)
		}
	})
}

func TestAllocations(t *testing.T) {
	buf := make([]byte, 0, 1024)
	for _, g := range readGolden(t) {
		if n := testing.AllocsPerRun(100, func() {
			if _, _, err := changelog.Encode(buf, g.spec, g.mutation, 1); err != nil {
				t.Fatal(err)
			}
			if _, _, err := changelog.Decode(buf, 0, g.spec, g.record); err != nil {
				t.Fatal(err)
			}
		}); n > 0 {
			t.Errorf("%s: %v allocations, want none", g.name, n)
		}
	}
}
