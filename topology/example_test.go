package topology_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/topology/topologytest"
	"github.com/headrace/headrace/window"
)

// The topics of the examples.
var (
	orders    = topology.Topic("orders", serde.String(), serde.Int64()) // customer → amount
	customers = topology.Topic("customers", serde.String(), serde.String())
	texts     = topology.Topic("texts", serde.String(), serde.String())
	amounts   = topology.Topic("amounts", serde.String(), serde.Int64())
)

func clock(hhmm string) time.Time {
	t, err := time.Parse("2006-01-02 15:04", "2026-05-01 "+hhmm)
	if err != nil {
		panic(err) // a mistake in the example
	}
	return t
}

// start builds a topology and starts a driver for it. In a test, pass t instead of nil.
func start(b *topology.Builder) *topologytest.Driver {
	return topologytest.New(nil, topologytest.Build(nil, b.Build))
}

func printAll[K, V any](out *topologytest.Out[K, V]) {
	for _, r := range out.All() {
		if r.Null {
			fmt.Printf("%v deleted\n", r.Key)
			continue
		}
		fmt.Printf("%v: %v\n", r.Key, r.Value)
	}
}

// How many orders has each customer made? Each order gives the new number.
func Example() {
	b := topology.NewBuilder()
	topology.Count(topology.From(b, orders).GroupByKey(), "orders-per-customer").To(amounts)

	d := start(b)
	in := topologytest.Input(d, orders)
	in.Pipe(clock("12:00"), "ann", 20)
	in.Pipe(clock("12:01"), "bob", 35)
	in.Pipe(clock("12:02"), "ann", 5)
	printAll(topologytest.Output(d, amounts))
	// Output:
	// ann: 1
	// bob: 1
	// ann: 2
}

func ExampleFrom() {
	// What counts is when the order was made, not when it was sent; it may come ten minutes late.
	type order struct {
		Made   time.Time
		Amount int
	}
	topic := topology.Topic("orders", serde.String(), serde.JSON[order]()).
		EventTime(func(r topology.Record[string, order]) time.Time { return r.Value.Made }).
		Watermarks(window.BoundedDisorder(10 * time.Minute))

	b := topology.NewBuilder()
	topology.MapValues(topology.From(b, topic), func(o order) int64 { return int64(o.Amount) }).To(amounts)

	d := start(b)
	topologytest.Input(d, topic).Pipe(clock("12:30"), "ann", order{Made: clock("12:00"), Amount: 20})
	fmt.Println(topologytest.Output(d, amounts).Read())
	// Output:
	// ann: 20 @ 2026-05-01T12:00:00Z
}

func ExampleStream_Filter() {
	b := topology.NewBuilder()
	topology.From(b, orders).
		Filter(func(_ string, amount int64) bool { return amount >= 20 }).
		To(amounts)

	d := start(b)
	in := topologytest.Input(d, orders)
	in.Pipe(clock("12:00"), "ann", 20)
	in.Pipe(clock("12:01"), "bob", 19)
	printAll(topologytest.Output(d, amounts))
	// Output:
	// ann: 20
}

func ExampleMap() {
	b := topology.NewBuilder()
	topology.Map(topology.From(b, orders), func(customer string, amount int64) (string, string) {
		return strings.ToUpper(customer), fmt.Sprint("paid ", amount)
	}).To(texts)

	d := start(b)
	topologytest.Input(d, orders).Pipe(clock("12:00"), "ann", 20)
	printAll(topologytest.Output(d, texts))
	// Output:
	// ANN: paid 20
}

func ExampleMapValues() {
	b := topology.NewBuilder()
	topology.MapValues(topology.From(b, orders), func(amount int64) int64 { return amount * 100 }).To(amounts)

	d := start(b)
	topologytest.Input(d, orders).Pipe(clock("12:00"), "ann", 20)
	printAll(topologytest.Output(d, amounts))
	// Output:
	// ann: 2000
}

func ExampleFlatMap() {
	b := topology.NewBuilder()
	words := topology.Topic("words", serde.String(), serde.String())
	topology.FlatMap(topology.From(b, texts), func(r topology.Record[string, string], emit func(string, string) error) error {
		for word := range strings.FieldsSeq(r.Value) {
			if err := emit(word, r.Key); err != nil {
				return err
			}
		}
		return nil
	}).To(words)

	d := start(b)
	topologytest.Input(d, texts).Pipe(clock("12:00"), "ann", "to be or not")
	printAll(topologytest.Output(d, words))
	// Output:
	// to: ann
	// be: ann
	// or: ann
	// not: ann
}

