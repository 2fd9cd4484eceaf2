//go:build synctests

package framework_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/internal/kafkatest"
	"github.com/headrace/headrace/internal/wiretap"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/topology"
)

// lose writes n words to in[1] and deletes them.
func (w *world) lose(n int) (from, to int64) {
	w.t.Helper()
	from = w.c.PartitionInfo("in", 1).HighWatermark
	var records []*kgo.Record
	for range n {
		records = append(records, &kgo.Record{Topic: "in", Partition: 1, Key: []byte("k"), Value: []byte("lost")})
	}
	w.c.Produce(w.t, records...)
	if err := w.c.DeleteRecords("in", 1, from+int64(n)); err != nil {
		w.t.Fatal(err)
	}
	return from, from + int64(n)
}

// Input that was deleted while no member ran ends Run with what is missing, or is passed over when the user accepts that.
func TestInputLostBeforeStart(t *testing.T) {
	bubble(t, func(w *world) {
		m := w.start("a", nil)
		w.write(100)
		w.awaitOutputs()
		m.stop()
		from, to := w.lose(20)
		w.write(100)
		m = w.start("b", nil)
		says(t, m.ends(), "20 offsets of in[1]", fmt.Sprintf("from %d up to %d", from, to), "retention.ms", "Config.SkipLostInput")

		m = w.start("c", func(c *framework.Config) { c.SkipLostInput = true })
		w.awaitOutputs()
		n := m.stop()
		w.check(true)
		if n.Lost != 20 {
			t.Errorf("lost %d offsets, want 20", n.Lost)
		}
	})
}

// A log that begins late is no loss for who has never read it.
func TestFirstStartOnATrimmedTopic(t *testing.T) {
	bubble(t, func(w *world) {
		w.lose(20)
		w.write(100)
		m := w.start("a", nil)
		w.awaitOutputs()
		n := m.stop()
		w.check(true)
		if n.Lost != 0 {
			t.Errorf("lost %d offsets, want none", n.Lost)
		}
	})
}

// The same while the app runs and is behind: nothing is passed over silently.
func TestInputLostWhileRunning(t *testing.T) {
	for name, skip := range map[string]bool{"fail": false, "skip": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				var hold atomic.Bool
				wire := &wiretap.Wire{Request: func(f wiretap.Frame) bool {
					for f.Key == int16(kmsg.Fetch) && hold.Load() {
						time.Sleep(10 * time.Millisecond) // in a bubble
					}
					return true
				}}
				m := w.start("a", func(c *framework.Config) { c.Kafka, c.SkipLostInput = w.c.Through(wire), skip })
				w.write(100)
				w.awaitOutputs()
				m.runs(2 * partitions)
				hold.Store(true)
				time.Sleep(2 * time.Second) // in a bubble: so that no fetch is under way
				w.write(100)
				from, to := w.lose(20)
				w.write(100)
				// What was there before is gone, too: 25 of the first 100.
				hold.Store(false)
				if !skip {
					says(t, m.ends(), "45 offsets of in[1]", fmt.Sprintf("from %d up to %d", from-25, to), "Config.SkipLostInput")
					return
				}
				for n := 100; n < 200; n++ {
					if n%partitions == 1 {
						word := wordOf(n)
						if w.wrote[word]--; w.wrote[word] == 0 {
							delete(w.wrote, word)
						}
						w.n--
					}
				}
				w.awaitOutputs()
				n := m.stop()
				w.check(true)
				if n.Lost != 45 || n.TasksBuilt != 2*partitions {
					t.Errorf("want 45 lost and no task made anew: %+v", n)
				}
			})
		})
	}
}

