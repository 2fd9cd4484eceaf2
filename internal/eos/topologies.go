package eos

import (
	"errors"
	"fmt"
	"time"

	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/window"
)

// The applications, by their ids.
const (
	TotalsApp  = "eos-totals-app"
	WindowsApp = "eos-windows-app"
	TicksApp   = "eos-ticks-app"
)

// The stores.
const (
	TotalsStore  = "totals"
	WindowsStore = "windows"
	RevisedStore = "revised"
	SumsStore    = "sums"
	GroupsStore  = "groups"
	TicksStore   = "ticks"
)

const (
	// Disorder is how far behind the newest event of its partition one may be and is not late yet.
	Disorder = 2 * time.Second
	// WindowSize is that of the windows, which have no grace.
	WindowSize = time.Second
	// Horizon is for how long windows are corrected: longer than any event is late.
	Horizon = 10 * time.Minute
	// TickEvery is how often each timer fires.
	TickEvery = 50 * time.Millisecond
	// TimersPerTask is how many counters each task of the timers has.
	TimersPerTask = 8
)

func events() topology.TopicOf[string, Event] {
	return topology.Topic(Input, serde.String(), EventSerde).
		EventTime(func(r topology.Record[string, Event]) time.Time { return time.UnixMilli(r.Value.At) }).
		Watermarks(window.BoundedDisorder(Disorder))
}

// Topology returns that of an application.
func Topology(app string) (*topology.Topology, error) {
	b := topology.NewBuilder()
	switch app {
	case TotalsApp:
		totals(b)
	case WindowsApp:
		Windowing(b, nil)
	case TicksApp:
		Ticking(b, TickEvery, TimersPerTask)
	default:
		return nil, fmt.Errorf("eos: there is no application %s", app)
	}
	return b.Build()
}

// totals folds the events of each key, and writes every intermediate value.
func totals(b *topology.Builder) {
	counted := topology.From(b, events()).Filter(func(_ string, e Event) bool { return !e.End })
	topology.Aggregate(counted.GroupByKey(), TotalsStore, TotalSerde, Total.Add).To(topology.Topic(Totals, serde.String(), TotalSerde))
}

// Windowing folds the events of each group per second, sets aside what is late, and joins each result with its group's weight. more, if
// given, adds operators beside the windows.
func Windowing(b *topology.Builder, more func(byGroup topology.Stream[string, Event])) {
	counted := topology.From(b, events()).Filter(func(_ string, e Event) bool { return !e.End })
	byGroup := topology.GroupBy(counted, "by-group", func(_ string, e Event) string { return e.Group() }, serde.String(), EventSerde)
	if more != nil {
		more(byGroup.Stream())
	}
	perWindow := topology.Windowed(byGroup, window.Tumbling(WindowSize), window.Sideline(Late))
	closed := topology.Aggregate(perWindow, WindowsStore, CellSerde, Cell.Add, topology.EmitOnClose()).Stream()
	results := topology.Map(closed, func(k window.Key[string], c Cell) (string, Result) {
		return k.Key, Result{Start: k.Start, Cell: c}
	})
	revise(b, byGroup)
	weights := topology.TableFrom(b, GroupsStore, topology.Topic(Groups, serde.String(), serde.Int64()))
	joined := topology.JoinTable(topology.Repartition(results, "results", Partitions, serde.String(), ResultSerde), weights,
		func(r Result, weight int64) Result {
			r.Weight = weight
			return r
		})
	joined.To(topology.Topic(Windows, serde.String(), ResultSerde))
}

// revise folds the same events per second once more, and corrects the results by what is late; what it makes of the results for each group
// has to subtract what is taken back.
func revise(b *topology.Builder, byGroup topology.Grouped[string, Event]) {
	perWindow := topology.Windowed(byGroup, window.Tumbling(WindowSize), window.CorrectWithin(Horizon).Retract().Otherwise(window.Drop()))
	revised := topology.AggregateWith(perWindow, RevisedStore, CellSerde, topology.Aggregator[Event, Cell]{Add: Cell.Add}, topology.EmitOnClose())
	revised.To(topology.Topic(Revised, window.KeySerde(serde.String()).Size(WindowSize), CellSerde))
	again := topology.GroupBy(revised.Stream(), "revised-by-group", func(k window.Key[string], _ Cell) string { return k.Key }, serde.String(), CellSerde)
	sums := topology.AggregateWith(again, SumsStore, CellSerde, topology.Aggregator[Cell, Cell]{Add: Cell.Plus, Subtract: Cell.Minus})
	sums.To(topology.Topic(Sums, serde.String(), CellSerde))
}

// Ticking counts how often timers fired by the wall clock: so many counters in each task, every so often. Nothing moves its input, so that
// its transactions hold nothing else.
func Ticking(b *topology.Builder, every time.Duration, counters int) {
	in := topology.From(b, topology.Topic(Clock, serde.String(), serde.String()))
	topology.Process(in, "timers", func() *timers { return &timers{every, counters} }, ticksStore).To(topology.Topic(Ticks, serde.String(), serde.Int64()))
}

var ticksStore = state.KeyValueOf(TicksStore, serde.String(), serde.Int64())

type timers struct {
	every    time.Duration
	counters int
}

func (p *timers) Init(t *topology.Task, out topology.Emitter[string, int64]) error {
	counts, err := ticksStore.Open(t)
	if err != nil {
		return err
	}
	return t.EveryWallClock(p.every, func(now time.Time) error {
		for i := range p.counters {
			key := fmt.Sprintf("t%d-%d", t.Partition(), i)
			n, _, err := counts.Get(key)
			if err := errors.Join(err, counts.Put(key, n+1), out(topology.Record[string, int64]{Key: key, Value: n + 1, Time: now.UnixMilli()})); err != nil {
				return err
			}
		}
		return nil
	})
}

func (*timers) Process(topology.Record[string, string], topology.Emitter[string, int64]) error {
	return nil
}
