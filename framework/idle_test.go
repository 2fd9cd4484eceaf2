//go:build synctests

package framework_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/internal/wire"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/window"
)

// epoch is when event time begins in these tests: on a full minute.
const epoch = 1_600_000_020_000

// minutely counts the records of each minute that has closed: by their key, or by their value behind a repartition topic.
func minutely(t *testing.T, repartitioned bool, look func(partition string, at time.Time)) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder()
	in := topology.From(b, topology.Topic("in", serde.String(), serde.String()).EventTime(func(r topology.Record[string, string]) time.Time {
		if look != nil {
			look(r.Value, r.Timestamp())
		}
		return r.Timestamp()
	}))
	g := in.GroupByKey()
	if repartitioned {
		g = topology.GroupBy(in, "by-word", func(_, word string) string { return word }, serde.String(), serde.String())
	}
	topology.Count(topology.Windowed(g, window.Tumbling(time.Minute), window.Drop()), "minutes", topology.EmitOnClose()).
		To(topology.Topic("out", window.KeySerde(serde.String()).Size(time.Minute), serde.Int64()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// tell writes one record of a partition, so many seconds after the epoch.
func (w *world) tell(partition int32, second int64) {
	w.t.Helper()
	w.c.Produce(w.t, &kgo.Record{
		Topic: "in", Partition: partition, Key: fmt.Appendf(nil, "k%d", partition), Value: fmt.Appendf(nil, "p%d", partition),
		Timestamp: time.UnixMilli(epoch + 1000*second),
	})
}

// closed are the results, as "key@minute=count", in order.
func (w *world) closed() []string {
	w.t.Helper()
	var out []string
	codec := window.KeySerde(serde.String()).Size(time.Minute)
	for _, r := range w.c.ReadCommitted(w.t, "out") {
		k, err := codec.Decode(r.Key)
		if err != nil {
			w.t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%s@%d=%d", k.Key, (k.Start-epoch)/60_000, binary.BigEndian.Uint64(r.Value)))
	}
	slices.Sort(out)
	return out
}

func (m *member) late() int64 { return m.Snapshot().Counters.Dropped["late-dropped"] }

// Four partitions, of which one has fallen silent, or never had a record: the windows of the others close, soon after it has been silent for
// IdleAfter, and not before.
func TestASilentPartitionHoldsNobody(t *testing.T) {
	for _, repartitioned := range []bool{false, true} {
		for _, never := range []bool{false, true} {
			t.Run(fmt.Sprintf("repartitioned=%t,never=%t", repartitioned, never), func(t *testing.T) {
				bubble(t, func(w *world) {
					const idleAfter = 20 * time.Second
					m := w.start("a", func(c *framework.Config) { c.Topology, c.IdleAfter = minutely(t, repartitioned, nil), idleAfter })
					m.runs(partitions)
					if !never {
						w.tell(3, 1)
					}
					began := time.Now()
					for n := range int64(150) { // one a second in each of the others, for two minutes and a half
						for p := range int32(3) {
							w.tell(p, n)
						}
						time.Sleep(time.Second) // in a bubble
						held := repartitioned && time.Since(began) < idleAfter
						if got := w.closed(); held && len(got) > 0 {
							t.Fatalf("after %v: %v", time.Since(began), got)
						}
					}
					keys, n := []string{"k0", "k1", "k2"}, 2
					if repartitioned {
						keys = []string{"p0", "p1", "p2"}
						if !never { // it is older than what the others have come to
							keys = append(keys, "p3")
						}
					}
					var want []string
					for _, k := range keys {
						for minute := range n {
							switch {
							case k == "p3" && minute == 0:
								want = append(want, "p3@0=1")
							case k != "p3":
								want = append(want, fmt.Sprintf("%s@%d=60", k, minute))
							}
						}
					}
					slices.Sort(want)
					if diff := cmp.Diff(want, w.closed()); diff != "" {
						t.Errorf("windows (-want +got):\n%s", diff)
					}
					if n := m.late(); n > 0 {
						t.Errorf("%d records are late", n)
					}
					idle := 0
					for _, task := range m.Snapshot().Tasks {
						for _, s := range task.Sources {
							if s.Topic == "in" && s.Idle {
								idle++
							}
						}
					}
					if idle != 1 {
						t.Errorf("%d partitions are idle, want one", idle)
					}
					m.stop()
				})
			})
		}
	}
}

// Without IdleAfter a partition that never had a record holds the windows of the others for ever.
func TestWithoutIdleAfterEverybodyWaits(t *testing.T) {
	bubble(t, func(w *world) {
		m := w.start("a", func(c *framework.Config) { c.Topology, c.IdleAfter = minutely(t, true, nil), -1 })
		m.runs(partitions)
		for p := range int32(3) {
			w.tell(p, 1)
			w.tell(p, 1000)
		}
		time.Sleep(time.Hour) // in a bubble
		if got := w.closed(); len(got) > 0 {
			t.Errorf("closed: %v", got)
		}
		m.stop()
	})
}

// A worker that is held up in its user's code for five minutes, with its partitions full, has not run out of input: nothing is idle, and
// nothing late.
func TestHeldUpIsNotIdle(t *testing.T) {
	for _, repartitioned := range []bool{false, true} {
		t.Run(fmt.Sprintf("repartitioned=%t", repartitioned), func(t *testing.T) {
			bubble(t, func(w *world) {
				var once atomic.Bool
				top := minutely(t, repartitioned, func(p string, at time.Time) {
					if p == "p0" && at.UnixMilli() >= epoch+300_000 && once.CompareAndSwap(false, true) {
						time.Sleep(5 * time.Minute) // in a bubble: this is the user's code
					}
				})
				for n := range int64(600) {
					for p := range int32(partitions) {
						w.tell(p, n)
					}
				}
				m := w.start("a", func(c *framework.Config) {
					c.Topology, c.IdleAfter, c.MaxQueuedBytes = top, time.Second, 16<<10
					c.TaskTimeout = -1
					c.SessionTimeout, c.TransactionTimeout = time.Minute, 10*time.Minute
				})
				time.Sleep(6 * time.Minute) // in a bubble
				w.await("nine minutes to close", func() bool { return len(w.closed()) >= 9*partitions })
				if n := m.late(); n > 0 || !once.Load() {
					t.Errorf("%d records are late; held up %t", n, once.Load())
				}
				for _, k := range w.closed() {
					if k[len(k)-3:] != "=60" {
						t.Errorf("window %s", k)
					}
				}
				m.stop()
			})
		})
	}
}

// After a pause of all partitions records come to all of them at once: none overtakes the others' time.
func TestBurstsAfterAPauseAreNotLate(t *testing.T) {
	for _, repartitioned := range []bool{false, true} {
		t.Run(fmt.Sprintf("repartitioned=%t", repartitioned), func(t *testing.T) {
			bubble(t, func(w *world) {
				m := w.start("a", func(c *framework.Config) { c.Topology, c.IdleAfter = minutely(t, repartitioned, nil), 2*time.Second })
				m.runs(partitions)
				n := int64(0)
				for range 10 {
					var records []*kgo.Record
					for range 300 {
						for p := range int32(partitions) {
							records = append(records, &kgo.Record{
								Topic: "in", Partition: p, Key: []byte("k"), Value: []byte("v"), Timestamp: time.UnixMilli(epoch + 1000*n),
							})
						}
						n++
					}
					w.c.Produce(t, records...)
					time.Sleep(15 * time.Second) // in a bubble
				}
				if late := m.late(); late > 0 {
					t.Errorf("%d of %d records are late", late, n*partitions)
				}
				m.stop()
			})
		})
	}
}

// All partitions are idle, and then an old record comes: it is late as any, and the watermark does not go back. So it is when the app was
// restarted in between, and the record is the first that it sees.
func TestAnOldRecordAfterAllWereIdle(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart=%t", restart), func(t *testing.T) {
			bubble(t, func(w *world) {
				with := func(c *framework.Config) { c.Topology, c.IdleAfter = minutely(t, true, nil), time.Second }
				m := w.start("a", with)
				m.runs(partitions)
				for p := range int32(partitions) {
					w.tell(p, 10)
					w.tell(p, 200)
				}
				w.await("a minute to close", func() bool { return len(w.closed()) == partitions })
				time.Sleep(time.Minute) // in a bubble
				before := m.watermarks()
				if restart {
					m.stop()
					m = w.start("b", with)
					m.runs(2 * partitions)
				}
				w.tell(2, 20)
				w.await("the record to be late", func() bool { return m.late() == 1 })
				time.Sleep(20 * time.Second) // in a bubble
				if diff := cmp.Diff(before, m.watermarks()); diff != "" {
					t.Errorf("watermarks (-before +after):\n%s", diff)
				}
				m.stop()
			})
		})
	}
}

