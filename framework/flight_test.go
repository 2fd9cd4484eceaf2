//go:build synctests

package framework_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/internal/kafkatest"
	"github.com/headrace/headrace/internal/wiretap"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/topology"
)

func countKeys(t *testing.T) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder()
	in := topology.From(b, topology.Topic("in", serde.String(), serde.String()))
	topology.Count(in.GroupByKey(), "counts").To(topology.Topic("out", serde.String(), serde.Int64()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// keyed writes n records of one key to in[0].
func (w *world) keyed(key string, n int) {
	w.t.Helper()
	w.keyedTo(0, key, n)
}

func (w *world) keyedTo(partition int32, key string, n int) {
	w.t.Helper()
	var records []*kgo.Record
	for range n {
		records = append(records, &kgo.Record{Topic: "in", Partition: partition, Key: []byte(key), Value: []byte("v"), Timestamp: time.UnixMilli(1_600_000_000_000 + int64(w.n))})
		w.n++
	}
	w.c.Produce(w.t, records...)
}

// hold is a wire that keeps requests of a kind back while it is shut.
type hold struct {
	shut atomic.Bool
	held atomic.Int64
}

func (h *hold) wire(key kmsg.Key) *wiretap.Wire {
	return &wiretap.Wire{Request: func(f wiretap.Frame) bool {
		if f.Key == int16(key) && h.shut.Load() {
			h.held.Add(1)
			for h.shut.Load() {
				time.Sleep(10 * time.Millisecond) // in a bubble
			}
		}
		return true
	}}
}

func (w *world) exactly() {
	w.t.Helper()
	var n int
	all := make(map[string]int64)
	for _, r := range w.c.ReadCommitted(w.t, "out") {
		n++
		all[string(r.Key)]++
		next := all[string(r.Key)]
		if got := int64(binary.BigEndian.Uint64(r.Value)); got != next {
			w.t.Fatalf("output %s[%d]@%d %s is %d, want %d: a record was lost or doubled", r.Topic, r.Partition, r.Offset, r.Key, got, next)
		}
	}
	if n != w.n {
		w.t.Errorf("%d outputs, want %d", n, w.n)
	}
}

// A store fails while the transaction before is still being written. The task is made anew before that transaction has its offsets at
// the group, and so from a position that is about to be passed.
func TestStoreFailsDuringAFlight(t *testing.T) {
	bubble(t, func(w *world) {
		var h hold
		var fail atomic.Bool
		d := w.disk(func(op, _ string) error {
			if op == "get" && fail.CompareAndSwap(true, false) {
				return errors.New("the disk has failed")
			}
			return nil
		})
		m := w.start("a", func(c *framework.Config) {
			c.Topology, c.State, c.Kafka = countKeys(t), d, w.c.Through(h.wire(kmsg.Produce))
		})
		m.runs(partitions)
		w.keyed("a", 10)
		w.awaitOutputs()
		h.shut.Store(true)
		w.keyed("b", 10)
		w.await("a transaction that is being written", func() bool { return h.held.Load() > 0 })
		fail.Store(true)
		w.keyed("c", 10)
		w.await("the store to fail", func() bool { return !fail.Load() })
		time.Sleep(500 * time.Millisecond) // in a bubble
		h.shut.Store(false)
		w.awaitOutputs()
		w.keyed("a", 10)
		w.awaitOutputs()
		time.Sleep(time.Second) // in a bubble
		m.stop()
		w.exactly()
	})
}

// A record fails under Fail while a transaction flies: Run ends with it, what flew is committed, and a restart does nothing twice.
func TestRecordFailsDuringAFlight(t *testing.T) {
	bubble(t, func(w *world) {
		var h hold
		var poison atomic.Bool
		poison.Store(true)
		top := func() *topology.Topology {
			b := topology.NewBuilder()
			in := topology.From(b, topology.Topic("in", serde.String(), serde.String())).Peek(func(k, _ string) {
				if k == "bad" && poison.Load() {
					panic("bad")
				}
			})
			topology.Count(in.GroupByKey(), "counts").To(topology.Topic("out", serde.String(), serde.Int64()))
			top, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			return top
		}
		m := w.start("a", func(c *framework.Config) { c.Topology, c.Kafka = top(), w.c.Through(h.wire(kmsg.Produce)) })
		m.runs(partitions)
		w.keyed("a", 10)
		w.awaitOutputs()
		h.shut.Store(true)
		w.keyed("a", 10)
		w.await("a held transaction", func() bool { return h.held.Load() > 0 })
		w.keyed("c", 5)
		w.keyed("bad", 1)
		time.Sleep(3 * time.Second) // in a bubble
		h.shut.Store(false)
		err := m.ends()
		var rec *framework.RecordError
		if !errors.As(err, &rec) {
			t.Fatalf("Run returned %v", err)
		}
		t.Logf("%v %+v", err, m.Snapshot().Counters)
		if n := len(w.c.ReadCommitted(t, "out")); n != 20 {
			t.Errorf("%d outputs are committed", n)
		}
		poison.Store(false)
		w.start("b", func(c *framework.Config) { c.Topology = top() })
		w.awaitOutputs()
		time.Sleep(time.Second) // in a bubble
		w.exactly()
	})
}

// Many bad outputs in two topics over all partitions, two workers, a slow broker, and members that come and go: all good outputs come
// once, all bad records are dead letters once.
func TestManyRefusedOutputs(t *testing.T) {
	for _, workers := range []int{1, 2} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			bubble(t, func(w *world) {
				w.createTopics(partitions, "dead")
				w.refuse("out", "<ahead", kerr.InvalidTimestamp)
				wire := &wiretap.Wire{Request: func(f wiretap.Frame) bool {
					if f.Key == int16(kmsg.Produce) {
						time.Sleep(3 * time.Millisecond) // in a bubble
					}
					return true
				}}
				var commits, aborts, told atomic.Int64
				with := func(c *framework.Config) {
					c.Kafka, c.Workers = w.c.Through(wire), workers
					c.OnRecordError = topology.DeadLetter("dead")
					c.Observers = []framework.Observer{{Transaction: func(x framework.Transaction) {
						told.Add(1)
						if x.Reason == "" {
							commits.Add(1)
						} else {
							aborts.Add(1)
						}
					}}}
				}
				bad := 0
				write := func() {
					w.write(300)
					var words []string
					for range 40 {
						k := "<ahead"
						if bad%3 == 0 {
							k = "<ahead-x"
						}
						words = append(words, fmt.Sprintf("%s-%d>", k, bad))
						bad++
					}
					w.writeBad(words...)
					w.write(300)
				}
				write()
				m := w.start("a", with)
				w.awaitOutputs()
				write()
				time.Sleep(50 * time.Millisecond) // in a bubble
				b := w.start("b", with)
				write()
				w.awaitOutputs()
				write()
				b.stop()
				w.awaitOutputs()
				w.await("all dead letters", func() bool { return len(w.c.ReadCommitted(t, "dead")) >= bad })
				n := m.stop()
				w.check(false)
				seen := map[string]int{}
				for _, r := range w.c.ReadCommitted(t, "dead") {
					seen[string(r.Value)]++
				}
				if len(seen) != bad {
					t.Errorf("%d dead letters, want %d", len(seen), bad)
				}
				for v, k := range seen {
					if k != 1 || !strings.HasPrefix(v, "<") {
						t.Errorf("%s is a dead letter %d times", v, k)
					}
				}
				t.Logf("told %d, %d commits %d aborts; %+v", told.Load(), commits.Load(), aborts.Load(), n)
			})
		})
	}
}

