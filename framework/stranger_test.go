//go:build synctests

package framework_test

import (
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/topology"
)

// otherWords counts words by another topology, on the same topics and stores.
func otherWords(t *testing.T) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder()
	in := topology.From(b, topology.Topic("in", serde.String(), serde.String())).Filter(func(_, word string) bool { return word != "" })
	byWord := topology.GroupBy(in, "by-word", func(_, word string) string { return word }, serde.String(), serde.String())
	topology.Count(byWord, "counts").To(topology.Topic("out", serde.String(), serde.Int64()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// In a rolling deployment the new version waits while the old one works on, and takes over when the last of it has gone.
func TestAnotherTopologyWaitsForTheGroup(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.start("a", nil), w.start("b", nil)
		a.runs(1)
		b.runs(1)
		w.write(200)
		w.awaitOutputs()
		before := a.Snapshot().Counters.TasksLost + b.Snapshot().Counters.TasksLost

		c := w.start("c", func(c *framework.Config) { c.Topology = otherWords(t) })
		waits := func() bool {
			s := c.Snapshot().Workers[0]
			return s.State == framework.Joining && s.Err != nil && strings.Contains(s.Err.Error(), "another topology runs in this group")
		}
		w.await("c to say that it waits", waits)
		time.Sleep(10 * time.Second) // in a bubble
		epoch := w.c.GroupInfo(appID).Epoch
		for range 10 {
			w.write(50)
			w.awaitOutputs()
			time.Sleep(3 * time.Second) // in a bubble
		}
		if now := w.c.GroupInfo(appID).Epoch; now != epoch {
			t.Errorf("the group went through %d rebalances while nothing happened: the stranger disturbs it", now-epoch)
		}
		if !waits() || c.Snapshot().Counters.TasksBuilt != 0 {
			t.Errorf("c was to wait without tasks: %+v", c.Snapshot())
		}
		if after := a.Snapshot().Counters.TasksLost + b.Snapshot().Counters.TasksLost; after != before {
			t.Errorf("a and b lost %d tasks to the stranger", after-before)
		}

		b.stop()
		w.write(100)
		w.awaitOutputs()
		a.stop()
		w.write(100)
		w.awaitOutputs()
		c.runs(2 * partitions)
		n := c.stop()
		w.check(true)
		if n.TasksBuilt != 2*partitions || n.RecordsRestored == 0 {
			t.Errorf("c was to take over everything: %+v", n)
		}
	})
}
