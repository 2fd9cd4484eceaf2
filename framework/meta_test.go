//go:build synctests

package framework_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/internal/wire"
	"github.com/headrace/headrace/internal/wiretap"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/window"
)

// readings is an app that counts readings per key and second, with more operators that keep time than the metadata of an offset has room for,
// and what it has to write: a window that has closed takes no record in, however often the app was started anew.
type readings struct {
	*world
	partitions int32
	i          int
	w          map[int32]int64
	counts     map[string]int64
	late       int
}

const (
	metaTopic    = appID + "-meta-changelog"
	readingsFrom = 1_600_000_000_000
)

// clock is an operator that keeps time: when it fires next.
type clock struct{}

func (clock) Init(t *topology.Task, _ topology.Emitter[string, string]) error {
	return t.EveryStreamTime(time.Hour, func(time.Time) error { return nil })
}

func (clock) Process(r topology.Record[string, string], out topology.Emitter[string, string]) error {
	return out(r)
}

func newReadings(w *world, partitions int32) *readings {
	w.createTopics(partitions, "readings", "seconds")
	return &readings{world: w, partitions: partitions, w: make(map[int32]int64), counts: make(map[string]int64)}
}

// clocks are that many operators more: each keeps its time under a name of 150 letters.
func (r *readings) topology(clocks int, look func()) func(*framework.Config) {
	return func(c *framework.Config) {
		b := topology.NewBuilder()
		in := topology.From(b, topology.Topic("readings", serde.String(), serde.String()))
		for i := range clocks {
			topology.Process(in, fmt.Sprintf("clock-%0144d", i), func() clock { return clock{} })
		}
		perSecond := topology.Windowed(in.GroupByKey(), window.Tumbling(time.Second), window.Drop())
		counts := topology.Count(perSecond, "per-second", topology.EmitOnClose()).Stream()
		counts.Peek(func(window.Key[string], int64) {
			if look != nil {
				look()
			}
		}).To(topology.Topic("seconds", window.KeySerde(serde.String()).Size(time.Second), serde.Int64()))
		top, err := b.Build()
		if err != nil {
			r.t.Fatal(err)
		}
		c.Topology = top
	}
}

// feed writes n readings to each partition, the first of them late, and notes what has to come of them.
func (r *readings) feed(n int) {
	r.t.Helper()
	var records []*kgo.Record
	for j := range n {
		for p := range r.partitions {
			at := int64(r.i) * 400
			if j%5 == 0 && r.i > 20 {
				at -= 5000
			}
			key := fmt.Sprintf("k%d", p)
			records = append(records, &kgo.Record{Topic: "readings", Partition: p, Key: []byte(key), Value: []byte("x"), Timestamp: time.UnixMilli(readingsFrom + at)})
			if start := at / 1000 * 1000; start+1000 > r.w[p] {
				r.counts[fmt.Sprintf("%s@%d", key, start)]++
			} else {
				r.late++
			}
			r.w[p] = max(r.w[p], at)
		}
		r.i++
	}
	r.c.Produce(r.t, records...)
}

// read waits until all that was fed is committed.
func (r *readings) read() {
	r.t.Helper()
	r.await("all readings", func() bool {
		at := r.c.Committed(r.t, appID)
		for p := range r.partitions {
			if at[fmt.Sprintf("readings[%d]", p)] < r.c.PartitionInfo("readings", p).HighWatermark {
				return false
			}
		}
		return true
	})
}

// check closes all windows and holds the results to what was fed.
func (r *readings) check() {
	r.t.Helper()
	for p := range r.partitions {
		r.c.Produce(r.t, &kgo.Record{Topic: "readings", Partition: p, Key: []byte("last"), Value: []byte("x"), Timestamp: time.UnixMilli(readingsFrom + 1_000_000)})
	}
	r.read()
	r.await("all results", func() bool { return len(r.c.ReadCommitted(r.t, "seconds")) >= len(r.counts) })
	got := make(map[string]int64)
	for _, rec := range r.c.ReadCommitted(r.t, "seconds") {
		n := len(rec.Key) - 8
		name := fmt.Sprintf("%s@%d", rec.Key[:n], int64(binary.BigEndian.Uint64(rec.Key[n:]))-readingsFrom)
		if _, twice := got[name]; twice {
			r.t.Errorf("window %s has two results", name)
		}
		got[name] = int64(binary.BigEndian.Uint64(rec.Value))
	}
	if diff := cmp.Diff(r.counts, got); diff != "" {
		r.t.Errorf("results (-want +got):\n%s", diff)
	}
	if r.late == 0 {
		r.t.Error("no reading was late")
	}
}

