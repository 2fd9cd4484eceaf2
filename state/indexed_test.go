package state_test

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/state/pebblestore"
)

// The bytes are on disk: they do not change.
func TestIndexedLayout(t *testing.T) {
	t.Parallel()
	k := []byte("ZRH")
	for _, c := range []struct {
		what string
		got  []byte
		want string
	}{
		{"session", state.AppendSessionKey(nil, 5, 7, k), "00" + "8000000000000007" + "8000000000000005" + "5a5248"},
		{"session before 1970", state.AppendSessionKey(nil, -2, -1, nil), "00" + "7fffffffffffffff" + "7ffffffffffffffe"},
		{"index of a session", state.AppendSessionIndex(nil, 5, 7, k), "01" + "00000003" + "5a5248" + "8000000000000007" + "8000000000000005"},
		{"bound of the index", state.AppendSessionsOf(nil, k, 7), "01" + "00000003" + "5a5248" + "8000000000000007"},
		{"sliding window", state.AppendSlidingKey(nil, 5, k), "00" + "8000000000000005" + "5a5248"},
		{"index of a sliding window", state.AppendSlidingIndex(nil, 5, k), "01" + "00000003" + "5a5248" + "8000000000000005"},
		{"time of a session", state.SessionKind.AppendTime(nil, 7), "00" + "8000000000000007"},
		{"time of a window", state.WindowKind.AppendTime(nil, 7), "8000000000000007"},
	} {
		if got := hex.EncodeToString(c.got); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}

func TestKindsSayWhatTheyAre(t *testing.T) {
	t.Parallel()
	for kind, want := range map[state.Kind]struct {
		text  string
		timed bool
		key   []byte // of an entry with time 7
	}{
		state.KeyValueKind: {"key-value", false, nil},
		state.WindowKind:   {"window", true, state.AppendWindowKey(nil, 7, []byte("k"))},
		state.SessionKind:  {"session", true, state.AppendSessionKey(nil, 5, 7, []byte("k"))},
		state.SlidingKind:  {"sliding window", true, state.AppendSlidingKey(nil, 7, []byte("k"))},
	} {
		if kind.String() != want.text || kind.Timed() != want.timed {
			t.Errorf("%v: timed %v", kind, kind.Timed())
		}
		if at, ok := kind.TimeOf(want.key); ok != want.timed || ok && at != 7 {
			t.Errorf("%v: the time of an entry is %d, %v", kind, at, ok)
		}
		if kind.Local(want.key) {
			t.Errorf("%v: an entry is taken for the index", kind)
		}
		m, _, ok := kind.Index(nil, state.Mutation{Store: 2, Key: want.key, Value: []byte("v")})
		if ok != (kind == state.SessionKind || kind == state.SlidingKind) {
			t.Errorf("%v: an index: %v", kind, ok)
		}
		if !ok {
			continue
		}
		if !kind.Local(m.Key) || m.Value == nil || m.Store != 2 {
			t.Errorf("%v: index %+v", kind, m)
		}
		if _, ok := kind.TimeOf(m.Key); ok {
			t.Errorf("%v: the index is taken for an entry", kind)
		}
		if m, _, _ := kind.Index(nil, state.Mutation{Key: want.key}); m.Value != nil {
			t.Errorf("%v: a deletion is to be one in the index", kind)
		}
		if _, _, ok := kind.Index(nil, m); ok {
			t.Errorf("%v: an index of the index", kind)
		}
	}
}

// FuzzIndexedKeys: keys of entries and of the index say what went in, sort by time and by key, and nothing else is taken for one.
func FuzzIndexedKeys(f *testing.F) {
	f.Add(int64(1), int64(2), []byte("a"), int64(1), int64(3), []byte("a\x80\x00\x00\x00\x00\x00\x00\x02"))
	f.Add(int64(math.MinInt64), int64(-1), []byte{}, int64(0), int64(math.MaxInt64), []byte{0})
	f.Fuzz(func(t *testing.T, start, end int64, key []byte, start2, end2 int64, key2 []byte) {
		a, b := state.AppendSessionKey(nil, start, end, key), state.AppendSessionKey(nil, start2, end2, key2)
		if s, e, k, ok := state.SplitSessionKey(a); !ok || s != start || e != end || !bytes.Equal(k, key) || k == nil {
			t.Fatalf("session %x: %d, %d, %x, %v", a, s, e, k, ok)
		}
		if got, want := bytes.Compare(a, b), cmp.Or(cmp.Compare(end, end2), cmp.Compare(start, start2), bytes.Compare(key, key2)); got != want {
			t.Fatalf("sessions compare as %d, want %d", got, want)
		}
		i, j := state.AppendSessionIndex(nil, start, end, key), state.AppendSessionIndex(nil, start2, end2, key2)
		if s, e, k, ok := state.SplitSessionIndex(i); !ok || s != start || e != end || !bytes.Equal(k, key) || k == nil {
			t.Fatalf("index %x: %d, %d, %x, %v", i, s, e, k, ok)
		}
		if bytes.Equal(key, key2) {
			if got, want := bytes.Compare(i, j), cmp.Or(cmp.Compare(end, end2), cmp.Compare(start, start2)); got != want {
				t.Fatalf("the index of a key compares as %d, want %d", got, want)
			}
		} else if lo, hi := state.AppendSessionsOf(nil, key, math.MinInt64), state.AppendSessionsOf(nil, key, math.MaxInt64); bytes.Compare(j, lo) >= 0 && bytes.Compare(j, append(hi, bytes.Repeat([]byte{255}, 9)...)) < 0 {
			t.Fatalf("a session of %x is among those of %x", key2, key)
		}
		w, x := state.AppendSlidingKey(nil, start, key), state.AppendSlidingIndex(nil, start, key)
		if s, k, ok := state.SplitSlidingKey(w); !ok || s != start || !bytes.Equal(k, key) || k == nil {
			t.Fatalf("sliding window %x: %d, %x, %v", w, s, k, ok)
		}
		if s, k, ok := state.SplitSlidingIndex(x); !ok || s != start || !bytes.Equal(k, key) || k == nil {
			t.Fatalf("index %x: %d, %x, %v", x, s, k, ok)
		}
		for _, raw := range [][]byte{key, key2, i, x} { // whatever they are: nothing panics, and an index is no entry
			_, _, _, session := state.SplitSessionKey(raw)
			_, _, sliding := state.SplitSlidingKey(raw)
			if (session || sliding) && raw[0] != 0 {
				t.Fatalf("%x is taken for an entry", raw)
			}
			_, _, _, _ = state.SplitSessionIndex(raw)
			_, _, _ = state.SplitSlidingIndex(raw)
		}
	})
}

var visits = state.SessionsOf("visits", serde.String(), serde.Int64(), 0)

type visit struct {
	key        string
	start, end int64
}

// TestSessionsAgainstAModel writes, reads, rolls back, commits and drops sessions of keys that begin with each other, in memory and on
// disk: the view shows what a map would, and what the changelog is told makes the same store again.
func TestSessionsAgainstAModel(t *testing.T) {
	t.Parallel()
	for name, provider := range map[string]func(*testing.T) state.Provider{
		"memory": func(*testing.T) state.Provider { return state.Memory() },
		"pebble": func(t *testing.T) state.Provider {
			p := pebblestore.In(t.TempDir())
			t.Cleanup(func() {
				if err := p.Close(); err != nil {
					t.Error(err)
				}
			})
			return p
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(4) {
				testSessions(t, provider(t), seed)
			}
		})
	}
}

