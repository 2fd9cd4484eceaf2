//go:build kafka

package framework_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/devkafka"
	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/internal/kafkatest"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/window"
)

// onKafka is a test on a real Apache Kafka.
type onKafka struct {
	*testing.T
	kafka *devkafka.Kafka
	kafkatest.Brokers
}

func kafka(t *testing.T, c devkafka.KafkaConfig) onKafka {
	t.Helper()
	k, err := devkafka.StartKafka(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	t.Cleanup(func() {
		if log, err := os.ReadFile(k.LogPath()); t.Failed() && err == nil {
			t.Logf("the end of Kafka's log:\n%s", log[max(0, len(log)-8<<10):])
		}
	})
	return onKafka{T: t, kafka: k, Brokers: k.Addrs()}
}

// instance is an app that runs.
type instance struct {
	*framework.App
	t    onKafka
	stop context.CancelFunc
	done chan struct{}
	err  error // of Run; set before done is closed
}

// run starts an app, with state in memory if nothing else is said. It is stopped when the test ends, if not before.
func (t onKafka) run(c framework.Config) *instance {
	t.Helper()
	c.Brokers, c.Logger = t.Brokers, slog.New(slog.DiscardHandler)
	if c.State == nil {
		c.State = state.Memory()
	}
	switch os.Getenv("HEADRACE_LOG") {
	case "":
	case "debug":
		c.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	default:
		c.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	app, err := framework.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	i := &instance{App: app, t: t, stop: cancel, done: make(chan struct{})}
	go func() {
		i.err = app.Run(ctx)
		close(i.done)
	}()
	t.Cleanup(func() {
		cancel()
		<-i.done
	})
	return i
}

// end stops the app and wants it to end well.
func (i *instance) end() framework.Counters {
	i.t.Helper()
	i.stop()
	<-i.done
	if i.err != nil {
		i.t.Errorf("Run returned %v", i.err)
	}
	return i.Snapshot().Counters
}

// await waits until the condition holds.
func (t onKafka) await(what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("waited two minutes for %s", what)
		}
		time.Sleep(20 * time.Millisecond) // a broker in another process gives no signal
	}
}

// runs waits until the app runs n tasks.
func (i *instance) runs(n int) {
	i.t.Helper()
	i.t.await(fmt.Sprintf("%d tasks to run", n), func() bool {
		select {
		case <-i.done:
			i.t.Fatalf("Run returned early: %v", i.err)
		default:
		}
		return len(i.Snapshot().Tasks) >= n
	})
}

// committed waits until the group has committed all that is in the topic.
func (t onKafka) committed(app, topic string) {
	t.Helper()
	adm := kadm.NewClient(t.Client(t))
	ends, err := adm.ListEndOffsets(context.Background(), topic)
	if err != nil {
		t.Fatal(err)
	}
	t.await(topic+" to be processed", func() bool {
		got, err := adm.FetchOffsets(context.Background(), app)
		behind := err != nil // the coordinator may not be there yet, nor the group
		ends.Each(func(end kadm.ListedOffset) {
			at, _ := got.Lookup(end.Topic, end.Partition)
			behind = behind || at.At < end.Offset
		})
		return !behind
	})
}