// references are what is committed of the partitions whose clocks are elsewhere. The metadata of all is short enough.
func (r *readings) references() map[string]wire.Reference {
	r.t.Helper()
	offsets, err := kadm.NewClient(r.c.Client(r.t)).FetchOffsets(context.Background(), appID)
	if err != nil {
		r.t.Fatal(err)
	}
	out := make(map[string]wire.Reference)
	offsets.Each(func(o kadm.OffsetResponse) {
		if len(o.Metadata) > wire.MaxMetadata {
			r.t.Errorf("the metadata of %s[%d] has %d bytes", o.Topic, o.Partition, len(o.Metadata))
		}
		if ref, is, err := wire.DecodeReference(o.Metadata); err != nil {
			r.t.Error(err)
		} else if is {
			out[fmt.Sprintf("%s[%d]", o.Topic, o.Partition)] = ref
		}
	})
	return out
}

// away wants the clocks of all partitions in the meta topic.
func (r *readings) away() {
	r.t.Helper()
	if n := len(r.references()); n != int(r.partitions) {
		r.t.Errorf("the clocks of %d partitions are in the meta topic, want %d", n, r.partitions)
	}
}

const manyClocks = 40

// TestClocksThatDoNotFit: they move with the tasks, through restarts, compaction and a change of members, and nothing that was late is taken in.
func TestClocksThatDoNotFit(t *testing.T) {
	for _, guarantee := range []framework.Guarantee{framework.ExactlyOnce, framework.AtLeastOnce} {
		t.Run(guarantee.String(), func(t *testing.T) {
			bubble(t, func(w *world) {
				r := newReadings(w, 3)
				many := func(c *framework.Config) {
					r.topology(manyClocks, nil)(c)
					c.Guarantee = guarantee
				}
				r.feed(50)
				a := w.start("a", many)
				a.runs(3)
				r.feed(50)
				r.read()
				r.away()
				n := a.stop()
				if n.Aborts != 0 {
					t.Errorf("the first transaction that needed the meta topic was aborted: %+v", n)
				}

				w.c.Compact()
				r.feed(50)
				b := w.start("b", many)
				r.read()
				r.feed(50)
				c := w.start("c", many)
				w.await("c to have a task", func() bool { return len(c.Snapshot().Tasks) > 0 })
				r.feed(50)
				r.read()
				b.stop()
				r.feed(50)
				r.read()
				r.away()
				r.check()
				c.stop()
			})
		})
	}
}

// TestClocksThatWereNotCommitted: without transactions, clocks of a commit that never came are in the meta topic, and may be all that compaction
// leaves of what came later than those that the offsets refer to. These are still there.
func TestClocksThatWereNotCommitted(t *testing.T) {
	bubble(t, func(w *world) {
		r := newReadings(w, 1)
		var cut atomic.Bool
		wire := &wiretap.Wire{Request: func(f wiretap.Frame) bool { return f.Key != int16(kmsg.OffsetCommit) || !cut.Load() }}
		many := func(c *framework.Config) {
			r.topology(manyClocks, nil)(c)
			c.Guarantee = framework.AtLeastOnce
		}
		a := w.start("a", func(c *framework.Config) {
			w.through(wire)(c)
			many(c)
		})
		a.runs(1)
		for range 3 {
			r.feed(20)
			r.read()
		}
		was := r.references()["readings[0]"]
		cut.Store(true)
		r.feed(20)
		w.await("clocks that are not committed", func() bool { return w.c.PartitionInfo(metaTopic, 0).HighWatermark > was.Offset+1 })
		a.cancel()
		<-a.done // it could not commit what it had, and may say so
		a.done <- nil
		w.c.Produce(t, &kgo.Record{Topic: metaTopic, Key: []byte("another's"), Value: []byte("x")}) // compaction spares the last
		w.c.Compact()
		if now := r.references()["readings[0]"]; now != was {
			t.Fatalf("the offsets refer to %+v, want still %+v", now, was)
		}
		b := w.start("b", many)
		r.read()
		b.stop()
		// What was done and not committed is done again, and judged as it was: 4 of 20 are late, and not all.
		if late := b.Snapshot().Counters.Dropped["late-dropped"]; late != 4 {
			t.Errorf("%d readings were late when they were read again, want 4", late)
		}
	})
}