func testSessions(t *testing.T, p state.Provider, seed uint64) {
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 3))
	specs := []state.Spec{{Name: "before", Kind: state.KeyValueKind}, visits.Spec(), {Name: "behind", Kind: state.WindowKind}}
	b, err := p.Open("0_0", specs)
	must(t, err)
	defer func() { must(t, b.Close()) }()
	txn := state.NewTxn(b, specs)
	view, err := visits.Open(host{txn})
	must(t, err)
	now, saved, committed := map[visit]int64{}, map[visit]int64{}, map[visit]int64{}
	log := map[string]state.Mutation{} // what a compacted changelog has
	keys := []string{"", "a", "a\x00", "a\x80\x00\x00\x00\x00\x00\x00\x03", "b"}
	elided := 0
	draw := func() visit {
		v := visit{key: keys[r.IntN(len(keys))], start: r.Int64N(12) - 3}
		v.end = v.start + r.Int64N(6)
		return v
	}
	order := func(a, b visit) int {
		return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.start, b.start), cmp.Compare(a.key, b.key))
	}
	type item = state.SessionItem[string, int64]
	want := func(in func(visit) bool) (out []item) {
		for _, v := range slices.SortedFunc(maps.Keys(now), order) {
			if in(v) {
				out = append(out, item{v.start, v.end, v.key, now[v], v.end})
			}
		}
		return out
	}
	for range 1500 {
		switch op := r.IntN(100); {
		case op < 35:
			v, n := draw(), r.Int64()
			must(t, view.Put(v.key, v.start, v.end, n))
			now[v] = n
		case op < 55:
			v := draw()
			must(t, view.Delete(v.key, v.start, v.end))
			delete(now, v)
		case op < 65:
			v := draw()
			n, ok, err := view.Get(v.key, v.start, v.end)
			if is, should := now[v]; err != nil || ok != should || n != is {
				t.Fatalf("get %+v: %d, %v, %v; want %d, %v", v, n, ok, err, is, should)
			}
		case op < 80:
			q := draw()
			var got []item
			for it, err := range view.Of(q.key, q.start, q.end) {
				must(t, err)
				got = append(got, it)
			}
			if diff := gocmp.Diff(want(func(v visit) bool { return v.key == q.key && v.end >= q.start && v.start <= q.end }), got); diff != "" {
				t.Fatalf("sessions of %+v (-want +got):\n%s", q, diff)
			}
		case op < 86:
			q := draw()
			var got []item
			for it, err := range view.Ending(q.start, q.end) {
				must(t, err)
				got = append(got, it)
			}
			if diff := gocmp.Diff(want(func(v visit) bool { return v.end >= q.start && v.end < q.end }), got); diff != "" {
				t.Fatalf("sessions that end in [%d, %d) (-want +got):\n%s", q.start, q.end, diff)
			}
		case op < 90:
			txn.Savepoint()
			saved = maps.Clone(now)
		case op < 93:
			txn.Rollback()
			now = maps.Clone(saved)
		case op < 97:
			n := 0
			for m := range txn.Mutations() {
				if m.Store != 1 || state.SessionKind.Local(m.Key) {
					t.Fatalf("mutation %+v is for no changelog", m)
				}
				n++
				if m.Value == nil {
					if _, ok := log[string(m.Key)]; !ok && name(p) == "memory" {
						t.Fatalf("a tombstone for %x, which the changelog never had", m.Key)
					}
					delete(log, string(m.Key))
					continue
				}
				log[string(m.Key)] = m
			}
			elided += txn.Len()/2 - n
			at := &state.Position{Offset: 1}
			must(t, txn.Commit([]*state.Position{nil, at, nil}))
			committed, saved = maps.Clone(now), maps.Clone(now)
			restored(t, b, specs, log)
		default:
			txn.Drop()
			now, saved = maps.Clone(committed), maps.Clone(committed)
		}
	}
	if elided == 0 {
		t.Error("every session that came and went within a transaction went into the changelog")
	}
}

