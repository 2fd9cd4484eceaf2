//go:build synctests

package simrun_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/headrace/headrace/internal/eos"
	"github.com/headrace/headrace/internal/simrun"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/window"
)

// DeadLetters takes what could not be decoded.
const deadLetters = "sim-dead-letters"

// topologyOf makes that of an app.
func topologyOf(t *testing.T, app string, away bool) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder()
	switch app {
	case simrun.Fold:
		fold(b)
	case simrun.Ticks:
		eos.Ticking(b, tickEvery, tickTimers)
	default:
		more := func(topology.Stream[string, eos.Event]) {}
		if away {
			more = clocks
		}
		eos.Windowing(b, more)
	}
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// clocks are so many operators that keep time, under such long names, that it does not fit into the metadata of an offset.
func clocks(s topology.Stream[string, eos.Event]) {
	for i := range 30 {
		topology.Process(s, fmt.Sprintf("clock-%0144d", i), func() clock { return clock{} })
	}
}

type clock struct{}

func (clock) Init(t *topology.Task, _ topology.Emitter[string, string]) error {
	return t.EveryStreamTime(time.Hour, func(time.Time) error { return nil })
}

func (clock) Process(topology.Record[string, eos.Event], topology.Emitter[string, string]) error {
	return nil
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
