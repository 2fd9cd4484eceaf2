//go:build kafka

package framework_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/devkafka"
	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/internal/kafkatest"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/state/pebblestore"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/window"
)

// aged is state on disk that was last written long ago, as far as it knows.
type aged struct {
	state.Durable
	by time.Duration
}

func (a aged) Open(task string, specs []state.Spec) (state.Backend, error) {
	b, err := a.Durable.Open(task, specs)
	return agedBackend{b, a.by}, err
}

type agedBackend struct {
	state.Backend
	by time.Duration
}

func (b agedBackend) Position(store int) state.Position {
	p := b.Backend.Position(store)
	if p.AppliedAt > 0 {
		p.AppliedAt -= b.by.Milliseconds()
	}
	return p
}

// TestKafkaStoreOlderThanTombstones brings a store back that has missed a deletion whose tombstone the cleaner has taken since. A young
// store gets the deleted key back, which is what makes the test worth anything: nothing in the changelog says that it is gone. One
// that is older than tombstones are kept is rebuilt, and is what the changelog says.
func TestKafkaStoreOlderThanTombstones(tt *testing.T) {
	t := kafka(tt, devkafka.KafkaConfig{
		Topics:     map[string]int32{"in": 1},
		Properties: map[string]string{"log.cleaner.backoff.ms": "100", "log.initial.task.delay.ms": "200"},
	})
	const log = "sums-sum-changelog"
	config := func(p state.Provider) framework.Config {
		b := topology.NewBuilder()
		// A sum per key; 0 deletes it.
		topology.AggregateOrDelete(topology.From(b, topology.Topic("in", serde.String(), serde.Int64())).GroupByKey(), "sum", serde.Int64(),
			func(sum, v int64) (int64, bool) { return sum + v, v != 0 })
		return framework.Config{AppID: "sums", Topology: t.build(b), State: p}
	}
	write := func(key string, v int64) {
		t.Produce(t, &kgo.Record{Topic: "in", Key: []byte(key), Value: binary.BigEndian.AppendUint64(nil, uint64(v))})
	}
	now := tt.TempDir()
	first := t.run(config(pebblestore.In(now)))
	first.runs(1)
	for i := range int64(50) {
		write(fmt.Sprintf("k%02d", i%10), i+1)
	}
	write("gone", 7)
	t.committed("sums", "in")
	first.end()
	young, old := tt.TempDir(), tt.TempDir()
	for _, dir := range []string{young, old} {
		if err := os.CopyFS(dir, os.DirFS(now)); err != nil {
			t.Fatal(err)
		}
	}

	adm := kadm.NewClient(t.Client(t))
	var changes []kadm.AlterConfig
	for key, value := range map[string]string{
		"segment.ms": "200", "min.cleanable.dirty.ratio": "0", "min.compaction.lag.ms": "0", "max.compaction.lag.ms": "200", "delete.retention.ms": "0",
	} {
		changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: key, Value: &value})
	}
	if _, err := adm.AlterTopicConfigs(context.Background(), changes, log); err != nil {
		t.Fatal(err)
	}
	second := t.run(config(pebblestore.In(now)))
	second.runs(1)
	write("gone", 0)
	t.await("the cleaner to take the tombstone", func() bool {
		write("k00", 1) // a segment ends when something is written to the next
		t.committed("sums", "in")
		for _, r := range t.ReadCommitted(t, log) {
			if string(r.Key) == "gone" {
				return false
			}
		}
		return true
	})
	second.end()
	want := kafkatest.Fold(t.ReadCommitted(t, log))

	content := func(dir string) map[string]string {
		p := pebblestore.In(dir)
		spec := state.Spec{Name: "sum", Kind: state.KeyValueKind}
		b, err := p.Open("0_0", []state.Spec{spec})
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[string]string)
		for e, err := range b.Scan(0, nil, nil) {
			if err != nil {
				t.Fatal(err)
			}
			_, v, err := state.SplitValue(e.Value)
			if err != nil {
				t.Fatal(err)
			}
			got[string(e.Key)] = string(v)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		return got
	}
	for _, c := range []struct {
		name  string
		dir   string
		age   time.Duration
		wiped int64
	}{{"young", young, 0, 0}, {"old", old, 8 * 24 * time.Hour, 1}} {
		app := t.run(config(aged{pebblestore.In(c.dir), c.age}))
		app.runs(1)
		n := app.end()
		got := content(c.dir)
		t.Logf("the %s store: %d records restored, wiped %d times", c.name, n.RecordsRestored, n.StoresWiped)
		if n.StoresWiped != c.wiped {
			t.Errorf("the %s store was wiped %d times, want %d", c.name, n.StoresWiped, c.wiped)
		}
		if _, back := got["gone"]; back != (c.age == 0) {
			t.Errorf("the %s store has the deleted key: %v", c.name, back)
		}
		if c.age > 0 {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the %s store is not the fold of its changelog (-fold +store):\n%s", c.name, diff)
			}
		}
	}
}

// TestKafkaTrimsInternalTopics wants Kafka to delete what the app does not need any more, of a changelog, which it compacts, and of a
// repartition topic.
func TestKafkaTrimsInternalTopics(tt *testing.T) {
	t := kafka(tt, devkafka.KafkaConfig{Topics: map[string]int32{"in": 1, "out": 1}})
	b := topology.NewBuilder()
	byValue := topology.GroupBy(topology.From(b, topology.Topic("in", serde.String(), serde.String())), "by-value",
		func(_, v string) string { return v }, serde.String(), serde.String())
	topology.Count(topology.Windowed(byValue, window.Tumbling(time.Minute), window.Drop()), "per-minute", topology.EmitOnClose()).
		To(topology.Topic("out", window.KeySerde(serde.String()).Size(time.Minute), serde.Int64()))
	app := t.run(framework.Config{AppID: "trim", Topology: t.build(b)})
	app.runs(2)
	adm := kadm.NewClient(t.Client(t))
	start := func(topic string) int64 {
		starts, err := adm.ListStartOffsets(context.Background(), topic)
		if err != nil {
			t.Fatal(err)
		}
		o, _ := starts.Lookup(topic, 0)
		return o.Offset
	}
	const changelog, repartition = "trim-per-minute-changelog", "trim-by-value-repartition"
	now := int64(1_000_000_000_000) // 2001
	t.await("the app to trim both topics", func() bool {
		for i := range 100 {
			now += 3_000
			t.Produce(t, &kgo.Record{Topic: "in", Value: fmt.Appendf(nil, "v%d", i%5), Timestamp: time.UnixMilli(now)})
		}
		t.committed("trim", "in")
		return start(changelog) > 0 && start(repartition) > 0
	})
	t.committed("trim", repartition)
	n := app.end()
	t.Logf("%d offsets trimmed: up to %d of %s, %d of %s", n.OffsetsTrimmed, start(changelog), changelog, start(repartition), repartition)
	if n.OffsetsTrimmed != start(changelog)+start(repartition) {
		t.Errorf("counted %d", n.OffsetsTrimmed)
	}
	// It is not told of windows that are gone: what it holds is what was open at the last trim, ten at most, and what has come since, five
	// windows a minute of the two rounds in which that was seen, of five minutes each.
	if held := len(kafkatest.Fold(t.ReadCommitted(t, changelog))); held == 0 || held > 10+2*5*5 {
		t.Errorf("the changelog holds %d windows, want those since the last trim", held)
	}
}
