package topology_test

import (
	"time"

	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/topology/topologytest"
)

// A total that changes with every order is told once in an hour at the most.
func ExampleTable_Suppress() {
	sum := func(a, b int64) int64 { return a + b }
	totals := topology.Topic("totals", serde.String(), serde.Int64())
	b := topology.NewBuilder()
	topology.Aggregate(topology.From(b, orders).GroupByKey(), "per-customer", serde.Int64(), sum).
		Suppress("told", topology.UntilTimeLimit(time.Hour).MaxRecords(100_000).EmitEarlyWhenFull()).
		To(totals)

	d := start(b)
	in := topologytest.Input(d, orders)
	in.Pipe(clock("12:00"), "ann", 20)
	in.Pipe(clock("12:10"), "ann", 35)
	in.Pipe(clock("12:50"), "bob", 5)
	in.Pipe(clock("13:00"), "ann", 1) // replaces what is kept back still, and then its hour is over
	in.Pipe(clock("13:30"), "ann", 100)
	in.Pipe(clock("14:30"), "cyd", 1)
	printAll(topologytest.Output(d, totals))
	// Output:
	// ann: 56
	// bob: 5
	// ann: 156
}