// TestClocksThatFit make no topic, and go back from the meta topic to where they fit.
func TestClocksThatFit(t *testing.T) {
	bubble(t, func(w *world) {
		r := newReadings(w, 1)
		r.feed(50)
		a := w.start("a", r.topology(2, nil))
		a.runs(1)
		r.read()
		a.stop()
		if w.c.TopicInfo(metaTopic) != nil || len(r.references()) != 0 {
			t.Error("there is a meta topic that nobody needed")
		}
		for _, clocks := range []int{manyClocks, 2, manyClocks} {
			r.feed(50)
			m := w.start(fmt.Sprint(clocks, " clocks"), r.topology(clocks, nil))
			m.runs(1)
			r.read()
			m.stop()
			if n := len(r.references()); (n > 0) != (clocks == manyClocks) {
				t.Errorf("with %d clocks %d are in the meta topic", clocks, n)
			}
		}
		r.feed(50)
		m := w.start("last", r.topology(2, nil))
		r.check()
		m.stop()
	})
}

// TestClocksThatWillNotFit: where the topology says it, the topic is made at the start, with the app's other topics.
func TestClocksThatWillNotFit(t *testing.T) {
	bubble(t, func(w *world) {
		r := newReadings(w, 1)
		m := w.start("a", func(c *framework.Config) {
			b := topology.NewBuilder()
			in := topology.From(b, topology.Topic("readings", serde.String(), serde.String())).GroupByKey()
			for i := range 30 {
				topology.Count(topology.Windowed(in, window.Tumbling(time.Second), window.Drop()), fmt.Sprintf("count-%0100d", i))
			}
			top, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			c.Topology = top
		})
		m.runs(1)
		if w.c.TopicInfo(metaTopic) == nil {
			t.Error("there is no meta topic")
		}
		r.feed(50)
		r.read()
		r.away()
		m.stop()
	})
}

// TestClocksOfManyProducers: more tasks write a repartition topic than the metadata of its readers' offsets has room for.
func TestClocksOfManyProducers(t *testing.T) {
	bubble(t, func(w *world) {
		const producers = 450
		w.createTopics(producers, "many")
		w.createTopics(1, "per-second")
		app := func(c *framework.Config) {
			b := topology.NewBuilder()
			in := topology.From(b, topology.Topic("many", serde.String(), serde.String()))
			g := topology.Repartition(in, "all", 1, serde.String(), serde.String()).GroupByKey()
			topology.Count(topology.Windowed(g, window.Tumbling(time.Second), window.Drop()), "counts", topology.EmitOnClose()).
				To(topology.Topic("per-second", window.KeySerde(serde.String()).Size(time.Second), serde.Int64()))
			top, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			c.Topology = top
		}
		const round = int64(1e12)
		timeOf := func(p int32) int64 { return readingsFrom + int64(p)*7919%997*1e9 } // all over 30 years, so that each takes six bytes
		feed := func(at int64, from, to int32) {
			var records []*kgo.Record
			for p := from; p < to; p++ {
				records = append(records, &kgo.Record{Topic: "many", Partition: p, Key: []byte("k"), Value: []byte("x"), Timestamp: time.UnixMilli(timeOf(p) + at)})
			}
			w.c.Produce(t, records...)
		}
		earlier := 0 // windows that close when all but the last producer are further
		for p := range int32(producers - 1) {
			if timeOf(p) < timeOf(producers-1) {
				earlier++
			}
		}
		results := func() int { return len(w.c.ReadCommitted(t, "per-second")) }
		feed(0, 0, producers)
		a := w.start("a", app)
		a.runs(producers + 1)
		feed(round, 0, producers-1) // all but the last, whose watermark holds
		w.await("windows to close", func() bool { return results() == earlier })
		r := &readings{world: w}
		ref, is := r.references()[appID+"-all-repartition[0]"]
		if !is {
			t.Fatal("the clocks of the repartition topic are not in the meta topic")
		}
		for _, rec := range w.c.ReadCommitted(t, metaTopic) {
			if m, err := wire.DecodeMeta(rec.Value); err != nil {
				t.Error(err)
			} else if rec.Offset == ref.Offset && rec.Partition == ref.Partition && len(m.Commit.Source.Channels) != producers {
				t.Errorf("what %d producers have reported is kept, want %d", len(m.Commit.Source.Channels), producers)
			}
		}
		a.stop()
		b := w.start("b", app)
		b.runs(producers + 1)
		feed(round, producers-1, producers)
		w.await("the other windows to close", func() bool { return results() == producers })
		b.stop()
	})
}

