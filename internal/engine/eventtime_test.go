package engine_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/internal/wire"
	"github.com/headrace/headrace/serde"
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

// chained builds: s and t merge into a window that counts, and behind a repartition topic into another.
func chained(t *testing.T, parts int) *rig {
	t.Helper()
	return lend(t, parts, func(b *topology.Builder, _ *graph.Runtime) {
		in := topology.From(b, text("s", nil)).Merge(topology.From(b, text("t", nil)))
		again := topology.GroupBy(in, "again", func(k, _ string) string { return k }, serde.String(), serde.String())
		topology.Count(topology.Windowed(again, window.Tumbling(10*time.Millisecond), window.Drop()), "w", topology.EmitOnClose()).
			To(topology.Topic("out", window.KeySerde(serde.String()).Size(10*time.Millisecond), serde.Int64()))
	})
}

func data(at int64) graph.Raw { return graph.Raw{Key: []byte("k"), Value: []byte("v"), Time: at} }

// told is what a task's operators know of time, by its repartition sinks, and the state that goes with it.
func told(u *unit) string {
	var out []string
	for _, r := range u.task.Cut().Reports {
		out = append(out, fmt.Sprint(mark(r.Watermark), " ", []string{"active", "idle", "end"}[r.State]))
	}
	return strings.Join(out, ", ")
}

// Idle inputs come along with the others and never go ahead of them; with none left all rest; waking up takes nothing back. All of it
// is the same after a restart at any point.
func TestIdleSourcesFollow(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		r := chained(t, 1)
		u := r.tasks[0]
		step := func(what, want string) {
			t.Helper()
			u.stepAll(t)
			if got := told(u); got != want {
				t.Errorf("restart %t: %s: reports %q, want %q", restart, what, got, want)
			}
			if _, err := u.commit(); err != nil {
				t.Fatal(err)
			}
			if !restart {
				return
			}
			idle := u.task.Status().Sources
			if err := u.crash(); err != nil {
				t.Fatal(err)
			}
			u.stepAll(t)
			if _, err := u.commit(); err != nil { // what a new task repeats
				t.Fatal(err)
			}
			for i := range idle {
				if got := u.task.Status().Sources[i].Idle; got != idle[i].Idle {
					t.Fatalf("%s: source %d is idle %t after the restart, and was %t", what, i, got, idle[i].Idle)
				} else if got {
					u.task.SetIdle(i, true)
				}
			}
		}
		r.write("s", 0, data(100))
		step("t is not known", "")
		u.task.SetIdle(1, true)
		step("t is idle", "100 active")
		r.write("s", 0, data(200))
		step("s goes on", "200 active")
		r.write("t", 0, data(50))
		step("t wakes up in the past", "")
		r.write("s", 0, data(300))
		step("t holds", "")
		r.write("t", 0, data(250))
		step("t has caught up", "250 active")
		u.task.SetIdle(0, true)
		u.task.SetIdle(1, true)
		step("both are idle", "250 idle")
		u.task.SetIdle(1, false)
		step("t is not: s follows it", "250 active")
		u.task.SetIdle(1, true)
		step("and is again", "250 idle")
		r.write("t", 0, data(400))
		step("t goes on alone", "400 active")
		st := u.task.Status()
		if s, o := st.Sources[0], st.Sources[1]; !s.Idle || s.Watermark != 300 || o.Idle || o.Watermark != 400 {
			t.Errorf("restart %t: the partitions are %+v", restart, st.Sources)
		}
		if n := st.Sources[1].Behind; !restart && n != 1 {
			t.Errorf("%d records came behind what was told while t was idle, want the one at 50", n)
		}
	}
}

// An idle partition comes along as far as the others were when it was seen to have nothing, and no further: what has come to it since may
// be as old as that.
func TestIdleComesAlongAsFarAsConfirmed(t *testing.T) {
	t.Parallel()
	r := chained(t, 1)
	u := r.tasks[0]
	want := func(what, want string) {
		t.Helper()
		u.stepAll(t)
		if got := told(u); got != want {
			t.Errorf("%s: reports %q, want %q", what, got, want)
		}
		if _, err := u.commit(); err != nil {
			t.Fatal(err)
		}
	}
	r.write("s", 0, data(100))
	want("t is not known", "")
	if w, active := u.task.TimeWithout(1); w != 100 || !active {
		t.Errorf("without t the task is at %s, active %t", mark(w), active)
	}
	u.task.Confirm(1, 100)
	want("t had nothing at 100", "100 active")
	r.write("s", 0, data(200))
	want("t may have something by now", "")
	u.task.Confirm(1, 200)
	want("t had nothing at 200", "200 active")
	r.write("s", 0, data(300))
	r.write("t", 0, data(250))
	want("both at once", "250 active")
	if n := u.task.Status().Sources[1].Behind; n != 0 {
		t.Errorf("%d records behind", n)
	}
	// A restart has to see it again.
	u.task.Confirm(1, 300)
	want("t had nothing at 300", "300 active")
	if err := u.crash(); err != nil {
		t.Fatal(err)
	}
	want("again", "300 active")
	r.write("s", 0, data(400))
	want("after the restart", "")
	// While all are idle, whoever reads behind has to hear it again and again, but not for each look.
	r.repeatIdle = 1000
	if err := u.crash(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		now  int64
		want string
	}{{0, "400 idle"}, {500, ""}, {1000, "400 idle"}, {1500, ""}, {2000, "400 idle"}} {
		u.now = c.now
		u.poll(10)
		u.task.Step(u.now, 100)
		for i := range u.sources {
			u.task.Confirm(i, 400)
		}
		want(fmt.Sprint("at ", c.now), c.want)
	}
	u.now = 5000
	want("nobody has looked", "")
}

