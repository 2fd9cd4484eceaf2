package topology_test

import (
	"fmt"
	"time"

	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/topology/topologytest"
)

// lastOrders holds when each customer ordered last, and what for.
var lastOrders = state.KeyValueOf("last-orders", serde.String(), serde.Int64())

// reminder passes on the orders that are larger than the customer's last one. It reminds customers who have not ordered for an
// hour of event time, and says every minute of wall time that it is alive.
type reminder struct {
	last *state.KeyValueView[string, int64]
}

func (p *reminder) Init(t *topology.Task, out topology.Emitter[string, string]) (err error) {
	if p.last, err = lastOrders.Open(t); err != nil {
		return err
	}
	err = t.EveryStreamTime(30*time.Minute, func(watermark time.Time) error {
		for item, err := range p.last.All() {
			if err != nil {
				return err
			}
			if watermark.Sub(time.UnixMilli(item.At)) < time.Hour {
				continue
			}
			if err := out(topology.Record[string, string]{Key: item.Key, Value: "we miss you", Time: watermark.UnixMilli()}); err != nil {
				return err
			}
			if err := p.last.Delete(item.Key); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return t.EveryWallClock(time.Minute, func(now time.Time) error {
		return out(topology.Record[string, string]{Key: "reminder", Value: "alive", Time: now.UnixMilli()})
	})
}

func (p *reminder) Process(r topology.Record[string, int64], out topology.Emitter[string, string]) error {
	before, _, err := p.last.Get(r.Key)
	if err != nil {
		return err
	}
	if err := p.last.Put(r.Key, r.Value); err != nil {
		return err
	}
	if r.Value <= before {
		return nil
	}
	return out(topology.Record[string, string]{Key: r.Key, Value: fmt.Sprint("more: ", r.Value), Time: r.Time})
}

// A processor with a store and both kinds of punctuation.
func ExampleProcess() {
	b := topology.NewBuilder()
	topology.Process(topology.From(b, orders), "reminder", func() *reminder { return &reminder{} }, lastOrders).To(texts)

	d := start(b)
	in := topologytest.Input(d, orders)
	in.Pipe(clock("12:00"), "ann", 20)
	in.Pipe(clock("12:10"), "bob", 35)
	in.Pipe(clock("12:20"), "bob", 30)
	in.Pipe(clock("13:01"), "cyd", 1)
	d.Advance(time.Minute)
	printAll(topologytest.Output(d, texts))
	// Output:
	// ann: more: 20
	// bob: more: 35
	// cyd: more: 1
	// ann: we miss you
	// reminder: alive
}
