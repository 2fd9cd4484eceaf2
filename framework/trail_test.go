package framework

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/headrace/headrace/state"
)

// loggedStore is a window store with its changelog, as a model: what is trimmed must be nobody's last value.
type loggedStore struct {
	backend state.Backend
	live    map[[2]int64]int64 // start and key → offset of the last value
	end     int64
	topic   byte
}

func (l *loggedStore) position() state.Position {
	return state.Position{TopicID: [16]byte{l.topic}, Offset: l.end}
}

// TestTrailNeverGivesUpALiveWindow writes and deletes windows in any order, restores behind the trail's back, and trims: the first
// offset that is kept is at or before the last value of every window in the store, never goes back, and is at the end when no
// window is left.
func TestTrailNeverGivesUpALiveWindow(t *testing.T) {
	t.Parallel()
	for _, kind := range []state.Kind{state.WindowKind, state.SessionKind, state.SlidingKind} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) { trailNeverGivesUp(t, kind) })
		})
	}
}

// windowKey is the key of a window that starts at start, or of a session that ends there, with its index behind it.
func windowKey(kind state.Kind, start, key int64) [][]byte {
	k := kind.AppendTime(nil, start)
	if kind == state.SessionKind {
		k = state.AppendWindowStart(k, start) // a session of one moment
	}
	keys := [][]byte{append(k, byte(key))}
	if m, _, ok := kind.Index(nil, state.Mutation{Key: keys[0]}); ok {
		keys = append(keys, m.Key)
	}
	return keys
}

func trailNeverGivesUp(t *rapid.T, kind state.Kind) {
	spec := []state.Spec{{Name: "w", Kind: kind}}
	backend, err := state.Memory().Open("0_0", spec)
	if err != nil {
		t.Fatal(err)
	}
	l := &loggedStore{backend: backend, live: make(map[[2]int64]int64), topic: 1}
	tr := &trail{}
	resume := func() {
		if err := tr.resume(l.position(), func() (int64, error) { return latestStart(backend, 0, spec[0].Kind) }); err != nil {
			t.Fatal(err)
		}
	}
	trimmed := int64(0)
	starts := rapid.OneOf(rapid.Int64Range(-5, 20), rapid.SampledFrom([]int64{math.MinInt64, math.MinInt64 + 1, math.MaxInt64 - 1}))
	// transaction changes some windows, and says which was the latest that got a value.
	transaction := func() int64 {
		latest := int64(noWindow)
		var ms []state.Mutation
		for range rapid.IntRange(1, 5).Draw(t, "mutations") {
			start, key := starts.Draw(t, "start"), rapid.Int64Range(0, 2).Draw(t, "key")
			var value []byte
			if rapid.Bool().Draw(t, "put") {
				value = state.AppendValue(nil, 0, []byte("v"))
				l.live[[2]int64{start, key}] = l.end
				latest = max(latest, start)
			} else {
				delete(l.live, [2]int64{start, key})
			}
			for _, k := range windowKey(kind, start, key) {
				ms = append(ms, state.Mutation{Key: k, Value: value})
			}
			l.end++
		}
		l.end++ // the marker of the transaction has an offset that no position counts, until the next
		pos := l.position()
		if err := backend.Apply(slices.Values(ms), []*state.Position{&pos}); err != nil {
			t.Fatal(err)
		}
		return latest
	}
	trim := func() {
		earliest, err := earliestStart(backend, 0, spec[0].Kind)
		if err != nil {
			t.Fatal(err)
		}
		to := tr.trim(earliest)
		for w, at := range l.live {
			if at < to {
				t.Fatalf("trimmed up to %d, but window %d has its last value for key %d at %d", to, w[0], w[1], at)
			}
		}
		if to < trimmed {
			t.Fatalf("trimmed up to %d, after %d", to, trimmed)
		}
		if len(l.live) == 0 && tr.end == l.end && to != l.end {
			t.Fatalf("no window is left, but only trimmed up to %d of %d", to, l.end)
		}
		trimmed = to
	}
	resume()
	for range rapid.IntRange(0, 60).Draw(t, "steps") {
		switch rapid.IntRange(0, 9).Draw(t, "step") {
		case 0: // another owner in between: the trail hears of it when the store has been restored
			transaction()
			resume()
		case 1: // the backend was closed and opened: the trail is gone
			*tr, trimmed = trail{}, 0
			resume()
		case 2, 3:
			trim()
		case 4: // everything expires
			for w := range l.live {
				var ms []state.Mutation
				for _, k := range windowKey(kind, w[0], w[1]) {
					ms = append(ms, state.Mutation{Key: k})
				}
				l.end++
				pos := l.position()
				if err := backend.Apply(slices.Values(ms), []*state.Position{&pos}); err != nil {
					t.Fatal(err)
				}
			}
			clear(l.live)
			tr.extend(l.end, noWindow)
			trim()
		default:
			latest := transaction()
			tr.extend(l.end, latest)
		}
	}
	trim()
}

// What a trail knows of a log is worth nothing for another one, and it stays small.
func TestTrailOfAnotherLogAndOfALongOne(t *testing.T) {
	t.Parallel()
	none := func() (int64, error) { return noWindow, nil }
	tr := &trail{}
	if err := tr.resume(state.Position{TopicID: [16]byte{1}, Offset: 100}, none); err != nil {
		t.Fatal(err)
	}
	for i := range int64(10 * maxStretches) {
		tr.extend(100+10*(i+1), i)
	}
	if len(tr.stretches) > maxStretches {
		t.Errorf("%d stretches, want at most %d", len(tr.stretches), maxStretches)
	}
	for _, earliest := range []int64{1, 1000, 10*maxStretches - 1} {
		exact := 100 + 10*earliest
		if to := tr.trim(earliest); to > exact || to < exact-10*40 {
			t.Errorf("windows from %d on are live: trimmed up to %d, want %d or little less", earliest, to, exact)
		}
	}
	if err := tr.resume(state.Position{TopicID: [16]byte{2}, Offset: 1 << 20}, func() (int64, error) { return 7, nil }); err != nil {
		t.Fatal(err)
	}
	if to := tr.trim(7); to != 0 {
		t.Errorf("the topic is another one: trimmed up to %d, want 0", to)
	}
	if to := tr.trim(8); to != 1<<20 {
		t.Errorf("all windows are gone: trimmed up to %d, want %d", to, 1<<20)
	}
}
