package statetest

import (
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/headrace/headrace/state"
)

func testSnapshotStays(t *testing.T, open func(*testing.T) state.Provider, _ Options) {
	b := openTask(t, open(t), specs())
	snapshot := func() state.Snapshot {
		t.Helper()
		s, err := b.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Release)
		return s
	}
	empty := snapshot()
	apply(t, b, put(0, "a", "1"), put(0, "b", "1"), put(1, "a", "1"))
	first, again := snapshot(), snapshot()
	apply(t, b, put(0, "a", "2"), del(0, "b"), put(0, "c", "2"))
	if err := b.Wipe(1); err != nil {
		t.Fatal(err)
	}
	second := snapshot()

	wantAll(t, empty, 0)
	wantAll(t, empty, 1)
	for _, s := range []state.Snapshot{first, again} {
		wantAll(t, s, 0, pair{"a", "1"}, pair{"b", "1"})
		wantAll(t, s, 1, pair{"a", "1"})
		wantAbsent(t, s, 0, "c")
	}
	wantAll(t, second, 0, pair{"a", "2"}, pair{"c", "2"})
	wantAll(t, second, 1)
	wantAll(t, b, 0, pair{"a", "2"}, pair{"c", "2"})
}

// testSnapshotsWhileApplying: each Apply sets every key of two stores to one number, so a reader that sees two numbers saw
// half of an Apply.
func testSnapshotsWhileApplying(t *testing.T, open func(*testing.T) state.Provider, _ Options) {
	const keys, applies, readers = 100, 200, 3
	b := openTask(t, open(t), specs())
	write := func(n int) {
		var ms []state.Mutation
		for k := range keys {
			ms = append(ms, put(k%2, fmt.Sprintf("%03d", k), strconv.Itoa(n)))
		}
		apply(t, b, ms...)
	}
	write(0)

	done := make(chan struct{})
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() {
			seen := 0
			for {
				last := false
				select {
				case <-done:
					last = true // once more, so that every reader reads at least once
				default:
				}
				n, err := readOne(b, keys)
				if err != nil {
					t.Error(err)
					return
				}
				if n < seen {
					t.Errorf("a snapshot shows apply %d after one showed %d", n, seen)
					return
				}
				seen = n
				if last {
					if n != applies {
						t.Errorf("the last snapshot shows apply %d, want %d", n, applies)
					}
					return
				}
			}
		})
	}
	for n := 1; n <= applies; n++ {
		write(n)
		wantGet(t, b, 0, "000", strconv.Itoa(n))
	}
	close(done)
	wg.Wait()
}

// readOne takes a snapshot, reads it twice, and returns the number that all its values are.
func readOne(b state.Backend, keys int) (int, error) {
	s, err := b.Snapshot()
	if err != nil {
		return 0, err
	}
	defer s.Release()
	number := ""
	for range 2 {
		n := 0
		for store := range 2 {
			for e, err := range s.Scan(store, nil, nil) {
				if err != nil {
					return 0, err
				}
				if number == "" {
					number = string(e.Value)
				}
				if string(e.Value) != number {
					return 0, fmt.Errorf("one snapshot shows apply %s and apply %s", number, e.Value)
				}
				n++
			}
		}
		if n != keys {
			return 0, fmt.Errorf("a snapshot shows %d keys, want %d", n, keys)
		}
	}
	v, ok, err := s.Get(0, []byte("000"))
	if err != nil || !ok || string(v) != number {
		return 0, fmt.Errorf("get from a snapshot of apply %s: %q, %v, %v", number, v, ok, err)
	}
	return strconv.Atoi(number)
}
