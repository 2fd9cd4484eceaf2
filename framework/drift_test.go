//go:build synctests

package framework_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/window"
)

// TestDriftBoundsState: one input is an hour ahead of another. With MaxDrift there are no more windows open than it covers, whether the inputs meet
// in one task or behind a repartition topic, and also where what waits is more than the queues take. Results are those without.
func TestDriftBoundsState(t *testing.T) {
	const hour, from = 60, 1_600_000_020_000 // a full minute
	perMinute := func(t *testing.T, through bool) *topology.Topology {
		b := topology.NewBuilder()
		text := func(name string) topology.TopicOf[string, string] {
			return topology.Topic(name, serde.String(), serde.String())
		}
		in := topology.From(b, text("ahead"))
		if through {
			in = topology.Repartition(in, "all", 1, serde.String(), serde.String())
		} else {
			in = in.Merge(topology.From(b, text("behind")))
		}
		topology.Count(topology.Windowed(in.GroupByKey(), window.Tumbling(time.Minute), window.Drop()), "minutes", topology.EmitOnClose()).
			To(topology.Topic("out-minutes", window.KeySerde(serde.String()).Size(time.Minute), serde.Int64()))
		top, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		return top
	}
	// run returns the most windows that were open at once, with what came out.
	run := func(w *world, through bool, drift time.Duration) (most int, results []string) {
		w.createTopics(1, "out-minutes", "behind")
		tasks := 1
		if through {
			tasks = 3
			w.createTopics(2, "ahead")
		} else {
			w.createTopics(1, "ahead")
		}
		late := func() *kgo.Record {
			if through {
				return &kgo.Record{Topic: "ahead", Partition: 1}
			}
			return &kgo.Record{Topic: "behind"}
		}
		at := func(minute int) time.Time { return time.UnixMilli(from).Add(time.Duration(minute) * time.Minute) }
		var records []*kgo.Record
		for n := range 2 * hour {
			for range 10 { // 1 KB each: more than the queues take
				r := &kgo.Record{Topic: "ahead", Key: []byte("k"), Value: []byte(strings.Repeat("x", 1000)), Timestamp: at(n)}
				records = append(records, r)
			}
		}
		w.c.Produce(w.t, records...)
		m := w.start("a", func(c *framework.Config) {
			c.Topology = perMinute(w.t, through)
			c.MaxDrift = drift
			c.MaxQueuedBytes = 100_000
		})
		m.runs(tasks)
		// Windows that have a record and no result.
		open := func() int {
			return int(w.c.Committed(w.t, appID)["ahead[0]"]+9)/10 - len(w.c.ReadCommitted(w.t, "out-minutes"))
		}
		for n := range hour {
			r := late()
			r.Key, r.Value, r.Timestamp = []byte("k"), []byte("x"), at(n)
			w.c.Produce(w.t, r)
			tp := fmt.Sprintf("%s[%d]", r.Topic, r.Partition)
			w.await("the input that is behind", func() bool {
				return w.c.Committed(w.t, appID)[tp] >= w.c.PartitionInfo(r.Topic, r.Partition).HighWatermark
			})
			time.Sleep(time.Second) // in a bubble: for whatever comes of it
			most = max(most, open())
		}
		r := late()
		r.Key, r.Value, r.Timestamp = []byte("k"), []byte("x"), at(3*hour) // the end: what is behind is ahead now
		w.c.Produce(w.t, r)
		w.await("all windows but the last to close", func() bool { return len(w.c.ReadCommitted(w.t, "out-minutes")) >= 2*hour-1 })
		m.stop()
		for _, r := range w.c.ReadCommitted(w.t, "out-minutes") {
			results = append(results, fmt.Sprintf("%x=%d", r.Key, binary.BigEndian.Uint64(r.Value)))
		}
		return most, results
	}
	for _, through := range []bool{false, true} {
		t.Run(fmt.Sprintf("repartitioned=%t", through), func(t *testing.T) {
			t.Parallel()
			var results [2][]string
			t.Run("both", func(t *testing.T) {
				for i, drift := range []time.Duration{0, 5 * time.Minute} {
					t.Run(fmt.Sprintf("drift=%v", drift), func(t *testing.T) {
						bubble(t, func(w *world) {
							most, out := run(w, through, drift)
							results[i] = out
							if i == 0 && most < hour {
								t.Errorf("without alignment at most %d windows are open, want an hour at least", most)
							}
							if i == 1 && most > 5+4 {
								t.Errorf("with alignment up to %d windows are open", most)
							}
						})
					})
				}
			})
			if diff := cmp.Diff(results[0], results[1]); diff != "" || len(results[0]) != 2*hour-1 {
				t.Errorf("%d results (-without +with alignment):\n%s", len(results[0]), diff)
			}
		})
	}
}

// TestDriftWaitsForIdle: a partition that never had a record holds the others up until it is idle, and not for ever; the others, which have to
// wait meanwhile with most of their records not even fetched, are not idle: nothing of theirs is late.
func TestDriftWaitsForIdle(t *testing.T) {
	bubble(t, func(w *world) {
		const from, minutes, idleAfter = 1_600_000_020_000, 120, 5 * time.Second
		w.createTopics(3, "readings")
		w.createTopics(1, "out-minutes")
		m := w.start("a", func(c *framework.Config) {
			b := topology.NewBuilder()
			in := topology.From(b, topology.Topic("readings", serde.String(), serde.String()))
			all := topology.Repartition(in, "all", 1, serde.String(), serde.String()).GroupByKey()
			topology.Count(topology.Windowed(all, window.Tumbling(time.Minute), window.Drop()), "minutes", topology.EmitOnClose()).
				To(topology.Topic("out-minutes", window.KeySerde(serde.String()).Size(time.Minute), serde.Int64()))
			top, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			c.Topology, c.MaxDrift, c.IdleAfter, c.MaxQueuedBytes = top, 5*time.Minute, idleAfter, 50_000
		})
		m.runs(4)
		var records []*kgo.Record
		for n := range minutes {
			for p := range int32(2) { // and none for the third
				at := time.UnixMilli(from).Add(time.Duration(n) * time.Minute)
				records = append(records, &kgo.Record{Topic: "readings", Partition: p, Key: []byte("k"), Value: []byte(strings.Repeat("x", 1000)), Timestamp: at})
			}
		}
		w.c.Produce(t, records...)
		time.Sleep(idleAfter / 2) // in a bubble
		held := 0
		for _, task := range m.Snapshot().Tasks {
			for _, s := range task.Sources {
				if s.Held {
					held++
				}
			}
		}
		if out := len(w.c.ReadCommitted(t, "out-minutes")); held != 2 || out != 0 {
			t.Errorf("before the silent partition is idle %d partitions are held and %d results are out, want 2 and none", held, out)
		}
		w.await("all windows but the last to close", func() bool { return len(w.c.ReadCommitted(t, "out-minutes")) >= minutes-1 })
		n := m.stop()
		for _, r := range w.c.ReadCommitted(t, "out-minutes") {
			if count := binary.BigEndian.Uint64(r.Value); count != 2 {
				t.Errorf("window %x counts %d, want 2", r.Key, count)
			}
		}
		if n.Dropped["late-dropped"] != 0 {
			t.Errorf("%d records were late", n.Dropped["late-dropped"])
		}
	})
}
