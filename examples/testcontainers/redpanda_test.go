// Package containers shows how the tests of a service run its topology on a Redpanda in a container.
package containers

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/devkafka"
	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/topology"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/redpanda"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const image = "docker.redpanda.com/redpandadata/redpanda:v25.2.4"

func TestCountOnRedpanda(t *testing.T) {
	testcontainers.SkipIfProviderIsNotHealthy(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	haveImage(ctx, t)
	broker, err := redpanda.Run(ctx, image)
	testcontainers.CleanupContainer(t, broker)
	if err != nil {
		t.Fatal(err)
	}
	addr, err := broker.KafkaSeedBroker(ctx)
	if err != nil {
		t.Fatal(err)
	}
	count(ctx, t, []string{addr})
}

// The same on the broker of the library, which needs no container. What a test needs of a real broker, it does not show.
func TestCountEmbedded(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	broker, err := devkafka.Start(devkafka.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	count(ctx, t, broker.Addrs())
}

// haveImage skips the test where the engine neither has the image nor can fetch it.
func haveImage(ctx context.Context, t *testing.T) {
	t.Helper()
	engine, err := testcontainers.ProviderDocker.GetProvider()
	if err != nil {
		t.Skipf("no container engine: %v", err)
	}
	defer engine.Close()
	images, err := engine.ListImages(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(images, func(i testcontainers.ImageInfo) bool { return strings.HasSuffix(i.Name, image) }) {
		return
	}
	if err := engine.PullImage(ctx, image); err != nil {
		t.Skipf("the container engine does not have %s and cannot fetch it: %v", image, err)
	}
}

var (
	clicks = topology.Topic("clicks", serde.String(), serde.String())
	counts = topology.Topic("counts", serde.String(), serde.Int64())
)

func topologyOfClicks() (*topology.Topology, error) {
	b := topology.NewBuilder()
	topology.Count(topology.From(b, clicks).GroupByKey(), "clicks-per-user").To(counts)
	return b.Build()
}

// count runs the topology on the brokers and wants its results exactly once.
func count(ctx context.Context, t *testing.T, brokers []string) {
	t.Helper()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(counts.Name()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopics(ctx, 4, 1, nil, clicks.Name(), counts.Name()); err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"ann", "bob", "ann"} {
		if err := client.ProduceSync(ctx, &kgo.Record{Topic: clicks.Name(), Key: []byte(user), Value: []byte("/")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}

	top, err := topologyOfClicks()
	if err != nil {
		t.Fatal(err)
	}
	app, err := framework.New(framework.Config{AppID: "clicks", Brokers: brokers, Topology: top, State: state.Memory()})
	if err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- app.Run(running) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()

	got := map[string][]int64{}
	for n := 0; n < 3; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("%v; got %v so far", err, got)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			n++
			v, err := serde.Int64().Decode(r.Value)
			if err != nil {
				t.Error(err)
			}
			got[string(r.Key)] = append(got[string(r.Key)], v)
		})
	}
	if want := map[string][]int64{"ann": {1, 2}, "bob": {1}}; !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("counted %v, want %v", got, want)
	}
}
