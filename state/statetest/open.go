package statetest

import (
	"slices"
	"strings"
	"testing"

	"github.com/headrace/headrace/state"
)

func testReopen(t *testing.T, open func(*testing.T) state.Provider, o Options) {
	p := open(t)
	b := openTask(t, p, specs())
	at := state.Position{TopicID: [16]byte{1}, Offset: 10, LeaderEpoch: 2, AppliedAt: 3}
	applyAt(t, b, []*state.Position{&at, nil, &at}, put(0, "a", "1"), put(1, "b", "2"), put(1, "c", "3"))
	apply(t, b, del(1, "c"))
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = openTask(t, p, specs())
	if !o.Keeps {
		for i := range specs() {
			wantAll(t, b, i)
			if got := b.Position(i); got != (state.Position{}) {
				t.Errorf("position of store %d: %+v, want zero: the entries are gone", i, got)
			}
		}
		return
	}
	wantAll(t, b, 0, pair{"a", "1"})
	wantAll(t, b, 1, pair{"b", "2"})
	wantAll(t, b, 2)
	for i, want := range []state.Position{at, {}, at} {
		if got := b.Position(i); got != want {
			t.Errorf("position of store %d: %+v, want %+v", i, got, want)
		}
	}
}

// testReopenOtherSpecs: kept stores are known by name and kind, and gone for good once no spec claims them.
func testReopenOtherSpecs(t *testing.T, open func(*testing.T) state.Provider, o Options) {
	if !o.Keeps {
		t.Skip("the provider keeps nothing")
	}
	p := open(t)
	at := state.Position{TopicID: [16]byte{1}, Offset: 10, LeaderEpoch: 2, AppliedAt: 3}
	b := openTask(t, p, specs())
	applyAt(t, b, []*state.Position{&at, &at, &at}, put(0, "a", "0"), put(1, "a", "1"), put(2, "a", "2"))
	reopen := func(specs []state.Spec) {
		t.Helper()
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		b = openTask(t, p, specs)
	}
	want := func(store int, value string) {
		t.Helper()
		if value == "" {
			wantAll(t, b, store)
			if got := b.Position(store); got != (state.Position{}) {
				t.Errorf("position of store %d: %+v, want zero", store, got)
			}
			return
		}
		wantAll(t, b, store, pair{"a", value})
		if got := b.Position(store); got != at {
			t.Errorf("position of store %d: %+v, want %+v", store, got, at)
		}
	}

	moved := slices.Clone(specs()) // another order, one is new, one is gone
	moved[0], moved[1], moved[2] = moved[2], state.Spec{Name: "new", Kind: state.KeyValueKind}, moved[0]
	reopen(moved)
	want(0, "2")
	want(1, "")
	want(2, "0")

	reopen(specs())
	want(0, "0")
	want(1, "")
	want(2, "2")

	changed := slices.Clone(specs())
	changed[0].Kind = state.WindowKind
	reopen(changed)
	want(0, "")
	want(2, "2")
}

func testOpenTwice(t *testing.T, open func(*testing.T) state.Provider, _ Options) {
	p := open(t)
	b := openTask(t, p, specs())
	if other, err := p.Open(task, specs()); err == nil {
		_ = other.Close()
		t.Fatal("opened a task that is open")
	} else if !strings.Contains(err.Error(), task) {
		t.Errorf("error %q does not name the task %s", err, task)
	}

	// Others are not in the way, and do not share anything.
	other, err := p.Open("1_4", specs())
	if err != nil {
		t.Fatal(err)
	}
	apply(t, other, put(0, "a", "other"))
	wantAll(t, b, 0)
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}

	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	openTask(t, p, specs())
}

func testOpenBadSpecs(t *testing.T, open func(*testing.T) state.Provider, _ Options) {
	p := open(t)
	for name, bad := range map[string][]state.Spec{
		"no name":    {{Kind: state.KeyValueKind}},
		"no kind":    {{Name: "a"}},
		"name twice": {{Name: "a", Kind: state.KeyValueKind}, {Name: "a", Kind: state.WindowKind}},
	} {
		if b, err := p.Open(task, bad); err == nil {
			_ = b.Close()
			t.Errorf("%s: no error", name)
		}
	}
	openTask(t, p, nil) // a task without stores; and a failed Open leaves nothing open
}

func testClosed(t *testing.T, open func(*testing.T) state.Provider, _ Options) {
	b := openTask(t, open(t), specs())
	apply(t, b, put(0, "a", "1"))
	for range 2 {
		if err := b.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
	}
	if _, _, err := b.Get(0, []byte("a")); err == nil {
		t.Error("Get of a closed backend: no error")
	}
	var failed bool
	for _, err := range b.Scan(0, nil, nil) {
		failed = err != nil
	}
	if !failed {
		t.Error("Scan of a closed backend: no error")
	}
	if err := b.Apply(slices.Values([]state.Mutation{put(0, "a", "2")}), make([]*state.Position, 3)); err == nil {
		t.Error("Apply to a closed backend: no error")
	}
	if err := b.Wipe(0); err == nil {
		t.Error("Wipe of a closed backend: no error")
	}
	if s, err := b.Snapshot(); err == nil {
		s.Release()
		t.Error("Snapshot of a closed backend: no error")
	}
}
