package statetest

import (
	"slices"
	"testing"

	"github.com/headrace/headrace/state"
)

func testApplyLastWins(t *testing.T, open func(*testing.T) state.Provider, _ Options) {
	b := openTask(t, open(t), specs())
	apply(t, b,
		put(0, "a", "1"), put(0, "a", "2"),
		put(0, "b", "1"), del(0, "b"),
		del(0, "c"), put(0, "c", "3"))
	wantAll(t, b, 0, pair{"a", "2"}, pair{"c", "3"})
	wantAbsent(t, b, 0, "b")
}

// testApplyBelow: what is below a key is deleted at its place among the mutations, in its store alone, and the key is not.
func testApplyBelow(t *testing.T, open func(*testing.T) state.Provider, _ Options) {
	b := openTask(t, open(t), specs())
	apply(t, b, put(0, "a", "1"), put(0, "b", "1"), put(0, "c", "1"), put(1, "a", "1"))
	apply(t, b, put(0, "aa", "2"), state.Mutation{Store: 0, Key: []byte("b"), Below: true}, put(0, "ab", "2"))
	wantAll(t, b, 0, pair{"ab", "2"}, pair{"b", "1"}, pair{"c", "1"})
	wantAll(t, b, 1, pair{"a", "1"})
	apply(t, b, state.Mutation{Store: 0, Key: []byte{}, Below: true})
	wantAll(t, b, 0, pair{"ab", "2"}, pair{"b", "1"}, pair{"c", "1"})
	apply(t, b, state.Mutation{Store: 0, Key: []byte("z"), Below: true})
	wantAll(t, b, 0)
	wantAbsent(t, b, 0, "c")
	wantAll(t, b, 1, pair{"a", "1"})
}

// testApplyRefuses: an Apply that fails changes nothing.
func testApplyRefuses(t *testing.T, open func(*testing.T) state.Provider, _ Options) {
	b := openTask(t, open(t), specs())
	at := state.Position{Offset: 1}
	applyAt(t, b, []*state.Position{&at, &at, &at}, put(0, "a", "1"))
	next := state.Position{Offset: 2}
	for name, refused := range map[string]struct {
		ms []state.Mutation
		at []*state.Position
	}{
		"store too high":     {[]state.Mutation{put(0, "a", "2"), put(3, "a", "2")}, []*state.Position{&next, &next, &next}},
		"store negative":     {[]state.Mutation{put(0, "a", "2"), put(-1, "a", "2")}, []*state.Position{&next, &next, &next}},
		"too few positions":  {[]state.Mutation{put(0, "a", "2")}, []*state.Position{&next}},
		"too many positions": {[]state.Mutation{put(0, "a", "2")}, []*state.Position{&next, nil, nil, nil}},
	} {
		if err := b.Apply(slices.Values(refused.ms), refused.at); err == nil {
			t.Errorf("%s: no error", name)
		}
		wantAll(t, b, 0, pair{"a", "1"})
		for i := range specs() {
			if got := b.Position(i); got != at {
				t.Errorf("%s: position of store %d: %+v, want %+v", name, i, got, at)
			}
		}
	}
	applyAt(t, b, []*state.Position{&next, nil, nil}, put(0, "a", "2"))
	wantAll(t, b, 0, pair{"a", "2"})
}

func testPositions(t *testing.T, open func(*testing.T) state.Provider, _ Options) {
	b := openTask(t, open(t), specs())
	first := state.Position{TopicID: [16]byte{1, 15: 255}, Offset: 1 << 40, LeaderEpoch: 7, AppliedAt: 1_700_000_000_000}
	unknown := state.Position{TopicID: [16]byte{2}, Offset: 3, LeaderEpoch: -1, AppliedAt: 5}
	applyAt(t, b, []*state.Position{&first, nil, &unknown})
	want := []state.Position{first, {}, unknown}
	check := func() {
		t.Helper()
		var got []state.Position
		for i := range want {
			got = append(got, b.Position(i))
		}
		if diff := difference(want, got); diff != "" {
			t.Errorf("positions %s", diff)
		}
	}
	check()

	// Nil leaves what is there, also when mutations come along; the backend keeps no pointer of the caller's.
	applyAt(t, b, []*state.Position{nil, nil, nil}, put(0, "a", "1"))
	first.Offset = 0
	check()

	last := state.Position{TopicID: [16]byte{9}, Offset: 4, LeaderEpoch: 1, AppliedAt: 6}
	applyAt(t, b, []*state.Position{nil, &last, nil})
	want[1] = last
	check()
}

func testWipe(t *testing.T, open func(*testing.T) state.Provider, o Options) {
	p := open(t)
	b := openTask(t, p, specs())
	at := state.Position{TopicID: [16]byte{1}, Offset: 10, LeaderEpoch: 2, AppliedAt: 3}
	applyAt(t, b, []*state.Position{&at, &at, &at},
		put(0, "a", "1"), put(1, "", "1"), put(1, "a", "1"), put(1, "\xff\xff\xff\xff\xff\xff\xff\xff\xff", "1"), put(2, "", "1"))
	if err := b.Wipe(1); err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		wantAll(t, b, 0, pair{"a", "1"})
		wantAll(t, b, 1)
		wantAll(t, b, 2, pair{"", "1"})
		for i, want := range []state.Position{at, {}, at} {
			if got := b.Position(i); got != want {
				t.Errorf("position of store %d: %+v, want %+v", i, got, want)
			}
		}
	}
	check()
	if o.Keeps {
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		b = openTask(t, p, specs())
		check()
	}
	applyAt(t, b, []*state.Position{nil, &at, nil}, put(1, "a", "2"))
	wantAll(t, b, 1, pair{"a", "2"})
}
