package pebblestore

import (
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/headrace/headrace/state"
)

// history is all that was ever applied: entry n was applied with the position n+1.
type history [][]state.Mutation

// at returns what the stores hold at a position.
func (h history) at(offset int64, stores int) []map[string]string {
	all := make([]map[string]string, stores)
	for i := range all {
		all[i] = map[string]string{}
	}
	for _, ms := range h[:offset] {
		for _, m := range ms {
			switch {
			case m.Key == nil: // a wipe
				clear(all[m.Store])
			case m.Value == nil:
				delete(all[m.Store], string(m.Key))
			default:
				all[m.Store][string(m.Key)] = string(m.Value)
			}
		}
	}
	return all
}

// A process that is killed, or a machine that loses power, leaves a prefix of what was applied, with the position of that prefix in
// every store; also when it goes on from there and is killed again. Batches are small and large, flushes frequent; and the moment is
// any, since the clones are made while Pebble works.
func TestCrash(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 1))
			fs := vfs.NewCrashableMem()
			var h history
			kept, lost := 0, 0
			for generation := range 12 {
				p := provider(t, Config{Dir: "state", FS: fs, FlushBytes: 1 << (8 + r.IntN(8)), MemoryBudget: minBudget})
				b := open(t, p, specs())
				offset := checkPrefix(t, generation, b, h)
				kept, lost = kept+int(offset), lost+len(h)-int(offset)
				h = h[:offset] // what was lost is applied again, and may be something else

				applied := make(chan struct{})
				crashed := make(chan *vfs.MemFS, 1)
				cfg := vfs.CrashCloneCfg{}
				if r.IntN(2) == 0 {
					cfg = vfs.CrashCloneCfg{UnsyncedDataPercent: r.IntN(101), RNG: rand.New(rand.NewPCG(seed, r.Uint64()))}
				}
				n := 20 + r.IntN(120)
				moment := r.IntN(n)
				var wg sync.WaitGroup
				wg.Go(func() {
					<-applied
					for range r.IntN(3) {
						runtime.Gosched()
					}
					crashed <- fs.CrashClone(cfg)
				})
				for i := range n {
					if i == moment {
						// From here on r belongs to the other goroutine until it is done.
						close(applied)
						wg.Wait()
					}
					ms := randomBatch(r)
					apply(t, b, int64(len(h)+1), ms...)
					h = append(h, ms)
				}
				// The life of the one that crashed goes on in the clone, which knows at most what was applied here.
				closeBackend(t, b)
				if err := p.Close(); err != nil {
					t.Fatal(err)
				}
				fs = <-crashed
			}
			t.Logf("%d applies kept, %d lost", kept, lost)
			if kept == 0 || lost == 0 {
				t.Errorf("%d applies kept, %d lost: the crashes have shown nothing", kept, lost)
			}
		})
	}
}

// The same, with clones made by a goroutine that runs beside the writer: a clone may fall into the middle of a flush.
func TestCrashWhileApplying(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 7))
	fs := vfs.NewCrashableMem()
	p := provider(t, Config{Dir: "state", FS: fs, FlushBytes: 8 << 10, MemoryBudget: minBudget})
	b := open(t, p, specs())
	var h history
	var clones []*vfs.MemFS
	next := make(chan struct{}, 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		for range next {
			clones = append(clones, fs.CrashClone(vfs.CrashCloneCfg{
				UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(uint64(len(clones)), 3)),
			}))
		}
	})
	for i := range 1000 {
		if i%25 == 0 {
			next <- struct{}{} // and go on meanwhile
		}
		ms := randomBatch(r)
		apply(t, b, int64(len(h)+1), ms...)
		h = append(h, ms)
	}
	close(next)
	wg.Wait()
	positions := map[int64]bool{}
	for i, clone := range clones {
		p := provider(t, Config{Dir: "state", FS: clone})
		b := open(t, p, specs())
		positions[checkPrefix(t, i, b, h)] = true
		closeBackend(t, b)
	}
	t.Logf("%d clones at %d positions", len(clones), len(positions))
	if len(positions) < 3 {
		t.Errorf("%d clones are at %d positions: too few to show anything", len(clones), len(positions))
	}
}

