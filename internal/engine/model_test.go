package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
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

// event is a record of the models: where it was fed, and when it happened.
type event struct {
	id     string
	part   int
	time   int64
	before int64 // the watermark of its own partition before it
}

const endMark = "end"

// feed makes events in a disorder that is sometimes larger than the topology allows for.
func feed(rng *rand.Rand, r *rig, n int, disorder, excess int64) []event {
	events := make([]event, n)
	w := make([]int64, r.parts)
	for p := range w {
		w[p] = graph.Unknown
	}
	at := int64(1000)
	for i := range events {
		at += rng.Int64N(8)
		e := event{id: strconv.Itoa(i), part: rng.IntN(r.parts), time: max(0, at-rng.Int64N(disorder+1))}
		if rng.IntN(6) == 0 {
			e.time = max(0, e.time-rng.Int64N(excess+1))
		}
		if rng.IntN(60) == 0 {
			at += 300
		}
		e.before = w[e.part]
		w[e.part] = max(w[e.part], e.time-disorder)
		events[i] = e
		r.write("in", e.part, graph.Raw{Key: []byte(e.id), Value: []byte(e.id), Time: e.time})
	}
	for p := range r.parts {
		r.write("in", p, graph.Raw{Key: []byte("x"), Value: []byte(endMark), Time: at + 1_000_000})
	}
	return events
}

// stats is what a run must have met to mean anything.
type stats struct{ crashes, commits, halfway, frozen int }