// The last records of a table are compacted away before the task has read them: the client delivers nothing, and the stream must
// not wait for the table for ever.
func TestTableWhoseEndIsCompactedAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// The table is on a broker of its own, so that its answers can be made up.
		c := kafkatest.Start(t, kfake.NumBrokers(2), kfake.Ports(9092, 9093), kfake.SeedTopics(1, "in", "out", "table"))
		for topic, broker := range map[string]int32{"in": 0, "out": 0, "table": 1} {
			if err := c.MoveTopicPartition(topic, 0, broker); err != nil {
				t.Fatal(err)
			}
		}
		w := &world{t: t, c: c, stores: newDumps(), wrote: make(map[string]int64)}
		const gone = 3 // the offset of the first that is gone, of 5
		for i := range 5 {
			c.Produce(t, &kgo.Record{Topic: "table", Key: fmt.Appendf(nil, "k%d", i), Value: []byte("v")})
		}
		c.Produce(t, &kgo.Record{Topic: "in", Key: []byte("k0"), Value: []byte("x")}, &kgo.Record{Topic: "in", Key: []byte("k4"), Value: []byte("y")})
		id := c.TopicInfo("table").TopicID
		var nothing, sleeping atomic.Int64
		c.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			req := kreq.(*kmsg.FetchRequest)
			resp := req.ResponseKind().(*kmsg.FetchResponse)
			for _, rt := range req.Topics {
				for i := range rt.Partitions {
					rp := &rt.Partitions[i]
					if rt.TopicID != id && rt.Topic != "table" || rp.FetchOffset >= 5 {
						continue
					}
					if rp.FetchOffset < gone {
						req.MaxBytes, rp.PartitionMaxBytes = 1, 1 // one batch, which is one record
						continue
					}
					st := kmsg.NewFetchResponseTopic()
					st.Topic, st.TopicID = rt.Topic, rt.TopicID
					sp := kmsg.NewFetchResponseTopicPartition()
					sp.Partition, sp.RecordBatches, sp.HighWatermark, sp.LastStableOffset = rp.Partition, []byte{}, 5, 5
					st.Partitions = append(st.Partitions, sp)
					resp.Topics = append(resp.Topics, st)
				}
			}
			if len(resp.Topics) == 0 {
				return nil, nil, false
			}
			nothing.Add(1)
			// As a broker waits for more to come.
			wait := time.Duration(req.MaxWaitMillis) * time.Millisecond
			sleeping.Add(1)
			c.SleepControl(func() {
				defer sleeping.Add(-1)
				time.Sleep(wait) // in a bubble
			})
			return resp, nil, true
		})

		b := topology.NewBuilder()
		table := topology.TableFrom(b, "known", topology.Topic("table", serde.String(), serde.String()))
		in := topology.From(b, topology.Topic("in", serde.String(), serde.String()))
		topology.JoinTable(in, table, func(s, v string) string { return s + v }).To(topology.Topic("out", serde.String(), serde.String()))
		top, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		m := w.start("a", func(c *framework.Config) { c.Topology = top })
		begin := time.Now()
		w.await("the table to be passed", func() bool { return c.Committed(t, appID)["table[0]"] == 5 })
		w.await("the stream", func() bool { return len(c.ReadCommitted(t, "out")) > 0 })
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("the stream waited for %v", took)
		}
		// What is written later is read as ever.
		c.Produce(t, &kgo.Record{Topic: "table", Key: []byte("k4"), Value: []byte("w")})
		w.await("the table to be read on", func() bool { return c.Committed(t, appID)["table[0]"] == 6 })
		c.Produce(t, &kgo.Record{Topic: "in", Key: []byte("k4"), Value: []byte("z")})
		w.await("both", func() bool { return len(c.ReadCommitted(t, "out")) == 2 })
		m.stop()
		w.await("the broker to come to rest", func() bool { return sleeping.Load() == 0 })
		var got []string
		for _, r := range c.ReadCommitted(t, "out") {
			got = append(got, fmt.Sprintf("%s=%s", r.Key, r.Value))
		}
		if want := "[k0=xv k4=zw]"; fmt.Sprint(got) != want {
			t.Errorf("joined %v, want %s", got, want)
		}
		if nothing.Load() == 0 {
			t.Error("nobody asked for what is gone")
		}
	})
}
