//go:build synctests

package framework_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/internal/wiretap"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/topology"
)

// A worker whose queue is empty has not caught up while it knows of records that are on their way: it commits once in CommitInterval and
// not once for each fetch. Where there is nothing more it commits at once.
func TestCommitsWaitForWhatIsOnItsWay(t *testing.T) {
	bubble(t, func(w *world) {
		b := topology.NewBuilder()
		in := topology.From(b, topology.Topic("in", serde.String(), serde.String()))
		topology.MapValues(in, func(v string) string { return "x" }).To(topology.Topic("out", serde.String(), serde.String()))
		top, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		const rounds = 30
		noise := make([]byte, 900_000) // which does not compress
		if _, err := rand.NewChaCha8([32]byte{1}).Read(noise); err != nil {
			t.Fatal(err)
		}
		var records []*kgo.Record
		for range rounds { // a fetch takes about one of each partition
			for p := range int32(partitions) {
				records = append(records, &kgo.Record{Topic: "in", Partition: p, Key: []byte("k"), Value: noise})
			}
		}
		for _, r := range records { // each a batch of its own
			w.c.Produce(t, r)
		}
		wire := &wiretap.Wire{Response: func(f wiretap.Frame) bool {
			if f.Key == int16(kmsg.Fetch) {
				f.Stall(30 * time.Millisecond)
			}
			return true
		}}
		began := time.Now()
		m := w.start("a", func(c *framework.Config) { c.Topology, c.State, c.Kafka = top, nil, w.c.Through(wire) })
		w.await("all outputs", func() bool { return w.outputs() >= len(records) })
		took := time.Since(began)
		if n := m.Snapshot().Counters.Commits; took < rounds*30*time.Millisecond || n > int64(took/(100*time.Millisecond))+2 {
			t.Errorf("%d commits in %v, want about one in 100 ms and %v at least", n, took, rounds*30*time.Millisecond)
		}
		before := m.Snapshot().Counters.Commits
		for range 5 {
			w.c.Produce(t, &kgo.Record{Topic: "in", Key: []byte("k"), Value: []byte("x")})
			time.Sleep(50 * time.Millisecond) // in a bubble
		}
		if n := m.Snapshot().Counters.Commits - before; n < 4 {
			t.Errorf("%d commits of five records 50 ms apart, want one for each", n)
		}
		m.stop()
	})
}
