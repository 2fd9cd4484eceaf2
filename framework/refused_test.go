//go:build synctests

package framework_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/topology"
)

// refuse makes the broker refuse each batch for the topic that holds a record with the word. The result counts the batches.
func (w *world) refuse(topic, word string, with *kerr.Error) func() int64 {
	id := w.c.TopicInfo(topic).TopicID
	var faults []*kfake.FaultHandle
	for p := range int32(partitions) {
		faults = append(faults, w.c.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Partitions: []int32{p}, Err: with, Count: -1,
			When: func(r kmsg.Request) bool {
				for _, t := range r.(*kmsg.ProduceRequest).Topics {
					for _, rp := range t.Partitions {
						if (t.TopicID == id || t.Topic == topic) && rp.Partition == p && bytes.Contains(rp.Records, []byte(word)) {
							return true
						}
					}
				}
				return false
			},
		}))
	}
	return func() int64 {
		var n int64
		for _, f := range faults {
			n += int64(f.Hits())
		}
		return n
	}
}

// writeBad writes words that no output may come of, on the same partitions as the others.
func (w *world) writeBad(words ...string) {
	w.t.Helper()
	var records []*kgo.Record
	for i, word := range words {
		records = append(records, &kgo.Record{Topic: "in", Partition: int32(i % partitions), Key: []byte("k"), Value: []byte(word)})
	}
	w.c.Produce(w.t, records...)
}

// Three outputs that the broker refuses are among hundreds, in batches with them. Under Skip all others come out once, and nothing
// is left of the three, in stores and changelogs neither.
func TestRefusedOutputsAreSkipped(t *testing.T) {
	bubble(t, func(w *world) {
		hits := w.refuse("out", "<ahead", kerr.InvalidTimestamp)
		w.write(400)
		w.writeBad("<ahead-1>", "<ahead-2>", "<ahead-1>")
		w.write(400)
		m := w.start("a", func(c *framework.Config) { c.OnRecordError = topology.Skip() })
		w.awaitOutputs()
		before := m.Snapshot().Counters
		w.write(100)
		w.awaitOutputs()
		n := m.stop()
		w.check(true)
		if got := n.Dropped["refused"]; got != 3 || n.Dropped["failed"] != 0 {
			t.Errorf("dropped %v, want 3 refused", n.Dropped)
		}
		if hits() == 0 || before.Aborts == 0 || before.Aborts > 9 || before.TasksBuilt <= 2*partitions {
			t.Errorf("%d batches were refused: %+v", hits(), before)
		}
		if n.Aborts != before.Aborts {
			t.Errorf("%d transactions were aborted after that, want none", n.Aborts-before.Aborts)
		}
	})
}

// Under Fail the error says where the record is from, where it was to go, why not, and what to do. Nothing of it is committed.
func TestRefusedOutputEndsRun(t *testing.T) {
	bubble(t, func(w *world) {
		hits := w.refuse("out", "<ahead", kerr.InvalidTimestamp)
		w.write(400)
		w.writeBad("<ahead-1>")
		m := w.start("a", nil)
		err := m.ends()
		var rec *framework.RecordError
		if !errors.As(err, &rec) || !errors.Is(err, kerr.InvalidTimestamp) {
			t.Fatalf("Run returned %v, want a *RecordError for INVALID_TIMESTAMP", err)
		}
		if rec.Topic != "words-by-word-repartition" || rec.Reason != "refused" || !strings.Contains(rec.Operator, "SINK") {
			t.Errorf("the error is of %+v, want a record of the repartition topic at a sink", rec)
		}
		says(t, err, "topic out", "message.timestamp.after.max.ms", "OnRecordError", fmt.Sprintf("words-by-word-repartition[%d]@%d", rec.Partition, rec.Offset))
		for _, r := range w.c.ReadCommitted(t, rec.Topic) {
			if at := r.Partition == rec.Partition && r.Offset == rec.Offset; at != (string(r.Value) == "<ahead-1>") {
				t.Errorf("%s[%d]@%d is %s, and the error names %s[%d]@%d", r.Topic, r.Partition, r.Offset, r.Value, rec.Topic, rec.Partition, rec.Offset)
			}
		}
		if at := w.c.Committed(t, appID)[fmt.Sprintf("%s[%d]", rec.Topic, rec.Partition)]; at > rec.Offset {
			t.Errorf("the position is %d: the record was passed over", at)
		}
		if hits() == 0 {
			t.Error("nothing was refused")
		}
	})
}

// What a topic says that it does not take is known before it is produced: no transaction is aborted for it.
func TestTooLargeForItsTopicIsKnown(t *testing.T) {
	for name, policy := range map[string]topology.ErrorPolicy{"skip": topology.Skip(), "fail": topology.Fail()} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.set("out", "max.message.bytes", "600")
				w.write(800) // of which a transaction has more than 600 bytes for a partition
				w.writeBad(strings.Repeat("x", 700))
				m := w.start("a", func(c *framework.Config) { c.OnRecordError = policy })
				if policy == topology.Fail() {
					err := m.ends()
					var rec *framework.RecordError
					if !errors.As(err, &rec) || rec.Reason != "refused" || rec.Topic != "words-by-word-repartition" {
						t.Fatalf("Run returned %v, want a *RecordError for a record of the repartition topic", err)
					}
					says(t, err, "topic out takes 600", "MESSAGE_TOO_LARGE", "max.message.bytes")
					if n := m.Snapshot().Counters; n.Aborts != 0 {
						t.Errorf("%d transactions were aborted, want none", n.Aborts)
					}
					return
				}
				w.awaitOutputs()
				n := m.stop()
				w.check(true)
				if n.Dropped["refused"] != 1 || n.Aborts != 0 {
					t.Errorf("want one refused and no abort: %+v", n)
				}
			})
		})
	}
}

