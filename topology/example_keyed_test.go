package topology_test

import (
	"fmt"
	"time"

	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/topology/topologytest"
	"github.com/headrace/headrace/window"
)

func ExampleTableFrom() {
	b := topology.NewBuilder()
	topology.TableFrom(b, "customers", customers).To(texts)

	d := start(b)
	in := topologytest.Input(d, customers)
	in.Pipe(clock("12:00"), "ann", "Ann, Amsterdam")
	in.Pipe(clock("12:01"), "ann", "Ann, Zürich")
	in.PipeNull(clock("12:02"), "ann")
	printAll(topologytest.Output(d, texts))
	// Output:
	// ann: Ann, Amsterdam
	// ann: Ann, Zürich
	// ann deleted
}

func ExampleJoinTable() {
	b := topology.NewBuilder()
	table := topology.TableFrom(b, "customers", customers)
	topology.JoinTable(topology.From(b, orders), table, func(amount int64, customer string) string {
		return fmt.Sprint(customer, " orders for ", amount)
	}).To(texts)

	d := start(b)
	topologytest.Input(d, customers).Pipe(clock("12:00"), "ann", "Ann, Amsterdam")
	in := topologytest.Input(d, orders)
	in.Pipe(clock("12:01"), "ann", 20)
	in.Pipe(clock("12:02"), "bob", 35) // the table has no bob
	printAll(topologytest.Output(d, texts))
	// Output:
	// ann: Ann, Amsterdam orders for 20
}

func ExampleLeftJoinTable() {
	b := topology.NewBuilder()
	table := topology.TableFrom(b, "customers", customers)
	topology.LeftJoinTable(topology.From(b, orders), table, func(amount int64, customer string, known bool) string {
		if !known {
			customer = "somebody"
		}
		return fmt.Sprint(customer, " orders for ", amount)
	}).To(texts)

	d := start(b)
	topologytest.Input(d, customers).Pipe(clock("12:00"), "ann", "Ann, Amsterdam")
	in := topologytest.Input(d, orders)
	in.Pipe(clock("12:01"), "ann", 20)
	in.Pipe(clock("12:02"), "bob", 35)
	printAll(topologytest.Output(d, texts))
	// Output:
	// ann: Ann, Amsterdam orders for 20
	// bob: somebody orders for 35
}

func ExampleGroupBy() {
	// Texts are keyed by their author. To count each text, those that are equal have to meet on one partition.
	b := topology.NewBuilder()
	byText := topology.GroupBy(topology.From(b, texts), "by-text",
		func(_, text string) string { return text }, serde.String(), serde.String())
	topology.Count(byText, "per-text").To(amounts)

	d := topologytest.New(nil, topologytest.Build(nil, b.Build), topologytest.Partitions(4))
	in := topologytest.Input(d, texts)
	in.Pipe(clock("12:00"), "ann", "hello")
	in.Pipe(clock("12:01"), "bob", "hello")
	printAll(topologytest.Output(d, amounts))
	// Output:
	// hello: 1
	// hello: 2
}

func ExampleStream_GroupByKey() {
	b := topology.NewBuilder()
	topology.Count(topology.From(b, orders).GroupByKey(), "orders-per-customer").To(amounts)

	d := start(b)
	in := topologytest.Input(d, orders)
	in.Pipe(clock("12:00"), "ann", 20)
	in.PipeNullKey(clock("12:01"), 35)
	printAll(topologytest.Output(d, amounts))
	fmt.Println(d.Counts())
	// Output:
	// ann: 1
	// map[null-key:1]
}

func ExampleRepartition() {
	// Map may have changed the key: what is keyed behind it needs a repartition topic, which has a name.
	b := topology.NewBuilder()
	byAmount := topology.Map(topology.From(b, orders), func(customer string, amount int64) (int64, string) { return amount, customer })
	again := topology.Repartition(byAmount, "by-amount", 0, serde.Int64(), serde.String())
	counted := topology.Count(again.GroupByKey(), "per-amount")
	counted.To(topology.Topic("per-amount", serde.Int64(), serde.Int64()))

	d := topologytest.New(nil, topologytest.Build(nil, b.Build), topologytest.Partitions(4))
	in := topologytest.Input(d, orders)
	in.Pipe(clock("12:00"), "ann", 20)
	in.Pipe(clock("12:01"), "bob", 20)
	printAll(topologytest.Output(d, topology.Topic("per-amount", serde.Int64(), serde.Int64())))
	// Output:
	// 20: 1
	// 20: 2
}

func ExampleAggregate() {
	type stats struct{ Orders, Sum int64 }
	out := topology.Topic("stats", serde.String(), serde.JSON[stats]())

	b := topology.NewBuilder()
	topology.Aggregate(topology.From(b, orders).GroupByKey(), "stats-per-customer", serde.JSON[stats](),
		func(s stats, amount int64) stats { return stats{s.Orders + 1, s.Sum + amount} }).To(out)

	d := start(b)
	in := topologytest.Input(d, orders)
	in.Pipe(clock("12:00"), "ann", 20)
	in.Pipe(clock("12:01"), "ann", 5)
	printAll(topologytest.Output(d, out))
	// Output:
	// ann: {1 20}
	// ann: {2 25}
}

