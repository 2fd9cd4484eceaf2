package graph

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

// kept is what an arena handed out, with what was in it then.
type kept struct{ got, want []byte }

// put encodes n bytes as a serde would, in some pieces.
func put(a *Arena, rng *rand.Rand, n int) kept {
	want := bytes.Repeat([]byte{byte(rng.Uint32())}, n)
	b := a.Free()
	for rest := want; len(rest) > 0; {
		k := 1 + rng.IntN(len(rest))
		b = append(b, rest[:k]...)
		rest = rest[k:]
	}
	return kept{a.Keep(b), want}
}

func size(rng *rand.Rand) int {
	switch rng.IntN(20) {
	case 0:
		return 0
	case 1:
		return rng.IntN(3 * arenaChunk)
	case 2:
		return 480 + rng.IntN(64) // around what Free leaves at least
	case 3, 4, 5:
		return rng.IntN(5000)
	}
	return 1 + rng.IntN(100)
}

// What was kept never changes before Reset, and nobody's bytes are anybody else's, whatever is appended and given up afterwards.
func TestKeptBytesNeverChange(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 2))
		var a Arena
		var all []kept
		check := func(what string) {
			t.Helper()
			for i, k := range all {
				if !bytes.Equal(k.got, k.want) {
					t.Fatalf("seed %d: after %s slice %d of %d bytes has changed", seed, what, i, len(k.want))
				}
				if k.got == nil || cap(k.got) != len(k.got) {
					t.Fatalf("seed %d: slice %d has length %d and capacity %d: an append to it would write into the next", seed, i, len(k.got), cap(k.got))
				}
			}
		}
		for range 40 {
			// A unit of work: it keeps some, and is undone one time in three.
			n := len(all)
			chunk, at := a.Mark()
			for range rng.IntN(30) {
				if rng.IntN(10) == 0 { // a serde that failed half-way: nothing is kept
					_ = append(a.Free(), "garbage garbage garbage"...)
					continue
				}
				all = append(all, put(&a, rng, size(rng)))
			}
			check("a unit")
			if rng.IntN(3) == 0 {
				a.Rewind(chunk, at)
				all = all[:n]
				put(&a, rng, 300) // would land on what was not to be given up
				check("a rewind")
			}
			if rng.IntN(15) == 0 {
				a.Reset()
				all = all[:0]
				if a.Held() != 0 {
					t.Fatalf("seed %d: %d bytes held after Reset", seed, a.Held())
				}
			}
		}
	}
}

// Rewind gives the room in the chunk back, so that a task that skips many records does not fill its memory.
func TestRewindGivesBack(t *testing.T) {
	t.Parallel()
	var a Arena
	rng := rand.New(rand.NewPCG(1, 1))
	first := put(&a, rng, 10)
	for range 10_000 {
		chunk, at := a.Mark()
		put(&a, rng, 100)
		a.Rewind(chunk, at)
	}
	if len(a.full) != 0 || !bytes.Equal(first.got, first.want) {
		t.Errorf("%d chunks are full of what was given up", len(a.full))
	}
	// Nor does one whose records are each larger than what the chunk has left.
	for range 1000 {
		chunk, at := a.Mark()
		for range 20 {
			put(&a, rng, 10_000)
		}
		a.Rewind(chunk, at)
	}
	if len(a.full) != 0 || len(a.idle) > 5 || !bytes.Equal(first.got, first.want) {
		t.Errorf("%d chunks are full of what was given up, %d are idle", len(a.full), len(a.idle))
	}
	// The next bytes are where those given up were: that is what Rewind is for, and why nobody may hold those any longer.
	chunk, at := a.Mark()
	up := a.Keep(append(a.Free(), 1, 2, 3))
	a.Rewind(chunk, at)
	if next := a.Keep(append(a.Free(), 4, 5, 6)); &next[0] != &up[0] {
		t.Error("the room was not used again")
	}
}

// A serde may return bytes of its own, and a record may be larger than a chunk: Keep returns them as they are.
func TestKeepTakesForeignBytes(t *testing.T) {
	t.Parallel()
	var a Arena
	rng := rand.New(rand.NewPCG(1, 1))
	before := put(&a, rng, 10)
	foreign := []byte("foreign bytes")
	got := a.Keep(foreign[:7])
	after := put(&a, rng, 10)
	if string(got) != "foreign" || cap(got) != 7 || string(foreign) != "foreign bytes" {
		t.Errorf("got %q with capacity %d", got, cap(got))
	}
	if !bytes.Equal(before.got, before.want) || !bytes.Equal(after.got, after.want) {
		t.Error("the arena's own have changed")
	}
	if a.Held() != 27 {
		t.Errorf("%d bytes held, want 27", a.Held())
	}
}

// Empty is not null.
func TestKeepOfNothingIsEmpty(t *testing.T) {
	t.Parallel()
	var a Arena
	for _, b := range [][]byte{nil, {}, a.Free()} {
		if got := a.Keep(b); got == nil || len(got) != 0 || cap(got) != 0 {
			t.Errorf("Keep(%#v) = %#v with capacity %d", b, got, cap(got))
		}
	}
}

// From the second transaction on, outputs of any usual size cost no allocation: chunks are used again, and the rest of a chunk that
// is too small for a value does not send all those after it to the heap.
func TestArenaDoesNotAllocateAgain(t *testing.T) {
	for _, n := range []int{10, 100, 700, 3000} {
		var a Arena
		value := make([]byte, n)
		transaction := func() {
			for range 500_000 / n { // fits into the chunks that Reset keeps
				a.Keep(append(a.Free(), value...))
			}
			a.Reset()
		}
		transaction()
		// A value of n can miss the end of each chunk, and is then allocated once for each.
		limit := 0.0
		if n > 512 {
			limit = 500_000/arenaChunk + 2
		}
		if got := testing.AllocsPerRun(20, transaction); got > limit {
			t.Errorf("values of %d bytes: %v allocations in a transaction, want at most %v", n, got, limit)
		}
	}
}

// After a burst the arena keeps a megabyte, and no more.
func TestResetKeepsLittle(t *testing.T) {
	t.Parallel()
	var a Arena
	for range 10_000 {
		a.Keep(append(a.Free(), make([]byte, 1000)...))
	}
	if a.Held() != 10_000_000 {
		t.Errorf("%d bytes held", a.Held())
	}
	a.Reset()
	if n := len(a.idle); n > 16 || cap(a.idle) > 0 && slices.ContainsFunc(a.idle[len(a.idle):cap(a.idle)], func(b []byte) bool { return b != nil }) {
		t.Errorf("%d chunks are kept", n)
	}
}

// Reasons have names of their own: they are labels of metrics.
func TestReasonsHaveNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for r := range NumReasons {
		if s := r.String(); s == "unknown" || seen[s] {
			t.Errorf("reason %d is called %q", r, s)
		} else {
			seen[s] = true
		}
	}
	if NumReasons.String() != "unknown" {
		t.Error("what is no reason has a name")
	}
}
