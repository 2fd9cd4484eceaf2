//go:build synctests

package eos_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/internal/eos"
	"github.com/headrace/headrace/internal/kafkatest"
	"github.com/headrace/headrace/internal/wiretap"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/topology"
)

// world is a plan's: a cluster in a bubble, where time goes on only when everybody waits.
type world struct {
	t      *testing.T
	c      *kafkatest.Cluster
	events []eos.Event
	next   map[int64]int64
	totals func() int
	rep    *eos.Report
}

const planPartitions = 4

// plan runs one in a bubble. In the end it prints what the checkers found, one violation a line: that is what make mutants looks for.
func plan(t *testing.T, name string, run func(w *world)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w := &world{t: t, next: make(map[int64]int64), rep: &eos.Report{}}
			w.c = kafkatest.Start(t, kfake.SeedTopics(planPartitions, eos.Input, eos.Totals, eos.Windows, eos.Late, eos.Revised, eos.Sums, eos.Ticks))
			w.totals = w.c.Count(t, eos.Totals)
			run(w)
			if !w.rep.OK() {
				t.Errorf("the plan ends with\n%s", w.rep.Describe())
			}
		})
	})
}

// write writes n events of 40 keys.
func (w *world) write(n int) {
	w.t.Helper()
	var records []*kgo.Record
	for range n {
		i := int64(len(w.events))
		e := eos.Event{Source: i * 7 % 40, Amount: 1 + i%13, At: base + i}
		w.next[e.Source]++
		e.N = w.next[e.Source]
		w.events = append(w.events, e)
		records = append(records, &kgo.Record{
			Topic: eos.Input, Partition: int32(e.Source % planPartitions), Key: []byte(keyOf(e.Source)),
			Value: encode(w.t, eos.EventSerde, e), Timestamp: time.UnixMilli(e.At),
		})
	}
	w.c.Produce(w.t, records...)
}

// member is an application that runs.
type member struct {
	*framework.App
	w      *world
	name   string
	cancel context.CancelFunc
	done   chan error
	dead   *atomic.Bool
}

// start starts one, whose network passes through wire.
func (w *world) start(name, app string, wire *wiretap.Wire, change func(*framework.Config)) *member {
	w.t.Helper()
	dead := &atomic.Bool{}
	through := *wire
	through.Request = func(f wiretap.Frame) bool {
		return !dead.Load() && (wire.Request == nil || wire.Request(f)) && !dead.Load()
	}
	through.Response = func(f wiretap.Frame) bool {
		return !dead.Load() && (wire.Response == nil || wire.Response(f)) && !dead.Load()
	}
	cfg := framework.Config{
		AppID: app, Brokers: w.c.ListenAddrs(), Kafka: w.c.Through(&through), State: state.Memory(), Instance: name,
		SessionTimeout: 6 * time.Second, Logger: slog.New(slog.DiscardHandler),
	}
	if os.Getenv("HEADRACE_LOG") != "" {
		cfg.Logger = slog.New(slog.NewTextHandler(w.t.Output(), nil)).With("member", name)
	}
	if change != nil {
		change(&cfg)
	}
	if cfg.Topology == nil {
		top, err := eos.Topology(app)
		if err != nil {
			w.t.Fatal(err)
		}
		cfg.Topology = top
	}
	a, err := framework.New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &member{App: a, w: w, name: name, cancel: cancel, done: make(chan error, 1), dead: dead}
	go func() { m.done <- a.Run(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		<-m.done
	})
	return m
}

// crash ends a member without its being able to say anything to anybody.
func (m *member) crash() {
	m.dead.Store(true)
	m.end()
}

func (m *member) end() error {
	m.cancel()
	err := <-m.done
	m.done <- nil
	return err
}

// stop ends a member and wants it to end well.
func (m *member) stop() {
	m.w.t.Helper()
	if err := m.end(); err != nil {
		m.w.t.Errorf("member %s: Run returned %v", m.name, err)
	}
}

// runs waits until a member runs n tasks.
func (m *member) runs(n int) {
	m.w.t.Helper()
	m.w.until(fmt.Sprintf("%s runs %d tasks", m.name, n), func() bool { return len(m.Snapshot().Tasks) >= n })
}

// until waits for a condition. A plan that waits in vain has not found anything.
func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	for end := time.Now().Add(3 * time.Minute); !holds(); time.Sleep(50 * time.Millisecond) { // in a bubble: the clock stands still while anybody works
		if time.Now().After(end) {
			w.t.Fatalf("plan timed out: waited three minutes for: %s", what)
		}
	}
}

// done waits until there are as many totals as events, and says whether all is well so far. It stops at the first violation.
func (w *world) done() bool {
	w.t.Helper()
	seen := -1
	w.until("all totals", func() bool {
		if n := w.totals(); n != seen {
			seen = n
			w.checkTotals(false)
		}
		return !w.rep.OK() || seen >= len(w.events)
	})
	return w.rep.OK()
}

func (w *world) read(topic string) []eos.Record {
	var out []eos.Record
	for _, r := range w.c.ReadCommitted(w.t, topic) {
		out = append(out, eos.FromKgo(r))
	}
	return out
}

func (w *world) checkTotals(whole bool) {
	w.t.Helper()
	eos.CheckTotals(w.rep, w.events, w.read(eos.Totals), keyOf, whole)
}

// folds wants all totals, and a changelog that makes the same.
func (w *world) folds() {
	w.t.Helper()
	if !w.done() {
		return
	}
	w.checkTotals(true)
	folded := make(map[string]eos.Entry)
	byPartition := make(map[int32][]eos.Record)
	for _, r := range w.read(eos.TotalsApp + "-" + eos.TotalsStore + "-changelog") {
		byPartition[r.Partition] = append(byPartition[r.Partition], r)
	}
	for _, records := range byPartition {
		for k, e := range eos.FoldLog(records, records[len(records)-1].Offset+1) {
			folded[k] = e
		}
	}
	eos.CheckOutputs(w.rep, eos.TotalsStore, folded, w.read(eos.Totals))
}

// slowTotals is the topology of the totals with a wait before each event.
func slowTotals(t *testing.T, wait time.Duration) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder()
	in := topology.From(b, topology.Topic(eos.Input, serde.String(), eos.EventSerde)).Peek(func(string, eos.Event) {
		time.Sleep(wait) // in a bubble
	})
	topology.Aggregate(in.GroupByKey(), eos.TotalsStore, eos.TotalSerde, eos.Total.Add).To(topology.Topic(eos.Totals, serde.String(), eos.TotalSerde))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// ticks waits until the timers have said something n times, or have gone wrong, and checks them.
func (w *world) ticks(n int) {
	w.t.Helper()
	w.until("the timers", func() bool {
		records := w.read(eos.Ticks)
		found := &eos.Report{}
		eos.CheckTimers(found, records)
		if !found.OK() || len(records) >= n {
			w.rep = found
			return true
		}
		return false
	})
}

func (w *world) tickCount() int { return len(w.read(eos.Ticks)) }

// startClock makes the timers' input, of n partitions.
func (w *world) startClock(n int32) {
	w.t.Helper()
	cl := w.c.Client(w.t)
	createTopic(w.t, cl, eos.Clock, n)
}
