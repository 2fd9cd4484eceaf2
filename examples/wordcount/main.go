package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"

	"github.com/headrace/headrace/devkafka"
	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/topology"
	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	linesTopic  = topology.Topic("lines", serde.String(), serde.String())
	countsTopic = topology.Topic("counts", serde.String(), serde.Int64())
)

func Words() (*topology.Topology, error) {
	b := topology.NewBuilder()
	words := topology.FlatMap(topology.From(b, linesTopic), func(r topology.Record[string, string], emit func(string, string) error) (err error) {
		for _, w := range strings.Fields(r.Value) {
			err = errors.Join(err, emit(w, w))
		}
		return err
	})
	byWord := topology.GroupBy(words, "by-word", func(w, _ string) string { return w }, serde.String(), serde.String())
	topology.Count(byWord, "word-counts").Stream().
		Peek(func(word string, n int64) { fmt.Println(word, n) }).
		To(countsTopic)
	return b.Build()
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	broker, err := devkafka.Start(devkafka.Config{Topics: map[string]int32{"lines": 4, "counts": 4}})
	check(err)
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.Addrs()...), kgo.DefaultProduceTopic("lines"))
	check(err)
	for _, line := range []string{"the stream leads to the wheel", "the wheel does the work"} {
		check(client.ProduceSync(ctx, kgo.StringRecord(line)).FirstErr())
	}

	t, err := Words()
	check(err)
	app, err := framework.New(framework.Config{AppID: "words", Brokers: broker.Addrs(), Topology: t, State: state.Memory()})
	check(err)
	check(app.Run(ctx)) // until interrupted: then it commits, leaves the group and returns nil
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
