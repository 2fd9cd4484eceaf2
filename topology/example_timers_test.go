package topology_test

import (
	"time"

	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/topology/topologytest"
)

var (
	// unpaid holds what is ordered and not paid for yet.
	unpaid = state.KeyValueOf("unpaid", serde.String(), serde.Int64())
	// deadlines fire an hour of event time after an order.
	deadlines = topology.EventTimers("deadlines", serde.String())
)

// dunning sends a letter to each customer who has not paid an hour after the order. A payment is an order of less than nothing.
type dunning struct {
	unpaid    *state.KeyValueView[string, int64]
	deadlines *topology.TimersView[string]
}

func (p *dunning) Init(t *topology.Task, out topology.Emitter[string, string]) (err error) {
	if p.unpaid, err = unpaid.Open(t); err != nil {
		return err
	}
	p.deadlines, err = deadlines.Open(t, func(customer string, at time.Time) error {
		return out(topology.Record[string, string]{Key: customer, Value: "please pay", Time: at.UnixMilli()})
	})
	return err
}

func (p *dunning) Process(r topology.Record[string, int64], _ topology.Emitter[string, string]) error {
	owed, had, err := p.unpaid.Get(r.Key)
	if err != nil {
		return err
	}
	if owed += r.Value; owed <= 0 {
		if err := p.unpaid.Delete(r.Key); err != nil {
			return err
		}
		return p.deadlines.Cancel(r.Key)
	}
	if !had {
		if err := p.deadlines.Set(r.Key, time.UnixMilli(r.Time).Add(time.Hour)); err != nil {
			return err
		}
	}
	return p.unpaid.Put(r.Key, owed)
}

// A timer for each key, which is cancelled when there is no need for it any more.
func ExampleEventTimers() {
	b := topology.NewBuilder()
	topology.Process(topology.From(b, orders), "dunning", func() *dunning { return &dunning{} }, unpaid, deadlines).To(texts)

	d := start(b)
	in := topologytest.Input(d, orders)
	in.Pipe(clock("12:00"), "ann", 20)
	in.Pipe(clock("12:10"), "bob", 35)
	in.Pipe(clock("12:20"), "ann", 5)
	in.Pipe(clock("12:59"), "bob", -35)
	d.Crash() // timers are state
	in.Pipe(clock("13:30"), "cyd", 1)
	printAll(topologytest.Output(d, texts))
	// Output:
	// ann: please pay
}
