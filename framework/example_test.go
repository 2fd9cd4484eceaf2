package framework_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/devkafka"
	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/topology"
)

// Visits counts the visits of each page.
func Visits() (*topology.Topology, error) {
	b := topology.NewBuilder()
	byPage := topology.From(b, topology.Topic("visits", serde.String(), serde.String())).GroupByKey()
	topology.Count(byPage, "visits-per-page").To(topology.Topic("counts", serde.String(), serde.Int64()))
	return b.Build()
}

// An app runs until its context is done. Here it runs on an embedded broker, for as long as it takes to see two results.
func ExampleApp() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	broker, err := devkafka.Start(devkafka.Config{Topics: map[string]int32{"visits": 4, "counts": 4}})
	if err != nil {
		panic(err)
	}
	defer broker.Close()

	visits, err := Visits()
	if err != nil {
		panic(err)
	}
	app, err := framework.New(framework.Config{
		AppID:    "visits",
		Brokers:  broker.Addrs(),
		Topology: visits,
		State:    state.Memory(), // a restart restores it from Kafka; pebblestore.In(dir) keeps it on disk
		Logger:   slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err) // all mistakes of the Config, at once
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- app.Run(running) }()

	client, err := kgo.NewClient(kgo.SeedBrokers(broker.Addrs()...), kgo.DefaultProduceTopic("visits"),
		kgo.ConsumeTopics("counts"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted())) // without it, a reader sees what was aborted, too
	if err != nil {
		panic(err)
	}
	defer client.Close()
	for range 2 {
		if err := client.ProduceSync(ctx, kgo.KeyStringRecord("/cart", "ann")).FirstErr(); err != nil {
			panic(err)
		}
	}
	for n := 0; n < 2; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			panic(err)
		}
		for _, r := range fetches.Records() {
			count, err := serde.Int64().Decode(r.Value)
			if err != nil {
				panic(err)
			}
			fmt.Println(string(r.Key), count)
			n++
		}
	}

	stop()
	fmt.Println(<-ended) // nil: everything in progress was committed, and the group left
	// Output:
	// /cart 1
	// /cart 2
	// <nil>
}
