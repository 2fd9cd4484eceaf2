package devkafka_test

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/devkafka"
)

func start(t *testing.T, c devkafka.Config) *devkafka.Broker {
	t.Helper()
	b, err := devkafka.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// broker is either kind.
type broker interface{ Addrs() []string }

func client(t *testing.T, b broker, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(b.Addrs()...))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// read returns the values of the topic's first n records.
func read(ctx context.Context, t *testing.T, b broker, topic string, n int) []string {
	t.Helper()
	cl := client(t, b, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	var values []string
	for len(values) < n {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("after %q: %v", values, err)
		}
		fetches.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	return values
}

func write(ctx context.Context, t *testing.T, b broker, topic, value string) {
	t.Helper()
	if err := client(t, b).ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func timeout(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestAClientWritesAndReads(t *testing.T) {
	t.Parallel()
	b := start(t, devkafka.Config{Topics: map[string]int32{"flights": 1}})
	addrs := b.Addrs()
	if len(addrs) != 1 || !strings.HasPrefix(addrs[0], "127.0.0.1:") {
		t.Errorf("addresses %q, want one of 127.0.0.1", addrs)
	}
	addrs[0] = "changed by the caller"
	ctx := timeout(t)
	write(ctx, t, b, "flights", "one")
	if got := read(ctx, t, b, "flights", 1); !slices.Equal(got, []string{"one"}) {
		t.Errorf("read %q", got)
	}
}

func TestDataDirKeepsTopicsAndRecords(t *testing.T) {
	t.Parallel()
	ctx, dir := timeout(t), t.TempDir()
	b := start(t, devkafka.Config{DataDir: dir, Topics: map[string]int32{"flights": 1}})
	write(ctx, t, b, "flights", "before")
	b.Close()

	b = start(t, devkafka.Config{DataDir: dir, Topics: map[string]int32{"flights": 1, "delays": 2}})
	write(ctx, t, b, "flights", "after")
	write(ctx, t, b, "delays", "new topic")
	if got := read(ctx, t, b, "flights", 2); !slices.Equal(got, []string{"before", "after"}) {
		t.Errorf("read %q", got)
	}
	b.Close()

	_, err := devkafka.Start(devkafka.Config{DataDir: dir, Topics: map[string]int32{"flights": 3}})
	if err == nil || !strings.Contains(err.Error(), "flights has 1 partitions in "+dir+", not 3") {
		t.Errorf("another number of partitions: %v", err)
	}
}

func TestWhatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	if _, err := devkafka.Start(devkafka.Config{Topics: map[string]int32{"flights": 0}}); err == nil || !strings.Contains(err.Error(), "topic flights: 0 partitions") {
		t.Errorf("no partitions: %v", err)
	}
	b := start(t, devkafka.Config{})
	_, text, err := net.SplitHostPort(b.Addrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := devkafka.Start(devkafka.Config{Port: port}); err == nil || !strings.Contains(err.Error(), "port "+text) {
		t.Errorf("port taken: %v", err)
	}
	b.Close()
	b.Close()
	if conn, err := net.Dial("tcp", b.Addrs()[0]); err == nil {
		conn.Close()
		t.Error("a closed broker still listens")
	}
}
