package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/bench/plan"
	"github.com/headrace/headrace/devkafka"
	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/topology"
)

const (
	brokerVariable = "HEADRACE_BENCH_BROKER"
	appRecords     = 200_000
)

// The broker is a process of its own, so that what it allocates is not counted.
func TestMain(m *testing.M) {
	if os.Getenv(brokerVariable) == "" {
		os.Exit(m.Run())
	}
	if err := broker(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// broker serves a topic with records in it until its input ends.
func broker() error {
	b, err := devkafka.Start(devkafka.Config{Topics: map[string]int32{"in": 4, "map": 4, "count": 4}})
	if err != nil {
		return err
	}
	defer b.Close()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.DefaultProduceTopic("in"))
	if err != nil {
		return err
	}
	defer client.Close()
	data := plan.NewData(plan.Uniform, appRecords, 10_000, time.Now().UnixMilli())
	for i := range appRecords {
		r := &kgo.Record{Key: plan.AppendKey(nil, data.Key(i)), Value: plan.AppendValue(nil, i), Timestamp: time.UnixMilli(data.Base + int64(i))}
		client.Produce(context.Background(), r, nil)
	}
	if err := client.Flush(context.Background()); err != nil {
		return err
	}
	fmt.Println(b.Addrs()[0])
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// BenchmarkApp runs a whole app over many records: fetching, decoding, operators, encoding, the hand-over to the client's producer, the
// commits, and the client itself. One operation is all of them; what is told is for one record.
func BenchmarkApp(b *testing.B) {
	b.Run("stateless", func(b *testing.B) {
		runApp(b, func(in topology.Stream[[]byte, []byte]) {
			in.Filter(func(_, v []byte) bool { return len(v) > 0 }).To(topology.Topic("map", serde.Bytes(), serde.Bytes()))
		})
	})
	b.Run("count", func(b *testing.B) {
		runApp(b, func(in topology.Stream[[]byte, []byte]) {
			topology.Count(in.GroupByKey(), "counts").To(topology.Topic("count", serde.Bytes(), serde.Int64()))
		})
	})
}

func runApp(b *testing.B, build func(topology.Stream[[]byte, []byte])) {
	addr := startBroker(b)
	var before, after runtime.MemStats
	for i := 0; b.Loop(); i++ {
		builder := topology.NewBuilder()
		build(topology.From(builder, topology.Topic("in", serde.Bytes(), serde.Bytes())))
		t, err := builder.Build()
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
		app, err := framework.New(framework.Config{
			AppID: fmt.Sprintf("app-%d", i), Brokers: []string{addr}, Topology: t, State: state.Memory(),
			Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			b.Fatal(err)
		}
		go func() {
			for app.Snapshot().Counters.Records < appRecords && ctx.Err() == nil {
				time.Sleep(50 * time.Millisecond) // looking costs allocations, too
			}
			cancel()
		}()
		runtime.ReadMemStats(&before)
		err = app.Run(ctx)
		runtime.ReadMemStats(&after)
		if got := app.Snapshot().Counters.Records; err != nil || got != appRecords {
			b.Fatalf("%d records processed, want %d: %v", got, appRecords, err)
		}
	}
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/appRecords, "B/record")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/appRecords, "allocs/record")
}

func startBroker(b *testing.B) string {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), brokerVariable+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatalf("the broker did not start: %v", err)
	}
	return strings.TrimSpace(addr)
}
