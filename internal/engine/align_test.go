package engine_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/window"
)

// perMinute merges two topics into windows of a minute.
func perMinute(t *testing.T, drift time.Duration) *rig {
	t.Helper()
	b := topology.NewBuilder()
	in := topology.From(b, text("early", nil)).Merge(topology.From(b, text("late", nil)))
	topology.Count(topology.Windowed(in.GroupByKey(), window.Tumbling(time.Minute), window.Drop()), "w", topology.EmitOnClose()).
		To(topology.Topic("out", window.KeySerde(serde.String()).Size(time.Minute), serde.Int64()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(top, 1)
	r.drift = drift.Milliseconds()
	if err := r.start(); err != nil {
		t.Fatal(err)
	}
	return r
}

func minute(key string, n int) graph.Raw {
	return graph.Raw{Key: []byte(key), Value: []byte("v"), Time: int64(n) * time.Minute.Milliseconds()}
}

// One input is an hour ahead of the other, which comes record by record, so that the task cannot know which is next. With MaxDrift the state is
// bounded by it; the results are those without. A restart in between changes neither.
func TestDriftBoundsState(t *testing.T) {
	t.Parallel()
	const hour = 60
	run := func(drift time.Duration, restart bool) (most int, outs []string) {
		r := perMinute(t, drift)
		u := r.tasks[0]
		for n := range hour {
			r.write("early", 0, minute("k", n))
		}
		for n := range hour {
			r.write("late", 0, minute("k", n))
			u.stepAll(t)
			if _, err := u.commit(); err != nil {
				t.Fatal(err)
			}
			open := 0
			for range u.backend.Scan(0, nil, nil) {
				open++
			}
			most = max(most, open)
			if restart && n%7 == 0 {
				if err := u.crash(); err != nil {
					t.Fatal(err)
				}
			}
		}
		u.task.SetIdle(1, true) // and the rest need not wait
		u.stepAll(t)
		if _, err := u.commit(); err != nil {
			t.Fatal(err)
		}
		if c := total(u.task); c[graph.LateDropped] != 0 {
			t.Errorf("%d records are late", c[graph.LateDropped])
		}
		for _, o := range r.partitions("out")[0] {
			outs = append(outs, fmt.Sprintf("%x=%x", o.Key, o.Value))
		}
		return most, outs
	}
	without, want := run(0, false)
	if without < hour-1 || len(want) != hour-1 {
		t.Fatalf("without alignment %d windows are open at once and %d results come, want about %d of both", without, len(want), hour)
	}
	for _, minutes := range []int{1, 5, 20} {
		for _, restart := range []bool{false, true} {
			most, got := run(time.Duration(minutes)*time.Minute, restart)
			if most > minutes+2 {
				t.Errorf("with a drift of %d minutes %d windows are open at once (restarts %t)", minutes, most, restart)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("with a drift of %d minutes (restarts %t) results (-without +with):\n%s", minutes, restart, diff)
			}
		}
	}
}

// Who waits for whom: never the least advanced input; nobody for an idle one, a table or the end of all; and all for another task that is behind.
func TestDrift(t *testing.T) {
	t.Parallel()
	r := perMinute(t, 5*time.Minute)
	u := r.tasks[0]
	const early, late = 0, 1
	step := func(what string, records int64, held ...bool) {
		t.Helper()
		u.stepAll(t)
		st := u.task.Status()
		got := []bool{st.Sources[early].Held, st.Sources[late].Held}
		if n := st.Records; n != records || !slices.Equal(got, held) {
			t.Errorf("%s: %d records, held %v; want %d, held %v", what, n, got, records, held)
		}
	}
	r.write("early", 0, minute("k", 10))
	r.write("early", 0, minute("k", 11))
	step("nothing is known of the other", 1, true, false)
	r.write("late", 0, minute("k", 5))
	step("exactly as far ahead as it may", 3, false, false)
	r.write("early", 0, minute("k", 12))
	step("one further", 3, true, false)
	r.write("late", 0, minute("k", 100))
	step("the least advanced is taken, whatever it has, and then is ahead itself", 5, false, false)
	r.write("late", 0, minute("k", 101))
	step("now it waits", 5, false, true)
	u.task.SetIdle(early, true)
	step("not for who is idle", 6, false, false)
	r.write("late", 0, minute("k", 102))
	u.task.SetFloor(minute("", 90).Time)
	step("for another task", 6, false, true)
	u.task.SetFloor(graph.Unknown)
	step("for another task that knows nothing", 6, false, true)
	u.task.SetFloor(math.MaxInt64)
	step("for none", 7, false, false)
	r.write("early", 0, minute("k", 103))
	step("who wakes up is as far as it was told", 8, false, false)
}

// An input that waits has something, so nobody can take it for idle.
func TestDriftIsNotIdle(t *testing.T) {
	t.Parallel()
	r := perMinute(t, time.Minute)
	u := r.tasks[0]
	r.write("late", 0, minute("k", 0))
	for n := range 10 {
		r.write("early", 0, minute("k", n))
	}
	u.stepAll(t)
	if !u.task.Status().Sources[0].Held {
		t.Fatal("it was to wait")
	}
	u.task.SetIdle(0, true)
	r.write("late", 0, minute("k", 30))
	r.write("late", 0, minute("k", 31))
	u.stepAll(t)
	if w, active := u.task.Time(); !active || w != minute("", 9).Time {
		t.Errorf("time is %d, active %t; want that of the one that waited, %d", w, active, minute("", 9).Time)
	}
	if c := total(u.task); c[graph.LateDropped] != 0 {
		t.Errorf("%d records are late", c[graph.LateDropped])
	}
}
