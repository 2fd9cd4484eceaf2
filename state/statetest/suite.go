// Package statetest is the conformance suite for state providers: what the contracts in package state promise, as tests.
//
// A provider's own tests call [Run]. Under -race it checks the promises on concurrency as well.
package statetest

import (
	"fmt"
	"iter"
	"slices"
	"testing"

	"github.com/headrace/headrace/state"
)

// Options says what the provider under test promises beyond the contract.
type Options struct {
	// Keeps says that what was applied is there again after Close and Open.
	Keeps bool
}

// Run tests a provider. open makes one that nothing else uses, and may clean up with t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) state.Provider, o Options) {
	t.Helper()
	for _, area := range []struct {
		name string
		test func(*testing.T, func(*testing.T) state.Provider, Options)
	}{
		{"Empty", testEmpty},
		{"PutGetDelete", testPutGetDelete},
		{"EmptyIsNotAbsent", testEmptyIsNotAbsent},
		{"BigValues", testBigValues},
		{"ScanBounds", testScanBounds},
		{"ScanEndsEarly", testScanEndsEarly},
		{"BytesStay", testBytesStay},
		{"ApplyLastWins", testApplyLastWins},
		{"ApplyBelow", testApplyBelow},
		{"ApplyRefuses", testApplyRefuses},
		{"Positions", testPositions},
		{"Wipe", testWipe},
		{"Size", testSize},
		{"Reopen", testReopen},
		{"ReopenOtherSpecs", testReopenOtherSpecs},
		{"OpenTwice", testOpenTwice},
		{"OpenBadSpecs", testOpenBadSpecs},
		{"Closed", testClosed},
		{"SnapshotStays", testSnapshotStays},
		{"SnapshotsWhileApplying", testSnapshotsWhileApplying},
		{"ModelBackend", testModelBackend},
		{"ModelTxn", testModelTxn},
	} {
		t.Run(area.name, func(t *testing.T) {
			t.Parallel()
			area.test(t, open, o)
		})
	}
}

// specs are three stores: neighbours on both sides show when one store's keys reach into another's.
func specs() []state.Spec {
	return []state.Spec{
		{Name: "totals", Kind: state.KeyValueKind},
		{Name: "per-hour", Kind: state.WindowKind, Retention: 3_600_000},
		{Name: "airports", Kind: state.KeyValueKind, SourceTopic: "airports"},
	}
}

const task = "1_3"

func openTask(t *testing.T, p state.Provider, specs []state.Spec) state.Backend {
	t.Helper()
	b, err := p.Open(task, specs)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return b
}

func put(store int, key, value string) state.Mutation {
	return state.Mutation{Store: store, Key: []byte(key), Value: []byte(value)}
}

func del(store int, key string) state.Mutation {
	return state.Mutation{Store: store, Key: []byte(key)}
}

func apply(t *testing.T, b state.Backend, ms ...state.Mutation) {
	t.Helper()
	applyAt(t, b, make([]*state.Position, len(specs())), ms...)
}

func applyAt(t *testing.T, b state.Backend, at []*state.Position, ms ...state.Mutation) {
	t.Helper()
	if err := b.Apply(slices.Values(ms), at); err != nil {
		t.Fatalf("apply: %v", err)
	}
}

// pair is an entry as strings.
type pair struct{ Key, Value string }

func collect(t *testing.T, entries iter.Seq2[state.Entry, error]) []pair {
	t.Helper()
	var got []pair
	for e, err := range entries {
		if err != nil {
			t.Fatalf("scan: %v", err)
		}
		got = append(got, pair{string(e.Key), string(e.Value)})
	}
	return got
}

// difference says where got departs from want, and nothing if it does not.
func difference[T comparable](want, got []T) string {
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(got):
			return fmt.Sprintf("differs at %d of %d: ends, want %s", i, len(want), short(want[i]))
		case i >= len(want):
			return fmt.Sprintf("differs at %d: %s, want an end", i, short(got[i]))
		case want[i] != got[i]:
			return fmt.Sprintf("differs at %d of %d: %s, want %s", i, len(want), short(got[i]), short(want[i]))
		}
	}
	return ""
}

// short keeps big values out of the test's log.
func short(v any) string { return fmt.Sprintf("%.80q", fmt.Sprintf("%+v", v)) }

func wantAll(t *testing.T, r state.Reader, store int, want ...pair) {
	t.Helper()
	if diff := difference(want, collect(t, r.Scan(store, nil, nil))); diff != "" {
		t.Errorf("store %d %s", store, diff)
	}
	for _, p := range want {
		wantGet(t, r, store, p.Key, p.Value)
	}
}

func wantGet(t *testing.T, r state.Reader, store int, key, want string) {
	t.Helper()
	got, ok, err := r.Get(store, []byte(key))
	if err != nil || !ok || string(got) != want {
		t.Errorf("get %q from store %d: %q, %v, %v; want %q", key, store, got, ok, err, want)
	}
}

func wantAbsent(t *testing.T, r state.Reader, store int, key string) {
	t.Helper()
	got, ok, err := r.Get(store, []byte(key))
	if err != nil || ok {
		t.Errorf("get %q from store %d: %q, %v, %v; want nothing", key, store, got, ok, err)
	}
}
