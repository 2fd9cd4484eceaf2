package engine_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/window"
)

// lend builds what make adds, and lends the runtime of the task made last.
func lend(t *testing.T, parts int, make func(b *topology.Builder, rt *graph.Runtime)) *rig {
	t.Helper()
	rt := new(graph.Runtime)
	b := topology.NewBuilder()
	make(b, rt)
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(top, parts)
	for _, sub := range r.plan.SubTopologies {
		made := sub.New
		sub.New = func(lent graph.Runtime) (*graph.Instance, error) {
			*rt = lent
			return made(lent)
		}
	}
	if err := r.start(); err != nil {
		t.Fatal(err)
	}
	return r
}

func (u *unit) stepAll(t *testing.T) {
	t.Helper()
	u.poll(1 << 20)
	if _, err := u.task.Step(u.now, 1<<20); err != nil {
		t.Fatal(err)
	}
}

// What a record's own partition says of time is a function of that partition's log, whatever other inputs of the task have.
func TestSourceWatermarkIsThePartitionsOwn(t *testing.T) {
	t.Parallel()
	var seen []int64
	var lent *graph.Runtime
	r := lend(t, 1, func(b *topology.Builder, rt *graph.Runtime) {
		lent = rt
		look := func(_, _ string) { seen = append(seen, (*rt).SourceWatermark()) }
		slow := topology.From(b, text("slow", nil).Watermarks(window.BoundedDisorder(10*time.Millisecond))).Peek(look)
		fast := topology.From(b, text("fast", nil)).Peek(look)
		slow.Merge(fast).To(text("out", nil))
	})
	for _, at := range []int64{100, 300, 250} {
		r.write("slow", 0, graph.Raw{Key: []byte("k"), Value: []byte("v"), Time: at})
	}
	r.write("fast", 0, graph.Raw{Key: []byte("k"), Value: []byte("v"), Time: 200})
	r.write("fast", 0, graph.Raw{Key: []byte("k"), Value: []byte("v"), Time: 9000})
	r.tasks[0].stepAll(t)
	// slow 100, fast 200, slow 300, slow 250, fast 9000.
	want := []int64{graph.Unknown, graph.Unknown, 90, 290, 200}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("the watermark before each record (-want +got):\n%s", diff)
	}
	if w := (*lent).SourceWatermark(); w != graph.Unknown {
		t.Errorf("with no record in process it is %d", w)
	}
}