func ExampleStream_Peek() {
	b := topology.NewBuilder()
	topology.From(b, orders).
		Peek(func(customer string, amount int64) { fmt.Println("seen:", customer, amount) }).
		To(amounts)

	d := start(b)
	topologytest.Input(d, orders).Pipe(clock("12:00"), "ann", 20)
	printAll(topologytest.Output(d, amounts))
	// Output:
	// seen: ann 20
	// ann: 20
}

func ExampleStream_Merge() {
	b := topology.NewBuilder()
	returns := topology.Topic("returns", serde.String(), serde.Int64())
	negative := topology.MapValues(topology.From(b, returns), func(amount int64) int64 { return -amount })
	topology.From(b, orders).Merge(negative).To(amounts)

	d := start(b)
	topologytest.Input(d, orders).Pipe(clock("12:00"), "ann", 20)
	topologytest.Input(d, returns).Pipe(clock("12:01"), "ann", 5)
	printAll(topologytest.Output(d, amounts))
	// Output:
	// ann: 20
	// ann: -5
}

func ExampleStream_To() {
	// A topic's serdes say how records are written. Windowed keys are partitioned by the key that they hold.
	b := topology.NewBuilder()
	copied := topology.Topic("copied", serde.String(), serde.Int64())
	topology.From(b, orders.KeepNulls()).To(copied)

	d := start(b)
	in := topologytest.Input(d, orders)
	in.Pipe(clock("12:00"), "ann", 20, topology.Header{Key: "trace", Value: []byte("7")})
	in.PipeNull(clock("12:01"), "ann")
	out := topologytest.Output(d, copied)
	r := out.Read()
	trace, _ := r.Header("trace")
	fmt.Println(r, "trace", trace)
	fmt.Println(out.Read())
	// Output:
	// ann: 20 @ 2026-05-01T12:00:00Z trace 7
	// ann: null @ 2026-05-01T12:01:00Z
}

func ExampleTopology_Describe() {
	b := topology.NewBuilder()
	byText := topology.GroupBy(topology.From(b, texts), "by-text", func(_, text string) string { return text }, serde.String(), serde.String())
	topology.Count(byText, "per-text").To(amounts)
	top, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(strings.TrimSpace(top.Describe()))
	// Output:
	// Topologies:
	//    Sub-topology: 0
	//     Source: KSTREAM-SOURCE-0000000000 (topics: [texts])
	//       --> KSTREAM-KEY-SELECT-0000000001
	//     Processor: KSTREAM-KEY-SELECT-0000000001 (stores: [])
	//       --> by-text-repartition-sink
	//       <-- KSTREAM-SOURCE-0000000000
	//     Sink: by-text-repartition-sink (topic: by-text)
	//       <-- KSTREAM-KEY-SELECT-0000000001
	//
	//   Sub-topology: 1
	//     Source: by-text-repartition-source (topics: [by-text])
	//       --> KSTREAM-AGGREGATE-0000000004
	//     Processor: KSTREAM-AGGREGATE-0000000004 (stores: [per-text])
	//       --> KTABLE-TOSTREAM-0000000005
	//       <-- by-text-repartition-source
	//     Processor: KTABLE-TOSTREAM-0000000005 (stores: [])
	//       --> KSTREAM-SINK-0000000006
	//       <-- KSTREAM-AGGREGATE-0000000004
	//     Sink: KSTREAM-SINK-0000000006 (topic: amounts)
	//       <-- KTABLE-TOSTREAM-0000000005
}

func ExampleBuilder_Build() {
	// All mistakes come at once, each with its line.
	b := topology.NewBuilder()
	st := topology.From(b, orders)
	topology.Count(st.GroupByKey(), "my store")
	topology.Count(st.GroupByKey(), "mine", topology.EmitOnClose())
	_, err := b.Build()
	for line := range strings.Lines(err.Error()) {
		_, what, _ := strings.Cut(line, "example_test.go:")
		_, what, _ = strings.Cut(what, ": ")
		fmt.Println(strings.TrimSpace(what))
	}
	// Output:
	// store "my store": character ' ' cannot be in a Kafka topic's name; use letters, digits, '.', '_' and '-'
	// EmitOnClose on store "mine": there is no window that could close; use it behind Windowed
}