// A store fails during a flight whose outputs are refused: the policy says Skip, so the app must go on.
func TestStoreFailsDuringARefusedFlight(t *testing.T) {
	bubble(t, func(w *world) {
		var h hold
		var fail atomic.Bool
		w.refuse("out", "bad", kerr.InvalidTimestamp)
		d := w.disk(func(op, _ string) error {
			if op == "get" && fail.CompareAndSwap(true, false) {
				return errors.New("the disk has failed")
			}
			return nil
		})
		m := w.start("a", func(c *framework.Config) {
			c.Topology, c.State, c.Kafka, c.OnRecordError = countKeys(t), d, w.c.Through(h.wire(kmsg.Produce)), topology.Skip()
		})
		m.runs(partitions)
		w.keyed("a", 10)
		w.awaitOutputs()
		h.shut.Store(true)
		w.c.Produce(t, &kgo.Record{Topic: "in", Partition: 0, Key: []byte("bad"), Value: []byte("v"), Timestamp: time.UnixMilli(1_600_000_000_000)})
		w.await("a transaction that is being written", func() bool { return h.held.Load() > 0 })
		fail.Store(true)
		w.keyed("c", 10)
		w.await("the store to fail", func() bool { return !fail.Load() })
		h.shut.Store(false)
		time.Sleep(10 * time.Second) // in a bubble
		select {
		case err := <-m.done:
			m.done <- err
			t.Fatalf("Run has ended: %v", err)
		default:
		}
		w.awaitOutputs()
		m.stop()
		w.exactly()
	})
}

