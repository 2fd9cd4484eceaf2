//go:build synctests

package simrun_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/headrace/headrace/internal/eos"
	"github.com/headrace/headrace/internal/simrun"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/window"
)

// DeadLetters takes what could not be decoded.
const deadLetters = "sim-dead-letters"

// topologyOf makes that of an app.
func topologyOf(t *testing.T, app string) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder()
	switch app {
	case simrun.Fold:
		fold(b)
	case simrun.Ticks:
		ticks(b)
	default:
		top, err := eos.Topology(eos.WindowsApp)
		if err != nil {
			t.Fatal(err)
		}
		return top
	}
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// fold folds the events of each key behind a repartition topic, and writes every intermediate value.
func fold(b *topology.Builder) {
	events := topology.Topic(eos.Input, serde.String(), eos.EventSerde).
		EventTime(func(r topology.Record[string, eos.Event]) time.Time { return time.UnixMilli(r.Value.At) }).
		Watermarks(window.BoundedDisorder(eos.Disorder))
	counted := topology.From(b, events).Filter(func(_ string, e eos.Event) bool { return !e.End })
	byKey := topology.GroupBy(counted, "by-key", func(_ string, e eos.Event) string { return foldKey(e.Source) }, serde.String(), eos.EventSerde)
	topology.Aggregate(byKey, eos.TotalsStore, eos.TotalSerde, eos.Total.Add).To(topology.Topic(eos.Totals, serde.String(), eos.TotalSerde))
}

func foldKey(source int64) string { return fmt.Sprintf("r%d", source) }

const (
	tickEvery  = 400 * time.Millisecond
	tickTimers = 2
)

var ticksStore = state.KeyValueOf(eos.TicksStore, serde.String(), serde.Int64())

// ticks counts how often timers fired. Nothing moves its input, so that its transactions hold nothing else.
func ticks(b *topology.Builder) {
	in := topology.From(b, topology.Topic(eos.Clock, serde.String(), serde.String()))
	topology.Process(in, "timers", func() *timers { return &timers{} }, ticksStore).To(topology.Topic(eos.Ticks, serde.String(), serde.Int64()))
}

type timers struct{}

func (timers) Init(t *topology.Task, out topology.Emitter[string, int64]) error {
	counts, err := ticksStore.Open(t)
	if err != nil {
		return err
	}
	return t.EveryWallClock(tickEvery, func(now time.Time) error {
		for i := range tickTimers {
			key := fmt.Sprintf("t%d-%d", t.Partition(), i)
			n, _, err := counts.Get(key)
			if err := errors.Join(err, counts.Put(key, n+1), out(topology.Record[string, int64]{Key: key, Value: n + 1, Time: now.UnixMilli()})); err != nil {
				return err
			}
		}
		return nil
	})
}

func (timers) Process(topology.Record[string, string], topology.Emitter[string, int64]) error {
	return nil
}