func (t onKafka) build(b *topology.Builder) *topology.Topology {
	t.Helper()
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// TestKafkaMembersJoinAndLeave wants, for each word, 1, 2, 3, … in the output, up to how often it was written, while a second
// member comes and goes under load.
func TestKafkaMembersJoinAndLeave(tt *testing.T) {
	const parts, words, rounds = 4, 300, 3
	t := kafka(tt, devkafka.KafkaConfig{Topics: map[string]int32{"in": parts, "out": parts}})
	config := func() framework.Config {
		b := topology.NewBuilder()
		byWord := topology.GroupBy(topology.From(b, topology.Topic("in", serde.String(), serde.String())), "by-word",
			func(_, word string) string { return word }, serde.String(), serde.String())
		topology.Count(byWord, "counts").To(topology.Topic("out", serde.String(), serde.Int64()))
		return framework.Config{AppID: "words", Topology: t.build(b)}
	}
	wrote := make(map[string]int64)
	feed, stopFeed := context.WithCancel(context.Background())
	fed := make(chan error, 1)
	producer := t.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	go func() {
		for n := 0; feed.Err() == nil; {
			var records []*kgo.Record
			for range 20 {
				word := fmt.Sprintf("w%03d", n*7%words)
				records = append(records, &kgo.Record{Topic: "in", Partition: int32(n % parts), Value: []byte(word)})
				wrote[word]++
				n++
			}
			if err := producer.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
				fed <- err
				return
			}
			time.Sleep(10 * time.Millisecond) // 2,000 a second at most
		}
		fed <- nil
	}()

	first := t.run(config())
	first.runs(2 * parts)
	var moved framework.Counters
	for range rounds {
		second := t.run(config())
		second.runs(parts)
		c := second.end()
		moved.Records += c.Records
		moved.Aborts += c.Aborts
		first.runs(2 * parts)
	}
	stopFeed()
	if err := <-fed; err != nil {
		t.Fatal(err)
	}
	t.committed("words", "in")
	t.committed("words", "words-by-word-repartition")
	c := first.end()
	t.Logf("first member: %+v", c)
	t.Logf("second members: %d records, %d aborts", moved.Records, moved.Aborts)
	if moved.Records == 0 {
		t.Error("the second member processed nothing: nothing was tested")
	}

	counted := make(map[string]int64)
	for _, r := range t.ReadCommitted(t, "out") {
		counted[string(r.Key)]++
		if got := int64(binary.BigEndian.Uint64(r.Value)); got != counted[string(r.Key)] {
			t.Fatalf("output %s[%d]@%d: %s = %d, want %d: a record was lost, doubled or overtaken", r.Topic, r.Partition, r.Offset, r.Key, got, counted[string(r.Key)])
		}
	}
	if diff := cmp.Diff(wrote, counted); diff != "" {
		t.Errorf("outputs are not what was written (-written +output):\n%s", diff)
	}
	logged := make(map[string]int64)
	for k, v := range kafkatest.Fold(t.ReadCommitted(t, "words-counts-changelog")) {
		logged[k] = int64(binary.BigEndian.Uint64([]byte(v)))
	}
	if diff := cmp.Diff(wrote, logged); diff != "" {
		t.Errorf("the changelog is not what was written (-written +changelog):\n%s", diff)
	}
}