// schedule lets tasks poll, step, commit and crash as chance has it, until nothing is left to do. After every commit no clock may
// stand before where it stood.
func schedule(t *testing.T, rng *rand.Rand, r *rig) stats {
	t.Helper()
	var st stats
	for range 40 * len(r.tasks) * 10 {
		u := r.tasks[rng.IntN(len(r.tasks))]
		u.poll(rng.IntN(12))
		p, err := u.task.Step(0, 1+rng.IntN(15))
		if err != nil {
			t.Fatal(err)
		}
		switch n := rng.IntN(10); {
		case n < 3:
			if p.More {
				st.halfway++
			}
			st.commits++
			commitForward(t, u)
		case n < 6: // what is stepped until the commit is of the next one
			st.frozen++
			u.task.Freeze()
		case n == 6:
			st.crashes++
			if err := u.crash(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for busy := true; busy; {
		busy = false
		for _, u := range r.tasks {
			u.poll(1 << 30)
			p, err := u.task.Step(0, 1<<30)
			if err != nil {
				t.Fatal(err)
			}
			busy = busy || p.Units > 0 || u.task.Pending()
			commitForward(t, u)
		}
	}
	return st
}

func commitForward(t *testing.T, u *unit) {
	t.Helper()
	was := slices.Clone(u.sources)
	ops := u.clocks
	if _, err := u.commit(); err != nil {
		t.Fatal(err)
	}
	for i, s := range u.sources {
		if s.Offset < was[i].Offset || s.Clock.Watermark < was[i].Clock.Watermark && was[i].Clock.Watermark != 0 {
			t.Fatalf("task %s went back from %+v to %+v", u.id, was[i], s)
		}
	}
	for i := range ops {
		if u.clocks[i].Values[0] < ops[i].Values[0] {
			t.Fatalf("operator %s went back from %v to %v", ops[i].Name, ops[i].Values, u.clocks[i].Values)
		}
	}
}

// results reads windows as id lists from a topic of windowed results, and checks that each is there once.
func results(t *testing.T, r *rig, topic string) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, log := range r.partitions(topic) {
		for _, raw := range log {
			k := key(raw.Key)
			if out[k] != nil {
				t.Fatalf("window %s came out twice: %v and %s", k, out[k], raw.Value)
			}
			ids := strings.Split(string(raw.Value), "+")
			slices.Sort(ids)
			out[k] = ids
		}
	}
	return out
}

func headers(r *graph.Raw, name string) (all []int64) {
	for _, h := range r.Headers {
		if h.Key == name {
			n, _ := strconv.ParseInt(string(h.Value), 10, 64)
			all = append(all, n)
		}
	}
	return all
}

// Two sub-topologies: a filter, a repartition topic, and windows behind it. Whatever the budgets, commits and crashes, each window
// comes out once and holds what a batch would put there, without what was set aside; what was set aside was out of order beyond
// what its own partition allows for.
func TestWindowsBehindARepartitionTopicEqualTheBatch(t *testing.T) {
	t.Parallel()
	var total stats
	lates, partial := 0, 0
	for seed := range uint64(60) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 3))
			size := 10 + rng.IntN(40)
			a := args{"size": strconv.Itoa(size), "grace": strconv.Itoa(rng.IntN(20)), "late": "sideline"}
			if rng.IntN(2) == 0 {
				a["advance"] = strconv.Itoa(1 + rng.IntN(size))
			}
			w := fixed(a, "")
			disorder := rng.Int64N(30)
			b := topology.NewBuilder()
			in := topology.From(b, text("in", args{"disorder": strconv.FormatInt(disorder, 10)})).
				Filter(func(_, v string) bool { return v != endMark })
			group := func(id string) string { return string('a' + id[len(id)-1]%4) }
			g := topology.GroupBy(in, "by", func(_, v string) string { return group(v) }, serde.String(), serde.String())
			topology.Aggregate(topology.Windowed(g, w, late(a)), "w", serde.String(), concat, topology.EmitOnClose()).
				To(topology.Topic("out", windowed, serde.String()))
			top, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			r := newRig(top, 1+rng.IntN(3))
			if err := r.start(); err != nil {
				t.Fatal(err)
			}
			events := feed(rng, r, 300, disorder, 200)
			st := schedule(t, rng, r)
			total.crashes, total.commits, total.halfway, total.frozen = total.crashes+st.crashes, total.commits+st.commits, total.halfway+st.halfway, total.frozen+st.frozen

			missed := map[string][]int64{}
			for _, log := range r.partitions("late") {
				for i := range log {
					id := string(log[i].Value)
					if missed[id] != nil {
						t.Errorf("record %s was set aside twice", id)
					}
					missed[id] = headers(&log[i], wire.HeaderLateWindowStart)
					lates++
				}
			}
			want := map[string][]string{}
			accepted, late, input := 0, 0, 0
			for _, e := range events {
				for start := range window.Starts(w, e.time) {
					input++
					if slices.Contains(missed[e.id], start) {
						late++
						if !window.Closed(w, start, e.before) {
							t.Errorf("record %s at %d was late for the window at %d, but its own partition was at %d only", e.id, e.time, start, e.before)
						}
						continue
					}
					if missed[e.id] != nil {
						partial++
					}
					k := fmt.Sprintf("%s@%d", group(e.id), start)
					want[k] = append(want[k], e.id)
				}
			}
			for _, ids := range want {
				slices.Sort(ids)
			}
			got := results(t, r, "out")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("windows (-batch +committed):\n%s", diff)
			}
			for _, ids := range got {
				accepted += len(ids)
			}
			if accepted+late != input {
				t.Errorf("%d accepted and %d late of %d", accepted, late, input)
			}
			// All that is left in the stores is what has not closed: nothing.
			for _, u := range r.tasks {
				for i := range u.sub.Stores {
					for e := range u.backend.Backend.Scan(i, nil, nil) {
						t.Errorf("task %s still has %s", u.id, entry(u.sub.Stores[i], e.Key, e.Value))
					}
				}
			}
		})
	}
	if total.crashes < 100 || total.commits < 100 || total.halfway < 100 || total.frozen < 100 || lates < 100 || partial < 20 {
		t.Errorf("the schedules were too tame: %+v, %d late, %d of them in part", total, lates, partial)
	}
}