func ExampleAggregateOrDelete() {
	// What a customer owes. Who owes nothing is forgotten.
	b := topology.NewBuilder()
	topology.AggregateOrDelete(topology.From(b, orders).GroupByKey(), "owed", serde.Int64(),
		func(owed, amount int64) (int64, bool) { return owed + amount, owed+amount != 0 }).To(amounts)

	d := start(b)
	in := topologytest.Input(d, orders)
	in.Pipe(clock("12:00"), "ann", 20)
	in.Pipe(clock("12:01"), "ann", -20)
	in.Pipe(clock("12:02"), "ann", 7)
	printAll(topologytest.Output(d, amounts))
	// Output:
	// ann: 20
	// ann deleted
	// ann: 7
}

func ExampleReduce() {
	b := topology.NewBuilder()
	largest := func(a, b int64) int64 { return max(a, b) }
	topology.Reduce(topology.From(b, orders).GroupByKey(), "largest", serde.Int64(), largest).To(amounts)

	d := start(b)
	in := topologytest.Input(d, orders)
	in.Pipe(clock("12:00"), "ann", 20)
	in.Pipe(clock("12:01"), "ann", 5)
	printAll(topologytest.Output(d, amounts))
	// Output:
	// ann: 20
	// ann: 20
}

func ExampleCount() {
	b := topology.NewBuilder()
	topology.Count(topology.From(b, orders).GroupByKey(), "orders-per-customer").To(amounts)

	d := start(b)
	in := topologytest.Input(d, orders)
	in.Pipe(clock("12:00"), "ann", 20)
	in.Pipe(clock("12:01"), "ann", 5)

	// The count is also in the store, from which a test can read it.
	store, err := state.KeyValueOf("orders-per-customer", serde.String(), serde.Int64()).Open(d.Stores(0))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(store.Get("ann"))
	// Output:
	// 2 true <nil>
}

var perHour = topology.Topic("per-hour", window.KeySerde(serde.String()).Size(time.Hour), serde.Int64())

func ExampleWindowed() {
	// Every order gives the sum of its hour so far. What comes after the next hour has begun is too late.
	b := topology.NewBuilder()
	hours := topology.Windowed(topology.From(b, orders).GroupByKey(), window.Tumbling(time.Hour), window.Sideline("orders-late"))
	topology.Aggregate(hours, "sum-per-hour", serde.Int64(), func(sum, amount int64) int64 { return sum + amount }).To(perHour)

	d := start(b)
	in := topologytest.Input(d, orders)
	in.Pipe(clock("12:10"), "ann", 20)
	in.Pipe(clock("12:50"), "ann", 5)
	in.Pipe(clock("13:01"), "ann", 7)
	in.Pipe(clock("12:59"), "ann", 100)
	for _, r := range topologytest.Output(d, perHour).All() {
		from, to := r.Key.Interval()
		fmt.Printf("%s %s to %s: %d\n", r.Key.Key, from.Format("15:04"), to.Format("15:04"), r.Value)
	}
	late := topologytest.Output(d, topology.Topic("orders-late", serde.String(), serde.Int64())).Read()
	reason, _ := late.Header("x-late-reason")
	fmt.Println("late:", late.Key, late.Value, reason)
	// Output:
	// ann 12:00 to 13:00: 20
	// ann 12:00 to 13:00: 25
	// ann 13:00 to 14:00: 7
	// late: ann 100 window-closed
}

func ExampleEmitOnClose() {
	// One sum for each hour, five minutes after it has ended. Time is that of the orders: the one at 13:05 closes the hour.
	b := topology.NewBuilder()
	hours := topology.Windowed(topology.From(b, orders).GroupByKey(), window.Tumbling(time.Hour).Grace(5*time.Minute), window.Drop())
	topology.Aggregate(hours, "sum-per-hour", serde.Int64(), func(sum, amount int64) int64 { return sum + amount },
		topology.EmitOnClose()).To(perHour)

	d := start(b)
	in := topologytest.Input(d, orders)
	in.Pipe(clock("12:10"), "ann", 20)
	in.Pipe(clock("13:01"), "bob", 7)
	in.Pipe(clock("12:59"), "ann", 5) // within the grace
	out := topologytest.Output(d, perHour)
	fmt.Println("before 13:05:", len(out.All()))
	in.Pipe(clock("13:05"), "bob", 1)
	for _, r := range out.All() {
		from, to := r.Key.Interval()
		fmt.Printf("%s %s to %s: %d\n", r.Key.Key, from.Format("15:04"), to.Format("15:04"), r.Value)
	}
	// Output:
	// before 13:05: 0
	// ann 12:00 to 13:00: 25
}