// TestKafkaOldEventTimesSurviveTheCleaner has event times of 2001 and a cleaner that cannot wait: what is in the windows and in a
// store without windows has to be there after restores, and each window's result once and equal to a batch.
func TestKafkaOldEventTimesSurviveTheCleaner(tt *testing.T) {
	const (
		parts, keys = 2, 40
		size        = time.Hour
		disorder    = 10 * time.Minute
		base        = 1_000_000_000_000 // 2001-09-09
		perPhase    = 4_000
	)
	forever := map[string]string{"retention.ms": "-1"}
	t := kafka(tt, devkafka.KafkaConfig{
		Topics:       map[string]int32{"in": parts, "out": parts, "totals": parts, "perishable": 1},
		TopicConfigs: map[string]map[string]string{"in": forever, "out": forever, "totals": forever},
		Properties: map[string]string{
			"log.cleaner.backoff.ms": "100", "log.retention.check.interval.ms": "200", "log.initial.task.delay.ms": "200",
		},
	})
	config := func() framework.Config {
		b := topology.NewBuilder()
		byKey := topology.From(b, topology.Topic("in", serde.String(), serde.Int64()).Watermarks(window.BoundedDisorder(disorder))).GroupByKey()
		sum := func(sum, v int64) int64 { return sum + v }
		topology.Aggregate(topology.Windowed(byKey, window.Tumbling(size), window.Drop()), "per-hour", serde.Int64(), sum, topology.EmitOnClose()).
			To(topology.Topic("out", window.KeySerde(serde.String()).Size(size), serde.Int64()))
		topology.Aggregate(byKey, "total", serde.Int64(), sum).To(topology.Topic("totals", serde.String(), serde.Int64()))
		return framework.Config{AppID: "old", Topology: t.build(b)}
	}
	type cell struct {
		Key   string
		Start int64
	}
	batch, totals := make(map[cell]int64), make(map[string]int64)
	const seed = 11
	rng := rand.New(rand.NewPCG(seed, seed))
	t.Logf("seed %d", seed)
	now := int64(base)
	write := func(n int) {
		var records []*kgo.Record
		for range n {
			now += 3_000
			at := now - rng.Int64N(disorder.Milliseconds()/2)
			k, v := rng.IntN(keys), 1+rng.Int64N(1000)
			key := fmt.Sprintf("k%02d", k)
			records = append(records, &kgo.Record{
				Topic: "in", Partition: int32(k % parts), Key: []byte(key),
				Value: binary.BigEndian.AppendUint64(nil, uint64(v)), Timestamp: time.UnixMilli(at),
			})
			batch[cell{key, at - at%size.Milliseconds()}] += v
			totals[key] += v
		}
		t.Produce(t, records...)
		t.committed("old", "in")
	}
	logs := []string{"old-per-hour-changelog", "old-total-changelog"}

	app := t.run(config())
	app.runs(parts)
	write(perPhase)
	app.end()

	// From here on, the cleaner takes what it can get: every segment but the last, tombstones at once.
	adm := kadm.NewClient(t.Client(t))
	var changes []kadm.AlterConfig
	for key, value := range map[string]string{
		"segment.ms": "200", "min.cleanable.dirty.ratio": "0", "min.compaction.lag.ms": "0", "max.compaction.lag.ms": "200", "delete.retention.ms": "0",
	} {
		changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: key, Value: &value})
	}
	altered, err := adm.AlterTopicConfigs(context.Background(), changes, logs...)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range altered {
		if a.Err != nil {
			t.Fatalf("%s: %v", a.Name, a.Err)
		}
	}
	// That records of 2001 do not last where nothing says so is what makes the rest of this test worth anything.
	t.Produce(t, &kgo.Record{Topic: "perishable", Timestamp: time.UnixMilli(base)})
	t.await("Kafka to delete what is old", func() bool {
		starts, err := adm.ListStartOffsets(context.Background(), "perishable")
		if err != nil {
			t.Fatal(err)
		}
		start, _ := starts.Lookup("perishable", 0)
		return start.Offset == 1
	})

	var restored []int64
	rounds := t.cleanings(logs, parts)
	for range 2 {
		app = t.run(config())
		app.runs(parts)
		had := maps.Clone(rounds)
		t.await("the cleaner to take all changelogs", func() bool {
			write(100) // a segment ends when something is written to the next
			rounds = t.cleanings(logs, parts)
			for log, n := range rounds {
				if n <= had[log] {
					return false
				}
			}
			return true
		})
		restored = append(restored, app.end().RecordsRestored)
	}
	t.Logf("cleaner's rounds: %v", rounds)

	app = t.run(config())
	app.runs(parts)
	write(perPhase)
	// Far in the future, and still in 2001: everything before is closed by it.
	for p := range parts {
		t.Produce(t, &kgo.Record{
			Topic: "in", Partition: int32(p), Key: fmt.Appendf(nil, "end%d", p),
			Value: binary.BigEndian.AppendUint64(nil, 0), Timestamp: time.UnixMilli(now + 10*size.Milliseconds()),
		})
	}
	t.committed("old", "in")
	t.await("the windows to close", func() bool {
		for _, task := range app.Snapshot().Tasks {
			for _, op := range task.Operators {
				if op.Due {
					return false
				}
			}
		}
		return true
	})
	c := app.end()
	t.Logf("restored %v, and %d after the cleaner", restored, c.RecordsRestored)
	if len(c.Dropped) > 0 {
		t.Errorf("dropped %v: no record was late", c.Dropped)
	}

	results := make(map[cell]int64)
	codec := window.KeySerde(serde.String()).Size(size)
	for _, r := range t.ReadCommitted(t, "out") {
		k, err := codec.Decode(r.Key)
		if err != nil {
			t.Fatal(err)
		}
		at := cell{k.Key, k.Start}
		if _, twice := results[at]; twice {
			t.Errorf("window %v has two results", k)
		}
		results[at] = int64(binary.BigEndian.Uint64(r.Value))
	}
	if diff := cmp.Diff(batch, results); diff != "" {
		t.Errorf("windows are not those of a batch (-batch +output):\n%s", diff)
	}
	last := make(map[string]int64)
	for k, v := range kafkatest.Fold(t.ReadCommitted(t, "totals")) {
		if !strings.HasPrefix(k, "end") {
			last[k] = int64(binary.BigEndian.Uint64([]byte(v)))
		}
	}
	if diff := cmp.Diff(totals, last); diff != "" {
		t.Errorf("totals are not those of a batch (-batch +output):\n%s", diff)
	}
	t.Logf("%d windows", len(results))
}