// TestClocksAreReadBack: transactions with clocks in the meta topic that have committed, and were answered with an error, and others that have
// not, are told apart; what goes on from there has the right time.
func TestClocksAreReadBack(t *testing.T) {
	bubble(t, func(w *world) {
		r := newReadings(w, 2)
		var answers, requests nth
		var until atomic.Int64
		wire := &wiretap.Wire{
			Response: func(f wiretap.Frame) bool {
				if f.Key == endTxn && answers.is(3, 5, 9) {
					f.SetError(kerr.UnknownServerError.Code)
				}
				return true
			},
			Request: func(f wiretap.Frame) bool {
				if !commits(f) {
					return true
				}
				if requests.is(12) {
					until.Store(time.Now().Add(time.Minute).UnixNano())
				}
				return time.Now().UnixNano() >= until.Load()
			},
		}
		m := w.start("a", func(c *framework.Config) {
			w.through(wire)(c)
			r.topology(manyClocks, nil)(c)
		})
		m.runs(2)
		for range 20 {
			r.feed(10)
			r.read()
		}
		r.away()
		r.check()
		n := m.stop()
		if n.ReadBacks < 4 || n.ReadBacksCommitted < 3 || n.ReadBacks == n.ReadBacksCommitted {
			t.Errorf("read back %d times and found %d committed: %+v", n.ReadBacks, n.ReadBacksCommitted, n)
		}
	})
}

// TestClocksOfAZombie: a member that hangs while it holds clocks for the meta topic, and is replaced, gets neither them nor anything else in.
func TestClocksOfAZombie(t *testing.T) {
	bubble(t, func(w *world) {
		r := newReadings(w, 1)
		s := newStall(10, time.Minute)
		a := w.start("a", r.topology(manyClocks, s.call))
		a.runs(1)
		r.feed(20)
		r.read()
		r.feed(20)
		<-s.hung
		b := w.start("b", r.topology(manyClocks, nil))
		b.runs(1)
		r.read()
		r.feed(20)
		r.read()
		<-s.awake
		w.await("a to notice", func() bool { return a.Snapshot().Counters.Aborts > 0 })
		r.feed(20)
		r.read()
		b.stop()
		r.feed(20)
		r.read()
		r.away()
		r.check()
		a.stop()
	})
}

// TestClocksAreGone: nobody goes on with an event time that begins anew when records of the meta topic are gone.
func TestClocksAreGone(t *testing.T) {
	for _, gone := range []string{"topic", "records"} {
		t.Run(gone, func(t *testing.T) {
			bubble(t, func(w *world) {
				r := newReadings(w, 1)
				m := w.start("a", r.topology(manyClocks, nil))
				m.runs(1)
				r.feed(50)
				r.read()
				m.stop()
				adm := kadm.NewClient(w.c.Client(w.t))
				if _, err := adm.DeleteTopic(context.Background(), metaTopic); err != nil {
					t.Fatal(err)
				}
				if gone == "records" {
					w.createTopics(1, metaTopic)
				}
				cfg := w.config(r.topology(manyClocks, nil))
				app, err := framework.New(cfg)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				err = app.Run(ctx)
				if err == nil || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "what the app knew of event time is lost: the committed position of readings[0] refers to") {
					t.Errorf("Run returned %v", err)
				}
			})
		})
	}
}

// TestClocksOfACopiedTopic: offsets may be others in a copy of the topic; the record is found all the same.
func TestClocksOfACopiedTopic(t *testing.T) {
	bubble(t, func(w *world) {
		r := newReadings(w, 2)
		many := r.topology(manyClocks, nil)
		m := w.start("a", many)
		m.runs(2)
		r.feed(50)
		r.read()
		m.stop()
		kept := w.c.ReadCommitted(t, metaTopic)
		adm := kadm.NewClient(w.c.Client(w.t))
		if _, err := adm.DeleteTopic(context.Background(), metaTopic); err != nil {
			t.Fatal(err)
		}
		w.configureTopics(2, map[string]*string{"cleanup.policy": kadm.StringPtr("compact"), "message.timestamp.type": kadm.StringPtr("CreateTime")}, metaTopic)
		for _, rec := range kept {
			w.c.Produce(t, &kgo.Record{Topic: metaTopic, Partition: rec.Partition, Key: rec.Key, Value: rec.Value})
		}
		r.feed(50)
		b := w.start("b", many)
		r.read()
		r.check()
		b.stop()
	})
}