// watermarks are those of the operators.
func (m *member) watermarks() map[string]int64 {
	out := make(map[string]int64)
	for _, t := range m.Snapshot().Tasks {
		for _, o := range t.Operators {
			out[t.ID+" "+o.Name] = o.Watermark
		}
	}
	return out
}

// A task behind a repartition topic is made anew while one of those that write it has nothing to say: it goes on from the table that it had.
func TestRestartBehindAQuietWriter(t *testing.T) {
	bubble(t, func(w *world) {
		with := func(c *framework.Config) { c.Topology, c.IdleAfter = minutely(t, true, nil), -1 } // quiet, and never idle
		m := w.start("a", with)
		m.runs(2 * partitions)
		w.tell(0, 1000)
		for p := int32(1); p < partitions; p++ {
			w.tell(p, 30)
			w.tell(p, 90)
		}
		w.await("the first minute", func() bool { return len(w.closed()) == partitions-1 })
		before := m.watermarks()
		m.stop()
		m = w.start("b", with)
		m.runs(2 * partitions)
		w.await("watermarks to be what they were", func() bool { return cmp.Equal(before, m.watermarks()) })
		for p := int32(1); p < partitions; p++ {
			w.tell(p, 130)
		}
		w.await("the second minute", func() bool { return len(w.closed()) == 2*(partitions-1) })
		m.stop()
	})
}