// cleanings counts how often the log cleaner has been through each partition, by its own account.
func (t onKafka) cleanings(topics []string, parts int) map[string]int {
	t.Helper()
	text, err := os.ReadFile(t.kafka.LogPath())
	if err != nil {
		t.Fatal(err)
	}
	n := make(map[string]int)
	for _, topic := range topics {
		for p := range parts {
			log := fmt.Sprintf("%s-%d", topic, p)
			n[log] = strings.Count(string(text), "cleaned log "+log+" ")
		}
	}
	return n
}

// TestKafkaRefusesWhatIsStampedAhead: a broker's default allows stamps up to an hour ahead. The input allows more, the output does
// not. The policy decides on the record.
func TestKafkaRefusesWhatIsStampedAhead(tt *testing.T) {
	t := kafka(tt, devkafka.KafkaConfig{
		Topics:       map[string]int32{"in": 1, "out": 1},
		TopicConfigs: map[string]map[string]string{"in": {"message.timestamp.after.max.ms": "9223372036854775807"}},
	})
	config := func(policy topology.ErrorPolicy) framework.Config {
		b := topology.NewBuilder()
		topology.From(b, topology.Topic("in", serde.String(), serde.String())).To(topology.Topic("out", serde.String(), serde.String()))
		return framework.Config{AppID: "ahead", Topology: t.build(b), OnRecordError: policy}
	}
	t.Produce(t, &kgo.Record{Topic: "in", Value: []byte("now"), Timestamp: time.Now()})
	app := t.run(config(topology.Fail()))
	t.committed("ahead", "in")
	records := []*kgo.Record{{Topic: "in", Value: []byte("ahead"), Timestamp: time.Now().Add(2 * time.Hour)}}
	want := []string{"now"}
	for i := range 50 { // in one batch with it
		records = append(records, &kgo.Record{Topic: "in", Value: fmt.Appendf(nil, "after%d", i), Timestamp: time.Now()})
		want = append(want, fmt.Sprintf("after%d", i))
	}
	t.Produce(t, records...)
	place := ""
	for start := range 2 {
		if start > 0 {
			app = t.run(config(topology.Fail()))
		}
		began := time.Now()
		select {
		case <-app.done:
		case <-time.After(time.Minute):
			t.Fatal("the app neither goes on nor stops")
		}
		t.Logf("Run ended after %v, with %d aborts: %v", time.Since(began).Round(time.Millisecond), app.Snapshot().Counters.Aborts, app.err)
		var rec *framework.RecordError
		if !errors.As(app.err, &rec) || !errors.Is(app.err, kerr.InvalidTimestamp) || rec.Topic != "in" || rec.Offset == 0 {
			t.Fatalf("Run returned %v, want a *RecordError for INVALID_TIMESTAMP and the record that is ahead", app.err)
		}
		for _, part := range []string{"topic out", "message.timestamp.after.max.ms"} {
			if !strings.Contains(app.err.Error(), part) {
				t.Errorf("the error does not say %q: %v", part, app.err)
			}
		}
		if at := fmt.Sprintf("in[%d]@%d", rec.Partition, rec.Offset); start > 0 && at != place {
			t.Errorf("the second start names %s, the first named %s", at, place)
		} else {
			place = at
		}
	}
	app = t.run(config(topology.Skip()))
	t.committed("ahead", "in")
	if c := app.end(); c.Dropped["refused"] != 1 {
		t.Errorf("dropped %v, want one refused", c.Dropped)
	}
	var got []string
	for _, r := range t.ReadCommitted(t, "out") {
		got = append(got, string(r.Value))
	}
	if !slices.Equal(got, want) {
		t.Errorf("output %q, want %q", got, want)
	}
}