// Each bad output is found and left out, and what follows is committed, though the broker's answer says nothing and it has to be read back: that is
// no row of refusals.
func TestRefusalsWithReadBacks(t *testing.T) {
	bubble(t, func(w *world) {
		w.refuse("out", "bad", kerr.InvalidTimestamp)
		wire := &wiretap.Wire{Response: func(f wiretap.Frame) bool {
			if f.Key == endTxn {
				f.SetError(kerr.UnknownServerError.Code)
			}
			return true
		}}
		m := w.start("a", func(c *framework.Config) {
			c.Topology, c.Kafka, c.OnRecordError = countKeys(t), w.c.Through(wire), topology.Skip()
		})
		m.runs(partitions)
		for i := range 8 {
			var records []*kgo.Record
			for j := range 100 {
				key := "good"
				if j == 50 {
					key = fmt.Sprint("bad", i)
				} else {
					w.n++
				}
				records = append(records, &kgo.Record{Topic: "in", Partition: 0, Key: []byte(key), Value: []byte("v"), Timestamp: time.UnixMilli(1_600_000_000_000)})
			}
			w.c.Produce(t, records...)
			w.await("outputs", func() bool {
				select {
				case err := <-m.done:
					m.done <- err
					t.Fatalf("after %d bad outputs, Run has ended: %v", i+1, err)
				default:
				}
				return w.outputs() >= w.n
			})
			time.Sleep(time.Second) // in a bubble
		}
		n := m.stop()
		w.exactly()
		if n.Dropped["refused"] != 8 {
			t.Errorf("%+v", n)
		}
	})
}

// What is pending fills up while a transaction flies that the broker then refuses. Nothing is left to commit, and nothing is committed: a
// transaction with nothing in it must not be made, be told of, or count as the success that ends a run of failures.
func TestRefusedWhileFull(t *testing.T) {
	bubble(t, func(w *world) {
		const refusals = 12
		var empty atomic.Int64
		wire := &wiretap.Wire{Request: func(f wiretap.Frame) bool {
			if f.Key == int16(kmsg.Produce) {
				time.Sleep(50 * time.Millisecond) // in a bubble
			}
			return true
		}}
		m := w.start("a", func(c *framework.Config) {
			c.Kafka = w.c.Through(wire)
			c.MaxPendingBytes = 20_000
			c.Observers = []framework.Observer{{Transaction: func(x framework.Transaction) {
				if x.Reason == "" && x.Records == 0 && x.Tasks == 0 {
					empty.Add(1)
				}
			}}}
		})
		w.write(100)
		m.runs(2 * partitions)
		w.awaitOutputs()
		refuse := w.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Err: kerr.TransactionAbortable, Count: refusals})
		begin := time.Now()
		w.write(4000)
		w.await("the broker to take it again", func() bool { return refuse.Hits() >= refusals })
		if took := time.Since(begin); took < 25*time.Second {
			t.Errorf("it took %v until the broker had refused %d times: it was hammered", took, refusals)
		}
		w.awaitOutputs()
		m.stop()
		w.check(true)
		if empty.Load() > 0 {
			t.Errorf("%d transactions with nothing in them", empty.Load())
		}
	})
}