// A partition that is new to a task which has been starts where the task is.
func TestNewSourceStartsWithTheTask(t *testing.T) {
	t.Parallel()
	r := chained(t, 1)
	u := r.tasks[0]
	u.sources[0].Clock = wire.SourceClock{MaxTime: 100, Watermark: 100}
	u.sources[1].Clock = wire.SourceClock{Idle: true}
	if err := u.crash(); err != nil {
		t.Fatal(err)
	}
	u.stepAll(t)
	if got := told(u); got != "100 active" {
		t.Errorf("at its start: %s", got)
	}
	r.write("t", 0, data(50))
	r.write("s", 0, data(200))
	u.stepAll(t)
	if got := told(u); got != "100 active" {
		t.Errorf("with its first record, at 50: %s", got)
	}
	r.write("t", 0, data(150))
	u.stepAll(t)
	if got := told(u); got != "150 active" {
		t.Errorf("with one at 150: %s", got)
	}
}

// Partitions that fall idle together rest where they are, whichever is named first.
func TestIdleTogether(t *testing.T) {
	t.Parallel()
	for first := range 2 {
		r := chained(t, 1)
		u := r.tasks[0]
		r.write("s", 0, data(100))
		r.write("t", 0, data(200))
		u.stepAll(t)
		u.task.SetIdle(first, true)
		u.task.SetIdle(1-first, true)
		u.stepAll(t)
		if got := told(u); got != "100 idle" {
			t.Errorf("%d first: %s", first, got)
		}
	}
}

// Where all are idle, those that never had anything do not keep the time of the others from being known.
func TestIdleWithoutATime(t *testing.T) {
	t.Parallel()
	r := chained(t, 1)
	u := r.tasks[0]
	r.write("s", 0, data(100))
	u.stepAll(t)
	u.task.SetIdle(0, true)
	u.task.SetIdle(1, true)
	u.stepAll(t)
	if got := told(u); got != "100 idle" {
		t.Error(got)
	}
	u = r.tasks[1]
	for i, c := range []struct {
		rep wire.Report
		w   int64
	}{
		{wire.Report{Producer: 0, Watermark: 30}, graph.Unknown},
		{wire.Report{Producer: 0, Watermark: 30, State: wire.Idle}, graph.Unknown},
		{wire.Report{Producer: 1, Watermark: graph.Unknown, State: wire.Idle}, graph.Unknown}, // 2 has not spoken
		{wire.Report{Producer: 2, Watermark: 20, State: wire.Idle}, graph.Unknown},
		{wire.Report{Producer: 1, Watermark: graph.Unknown, State: wire.Idle}, 20},
		{wire.Report{Producer: 2, Watermark: 20, State: wire.Idle}, 20},
	} {
		c.rep.Producers = 3
		r.write("again", 0, reportRecord(c.rep))
		u.stepAll(t)
		if got := u.task.Status().Sources[0].Watermark; got != c.w {
			t.Errorf("after report %d: W %s, want %s", i, mark(got), mark(c.w))
		}
	}
}

// What is queued keeps a partition from being idle, whoever says so.
func TestQueuedIsNotIdle(t *testing.T) {
	t.Parallel()
	r := chained(t, 1)
	u := r.tasks[0]
	r.write("s", 0, data(100))
	u.poll(1)
	u.task.SetIdle(0, true)
	if u.task.Status().Sources[0].Idle {
		t.Error("idle with a record in the queue")
	}
}

