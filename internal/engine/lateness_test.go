package engine_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/internal/engine"
	"github.com/headrace/headrace/internal/graph"
)

// By how much a record was late counts in the first bucket whose bound is not below it, and what is rolled back does not count.
func TestLateness(t *testing.T) {
	t.Parallel()
	var l engine.Lateness
	for _, by := range []int64{0, 1000, 1001, 10_000, 604_800_000, 604_800_001} {
		l.Add(by)
	}
	want := engine.Lateness{Buckets: [9]int64{2, 2, 0, 0, 0, 0, 0, 1, 1}, Sum: 1000 + 1001 + 10_000 + 604_800_000 + 604_800_001}
	if diff := cmp.Diff(want, l); diff != "" {
		t.Errorf("lateness (-want +got):\n%s", diff)
	}

	r := started(t, "windows", args{"size": "10"}, 1)
	u := r.tasks[0]
	for _, at := range []int64{5, 5_000, 7, 9_000, 15} { // the windows of 7 and 15 end at 10 and 20
		r.write("in", 0, graph.Raw{Key: []byte("k"), Value: []byte("v"), Time: at})
	}
	u.mustStep(t, 100)
	var got engine.Lateness
	for _, n := range u.task.Status().Late {
		got.Sum += n.Sum
		for i := range n.Buckets {
			got.Buckets[i] += n.Buckets[i]
		}
	}
	if diff := cmp.Diff(engine.Lateness{Buckets: [9]int64{1: 2}, Sum: 4_990 + 8_980}, got); diff != "" {
		t.Errorf("lateness of a task (-want +got):\n%s", diff)
	}
}
