//go:build synctests

package framework_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/internal/kafkatest"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/window"
)

// perMinute counts per key and minute, behind a repartition topic, and writes the counts when a minute is over. Event times may be two
// minutes out of order.
func perMinute(t *testing.T) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder()
	in := topology.From(b, topology.Topic("readings", serde.String(), serde.String()).Watermarks(window.BoundedDisorder(2*time.Minute)))
	byValue := topology.GroupBy(in, "by-value", func(_, v string) string { return v }, serde.String(), serde.String())
	counts := topology.Count(topology.Windowed(byValue, window.Tumbling(time.Minute), window.Drop()), "per-minute", topology.EmitOnClose())
	counts.To(topology.Topic("minutes", window.KeySerde(serde.String()).Size(time.Minute), serde.Int64()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// offsets are the starts and ends of a topic's partitions.
func (w *world) offsets(topic string) (starts, ends map[int32]int64) {
	w.t.Helper()
	cl := w.c.Client(w.t)
	defer cl.Close()
	adm := kadm.NewClient(cl)
	list := func(list func(context.Context, ...string) (kadm.ListedOffsets, error)) map[int32]int64 {
		listed, err := list(context.Background(), topic)
		if err != nil {
			w.t.Fatal(err)
		}
		out := make(map[int32]int64)
		listed.Each(func(o kadm.ListedOffset) { out[o.Partition] = o.Offset })
		return out
	}
	return list(adm.ListStartOffsets), list(adm.ListEndOffsets)
}

// The app trims its changelog and its repartition topic as event time goes on. Restores in between, from what is left, lose no window:
// each has its result once and equal to a batch.
func TestInternalTopicsAreTrimmed(t *testing.T) {
	bubble(t, func(w *world) {
		const changelog, repartition = "words-per-minute-changelog", "words-by-value-repartition"
		w.createTopics(2, "readings", "minutes")
		const seed = 5
		rng := rand.New(rand.NewPCG(seed, seed))
		t.Logf("seed %d", seed)
		batch := make(map[window.Key[string]]int64)
		now := int64(1_000_000_000_000) // 2001
		feed := func(minutes int) {
			var records []*kgo.Record
			for range minutes * 20 {
				now += 3000
				at := now - rng.Int64N(100_000)
				v := fmt.Sprintf("v%02d", rng.IntN(30))
				records = append(records, &kgo.Record{Topic: "readings", Partition: int32(rng.IntN(2)), Key: []byte("k"), Value: []byte(v), Timestamp: time.UnixMilli(at)})
				batch[window.Key[string]{Key: v, Start: at - at%60_000}]++
			}
			w.c.Produce(w.t, records...)
		}
		config := func(c *framework.Config) { c.Topology = perMinute(t) }
		committed := func(topic string) {
			_, ends := w.offsets(topic)
			w.await(topic+" to be processed", func() bool {
				got := w.c.Committed(t, appID)
				for p, end := range ends {
					if got[fmt.Sprintf("%s[%d]", topic, p)] < end {
						return false
					}
				}
				return true
			})
		}
		var trimmed int64
		for round := range 4 {
			a := w.start(fmt.Sprintf("a%d", round), config)
			a.runs(4)
			if n := a.Snapshot().Counters.RecordsRestored; (n > 0) != (round > 0) {
				t.Errorf("round %d began with %d records restored", round, n)
			}
			for range 4 {
				feed(15)
				committed("readings")
				time.Sleep(40 * time.Second) // in a bubble: longer than the interval
			}
			before, _ := w.offsets(changelog)
			n := a.stop().OffsetsTrimmed
			trimmed += n
			for p, start := range before {
				if start == 0 {
					t.Errorf("round %d: %s[%d] was not trimmed", round, changelog, p)
				}
			}
			starts, ends := w.offsets(repartition)
			for p, start := range starts {
				if start < ends[p]/2 {
					t.Errorf("round %d: %s[%d] was trimmed up to %d of %d", round, repartition, p, start, ends[p])
				}
			}
			if n == 0 {
				t.Errorf("round %d: nothing was counted as trimmed", round)
			}
			// What is left of the changelog is what is in the stores: those windows that are still open.
			if live := len(kafkatest.Fold(w.c.ReadCommitted(t, changelog))); live == 0 || live > 30*8 {
				t.Errorf("round %d: the changelog has %d live windows, want those of some minutes", round, live)
			}
		}
		var total int64
		for _, topic := range []string{changelog, repartition} {
			starts, ends := w.offsets(topic)
			for p, start := range starts {
				total += start
				t.Logf("%s[%d]: %d of %d offsets trimmed", topic, p, start, ends[p])
			}
		}
		if total != trimmed {
			t.Errorf("%d offsets were counted as trimmed, the topics say %d", trimmed, total)
		}

		last := w.start("last", config)
		last.runs(4)
		for p := range int32(2) {
			w.c.Produce(t, &kgo.Record{Topic: "readings", Partition: p, Key: []byte("k"), Value: []byte("end"), Timestamp: time.UnixMilli(now + time.Hour.Milliseconds())})
		}
		results := make(map[window.Key[string]]int64)
		codec := window.KeySerde(serde.String()).Size(time.Minute)
		w.await("all windows to close", func() bool { return len(w.c.ReadCommitted(t, "minutes")) >= len(batch) })
		last.stop()
		for _, r := range w.c.ReadCommitted(t, "minutes") {
			k, err := codec.Decode(r.Key)
			if err != nil {
				t.Fatal(err)
			}
			k.End = 0
			if _, twice := results[k]; twice {
				t.Errorf("window %v has two results", k)
			}
			results[k] = int64(binary.BigEndian.Uint64(r.Value))
		}
		if diff := cmp.Diff(batch, results); diff != "" {
			t.Errorf("windows are not those of a batch (-batch +output):\n%s", diff)
		}
	})
}

// What cannot be deleted is tried again, and disturbs nobody.
func TestTrimmingIsTriedAgain(t *testing.T) {
	bubble(t, func(w *world) {
		refused := w.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DeleteRecords}, Err: kerr.TopicAuthorizationFailed, Count: 2})
		a := w.start("a", nil)
		a.runs(2 * partitions)
		w.write(500)
		w.awaitOutputs()
		start := func() int64 {
			starts, _ := w.offsets("words-by-word-repartition")
			sum := int64(0)
			for _, at := range starts {
				sum += at
			}
			return sum
		}
		time.Sleep(35 * time.Second) // in a bubble: the first try
		if got := start(); got != 0 {
			t.Errorf("trimmed up to %d in spite of the fault", got)
		}
		w.await("another try", func() bool { return start() > 0 })
		_ = refused
		n := a.stop()
		if n.Aborts > 0 || n.OffsetsTrimmed == 0 {
			t.Errorf("%+v", n)
		}
		if starts, _ := w.offsets("words-counts-changelog"); strings.Contains(fmt.Sprint(starts), ":1") {
			t.Errorf("a changelog without windows was trimmed: %v", starts)
		}
		w.check(true)
	})
}