// TestKafkaLatency prints how long a record takes from its writer to a read-committed reader of what the app makes of it, through a
// store with a changelog. Nothing is asserted but that all come.
func TestKafkaLatency(tt *testing.T) {
	const parts, perSecond, seconds = 4, 2000, 12
	t := kafka(tt, devkafka.KafkaConfig{Topics: map[string]int32{"in": parts, "out": parts}})
	b := topology.NewBuilder()
	topology.Reduce(topology.From(b, topology.Topic("in", serde.String(), serde.Int64())).GroupByKey(), "last", serde.Int64(),
		func(_, v int64) int64 { return v }).To(topology.Topic("out", serde.String(), serde.Int64()))
	app := t.run(framework.Config{AppID: "latency", Topology: t.build(b)})
	app.runs(parts)

	reader := t.Client(t, kgo.ConsumeTopics("out"), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	writer := t.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	go func() {
		tick := time.NewTicker(time.Second / 200)
		defer tick.Stop()
		for n := 0; n < perSecond*seconds; <-tick.C {
			for range perSecond / 200 {
				writer.Produce(context.Background(), &kgo.Record{
					Topic: "in", Partition: int32(n % parts), Key: fmt.Appendf(nil, "k%03d", n%500),
					Value: binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixNano())),
				}, nil)
				n++
			}
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var took []time.Duration
	for seen := 0; seen < perSecond*seconds; {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatalf("after %d records: %v", seen, err)
		}
		now := time.Now().UnixNano()
		fetches.EachRecord(func(r *kgo.Record) {
			if seen++; seen > 2*perSecond { // until then Java warms up
				took = append(took, time.Duration(now-int64(binary.BigEndian.Uint64(r.Value))))
			}
		})
	}
	c := app.end()
	slices.Sort(took)
	at := func(q float64) time.Duration { return took[int(q*float64(len(took)-1))].Round(100 * time.Microsecond) }
	t.Logf("write to committed read at %d/s: p50 %v, p99 %v, max %v; %d commits, %d aborts", perSecond, at(0.5), at(0.99), at(1), c.Commits, c.Aborts)
}

// TestKafkaTransactionsOfOffsetsOnly has transactions with nothing but offsets in them, which a broker refuses while it is not done
// with the one before: hardly any may be aborted, at the start neither.
func TestKafkaTransactionsOfOffsetsOnly(tt *testing.T) {
	const parts, seconds = 4, 5
	t := kafka(tt, devkafka.KafkaConfig{Topics: map[string]int32{"in": parts, "out": parts}})
	b := topology.NewBuilder()
	topology.From(b, topology.Topic("in", serde.String(), serde.String())).
		Filter(func(_, v string) bool { return v == "kept" }).
		To(topology.Topic("out", serde.String(), serde.String()))
	app := t.run(framework.Config{AppID: "offsets", Topology: t.build(b)})
	app.runs(parts)
	writer := t.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for n, end := 0, time.Now().Add(seconds*time.Second); time.Now().Before(end); n++ {
		if err := writer.ProduceSync(context.Background(), &kgo.Record{Topic: "in", Partition: int32(n % parts), Value: []byte("dropped")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		<-tick.C
	}
	t.committed("offsets", "in")
	c := app.end()
	t.Logf("%d commits, %d aborts, %d tasks made", c.Commits, c.Aborts, c.TasksBuilt)
	if c.Commits < 50 || c.Aborts > c.Commits/100 {
		t.Errorf("%d transactions were aborted, of %d: want one in a hundred at most, of at least 50", c.Aborts, c.Commits)
	}
	if got := t.ReadCommitted(t, "out"); len(got) > 0 {
		t.Errorf("output has %d records, want none", len(got))
	}
}