// Windows over windows, through a repartition topic: what the first let in is never late in the second, so that the totals are
// those of a batch. The results of the first carry times far behind its watermark.
func TestChainedWindowsLoseNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 4))
			ms := func(lo, n int) time.Duration { return time.Duration(lo+rng.IntN(n)) * time.Millisecond }
			small := window.Tumbling(ms(5, 30)).Grace(ms(0, 60))
			big := window.Tumbling(ms(5, 60)).Grace(ms(0, 5))
			var opts []topology.AggregateOption
			onClose := rng.IntN(2) == 0
			if onClose {
				opts = append(opts, topology.EmitOnClose())
			}
			disorder := rng.Int64N(30)
			b := topology.NewBuilder()
			in := topology.From(b, text("in", args{"disorder": strconv.FormatInt(disorder, 10)})).Filter(func(_, v string) bool { return v != endMark })
			// Without EmitOnClose every record makes a result: its own value, so that the second sees each record once.
			add := func(_, v string) string { return v }
			if onClose {
				add = concat
			}
			first := topology.Aggregate(topology.Windowed(in.GroupByKey(), small, window.Drop()), "small", serde.String(), add, opts...)
			plain := topology.Map(first.Stream(), func(k window.Key[string], v string) (string, string) { return k.Key, v })
			g := topology.GroupBy(plain, "by", func(string, string) string { return "all" }, serde.String(), serde.String())
			topology.Aggregate(topology.Windowed(g, big, window.Drop()), "big", serde.String(), concat, topology.EmitOnClose()).
				To(topology.Topic("out", windowed, serde.String()))
			top, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			r := newRig(top, 1+rng.IntN(3))
			if err := r.start(); err != nil {
				t.Fatal(err)
			}
			events := feed(rng, r, 200, disorder, small.GraceMillis())
			schedule(t, rng, r)
			var want []string
			for _, e := range events {
				if !window.Closed(small, small.First(e.time), e.before) {
					want = append(want, e.id)
				}
			}
			slices.Sort(want)
			if len(want) < 150 {
				t.Fatalf("only %d of %d records are on time", len(want), len(events))
			}
			var got []string
			for _, ids := range results(t, r, "out") {
				got = append(got, ids...)
			}
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("records in the big windows (-on time in the small ones +committed):\n%s", diff)
			}
		})
	}
}

// 10,000 windows are open, then event time jumps by a day. A step does no more than its budget, what is committed with it is no
// more either, the reader hears of no progress before the last window has closed, and each window comes out once although the task
// crashes over and over.
func TestAJumpClosesInBoundedSteps(t *testing.T) {
	t.Parallel()
	const windows, budget = 10_000, 100
	b := topology.NewBuilder()
	topologies["rechain"](nil, b, args{"size": "10", "grace": "1000000", "bigsize": "10"})
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(top, 1)
	if err := r.start(); err != nil {
		t.Fatal(err)
	}
	u := r.tasks[0]
	for i := range windows {
		r.write("in", 0, graph.Raw{Key: []byte("k"), Value: []byte(strconv.Itoa(i)), Time: int64(i) * 10})
	}
	u.poll(windows)
	step := func(budget int) engine.Progress {
		t.Helper()
		p, err := u.task.Step(0, budget)
		if err != nil {
			t.Fatal(err)
		}
		if p.Units > budget {
			t.Fatalf("%d units with a budget of %d", p.Units, budget)
		}
		return p
	}
	step(1 << 30)
	if cut, err := u.commit(); err != nil || len(cut.Outputs) != 0 {
		t.Fatalf("%d outputs, %v; want all windows open", len(cut.Outputs), err)
	}
	hold := int64(windows-1)*10 - 10 - 1_000_000 + 10
	r.write("in", 0, graph.Raw{Key: []byte("k"), Value: []byte("jump"), Time: 86_400_000})
	steps, crashes := 0, 0
	for {
		u.poll(1)
		p := step(budget)
		steps++
		if steps%7 == 3 { // loses what this step did
			crashes++
			if err := u.crash(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		cut, err := u.commit()
		if err != nil {
			t.Fatal(err)
		}
		if len(cut.Outputs) > budget {
			t.Fatalf("%d outputs in a transaction of one step of %d", len(cut.Outputs), budget)
		}
		for _, rep := range cut.Reports {
			if u.task.Status().Operators[0].Due != (rep.Watermark <= hold) {
				t.Fatalf("reports %d with closings due: %t", rep.Watermark, u.task.Status().Operators[0].Due)
			}
		}
		if !p.More {
			break
		}
	}
	if steps < windows/budget || crashes < 10 {
		t.Errorf("%d steps and %d crashes", steps, crashes)
	}
	var got []string
	for _, raw := range r.logs["by"][0] {
		if raw.Key != nil {
			got = append(got, string(raw.Value))
		}
	}
	for i := range windows {
		if i >= len(got) || got[i] != strconv.Itoa(i) {
			t.Fatalf("%d results, and number %d is not that of window %d", len(got), i, i)
		}
	}
	if len(got) != windows {
		t.Errorf("%d results, want %d", len(got), windows)
	}
	last := r.logs["by"][0][len(r.logs["by"][0])-1]
	if rep, err := wire.DecodeReport(last.Headers[0].Value); err != nil || rep.Watermark != 86_400_000-1_000_000 {
		t.Errorf("the last report says %+v, %v", rep, err)
	}
}
