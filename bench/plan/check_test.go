package plan_test

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/headrace/headrace/bench/plan"
)

const (
	records = 3000
	keys    = 500
	end     = 1_700_000_123_456
)

type output struct{ key, value []byte }

func work(t *testing.T, name string) *plan.Work {
	t.Helper()
	works, err := plan.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return &works[0]
}

func run(w *plan.Work) plan.Run {
	p := plan.Default()
	p.Records, p.Keys = records, keys
	switch {
	case w.Keys > 0:
		p.Records, p.Keys = 9*w.Keys+17, w.Keys // so that sessions end, and begin again
	case w.Kind == plan.Jump:
		p.Keys = p.Records
	}
	return plan.Run{Params: p, Data: plan.NewData(w.Input, p.Records, p.Keys, end)}
}

func u64(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// right is what a peer that works writes.
func right(w *plan.Work, r plan.Run) (out []output) {
	seen := make(map[string]uint64)
	type session struct{ start, end, n int64 }
	sessions := make(map[string]session)
	times := make(map[string][]int64)
	for i := range r.Records {
		k := plan.AppendKey(nil, r.Key(i))
		v := plan.AppendValue(nil, i)
		switch w.Name {
		case "map":
			if plan.Keep(v) {
				v[len(v)-1] = plan.Mark
				out = append(out, output{k, v})
			}
		case "count", "count-zipf":
			seen[string(k)]++
			out = append(out, output{k, u64(seen[string(k)])})
		case "tumbling":
			k = append(k, u64(uint64(r.Base+int64(i))/plan.Window*plan.Window)...)
			seen[string(k)]++
			out = append(out, output{k, u64(seen[string(k)])})
		case "hopping":
			at := r.Base + int64(i)
			for start := at/plan.Advance*plan.Advance - plan.Window + plan.Advance; start <= at; start += plan.Advance {
				key := string(k) + string(u64(uint64(start)))
				seen[key]++
				out = append(out, output{[]byte(key), u64(seen[key])})
			}
		case "session":
			if !plan.KeepSession(v) {
				continue
			}
			at := r.Base + int64(i)
			key := func(s session) []byte {
				return append(append(slices.Clone(k), u64(uint64(s.end))...), u64(uint64(s.start))...)
			}
			s, ok := sessions[string(k)]
			if ok && at-s.end <= plan.Gap {
				out = append(out, output{key(s), nil})
				s = session{s.start, at, s.n + 1}
			} else {
				s = session{at, at, 1}
			}
			sessions[string(k)] = s
			out = append(out, output{key(s), u64(uint64(s.n))})
		case "sliding":
			at, n := r.Base+int64(i), uint64(1)
			for _, t := range times[string(k)] {
				if at-t > plan.Diff+1 {
					continue
				}
				key := string(k) + string(u64(uint64(t+1)))
				seen[key]++
				out = append(out, output{[]byte(key), u64(seen[key])})
				if at-t <= plan.Diff {
					n++
				}
			}
			times[string(k)] = append(times[string(k)], at)
			out = append(out, output{append(slices.Clone(k), u64(uint64(at-plan.Diff))...), u64(n)})
		case "jump":
			out = append(out, output{append(slices.Clone(k), u64(uint64(r.Base))...), u64(1)})
		case "join":
			out = append(out, output{k, append(v, plan.AppendRow(nil, r.Key(i))[:8]...)})
		case "latency":
			out = append(out, output{k, v})
		}
	}
	if w.Name == "restore" {
		counts := make([]uint64, keys)
		for i := range r.Records {
			counts[r.Key(i)]++
		}
		for k, n := range counts {
			out = append(out, output{plan.AppendKey(nil, uint32(k)), u64(n + 1)})
		}
	}
	return out
}

func judge(w *plan.Work, r plan.Run, p plan.Peer, out []output) error {
	c := w.Check(r, p)
	for _, o := range out {
		c.Output(o.key, o.value)
	}
	return c.Err()
}

func TestCheckersTakeWhatIsRightAndNothingElse(t *testing.T) {
	t.Parallel()
	for i := range plan.Works {
		w := &plan.Works[i]
		t.Run(w.Name, func(t *testing.T) {
			t.Parallel()
			r := run(w)
			good := right(w, r)
			if err := judge(w, r, plan.Memory, good); err != nil {
				t.Errorf("what is right is wrong: %v", err)
			}
			bad := map[string][]output{
				"one missing":           slices.Delete(slices.Clone(good), 7, 8),
				"one twice":             append(slices.Clone(good), good[7]),
				"one in place of other": append(slices.Delete(slices.Clone(good), 7, 8), good[9]),
				"nothing":               nil,
			}
			other := slices.Clone(good)
			other[3].value = slices.Clone(other[3].value)
			other[3].value[7]++ // of an index or a count the last byte
			bad["another value"] = other
			for name, out := range bad {
				if err := judge(w, r, plan.Memory, out); err == nil || !strings.Contains(err.Error(), "want") && !strings.Contains(err.Error(), "follows") {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
}

func TestWhoMergesUpdatesMayLeaveSomeOut(t *testing.T) {
	t.Parallel()
	w := work(t, "count-zipf")
	r := run(w)
	good := right(w, r)
	// The last update of each key is never left out.
	last := make(map[string]int)
	for i, o := range good {
		last[string(o.key)] = i
	}
	var merged []output
	for i, o := range good {
		if i%3 == 0 || last[string(o.key)] == i {
			merged = append(merged, o)
		}
	}
	if err := judge(w, r, plan.Streams, merged); err != nil {
		t.Errorf("merged updates: %v", err)
	}
	if err := judge(w, r, plan.Memory, merged); err == nil {
		t.Error("merged updates are right for a peer that does not merge")
	}
	if err := judge(w, r, plan.Streams, merged[:len(merged)-1]); err == nil {
		t.Error("the last update may be missing")
	}
	if err := judge(w, r, plan.Streams, append(merged, merged[len(merged)-1])); err == nil {
		t.Error("an update may come twice")
	}
}

func TestMarksAndRowsAreLookedAt(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"map", "join"} {
		w := work(t, name)
		r := run(w)
		out := right(w, r)
		v := slices.Clone(out[5].value)
		v[len(v)-1] ^= 1
		out[5].value = v
		if err := judge(w, r, plan.Memory, out); err == nil {
			t.Errorf("%s: a value whose last byte is another passes", name)
		}
	}
}

func TestDataAreTheSameEachTime(t *testing.T) {
	t.Parallel()
	for _, in := range []plan.Input{plan.Uniform, plan.Zipf} {
		a, b := plan.NewData(in, records, keys, end), plan.NewData(in, records, keys, end)
		seen := make(map[uint32]int)
		for i := range records {
			if a.Key(i) != b.Key(i) {
				t.Fatalf("%s: record %d has key %d, then %d", in, i, a.Key(i), b.Key(i))
			}
			seen[a.Key(i)]++
		}
		if a.Base%plan.Window != 0 || a.Base+records > end {
			t.Errorf("%s: base %d", in, a.Base)
		}
		if in == plan.Uniform {
			for k, n := range seen {
				if n != records/keys {
					t.Errorf("key %d has %d records, want %d", k, n, records/keys)
				}
			}
		}
	}
	if v := plan.AppendValue(nil, 77); len(v) != plan.ValueSize || plan.Index(v) != 77 {
		t.Errorf("value %x", v)
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	if ws, err := plan.Find(""); err != nil || len(ws) != 7 {
		t.Errorf("no names: %d works, %v", len(ws), err)
	}
	if ws, err := plan.Find("join, map"); err != nil || len(ws) != 2 || ws[0].Name != "join" {
		t.Errorf("two names: %v, %v", ws, err)
	}
	if ws, err := plan.Find("windowed"); err != nil || len(ws) != 4 || ws[0].Name != "tumbling" || ws[3].Name != "sliding" {
		t.Errorf("a group: %v, %v", ws, err)
	}
	if _, err := plan.Find("cuont"); err == nil || !strings.Contains(err.Error(), "count, count-zipf") {
		t.Errorf("a name that there is not: %v", err)
	}
}

// Every target is about a peer and a metric that its work has, or nobody would notice that it is never judged.
func TestTargetsAreOfWorks(t *testing.T) {
	t.Parallel()
	for _, target := range slices.Concat(plan.Targets, plan.FullTargets) {
		w := work(t, target.Work)
		if !slices.Contains(w.Peers, target.Peer) || !slices.Contains(w.Metrics, target.Metric) {
			t.Errorf("%+v is never judged", target)
		}
		if target.Over != "" && target.Over != plan.SmallHeap && !slices.Contains(w.Peers, target.Over) {
			t.Errorf("%+v is over a peer that does not do it", target)
		}
	}
}
