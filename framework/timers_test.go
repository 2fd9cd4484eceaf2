//go:build synctests

package framework_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/internal/wiretap"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/topology"
)

var (
	reminders = topology.WallClockTimers("reminders", serde.String())
	deadlines = topology.EventTimers("deadlines", serde.String())
	reminded  = state.KeyValueOf("reminded", serde.String(), serde.Int64())
)

// rounds is how often a key is reminded, ten seconds after another, the first time a minute after its record.
const rounds = 12

// reminder reminds of each key, and says once when event time is an hour past its record.
type reminder struct {
	t         *topology.Task
	reminders *topology.TimersView[string]
	deadlines *topology.TimersView[string]
}

func (p *reminder) Init(t *topology.Task, out topology.Emitter[string, string]) error {
	p.t = t
	counts, err := reminded.Open(t)
	if err != nil {
		return err
	}
	p.reminders, err = reminders.Open(t, func(key string, at time.Time) error {
		n, _, err := counts.Get(key)
		if err != nil {
			return err
		}
		if err := counts.Put(key, n+1); err != nil {
			return err
		}
		if n+1 < rounds {
			if err := p.reminders.Set(key, at.Add(10*time.Second)); err != nil {
				return err
			}
		}
		return out(topology.Record[string, string]{Key: key, Value: fmt.Sprint("reminder ", n+1), Time: at.UnixMilli()})
	})
	if err != nil {
		return err
	}
	p.deadlines, err = deadlines.Open(t, func(key string, at time.Time) error {
		return out(topology.Record[string, string]{Key: key, Value: "deadline", Time: at.UnixMilli()})
	})
	return err
}

func (p *reminder) Process(r topology.Record[string, string], _ topology.Emitter[string, string]) error {
	if r.Value == "clock" {
		return nil
	}
	if err := p.reminders.Set(r.Key, p.t.Now().Add(time.Minute)); err != nil {
		return err
	}
	return p.deadlines.Set(r.Key, time.UnixMilli(r.Time).Add(time.Hour))
}

func reminding(t *testing.T) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder()
	in := topology.From(b, topology.Topic("in", serde.String(), serde.String()))
	topology.Process(in, "reminder", func() *reminder { return &reminder{} }, reminders, deadlines, reminded).
		To(topology.Topic("out", serde.String(), serde.String()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// A firing counts once, whatever becomes of the transaction that it is in: aborted since its end never arrived, or committed though the
// answer is lost, or says that it was not.
func TestTimersOverAborts(t *testing.T) {
	bubble(t, func(w *world) {
		const keys = 40
		var requests, responses nth
		var until atomic.Int64
		wire := &wiretap.Wire{
			Request: func(f wiretap.Frame) bool {
				if !commits(f) {
					return true
				}
				if requests.is(4, 8) {
					until.Store(time.Now().Add(time.Minute).UnixNano())
				}
				return time.Now().UnixNano() >= until.Load()
			},
			Response: func(f wiretap.Frame) bool {
				if f.Key != endTxn {
					return true
				}
				if responses.is(3, 4, 5, 6, 7, 8, 9) {
					return false
				}
				if responses.n.Load()%7 == 0 {
					f.SetError(kerr.UnknownServerError.Code)
				}
				return true
			},
		}
		m := w.start("a", func(c *framework.Config) {
			w.through(wire)(c)
			c.Topology = reminding(t)
		})
		m.runs(partitions)
		want := map[string][]string{}
		for i := range keys {
			key := fmt.Sprintf("k%02d", i)
			w.c.Produce(t, &kgo.Record{Topic: "in", Partition: int32(i % partitions), Key: []byte(key), Value: []byte("set"), Timestamp: time.Now()})
			for n := range rounds {
				want[key] = append(want[key], fmt.Sprint("reminder ", n+1))
			}
		}
		w.await("all reminders", func() bool { return w.outputs() >= keys*rounds })
		time.Sleep(time.Hour) // in a bubble: nothing comes twice
		n := m.stop()
		got := map[string][]string{}
		for _, r := range w.c.ReadCommitted(t, "out") {
			got[string(r.Key)] = append(got[string(r.Key)], string(r.Value))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("firings (-want +got):\n%s", diff)
		}
		if n.Aborts == 0 || n.ReadBacksCommitted == 0 || n.TasksBuilt <= partitions || requests.hits.Load() < 2 {
			t.Errorf("the test shows little: %+v", n)
		}
	})
}

// Timers fire once each, over restarts: those in processing time that fell due while nobody was there as well, when somebody is.
func TestTimersOverRestarts(t *testing.T) {
	bubble(t, func(w *world) {
		const keys = 40
		change := func(c *framework.Config) { c.Topology = reminding(t) }
		start := time.Now()
		clock := func(at time.Time) { // event time in every partition
			for p := range int32(partitions) {
				w.c.Produce(t, &kgo.Record{Topic: "in", Partition: p, Key: []byte("clock"), Value: []byte("clock"), Timestamp: at})
			}
		}
		want := map[string][]string{}
		a := w.start("a", change)
		a.runs(partitions)
		for i := range keys {
			key := fmt.Sprintf("k%02d", i)
			w.c.Produce(t, &kgo.Record{Topic: "in", Partition: int32(i % partitions), Key: []byte(key), Value: []byte("set"), Timestamp: start.Add(time.Duration(i))})
			for n := range rounds {
				want[key] = append(want[key], fmt.Sprint("reminder ", n+1))
			}
			want[key] = append(want[key], "deadline")
		}
		w.await("the timers to be set", func() bool { return a.Snapshot().Counters.Records >= keys })
		time.Sleep(30 * time.Second) // in a bubble: nothing is due yet
		if n := w.outputs(); n != 0 {
			t.Errorf("%d outputs after half a minute", n)
		}
		a.stop()
		time.Sleep(time.Minute) // in a bubble: half a minute beyond what is due
		for n := 3; n < rounds; n += 2 {
			b := w.start(fmt.Sprint("b", n), change)
			b.runs(partitions)
			w.await("reminders", func() bool { return w.outputs() >= n*keys })
			if n == 3 && w.outputs() > 5*keys {
				t.Errorf("%d outputs: the timers fire too early", w.outputs())
			}
			b.stop()
		}
		c := w.start("c", change)
		w.await("all reminders", func() bool { return w.outputs() >= keys*rounds })
		clock(start.Add(59 * time.Minute))
		w.await("the clock", func() bool { return c.Snapshot().Counters.Records >= partitions })
		time.Sleep(10 * time.Second) // in a bubble: no timer is too early
		if n := w.outputs(); n != keys*rounds {
			t.Errorf("%d outputs, want the %d reminders", n, keys*rounds)
		}
		clock(start.Add(61 * time.Minute))
		w.await("the deadlines", func() bool { return w.outputs() >= keys*(rounds+1) })
		c.stop()
		d := w.start("d", change)
		d.runs(partitions)
		time.Sleep(2 * time.Hour) // in a bubble: nothing comes twice
		d.stop()
		got := map[string][]string{}
		for _, r := range w.c.ReadCommitted(t, "out") {
			got[string(r.Key)] = append(got[string(r.Key)], string(r.Value))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("firings (-want +got):\n%s", diff)
		}
	})
}