func checkPrefix(t *testing.T, generation int, b *backend, h history) int64 {
	t.Helper()
	offset := b.Position(0).Offset
	for i := range b.stores {
		if p := b.Position(i); p != (state.Position{}) && p != *at(len(b.stores), offset)[i] || p.Offset != offset {
			t.Fatalf("generation %d: store %d is at %+v, store 0 at %d", generation, i, p, offset)
		}
	}
	if offset > int64(len(h)) {
		t.Fatalf("generation %d: position %d of %d", generation, offset, len(h))
	}
	for i, all := range h.at(offset, len(b.stores)) {
		if got := contents(t, b, i); !maps.Equal(got, all) {
			t.Fatalf("generation %d: at position %d store %d holds %s, want %s", generation, offset, i, show(got), show(all))
		}
	}
	return offset
}

func randomBatch(r *rand.Rand) []state.Mutation {
	ms := make([]state.Mutation, r.IntN(20))
	large := r.IntN(60) == 0
	for i := range ms {
		ms[i] = state.Mutation{Store: r.IntN(2), Key: fmt.Appendf(nil, "key %d", r.IntN(300))}
		if r.IntN(4) == 0 {
			continue
		}
		ms[i].Value = slices.Repeat(fmt.Appendf(nil, "%d ", r.Uint32()), 1+r.IntN(10))
		if large { // beyond half a memtable: such a batch goes its own way through Pebble
			ms[i].Value = slices.Repeat(ms[i].Value, 1<<10)
		}
	}
	return ms
}

// What was applied is on disk after FlushInterval at the latest, and not before: a crash costs what it may cost.
func TestFlushInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		p := New(Config{Dir: "state", FS: fs, Logger: slog.New(slog.DiscardHandler), FlushInterval: 5 * time.Second})
		b := open(t, p, specs())
		crashed := func() int64 {
			p := New(Config{Dir: "state", Logger: slog.New(slog.DiscardHandler), FS: fs.CrashClone(vfs.CrashCloneCfg{})})
			b := open(t, p, specs())
			offset := b.Position(0).Offset
			closeBackend(t, b)
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			return offset
		}
		time.Sleep(7 * time.Second) // in the bubble; what Open wrote is flushed by now
		apply(t, b, 1, put(0, "a", "1"))
		time.Sleep(3 * time.Second)         // in the bubble
		apply(t, b, 2, put(0, "a", "2"))    // younger, but goes with the first
		time.Sleep(1900 * time.Millisecond) // in the bubble
		if got := crashed(); got != 0 {
			t.Errorf("after 4.9 s position %d is on disk, want none", got)
		}
		time.Sleep(200 * time.Millisecond) // in the bubble
		if got := crashed(); got != 2 {
			t.Errorf("after 5.1 s position %d is on disk, want 2", got)
		}
		apply(t, b, 3, put(0, "a", "3"))
		if got := crashed(); got != 2 {
			t.Errorf("at once position %d is on disk, want 2", got)
		}
		closeBackend(t, b)
		if got := crashed(); got != 3 {
			t.Errorf("after Close position %d is on disk, want 3", got)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// A crash costs FlushBytes, and what came while one flush ran.
func TestFlushBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		p := New(Config{Dir: "state", FS: fs, Logger: slog.New(slog.DiscardHandler), FlushBytes: 64 << 10})
		b := open(t, p, specs())
		value := string(make([]byte, 1000))
		for n := int64(1); n <= 500; n++ {
			apply(t, b, n, put(0, "a", value))
			synctest.Wait() // whatever flush this began has ended
			if n%50 > 0 {
				continue
			}
			p := New(Config{Dir: "state", Logger: slog.New(slog.DiscardHandler), FS: fs.CrashClone(vfs.CrashCloneCfg{})})
			c := open(t, p, specs())
			lost := n - c.Position(0).Offset
			closeBackend(t, c)
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			if lost > 65 {
				t.Errorf("a crash after %d applies of 1 kB loses %d, want at most 64 KiB", n, lost)
			}
		}
		closeBackend(t, b)
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
