//go:build synctests

package framework_test

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/window"
)

// stall makes user code hang once, on the nth call.
type stall struct {
	nth   int64
	d     time.Duration
	calls atomic.Int64
	hung  chan struct{} // closed when it begins
	awake chan struct{} // closed when it ends
}

func newStall(nth int64, d time.Duration) *stall {
	return &stall{nth: nth, d: d, hung: make(chan struct{}), awake: make(chan struct{})}
}

func (s *stall) call() {
	if s.calls.Add(1) == s.nth {
		close(s.hung)
		time.Sleep(s.d) // in a bubble
		close(s.awake)
	}
}

// A member hangs in user code until the group has given its tasks to another. What it had pending is refused, and every word is
// counted once.
func TestHangingMemberIsReplaced(t *testing.T) {
	bubble(t, func(w *world) {
		s := newStall(150, time.Minute)
		a := w.start("a", func(c *framework.Config) {
			c.Topology = countWords(t, func(string) { s.call() })
			c.CommitInterval = 10 * time.Millisecond
		})
		a.runs(2 * partitions)
		w.write(400)
		<-s.hung
		b := w.start("b", nil)
		w.awaitOutputs()
		select {
		case <-s.awake:
			t.Fatal("b was to take over while a hangs")
		default:
		}
		<-s.awake
		w.write(100)
		w.awaitOutputs()
		a.runs(1)
		b.runs(1)
		na := a.stop()
		w.write(100)
		w.awaitOutputs()
		b.stop()
		w.check(false)
		if na.ReadBacks == 0 || na.Aborts == 0 || na.TasksLost < 2*partitions {
			t.Errorf("a was replaced while it hung: %+v", na)
		}
	})
}

// A member hangs until it has been replaced and its successor is gone again, so that it gets back the very partitions that it had,
// and the client sees no change at all. It must not go on from where it was.
func TestHangingMemberGetsItsPartitionsBack(t *testing.T) {
	bubble(t, func(w *world) {
		s := newStall(150, time.Minute)
		a := w.start("a", func(c *framework.Config) {
			c.Topology = countWords(t, func(string) { s.call() })
			c.CommitInterval = 10 * time.Millisecond
		})
		a.runs(2 * partitions)
		w.write(400)
		<-s.hung
		b := w.start("b", nil)
		w.awaitOutputs()
		nb := b.stop()
		select {
		case <-s.awake:
			t.Fatal("b was to come and go while a hangs")
		default:
		}
		<-s.awake
		w.write(100)
		w.awaitOutputs()
		na := a.stop()
		w.check(true)
		if nb.Records == 0 || na.TasksLost < 2*partitions || na.TasksBuilt < 4*partitions || na.RecordsRestored == 0 {
			t.Errorf("b processed %d records in between: a %+v", nb.Records, na)
		}
	})
}

// windowResults counts readings per key and second, and writes the counts when the second is over. look is called for each.
func windowResults(t *testing.T, look func()) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder()
	in := topology.From(b, topology.Topic("readings", serde.String(), serde.String()))
	perWindow := topology.Windowed(in.GroupByKey(), window.Tumbling(time.Second), window.Drop())
	counts := topology.Count(perWindow, "per-second", topology.EmitOnClose()).Stream()
	counts = counts.Peek(func(window.Key[string], int64) { look() })
	counts.To(topology.Topic("seconds", window.KeySerde(serde.String()), serde.Int64()))
	built, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return built
}

// checkResults wants one result of 1 for each key.
func (w *world) checkResults(keys int) {
	w.t.Helper()
	seen := make(map[string]int)
	for _, r := range w.c.ReadCommitted(w.t, "seconds") {
		seen[string(r.Key)]++
		if n := binary.BigEndian.Uint64(r.Value); n != 1 {
			w.t.Fatalf("window %x has count %d, want 1", r.Key, n)
		}
	}
	doubled := 0
	for _, n := range seen {
		if n != 1 {
			doubled++
		}
	}
	if len(seen) != keys || doubled > 0 {
		w.t.Errorf("%d windows of %d have a result, %d of them more than one", len(seen), keys, doubled)
	}
}

// A zombie that holds nothing but results of windows has moved no offset; its transaction must be refused like any other.
func TestZombieWithWindowResultsOnly(t *testing.T) {
	bubble(t, func(w *world) {
		const keys = 3000
		w.createTopics(1, "readings", "seconds")
		const base = 1_600_000_000_000
		var records []*kgo.Record
		for i := range keys {
			records = append(records, &kgo.Record{Topic: "readings", Key: fmt.Appendf(nil, "k%04d", i), Value: []byte("x"), Timestamp: time.UnixMilli(base)})
		}
		w.c.Produce(t, records...)

		s := newStall(1500, time.Minute)
		a := w.start("a", func(c *framework.Config) {
			c.Topology = windowResults(t, s.call)
			c.MaxPendingBytes = 10_000 // so that closing takes many transactions, which move no offset
		})
		a.runs(1)
		w.await("all readings to be in the store", func() bool { return w.c.Committed(t, appID)["readings[0]"] >= keys })
		// One record closes all windows.
		w.c.Produce(t, &kgo.Record{Topic: "readings", Key: []byte("last"), Value: []byte("x"), Timestamp: time.UnixMilli(base + 10_000)})
		<-s.hung
		before := w.c.Committed(t, appID)["readings[0]"]
		if n := len(w.c.ReadCommitted(t, "seconds")); n == 0 || n >= keys {
			t.Fatalf("%d results are out when the member hangs: want some, so that the record that closed the windows is committed", n)
		}
		b := w.start("b", func(c *framework.Config) { c.Topology = windowResults(t, func() {}) })
		w.await("all results", func() bool { return len(w.c.ReadCommitted(t, "seconds")) >= keys })
		select {
		case <-s.awake:
			t.Fatal("b was to take over while a hangs")
		default:
		}
		<-s.awake
		w.await("a to notice", func() bool { return a.Snapshot().Counters.ReadBacks > 0 })
		na := a.stop()
		nb := b.stop()
		w.checkResults(keys)
		if after := w.c.Committed(t, appID)["readings[0]"]; after != before {
			t.Errorf("the offset moved from %d to %d: the zombie was to hold no moved offset", before, after)
		}
		if na.Aborts == 0 || na.ReadBacks == 0 || nb.TasksBuilt == 0 || nb.RecordsRestored == 0 {
			t.Errorf("the zombie was not refused: a %+v, b %+v", na, nb)
		}
	})
}

// The membership is lost while user code runs, and nobody tells: the client has stopped its heartbeats and waits for the gate to say
// so, while the end of the transaction waits for a heartbeat. It must not wait for long.
func TestMembershipIsLostWhileWorking(t *testing.T) {
	bubble(t, func(w *world) {
		s := newStall(150, 5*time.Second)
		a := w.start("a", func(c *framework.Config) {
			c.Topology = countWords(t, func(string) { s.call() })
			c.CommitInterval = 10 * time.Millisecond
		})
		a.runs(2 * partitions)
		w.write(400)
		<-s.hung
		lost := w.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Err: kerr.UnknownMemberID, Count: 1})
		<-s.awake
		awake := time.Now()
		w.awaitOutputs()
		if took := time.Since(awake); took > 10*time.Second {
			t.Errorf("it took %v to go on", took)
		}
		n := a.stop()
		w.check(true)
		if lost.Hits() != 1 || n.ReadBacks == 0 || n.TasksLost < 2*partitions || n.TasksBuilt < 4*partitions || n.Sessions != 1 {
			t.Errorf("the membership was lost %d times: %+v", lost.Hits(), n)
		}
	})
}
