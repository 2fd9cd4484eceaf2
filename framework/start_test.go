//go:build synctests

package framework_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/internal/kafkatest"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/topology"
)

// empty is a world without topics.
func empty(t *testing.T, f func(w *world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f(&world{t: t, stores: newDumps(), wrote: make(map[string]int64), c: kafkatest.Start(t)})
	})
}

// ends waits for Run to end by itself and returns its error.
func (m *member) ends() error {
	m.w.t.Helper()
	select {
	case err := <-m.done:
		m.done <- nil
		return err
	case <-time.After(10 * time.Minute):
		m.w.t.Fatalf("member %s still runs", m.name)
		return nil
	}
}

// says wants an error that says all of parts.
func says(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one that says %q", parts)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
}

func TestMissingTopicsAreWaitedFor(t *testing.T) {
	empty(t, func(w *world) {
		m := w.start("a", func(c *framework.Config) { c.TopicTimeout = time.Minute })
		time.Sleep(20 * time.Second) // in a bubble
		if s := m.Snapshot(); s.Workers[0].State != framework.Starting || s.Expected != nil {
			t.Errorf("without topics the snapshot is %+v", s)
		}
		w.createTopics(partitions, "in")
		time.Sleep(20 * time.Second) // in a bubble
		w.createTopics(partitions, "out")
		w.outputs = w.c.Count(w.t, "out")
		w.write(50)
		w.awaitOutputs()
		m.runs(2 * partitions)
		if got := m.Snapshot().Expected; len(got) != 2 || got[0] != partitions || got[1] != partitions {
			t.Errorf("expected tasks %v, want %d of each of two sub-topologies", got, partitions)
		}
		m.stop()
		w.check(true)
	})
}

func TestMissingTopicsAreNamed(t *testing.T) {
	empty(t, func(w *world) {
		begin := time.Now()
		m := w.start("a", func(c *framework.Config) { c.TopicTimeout = 30 * time.Second })
		says(t, m.ends(), "input topics in", "output topics out", "TopicTimeout")
		if took := time.Since(begin); took < 29*time.Second || took > 30*time.Second {
			t.Errorf("gave up after %v, want 30 s", took)
		}
	})
}

func TestStoppedBeforeTheTopicsAreThere(t *testing.T) {
	empty(t, func(w *world) {
		m := w.start("a", nil)
		time.Sleep(5 * time.Second) // in a bubble
		m.cancel()
		if err := m.ends(); err != nil {
			t.Errorf("Run returned %v, want nil: it did what it was told", err)
		}
	})
}

func TestNoBroker(t *testing.T) {
	empty(t, func(w *world) {
		m := w.start("a", func(c *framework.Config) {
			c.Brokers = []string{"localhost:1"}
			c.TopicTimeout = 10 * time.Second
		})
		says(t, m.ends(), "no broker answered", "Config.Brokers")
	})
}

func TestInternalTopicOfAnotherSize(t *testing.T) {
	bubble(t, func(w *world) {
		w.createTopics(3, "words-counts-changelog")
		m := w.start("a", nil)
		says(t, m.ends(), "words-counts-changelog has 3 partitions and needs 4, as in now has", "under another Config.AppID")
	})
}

func TestInternalTopicsKeepRecordsOfAnyYear(t *testing.T) {
	bubble(t, func(w *world) {
		m := w.start("a", nil)
		m.runs(2 * partitions)
		for topic, want := range map[string]map[string]string{
			"words-counts-changelog":    {"cleanup.policy": "compact", "message.timestamp.before.max.ms": "9223372036854775807"},
			"words-by-word-repartition": {"cleanup.policy": "delete", "retention.ms": "-1"},
		} {
			info := w.c.TopicInfo(topic)
			if info == nil {
				t.Errorf("there is no topic %s", topic)
				continue
			}
			for k, v := range want {
				if got := info.Configs[k]; got == nil || *got != v {
					t.Errorf("%s of %s is %v, want %s", k, topic, got, v)
				}
			}
		}
		m.stop()
	})
}

func TestOutputTopicsAreWarnedAbout(t *testing.T) {
	bubble(t, func(w *world) {
		var log lockedBuffer
		w.set("out", "message.timestamp.after.max.ms", "3600000")
		w.set("in", "message.timestamp.after.max.ms", "3600000")
		b := topology.NewBuilder()
		in := topology.Topic("in", serde.String(), serde.String())
		topology.From(b, in.EventTime(func(topology.Record[string, string]) time.Time { return time.UnixMilli(1) })).To(topology.Topic("out", serde.String(), serde.String()))
		top, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		m := w.start("a", func(c *framework.Config) { c.Topology, c.Logger = top, slog.New(slog.NewTextHandler(&log, nil)) })
		m.runs(partitions)
		m.stop()
		var plain lockedBuffer // where event time is the broker's, it is of now
		m = w.start("b", func(c *framework.Config) { c.Logger = slog.New(slog.NewTextHandler(&plain, nil)) })
		m.runs(2 * partitions)
		m.stop()
		if strings.Contains(plain.String(), "event times") {
			t.Errorf("without event times of its own an app is warned of them: %s", &plain)
		}
		for _, want := range []string{"message.timestamp.after.max.ms=3600000", "retention.ms=604800000", "more than 1h0m0s ahead are refused"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log does not say %q", want)
			}
		}
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, "event times") && (!strings.Contains(line, "topic=out") || !strings.Contains(line, "level=WARN")) {
				t.Errorf("want warnings of topic out only, got %s", line)
			}
		}
	})
}