func (w *world) set(topic, key, value string) {
	w.t.Helper()
	cl, err := kgo.NewClient(append(w.c.Options(), kgo.SeedBrokers(w.c.ListenAddrs()...), kgo.DisableClientMetrics())...)
	if err != nil {
		w.t.Fatal(err)
	}
	defer cl.Close()
	got, err := kadm.NewClient(cl).AlterTopicConfigs(context.Background(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: key, Value: &value}}, topic)
	if err != nil || got[0].Err != nil {
		w.t.Fatalf("%s of %s: %v, %v", key, topic, err, got)
	}
}

// A topic takes less than it did when the app started: whole batches are refused though each of their records would do. All come out
// but the one that is too large by itself, whether or not the app may read what the topic takes.
func TestTopicTakesLessThanAtStart(t *testing.T) {
	for name, readable := range map[string]bool{"settings can be read": true, "settings cannot be read": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				if !readable {
					w.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Err: kerr.TopicAuthorizationFailed, Count: -1})
				}
				m := w.start("a", func(c *framework.Config) { c.OnRecordError = topology.Skip() })
				m.runs(2 * partitions)
				w.write(100)
				w.awaitOutputs()
				w.set("out", "max.message.bytes", "600")
				w.write(2000)
				const seed = 5
				rng := rand.New(rand.NewPCG(seed, seed))
				large := make([]byte, 900)
				for i := range large { // so that it cannot be compressed
					large[i] = byte('!' + rng.IntN(90))
				}
				w.writeBad(string(large))
				w.write(200)
				w.awaitOutputs()
				n := m.stop()
				w.check(true)
				sessions := int64(1)
				if readable {
					sessions = 2 // the client must know the limit
				}
				if n.Aborts == 0 || n.Dropped["refused"] != 1 || n.Sessions != sessions {
					t.Errorf("want aborts, one refused and %d sessions: %+v", sessions, n)
				}
			})
		})
	}
}

// Without the right to write a topic, nothing can be written to it. Under Skip that is found out once, not for each record.
func TestNoRightToWriteATopic(t *testing.T) {
	bubble(t, func(w *world) {
		fault := w.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "out", Err: kerr.TopicAuthorizationFailed, Count: -1})
		w.write(100)
		m := w.start("a", nil)
		err := m.ends()
		var rec *framework.RecordError
		if !errors.As(err, &rec) || rec.Topic != "words-by-word-repartition" {
			t.Fatalf("Run returned %v, want a *RecordError", err)
		}
		says(t, err, "topic out", "TOPIC_AUTHORIZATION_FAILED", "grant")

		m = w.start("b", func(c *framework.Config) { c.OnRecordError = topology.Skip() })
		w.write(100)
		w.await("all to be skipped", func() bool { return m.Snapshot().Counters.Dropped["refused"] == 200 })
		w.write(100)
		w.await("more to be skipped", func() bool { return m.Snapshot().Counters.Dropped["refused"] == 300 })
		if n := m.stop(); n.Aborts == 0 || n.Aborts > partitions+1 || fault.Hits() == 0 {
			t.Errorf("want an abort for each task at most: %+v", n)
		}
	})
}

// ticker writes the time of day now and then.
type ticker struct{}

func (ticker) Init(t *topology.Task, out topology.Emitter[string, string]) error {
	return t.EveryWallClock(time.Second, func(now time.Time) error {
		return out(topology.Record[string, string]{Key: "<ahead>", Value: now.String(), Time: now.UnixMilli()})
	})
}

func (ticker) Process(topology.Record[string, string], topology.Emitter[string, string]) error {
	return nil
}

// What carries the time of day is not made again in the same way, so that it cannot be left out: Run must end, not try for ever.
func TestRefusedOutputThatIsNeverTheSame(t *testing.T) {
	bubble(t, func(w *world) {
		hits := w.refuse("out", "<ahead", kerr.InvalidTimestamp)
		b := topology.NewBuilder()
		in := topology.From(b, topology.Topic("in", serde.String(), serde.String()))
		topology.Process(in, "ticker", func() topology.Processor[string, string, string, string] { return ticker{} }).
			To(topology.Topic("out", serde.String(), serde.String()))
		top, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		m := w.start("a", func(c *framework.Config) { c.Topology, c.OnRecordError, c.State = top, topology.Skip(), nil })
		err = m.ends()
		var rec *framework.RecordError
		if !errors.As(err, &rec) || rec.Topic != "" || rec.Reason != "refused" {
			t.Fatalf("Run returned %v, want a *RecordError of no record", err)
		}
		says(t, err, "topic out", "INVALID_TIMESTAMP", "not made again in the same way")
		if hits() < 2 {
			t.Errorf("refused %d times, want a few", hits())
		}
	})
}