// With the option, the time of a task without input follows the wall clock, and it says that it is active: its readers need not ask a
// clock of their own.
func TestAdvanceWhenIdle(t *testing.T) {
	t.Parallel()
	r := chained(t, 1)
	r.lag = 1000
	u := r.tasks[0]
	if err := u.crash(); err != nil {
		t.Fatal(err)
	}
	r.write("s", 0, data(5000))
	u.now = 7000
	u.stepAll(t)
	for _, c := range []struct {
		now  int64
		want string
	}{{7000, "6000 active"}, {7500, "6500 active"}, {7400, "6500 active"}} {
		u.task.SetIdle(0, true)
		u.task.SetIdle(1, true)
		u.now = c.now
		u.stepAll(t)
		if got := told(u); got != c.want {
			t.Errorf("at %d: %s, want %s", c.now, got, c.want)
		}
	}
}

// The reader of a repartition topic waits until all writers have spoken, then goes by those that are not idle, and never back.
func TestReaderGoesByActiveWriters(t *testing.T) {
	t.Parallel()
	const unknown = graph.Unknown
	active, idle, end := wire.Active, wire.Idle, wire.End
	for _, restart := range []bool{false, true} {
		r := chained(t, 1)
		u := r.tasks[1]
		for i, c := range []struct {
			rep  wire.Report
			w    int64
			idle bool
		}{
			{wire.Report{Producer: 0, Producers: 3, Watermark: 10, State: active}, unknown, false},
			{wire.Report{Producer: 2, Producers: 3, Watermark: 30, State: active}, unknown, false},
			{wire.Report{Producer: 1, Producers: 3, Watermark: 20, State: active}, 10, false},
			{wire.Report{Producer: 0, Producers: 3, Watermark: 10, State: idle}, 20, false},
			{wire.Report{Producer: 1, Producers: 3, Watermark: 20, State: idle}, 20, false}, // 0 was idle before 1 and 2 were so far
			{wire.Report{Producer: 0, Producers: 3, Watermark: 10, State: idle}, 30, false}, // and still is
			{wire.Report{Producer: 2, Producers: 3, Watermark: 30, State: idle}, 30, true},
			{wire.Report{Producer: 0, Producers: 3, Watermark: 15, State: active}, 30, false}, // woken, and behind
			{wire.Report{Producer: 2, Producers: 3, Watermark: 40, State: active}, 30, false},
			{wire.Report{Producer: 0, Producers: 3, Watermark: 35, State: active}, 30, false}, // 1 may be dead
			{wire.Report{Producer: 1, Producers: 3, Watermark: 20, State: idle}, 35, false},   // it is not
			{wire.Report{Producer: 0, Producers: 2, Watermark: 50, State: active}, 35, false}, // another number: who are they?
			{wire.Report{Producer: 1, Producers: 2, Watermark: unknown, State: idle}, 50, false},
			{wire.Report{Producer: 0, Producers: 2, Watermark: math.MaxInt64, State: end}, 50, true},
			{wire.Report{Producer: 1, Producers: 2, Watermark: math.MaxInt64, State: end}, math.MaxInt64, false},
		} {
			r.write("again", 0, reportRecord(c.rep))
			u.stepAll(t)
			if restart {
				if _, err := u.commit(); err != nil {
					t.Fatal(err)
				}
				if err := u.crash(); err != nil {
					t.Fatal(err)
				}
			}
			if got := u.task.Status().Sources[0]; got.Watermark != c.w || got.Idle != c.idle {
				t.Errorf("restart %t: after report %d: W %s, idle %t, want %s, %t", restart, i, mark(got.Watermark), got.Idle, mark(c.w), c.idle)
			}
		}
	}
}

// A watermark that moves is reported no more often than ReportInterval says, what falls idle or wakes up at once, and all of it again
// after ReportRepeat.
func TestReportsAreThrottled(t *testing.T) {
	t.Parallel()
	r := chained(t, 1)
	r.interval, r.repeat = 200, 10_000
	u := r.tasks[0]
	if err := u.crash(); err != nil {
		t.Fatal(err)
	}
	both := func(at int64) {
		r.write("s", 0, data(at))
		r.write("t", 0, data(at))
	}
	for _, c := range []struct {
		now  int64
		do   func()
		want string
	}{
		{0, func() { both(10) }, "10 active"},
		{100, func() { both(20) }, ""},
		{199, func() { both(30) }, ""},
		{200, func() {}, "30 active"},
		{300, func() { u.task.SetIdle(0, true); u.task.SetIdle(1, true) }, "30 idle"},
		{310, func() { both(40) }, "40 active"},
		{320, func() { both(50) }, ""},
		{509, func() {}, ""},
		{510, func() {}, "50 active"},
		{10_509, func() {}, ""},
		{10_510, func() {}, "50 active"},
		{10_600, func() {}, ""},
	} {
		u.now = c.now
		c.do()
		u.stepAll(t)
		got := told(u)
		if pending := u.task.Pending(); pending != (got != "") && got != "" {
			t.Errorf("at %d: nothing is pending but %s", c.now, got)
		}
		if got != c.want {
			t.Errorf("at %d: %q, want %q", c.now, got, c.want)
		}
		if _, err := u.commit(); err != nil {
			t.Fatal(err)
		}
		if u.task.Pending() {
			t.Errorf("at %d: a report that is not due asks for a commit", c.now)
		}
	}
}

