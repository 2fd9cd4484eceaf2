package engine_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/internal/engine"
	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/internal/wire"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/window"
)

// Windows wait for each source that feeds them and is silent, and for nothing else; behind a repartition topic, for each of its
// writers.
func TestWaiting(t *testing.T) {
	t.Parallel()
	topic := func(name string) topology.TopicOf[string, string] {
		return topology.Topic(name, serde.String(), serde.String())
	}
	b := topology.NewBuilder()
	in, other, quiet := topology.From(b, topic("in")), topology.From(b, topic("other")), topology.TableFrom(b, "table", topic("quiet"))
	count := func(s topology.Stream[string, string], store string) {
		topology.Count(topology.Windowed(s.GroupByKey(), window.Tumbling(10*time.Millisecond), window.Drop()), store)
	}
	both := in.Merge(other)
	count(both, "both")
	count(topology.JoinTable(in, quiet, func(v, _ string) string { return v }), "one") // a table holds nobody back
	count(topology.Repartition(both, "again", 0, serde.String(), serde.String()), "behind")
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(top, 1)
	if err := r.start(); err != nil {
		t.Fatal(err)
	}
	front, behind := r.tasks[0], r.tasks[1]
	step := func(u *unit) {
		t.Helper()
		u.poll(10)
		if _, err := u.task.Step(0, 100); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when string, u *unit, want ...engine.Wait) {
		t.Helper()
		if diff := cmp.Diff(want, u.task.Waiting()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	record := func(topic string, at int64) {
		r.write(topic, 0, graph.Raw{Key: []byte("k"), Value: []byte("v"), Time: at})
	}

	step(front)
	check("nothing has come", front)
	record("in", 5)
	step(front)
	check("the other topic is empty", front, engine.Wait{Operator: "both", Sources: []engine.SourceWait{{Source: 1}}})
	record("other", 5)
	step(front)
	check("both have come", front)

	r.write("again", 0, graph.Raw{Key: []byte("k"), Value: []byte("v"), Time: 5})
	step(behind)
	check("no writer has reported", behind, engine.Wait{Operator: "behind", Sources: []engine.SourceWait{{Source: 0}}})
	r.write("again", 0, reportRecord(wire.Report{Producer: 2, Producers: 3, Watermark: 7}))
	r.write("again", 0, reportRecord(wire.Report{Producer: 0, Producers: 3, Watermark: 9}))
	step(behind)
	check("two of three have", behind, engine.Wait{Operator: "behind", Sources: []engine.SourceWait{{Source: 0, Heard: []int32{0, 2}}}})
	r.write("again", 0, reportRecord(wire.Report{Producer: 1, Producers: 3, Watermark: 7}))
	step(behind)
	check("all have", behind)
}