// lockedBuffer is a log that may be read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// poison fails on one word, in each way that user code can.
func poison(t *testing.T, bad func()) *topology.Topology {
	t.Helper()
	return countWords(t, func(word string) {
		if word == "poison" {
			bad()
		}
	})
}

func TestRecordThatFailsEndsRun(t *testing.T) {
	bubble(t, func(w *world) {
		m := w.start("a", func(c *framework.Config) { c.Topology = poison(t, func() { panic("no such word") }) })
		w.write(100)
		w.awaitOutputs()
		w.c.Produce(t, &kgo.Record{Topic: "in", Partition: 2, Key: []byte("k"), Value: []byte("poison")})
		err := m.ends()
		var rec *framework.RecordError
		if !errors.As(err, &rec) {
			t.Fatalf("Run returned %v, want a *RecordError", err)
		}
		if rec.Topic != "in" || rec.Partition != 2 || rec.Offset != 25 || rec.Task != "0_2" || len(rec.Stack) == 0 || rec.Operator == "" {
			t.Errorf("the error is of %+v, want in[2]@25 with a stack", rec)
		}
		if !strings.HasPrefix(rec.Place, "world_test.go:") {
			t.Errorf("the operator was added at %q, want a line of world_test.go", rec.Place)
		}
		says(t, err, "in[2]@25", rec.Operator+" ("+rec.Place+")", "no such word", "OnRecordError")
		if at := w.c.Committed(t, appID)["in[2]"]; at > 25 {
			t.Errorf("the position is %d: the record was passed over", at)
		}
		w.check(true)
	})
}

func TestRecordThatFailsIsSkipped(t *testing.T) {
	bubble(t, func(w *world) {
		m := w.start("a", func(c *framework.Config) {
			c.Topology = poison(t, func() { panic("no such word") })
			c.OnRecordError = topology.Skip()
		})
		w.write(100)
		w.c.Produce(t, &kgo.Record{Topic: "in", Partition: 2, Key: []byte("k"), Value: []byte("poison")})
		w.write(100)
		w.awaitOutputs()
		n := m.stop()
		w.check(true)
		if got := m.Snapshot().Counters.Dropped["failed"]; got != 1 {
			t.Errorf("%d records were counted as skipped, want 1: %+v", got, n)
		}
	})
}

// Two processes with the same Instance fence each other. One of them at least must stop and say so; nothing is doubled meanwhile.
func TestTwoProcessesWithOneInstance(t *testing.T) {
	bubble(t, func(w *world) {
		same := func(c *framework.Config) { c.Instance = "one" }
		a := w.start("a", same)
		a.runs(2 * partitions)
		w.write(100)
		w.awaitOutputs()
		b := w.start("b", same)
		ctx, stop := context.WithCancel(context.Background())
		fed := make(chan struct{})
		go func() {
			defer close(fed)
			for ctx.Err() == nil {
				w.write(20)
				time.Sleep(200 * time.Millisecond) // in a bubble
			}
		}()
		var err error
		var other *member
		select {
		case err = <-a.done:
			a.done <- nil
			other = b
		case err = <-b.done:
			b.done <- nil
			other = a
		case <-time.After(5 * time.Minute):
			t.Fatal("both go on")
		}
		stop()
		<-fed
		if !errors.Is(err, framework.ErrFenced) {
			t.Errorf("the one that stopped returned %v, want ErrFenced", err)
		}
		other.runs(2 * partitions)
		w.awaitOutputs()
		if n := other.Snapshot().Counters; n.Fenced == 0 {
			t.Errorf("the other was never fenced: %+v", n)
		}
		other.stop()
		w.check(true)
	})
}

func TestTopologyWithoutStores(t *testing.T) {
	bubble(t, func(w *world) {
		w.createTopics(1, "narrow")
		b := topology.NewBuilder()
		in := topology.From(b, topology.Topic("in", serde.String(), serde.String()))
		in.To(topology.Topic("narrow", serde.String(), serde.String()))
		top, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		m := w.start("a", func(c *framework.Config) { c.Topology, c.State = top, nil })
		w.write(20)
		w.await("all to be copied", func() bool { return len(w.c.ReadCommitted(t, "narrow")) == 20 })
		m.stop()
	})
}

// A table whose topic deletes by age loses rows the next time that it is read from the start.
func TestATableThatIsNotCompactedIsWarnedOf(t *testing.T) {
	bubble(t, func(w *world) {
		w.createTopics(partitions, "rows", "kept")
		w.set("kept", "cleanup.policy", "compact")
		b := topology.NewBuilder()
		in := topology.From(b, topology.Topic("in", serde.String(), serde.String()))
		for _, table := range []string{"rows", "kept"} {
			rows := topology.TableFrom(b, table, topology.Topic(table, serde.String(), serde.String()))
			in = topology.LeftJoinTable(in, rows, func(v, row string, _ bool) string { return v + row })
		}
		in.To(topology.Topic("out", serde.String(), serde.String()))
		top, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		j := newJournal()
		m := w.start("a", j.into(func(c *framework.Config) { c.Topology = top }))
		m.runs(partitions)
		m.stop()
		got := j.with("table topic is not compacted")
		if len(got) != 1 || got[0].level != slog.LevelWarn || got[0].attrs["topic"] != "rows" {
			t.Errorf("logged %v, want one warning of the topic rows", got)
		}
		if got := j.with("stopped"); len(got) != 1 {
			t.Errorf("the end is logged %d times, want once", len(got))
		}
	})
}