// Behind a repartition topic nobody may use event time: then nothing is reported.
func TestNoReportsForNobody(t *testing.T) {
	t.Parallel()
	for timed, want := range map[bool]string{false: "", true: "10 active"} {
		r := lend(t, 1, func(b *topology.Builder, _ *graph.Runtime) {
			one := topology.GroupBy(topology.From(b, text("s", nil)), "one", func(k, _ string) string { return k }, serde.String(), serde.String())
			two := topology.Repartition(topology.Count(one, "counts").Stream(), "two", 0, serde.String(), serde.Int64())
			if timed {
				topology.Count(topology.Windowed(two.GroupByKey(), window.Tumbling(10*time.Millisecond), window.Drop()), "w")
			}
			two.To(topology.Topic("out", serde.String(), serde.Int64()))
		})
		r.write("s", 0, data(10))
		r.tasks[0].stepAll(t)
		if got := told(r.tasks[0]); got != want {
			t.Errorf("with time used two topics further on %t: %q, want %q", timed, got, want)
		}
	}
}

// A task waits for an input that is known to have more, for MaxTaskIdle for one that may get more, and for none that is idle.
func TestTakeWaits(t *testing.T) {
	t.Parallel()
	r := chained(t, 1)
	u := r.tasks[0]
	done := func(now int64) int64 {
		t.Helper()
		u.now = now
		if _, err := u.task.Step(now, 100); err != nil {
			t.Fatal(err)
		}
		return u.task.Status().Records
	}
	push := func(topic string, at int64) {
		r.write(topic, 0, data(at))
		u.poll(1)
	}
	// As Kafka Streams by default: what is not known to be there is not waited for.
	push("s", 100)
	if n := done(0); n != 1 {
		t.Errorf("%d records with nothing known of t, want 1", n)
	}
	u.task.SetEnd(1, 2)
	push("s", 200)
	if n := done(1e9); n != 1 {
		t.Errorf("%d records while t is known to have two, want 1, however long it takes", n)
	}
	push("t", 150)
	if n := done(1e9); n != 2 {
		t.Errorf("%d records with the first of t, want 2: the second is still to come", n)
	}
	r.write("t", 0, graph.Raw{Control: true})
	u.poll(1)
	if n := done(1e9); n != 3 {
		t.Errorf("%d records when nothing is left of t, want 3", n)
	}

	r = chained(t, 1)
	r.taskIdle = 50
	u = r.tasks[0]
	if err := u.crash(); err != nil {
		t.Fatal(err)
	}
	push("s", 100)
	for _, c := range []struct{ now, want int64 }{{1000, 0}, {1049, 0}, {1050, 1}} {
		if n := done(c.now); n != c.want {
			t.Errorf("at %d: %d records, want %d", c.now, n, c.want)
		}
	}
	push("s", 200)
	if n := done(1051); n != 2 {
		t.Errorf("%d records: the wait for t is over until it has something", n)
	}
	push("t", 300)
	push("s", 400)
	if n := done(1060); n != 3 {
		t.Errorf("%d records: t may still get what is before 400", n)
	}
	u.task.SetIdle(1, true)
	if n := done(1061); n != 4 {
		t.Errorf("%d records: an idle t is not waited for", n)
	}
}

// The newest records of a partition count although a filter drops them before the repartition topic: what is behind it goes by all.
func TestFilterHidesNoTime(t *testing.T) {
	t.Parallel()
	r := lend(t, 1, func(b *topology.Builder, _ *graph.Runtime) {
		in := topology.From(b, text("s", nil)).Filter(func(k, _ string) bool { return k == "keep" })
		again := topology.GroupBy(in, "again", func(k, _ string) string { return k }, serde.String(), serde.String())
		topology.Count(topology.Windowed(again, window.Tumbling(10*time.Millisecond), window.Drop()), "w")
	})
	for _, at := range []int64{2, 3, 7, 9} {
		rec := data(at)
		if at < 5 {
			rec.Key = []byte("keep")
		}
		r.write("s", 0, rec)
	}
	for _, u := range r.tasks {
		u.stepAll(t)
		if _, err := u.commit(); err != nil {
			t.Fatal(err)
		}
	}
	if w := r.tasks[1].task.Status().Operators[0].Watermark; w != 9 {
		t.Errorf("W behind the repartition topic is %s, want 9", mark(w))
	}
}
