package topologytest_test

import (
	"fmt"
	"time"

	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/topology/topologytest"
	"github.com/headrace/headrace/window"
)

// How often was each page visited? Clicks are keyed by user, so they have to meet by page first.
func Example() {
	clicks := topology.Topic("clicks", serde.String(), serde.String()) // user → page
	visits := topology.Topic("visits", serde.String(), serde.Int64())
	b := topology.NewBuilder()
	byPage := topology.GroupBy(topology.From(b, clicks), "by-page",
		func(_, page string) string { return page }, serde.String(), serde.String())
	topology.Count(byPage, "visits-per-page").To(visits)

	// In a test, pass t instead of nil.
	d := topologytest.New(nil, topologytest.Build(nil, b.Build), topologytest.Partitions(4))
	in, out := topologytest.Input(d, clicks), topologytest.Output(d, visits)
	in.Pipe(time.UnixMilli(1), "ann", "/home")
	in.Pipe(time.UnixMilli(2), "bob", "/home")
	fmt.Println(out.Read())
	fmt.Println(out.Read())
	// Output:
	// /home: 1 @ 1970-01-01T00:00:00.001Z
	// /home: 2 @ 1970-01-01T00:00:00.002Z
}

func ExampleDriver_Crash() {
	clicks := topology.Topic("clicks", serde.String(), serde.String())
	counts := topology.Topic("counts", serde.String(), serde.Int64())
	b := topology.NewBuilder()
	topology.Count(topology.From(b, clicks).GroupByKey(), "clicks-per-user").To(counts)

	d := topologytest.New(nil, topologytest.Build(nil, b.Build), topologytest.Manual())
	in, out := topologytest.Input(d, clicks), topologytest.Output(d, counts)
	in.Pipe(time.UnixMilli(1), "ann", "/home")
	d.Run()
	d.Commit()
	in.Pipe(time.UnixMilli(2), "ann", "/home")
	d.Run()
	d.Crash() // the second click was counted, but not committed
	fmt.Println(topologytest.Latest(out))
	d.Settle() // so it is counted again
	fmt.Println(topologytest.Latest(out))
	// Output:
	// map[ann:1]
	// map[ann:2]
}

// A window behind a repartition topic closes when all that feed the topic are past its end, and a partition without a record is
// past nothing. That is so in a running application, too. End says that nothing more comes.
func ExampleDriver_End() {
	clicks := topology.Topic("clicks", serde.String(), serde.String())
	hourly := topology.Topic("hourly", window.KeySerde(serde.String()).Size(time.Hour), serde.Int64())
	b := topology.NewBuilder()
	byPage := topology.GroupBy(topology.From(b, clicks), "by-page",
		func(_, page string) string { return page }, serde.String(), serde.String())
	hours := topology.Windowed(byPage, window.Tumbling(time.Hour), window.Drop())
	topology.Count(hours, "visits-per-hour", topology.EmitOnClose()).To(hourly)

	d := topologytest.New(nil, topologytest.Build(nil, b.Build), topologytest.Partitions(2))
	in, out := topologytest.Input(d, clicks), topologytest.Output(d, hourly)
	noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	in.PipeTo(0, noon, "ann", "/home")
	in.PipeTo(0, noon.Add(5*time.Hour), "ann", "/home")
	fmt.Println("partition 1 is empty:", len(out.All()), "windows closed")
	in.PipeTo(1, noon.Add(2*time.Hour), "bob", "/home")
	fmt.Println("and has got to 14:00:", len(out.All()), "window closed")
	d.End()
	fmt.Println("nothing more comes:", len(out.All()), "windows closed")
	// Output:
	// partition 1 is empty: 0 windows closed
	// and has got to 14:00: 1 window closed
	// nothing more comes: 2 windows closed
}

func ExampleDriver_Try() {
	clicks := topology.Topic("clicks", serde.String(), serde.String())
	b := topology.NewBuilder()
	topology.Count(topology.From(b, clicks).GroupByKey(), "clicks-per-user")

	d := topologytest.New(nil, topologytest.Build(nil, b.Build))
	in := topologytest.Input(d, clicks)
	fmt.Println(d.Try(func() { in.PipeTo(3, time.UnixMilli(1), "ann", "/home") }))
	// Output:
	// topologytest: topic clicks has partitions 0 to 0, not 3
}