// holdWrites makes the broker hold what apps write, and not what tests write to in: what comes while shut, until release.
func (w *world) holdWrites() (shut, release *atomic.Bool, held *atomic.Int64) {
	shut, release, held = new(atomic.Bool), new(atomic.Bool), new(atomic.Int64)
	id := w.c.TopicInfo("in").TopicID
	w.c.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		w.c.KeepControl()
		into := req.(*kmsg.ProduceRequest).Topics[0]
		if shut.Load() && into.Topic != "in" && into.TopicID != id {
			held.Add(1)
			w.c.SleepControl(func() {
				for !release.Load() {
					time.Sleep(10 * time.Millisecond) // in a bubble
				}
			})
		}
		return nil, nil, false
	})
	return shut, release, held
}

// A broker takes no records when the app is told to stop: Run returns after drainTimeout, 10 s, and what leaving takes.
func TestStopDuringAFlight(t *testing.T) {
	bubble(t, func(w *world) {
		shut, release, held := w.holdWrites()
		m := w.start("a", func(c *framework.Config) { c.Topology = countKeys(t) })
		m.runs(partitions)
		w.keyed("a", 10)
		w.awaitOutputs()
		shut.Store(true)
		w.keyed("a", 10)
		w.await("writes that are held", func() bool { return held.Load() > 0 })
		begin := time.Now()
		m.cancel()
		err := <-m.done
		m.done <- err
		t.Logf("Run returned %v after %v", err, time.Since(begin))
		if took := time.Since(begin); took > 15*time.Second {
			t.Errorf("Run took %v to return", took)
		}
		release.Store(true)
		shut.Store(false)
		time.Sleep(time.Second) // in a bubble
	})
}

// A member is slow to write, for three seconds, while another joins. Nobody dies, and nobody is thrown out of the group: whoever gets a task must find all
// that its last owner writes.
func TestSlowWriteWhileAnotherJoins(t *testing.T) {
	bubble(t, func(w *world) {
		shut, release, held := w.holdWrites()
		a := w.start("a", func(c *framework.Config) {
			c.Topology, c.Guarantee = countKeys(t), framework.AtLeastOnce
		})
		a.runs(partitions)
		every := func(n int) {
			for _, k := range []string{"0", "1", "2", "3"} {
				w.keyedTo(int32(k[0]-'0'), k, n)
			}
		}
		every(10)
		w.awaitOutputs()
		shut.Store(true)
		every(10)
		w.await("writes that are held", func() bool { return held.Load() > 0 })
		shut.Store(false) // for everybody else
		b := w.start("b", func(c *framework.Config) { c.Topology, c.Guarantee = countKeys(t), framework.AtLeastOnce })
		for end := time.Now().Add(10 * time.Second); len(b.Snapshot().Tasks) == 0 && time.Now().Before(end); {
			time.Sleep(100 * time.Millisecond) // in a bubble
		}
		t.Logf("b has %d tasks while a writes", len(b.Snapshot().Tasks))
		every(10)
		time.Sleep(time.Second) // in a bubble
		release.Store(true)
		w.awaitOutputs()
		time.Sleep(2 * time.Second) // in a bubble
		a.stop()
		b.stop()
		logged := kafkatest.Fold(w.c.ReadCommitted(t, "words-counts-changelog"))
		for k, v := range logged {
			if n := int64(binary.BigEndian.Uint64([]byte(v))); n < 30 {
				t.Errorf("%s was written 30 times, and the changelog says %d: a restart would lose the rest", k, n)
			}
		}
		last := make(map[string]int64)
		for _, r := range w.c.ReadCommitted(t, "out") {
			k, n := string(r.Key), int64(binary.BigEndian.Uint64(r.Value))
			if n < last[k] {
				t.Logf("output %s goes from %d back to %d", k, last[k], n)
			}
			last[k] = n
		}
		t.Log(last)
	})
}