// One instance, three, one: no watermark of a task goes back, wherever it runs, and the windows are those of a batch.
func TestWatermarksOnlyRise(t *testing.T) {
	bubble(t, func(w *world) {
		var mu sync.Mutex
		highest := make(map[string]int64)
		watch := func(ms ...*member) {
			mu.Lock()
			defer mu.Unlock()
			for _, m := range ms {
				for name, at := range m.watermarks() {
					if at < highest[name] {
						t.Errorf("%s: the watermark of %s went from %d to %d", m.name, name, highest[name], at)
					}
					highest[name] = at
				}
			}
		}
		with := func(c *framework.Config) { c.Topology, c.IdleAfter = minutely(t, true, nil), 10*time.Second }
		n := int64(0)
		feed := func(seconds int, ms ...*member) {
			for range seconds {
				for p := range int32(partitions) {
					if n < 100 || p > 0 { // the first falls idle
						w.tell(p, n)
					}
				}
				n++
				time.Sleep(200 * time.Millisecond) // in a bubble
				watch(ms...)
			}
		}
		a := w.start("a", with)
		a.runs(2 * partitions)
		feed(200, a)
		b, c := w.start("b", with), w.start("c", with)
		feed(200, a, b, c)
		b.runs(1)
		c.runs(1)
		b.stop()
		feed(100, a, c)
		a.stop()
		feed(100, c)
		c.runs(2 * partitions)
		w.await("nine minutes to close", func() bool { return len(w.closed()) >= 9*3+2 })
		want := []string{"p0@0=60", "p0@1=40"}
		for p := 1; p < partitions; p++ {
			for minute := range 9 {
				want = append(want, fmt.Sprintf("p%d@%d=60", p, minute))
			}
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, w.closed()); diff != "" {
			t.Errorf("windows (-batch +output):\n%s", diff)
		}
		c.stop()
	})
}

// Data and a report that were aborted count for nothing, whoever wrote them.
func TestAnAbortedReportDoesNotCount(t *testing.T) {
	bubble(t, func(w *world) {
		m := w.start("a", func(c *framework.Config) { c.Topology, c.IdleAfter = minutely(t, true, nil), -1 })
		m.runs(2 * partitions)
		for p := range int32(partitions) {
			w.tell(p, 10)
		}
		reached := func() bool {
			for _, at := range m.watermarks() {
				if at != epoch+10_000 {
					return false
				}
			}
			return true
		}
		w.await("all to be at 10 s", reached)
		zombie := w.c.Client(w.t, kgo.TransactionalID("zombie"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		if err := zombie.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for p := range int32(partitions) {
			for writer := range int32(partitions) {
				value := wire.AppendReport(nil, wire.Report{Producer: writer, Producers: partitions, Watermark: epoch + 1e9})
				for _, r := range []*kgo.Record{
					{Key: []byte("p0"), Value: []byte("p0"), Timestamp: time.UnixMilli(epoch + 20_000)},
					{Headers: []kgo.RecordHeader{{Key: wire.HeaderWatermark, Value: value}}},
				} {
					r.Topic, r.Partition = "words-by-word-repartition", p
					if err := zombie.ProduceSync(context.Background(), r).FirstErr(); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		if err := zombie.EndTransaction(context.Background(), kgo.TryAbort); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // in a bubble
		if !reached() {
			t.Errorf("watermarks: %v", m.watermarks())
		}
		for p := range int32(partitions) {
			w.tell(p, 70)
		}
		w.await("the minute to close", func() bool { return len(w.closed()) == partitions })
		for _, k := range w.closed() {
			if k[len(k)-2:] != "=1" {
				t.Errorf("window %s", k)
			}
		}
		m.stop()
	})
}

// Where nothing behind a repartition topic uses event time no report is written; where it does they are throttled, and counted.
func TestReportsAreFew(t *testing.T) {
	reports := make(map[bool]int64)
	for _, timed := range []bool{false, true} {
		bubbleAlone(t, func(w *world) {
			m := w.start("a", func(c *framework.Config) {
				if timed {
					c.Topology, c.State = countWordsInTime(t), w.stores.provider()
				}
			})
			m.runs(2 * partitions)
			for range 100 { // 10 s
				w.write(partitions)
				time.Sleep(100 * time.Millisecond) // in a bubble
			}
			w.awaitOutputs()
			time.Sleep(time.Second) // in a bubble
			n := m.stop()
			reports[timed] = n.Reports
		})
	}
	// Four writers, four partitions, at most five times a second.
	if n := reports[true]; reports[false] != 0 || n < 300 || n > 16*60 {
		t.Errorf("reports without and with a use for them: %v", maps.All(reports))
	}
}
