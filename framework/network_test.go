//go:build synctests

package framework_test

import (
	"bytes"
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

// A member loses its network for longer than the group waits. Another takes over from what was committed; when the first is back it
// must not believe that anything is still its own.
func TestNetworkIsLostAndComesBack(t *testing.T) {
	bubble(t, func(w *world) {
		var down atomic.Bool
		var cut atomic.Int64
		alive := func(wiretap.Frame) bool {
			if down.Load() {
				cut.Add(1)
				return false
			}
			return true
		}
		a := w.start("a", w.through(&wiretap.Wire{Request: alive, Response: alive}))
		a.runs(2 * partitions)
		b := w.start("b", nil)
		b.runs(partitions)
		w.write(200)
		w.awaitOutputs()
		down.Store(true)
		w.write(200)
		w.await("b to take over", func() bool { return len(b.Snapshot().Tasks) == 2*partitions })
		w.awaitOutputs()
		time.Sleep(time.Minute) // in a bubble
		down.Store(false)
		w.write(200)
		w.await("a to be back", func() bool { return len(a.Snapshot().Tasks) == partitions && len(b.Snapshot().Tasks) == partitions })
		w.awaitOutputs()
		na := a.stop()
		w.write(100)
		w.awaitOutputs()
		nb := b.stop()
		w.check(false)
		if cut.Load() == 0 || na.TasksLost == 0 || nb.TasksBuilt < 2*partitions || na.RecordsRestored+nb.RecordsRestored == 0 {
			t.Errorf("cut %d times: a %+v, b %+v", cut.Load(), na, nb)
		}
	})
}

// The end of a transaction hangs while another member takes the partitions over: that one finds the positions pending, and has to
// wait until the broker knows: that they are committed, late but in time, or that the transaction is given up.
func TestTakeOverWhileATransactionHangs(t *testing.T) {
	for name, c := range map[string]struct {
		hang      time.Duration
		committed bool
	}{
		"and commits": {20 * time.Second, true}, // longer than the group waits, shorter than the client does
		"and aborts":  {2 * time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				var count nth
				var armed atomic.Bool
				hangs := make(chan struct{})
				a := w.start("a", w.through(&wiretap.Wire{Request: func(f wiretap.Frame) bool {
					if armed.Load() && commits(f) && count.is(1) {
						close(hangs)
						f.Stall(c.hang)
					}
					return true
				}}))
				w.write(100)
				w.awaitOutputs()
				armed.Store(true)
				w.write(300)
				<-hangs
				b := w.start("b", nil)
				w.await("b to run", func() bool { return len(b.Snapshot().Tasks) >= partitions })
				w.awaitOutputs()
				a.runs(partitions)
				na := a.stop()
				w.write(100)
				w.awaitOutputs()
				nb := b.stop()
				w.check(false)
				if count.hits.Load() != 1 || nb.RecordsRestored == 0 || na.TasksBuilt <= 2*partitions {
					t.Errorf("hung %d times: a %+v, b %+v", count.hits.Load(), na, nb)
				}
				if c.committed != (na.Sessions == 1) || !c.committed && na.ReadBacks == 0 {
					t.Errorf("the transaction was to be committed = %v: a %+v", c.committed, na)
				}
			})
		})
	}
}

// A task's stream waits until its table has been read, and the stream has far more than a worker may queue: fetching the table has
// to go on.
func TestStreamThatWaitsForItsTable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 1000
		// Prices are on a broker of their own, so that they can be held up alone.
		c := kafkatest.Start(t, kfake.NumBrokers(2), kfake.Ports(9092, 9093), kfake.SeedTopics(1, "orders", "prices", "priced"))
		for topic, broker := range map[string]int32{"orders": 0, "priced": 0, "prices": 1} {
			if err := c.MoveTopicPartition(topic, 0, broker); err != nil {
				t.Fatal(err)
			}
		}
		w := &world{t: t, c: c, stores: newDumps(), wrote: make(map[string]int64)}
		b := topology.NewBuilder()
		orders := topology.From(b, topology.Topic("orders", serde.String(), serde.String()))
		prices := topology.TableFrom(b, "prices", topology.Topic("prices", serde.String(), serde.String()))
		priced := topology.JoinTable(orders, prices, func(order, price string) string { return order + "@" + price })
		priced.To(topology.Topic("priced", serde.String(), serde.String()))
		top, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		for i := range n { // each a batch of its own, so that a fetch has few
			w.c.Produce(w.t, &kgo.Record{Topic: "orders", Key: fmt.Appendf(nil, "k%d", i), Value: []byte("1"), Timestamp: time.UnixMilli(1)})
		}
		for i := range n {
			w.c.Produce(w.t, &kgo.Record{Topic: "prices", Key: fmt.Appendf(nil, "k%d", i), Value: fmt.Appendf(nil, "p%d", i), Timestamp: time.UnixMilli(2)})
		}
		// The orders come first, as many as fit.
		id := c.TopicInfo("prices").TopicID
		var hold atomic.Bool
		var held atomic.Int64
		hold.Store(true)
		wire := &wiretap.Wire{Response: func(f wiretap.Frame) bool {
			if f.Key == int16(kmsg.Fetch) && bytes.Contains(f.Bytes, id[:]) {
				for hold.Load() {
					held.Add(1)
					time.Sleep(10 * time.Millisecond) // in a bubble
				}
			}
			return true
		}}
		m := w.start("a", func(c *framework.Config) {
			c.Topology, c.Kafka = top, w.c.Through(wire)
			c.MaxQueuedBytes = 4000
		})
		most := 0
		look := func() {
			for _, task := range m.Snapshot().Tasks {
				for _, src := range task.Sources {
					most = max(most, src.Queued)
				}
			}
		}
		w.await("orders to be queued", func() bool { look(); return most > 0 })
		hold.Store(false)
		w.await("all orders to be priced", func() bool { look(); return w.c.Committed(w.t, appID)["orders[0]"] == n })
		if most == 0 || most > 200 {
			t.Errorf("up to %d records were queued, want some, and no more than about 4,000 bytes and a fetch hold", most)
		}
		got := w.c.ReadCommitted(w.t, "priced")
		if len(got) != n {
			t.Fatalf("%d orders are priced, want %d: one came before its price", len(got), n)
		}
		for i, r := range got {
			if want := fmt.Sprintf("1@p%d", i); string(r.Value) != want {
				t.Fatalf("order %d is %s, want %s", i, r.Value, want)
			}
		}
		m.stop()
		if held.Load() == 0 {
			t.Error("fetching prices was not held up: the orders were not first")
		}
		// The table comes back from its topic, up to the committed position.
		m = w.start("b", func(c *framework.Config) { c.Topology = top })
		w.c.Produce(w.t, &kgo.Record{Topic: "orders", Key: []byte("k7"), Value: []byte("2"), Timestamp: time.UnixMilli(3)})
		w.await("the last order to be priced", func() bool { return w.c.Committed(w.t, appID)["orders[0]"] > n })
		got = w.c.ReadCommitted(w.t, "priced")
		if len(got) != n+1 || string(got[n].Value) != "2@p7" {
			t.Errorf("after a restart %d orders are priced, want %d and the last at p7", len(got), n+1)
		}
		if c := m.stop(); c.RecordsRestored != n {
			t.Errorf("restored %d records of the table, want %d", c.RecordsRestored, n)
		}
	})
}
