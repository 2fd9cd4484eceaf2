//go:build synctests

package eos_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/internal/eos"
	"github.com/headrace/headrace/internal/wiretap"
	"github.com/headrace/headrace/state/pebblestore"
)

func createTopic(t *testing.T, cl *kgo.Client, name string, partitions int32) {
	t.Helper()
	if _, err := kadm.NewClient(cl).CreateTopic(context.Background(), partitions, 1, nil, name); err != nil {
		t.Fatal(err)
	}
}

const (
	produce       = int16(kmsg.Produce)
	endTxn        = int16(kmsg.EndTxn)
	heartbeat     = int16(kmsg.Heartbeat)
	offsetCommits = int16(kmsg.TxnOffsetCommit)
)

var plain = &wiretap.Wire{}

// Each plan is a small scenario that a planted bug cannot survive: scripts/mutants.sh says which bug belongs to which. Without a bug all
// checkers pass.
func TestPlan(t *testing.T) {
	t.Parallel()

	// A process dies right after a commit, and comes back.
	plan(t, "crash-after-commit", func(w *world) {
		m := w.start("p", eos.TotalsApp, plain, nil)
		m.runs(planPartitions)
		w.write(100)
		w.until("the events to be committed", func() bool { return w.committedAll() })
		m.crash()
		m = w.start("p", eos.TotalsApp, plain, nil)
		w.write(100)
		w.until("the events to be committed", func() bool { return w.committedAll() })
		// What is committed is there for all to read: nothing has to be waited for.
		w.checkTotals(true)
		m.stop()
	})

	// A transaction takes its time to end, and events come meanwhile. Then the process starts anew, from its changelog.
	plan(t, "writes-while-committing", func(w *world) {
		var ends atomic.Int64
		slow := &wiretap.Wire{Request: func(f wiretap.Frame) bool {
			if f.Key == endTxn {
				ends.Add(1)
				f.Stall(time.Second)
			}
			return true
		}}
		m := w.start("p", eos.TotalsApp, slow, nil)
		m.runs(planPartitions)
		w.until("positions to be committed", func() bool { return ends.Load() > 0 })
		for range 3 {
			before := ends.Load()
			w.write(100)
			w.until("a commit", func() bool { return ends.Load() > before })
			w.write(100) // which are processed while it is on its way: they alone can be, before time goes on
			w.until("the events to be committed", func() bool { return w.committedAll() })
		}
		m.stop()
		m = w.start("p", eos.TotalsApp, plain, nil)
		w.write(400)
		w.until("the events to be committed", func() bool { return w.committedAll() })
		m.stop()
		w.checkTotals(true)
	})

	// The coordinator refuses offsets for a while: transactions are aborted, and their events are processed again.
	plan(t, "aborts", func(w *world) {
		m := w.start("p", eos.TotalsApp, plain, nil)
		m.runs(planPartitions)
		refused := 0
		for i := range 8 {
			var fault *kfake.FaultHandle
			if i%2 == 1 {
				fault = w.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Err: kerr.TransactionAbortable, Count: 1})
			}
			w.write(50)
			if !w.done() {
				return
			}
			if fault != nil {
				refused += int(fault.Hits())
			}
		}
		m.stop()
		w.folds()
		eos.CheckCounters(w.rep, eos.TotalsApp, m.Snapshot().Counters.Records, int64(len(w.events)))
		if refused != 4 || m.Snapshot().Counters.Aborts == 0 {
			w.t.Errorf("%d commits were refused, and the counters are %+v", refused, m.Snapshot().Counters)
		}
	})

	// The broker commits, and answers with an error that the client takes for an abort.
	plan(t, "committed-but-refused", func(w *world) {
		forged := &atomic.Int64{}
		n := &atomic.Int64{}
		m := w.start("p", eos.TotalsApp, &wiretap.Wire{Response: func(f wiretap.Frame) bool {
			if f.Key == endTxn {
				switch n.Add(1) {
				case 3, 4, 6:
					forged.Add(1)
					f.SetError(kerr.UnknownServerError.Code)
				}
			}
			return true
		}}, nil)
		m.runs(planPartitions)
		for range 8 {
			w.write(50)
			if !w.done() {
				return
			}
		}
		m.stop()
		w.folds()
		if forged.Load() != 3 {
			w.t.Errorf("%d answers were forged, want 3", forged.Load())
		}
	})

	// A process stops and starts again.
	plan(t, "restart", func(w *world) {
		for range 3 {
			m := w.start("p", eos.TotalsApp, plain, nil)
			m.runs(planPartitions)
			w.write(100)
			if !w.done() {
				return
			}
			m.stop()
		}
		w.folds()
	})

	// A process dies when the records of its transaction are with the broker and its offsets are not; state is in memory, so that all
	// of it is restored.
	plan(t, "crash-before-commit", func(w *world) {
		armed, hit := &atomic.Bool{}, make(chan struct{})
		m := w.start("p", eos.TotalsApp, &wiretap.Wire{Request: func(f wiretap.Frame) bool {
			if f.Key == offsetCommits && armed.CompareAndSwap(true, false) {
				close(hit)
				f.Stall(time.Hour)
				return false
			}
			return true
		}}, nil)
		m.runs(planPartitions)
		w.write(100)
		if !w.done() {
			return
		}
		armed.Store(true)
		w.write(100)
		<-hit
		m.crash()
		m = w.start("p", eos.TotalsApp, plain, nil)
		m.runs(planPartitions)
		w.write(100)
		w.folds()
		m.stop()
	})

	// A power loss, with state on a disk that has nothing but what was flushed.
	plan(t, "power-loss", func(w *world) {
		disk := vfs.NewCrashableMem()
		kept := func(disk vfs.FS) func(*framework.Config) {
			return func(c *framework.Config) {
				c.State = pebblestore.New(pebblestore.Config{Dir: "state", FS: disk, MemoryBudget: 8 << 20, FlushInterval: time.Hour, Logger: c.Logger})
			}
		}
		m := w.start("p", eos.TotalsApp, plain, kept(disk))
		m.runs(planPartitions)
		for range 5 {
			w.write(100)
			if !w.done() {
				return
			}
		}
		after := disk.CrashClone(vfs.CrashCloneCfg{})
		m.crash()
		m = w.start("p", eos.TotalsApp, plain, kept(after))
		m.runs(planPartitions)
		w.write(200)
		w.folds()
		m.stop()
	})

	// Another process joins while much is queued.
	plan(t, "join-with-deep-queues", func(w *world) {
		slow := func(c *framework.Config) { c.Topology = slowTotals(w.t, time.Millisecond) }
		a := w.start("a", eos.TotalsApp, plain, slow)
		a.runs(planPartitions)
		w.write(16000)
		w.until("some events to be processed", func() bool { return w.totals() > 100 })
		b := w.start("b", eos.TotalsApp, plain, slow)
		b.runs(planPartitions / 2)
		w.folds()
		a.stop()
		b.stop()
		if n := b.Snapshot().Counters.Records; n == 0 {
			w.t.Error("b processed nothing: nothing was tested")
		}
	})

	// A process is cut off while its transaction holds what timers made, and comes back when others have its tasks.
	plan(t, "zombie-with-timers", func(w *world) {
		w.startClock(planPartitions)
		cut, fresh, told := &hold{}, &atomic.Bool{}, &atomic.Bool{}
		wire := &wiretap.Wire{Request: func(f wiretap.Frame) bool {
			switch f.Key {
			case endTxn:
				fresh.Store(true)
			case produce:
				if fresh.Swap(false) { // later in the transaction, and its successor would wait for what it sees of it
					cut.begin()
				}
			}
			cut.wait(f)
			if f.Key == heartbeat && cut.begun() && !told.Swap(true) {
				f.Stall(3 * time.Second) // the transaction ends before the member hears that it is none any more
			}
			return true
		}}
		a := w.start("a", eos.TicksApp, wire, nil)
		a.runs(planPartitions)
		w.until("the timers to run", func() bool { return w.tickCount() > 100 })
		cut.arm(12 * time.Second)
		b := w.start("b", eos.TicksApp, plain, nil)
		b.runs(planPartitions)
		w.until("a to be back", cut.over)
		w.ticks(w.tickCount() + 1000)
		if w.rep.OK() {
			a.stop()
			b.stop()
		}
	})

	// Twice the group takes tasks from a process while it cannot end its transaction: the client tells only of the first time.
	plan(t, "two-rebalances-in-a-transaction", func(w *world) {
		const tasks = 12
		w.startClock(tasks)
		stalled := &hold{}
		wire := &wiretap.Wire{Response: func(f wiretap.Frame) bool {
			if f.Key == produce {
				stalled.begin()
				stalled.wait(f)
			}
			return true
		}}
		a := w.start("a", eos.TicksApp, wire, nil)
		a.runs(tasks)
		w.until("the timers to run", func() bool { return w.tickCount() > 100 })
		stalled.arm(10 * time.Second)
		w.until("a to be stalled", stalled.begun)
		time.Sleep(1500 * time.Millisecond) // in a bubble: by then the gate is open
		b := w.start("b", eos.TicksApp, plain, nil)
		time.Sleep(4 * time.Second) // in a bubble
		c := w.start("c", eos.TicksApp, plain, nil)
		w.until("a to go on", stalled.over)
		c.runs(tasks / 3)
		w.ticks(w.tickCount() + 3000)
		if w.rep.OK() {
			a.stop()
			b.stop()
			c.stop()
		}
	})
}

func (w *world) committedAll() bool {
	ends := make(map[string]int64)
	for _, r := range w.read(eos.Input) {
		ends[r.Place().String()] = r.Offset + 1
	}
	got := w.c.Committed(w.t, eos.TotalsApp)
	for at, end := range ends {
		if got[at] < end {
			return false
		}
	}
	return true
}