func name(p state.Provider) string {
	if _, ok := p.(*pebblestore.Provider); ok {
		return "pebble"
	}
	return "memory"
}

// restored: the changelog, with the index that goes with it, is the store.
func restored(t *testing.T, b state.Backend, specs []state.Spec, log map[string]state.Mutation) {
	t.Helper()
	copied, err := state.Memory().Open("0_0", specs)
	must(t, err)
	defer func() { must(t, copied.Close()) }()
	var all []state.Mutation
	for _, m := range log {
		index, _, _ := state.SessionKind.Index(nil, m)
		all = append(all, m, index)
	}
	must(t, copied.Apply(slices.Values(all), make([]*state.Position, len(specs))))
	contents := func(r state.Reader) map[string]string {
		out := map[string]string{}
		for e, err := range r.Scan(1, nil, nil) {
			must(t, err)
			out[string(e.Key)] = string(e.Value)
		}
		return out
	}
	if diff := gocmp.Diff(contents(b), contents(copied)); diff != "" {
		t.Fatalf("restored from the changelog (-store +restored):\n%s", diff)
	}
}

func TestSessionsViewErrors(t *testing.T) {
	t.Parallel()
	h := newHost(t, visits.Spec())
	view, err := visits.Open(h)
	must(t, err)
	if err := view.Put("k", 2, 1, 0); err == nil {
		t.Error("a session that ends before it starts: no error")
	}
	if _, err := visits.Open(newHost(t, state.Spec{Name: "visits", Kind: state.WindowKind})); err == nil {
		t.Error("opened on a window store: no error")
	}
	// The index says what is not there: somebody has written the store in part.
	must(t, h.txn.Put(0, state.AppendSessionIndex(nil, 1, 2, []byte("k")), nil))
	for _, err = range view.Of("k", 0, 9) {
	}
	if err == nil {
		t.Error("an index without its entry: no error")
	}
}

// Expiring sessions below an end takes the entries at once and leaves the index, which whoever expires them deletes.
func TestSessionsExpire(t *testing.T) {
	t.Parallel()
	h := newHost(t, visits.Spec())
	view, err := visits.Open(h)
	must(t, err, view.Put("a", 1, 5, 1), view.Put("b", 2, 6, 2), view.Put("c", 0, 7, 3))
	must(t, h.txn.Expire(0, state.SessionKind.AppendTime(nil, 6)))
	must(t, h.txn.Delete(0, state.AppendSessionIndex(nil, 1, 5, []byte("a"))))
	var got []string
	for it, err := range view.All() {
		must(t, err)
		got = append(got, it.Key)
	}
	if diff := gocmp.Diff([]string{"b", "c"}, got); diff != "" {
		t.Errorf("sessions that end at 6 or later (-want +got):\n%s", diff)
	}
	for it, err := range view.Of("a", 0, 9) {
		t.Errorf("the expired session is found: %+v, %v", it, err)
	}
}
