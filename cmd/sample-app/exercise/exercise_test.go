package exercise_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/cmd/sample-app/exercise"
	"github.com/headrace/headrace/devkafka"
)

func do(t *testing.T, events []exercise.Event, s exercise.Setup, pick int) []*exercise.Outcome {
	t.Helper()
	broker, err := devkafka.Start(devkafka.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	runs, _, err := exercise.Plan(events, s, pick)
	if err != nil {
		t.Fatal(err)
	}
	var outcomes []*exercise.Outcome
	for _, r := range runs {
		o, err := exercise.Do(t.Context(), broker.Addrs(), r, s, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		outcomes = append(outcomes, o)
	}
	return outcomes
}

// put is a result with the watermark at which it came.
type put struct {
	Sum     int64
	Rev     int
	Retract bool
	W       int64
}

// The worked example, as it stands in the documents.
func TestWorkedExample(t *testing.T) {
	t.Parallel()
	type run struct {
		First, Second []put // of [0, 60) and [60, 120)
		Open          int64 // of [120, 180)
		Dropped       int64
		Aside         []exercise.Aside
		Balance       int64
		Fate          exercise.Fate // of the payment that is moved
		Judged        int64         // the watermark that it met
	}
	late := func(w int64) []exercise.Aside {
		return []exercise.Aside{{
			Event: exercise.Event{At: 59_000, Amount: 3, Key: "account"}, Offset: 4 + w/100_000, Reason: "window-closed",
			Start: 0, End: 60_000, Watermark: w, LateByMs: w - 60_000,
		}}
	}
	want := map[string]run{
		"base":     {[]put{{15, 0, false, 65_000}}, []put{{13, 0, false, 120_000}}, 1, 0, nil, 28, exercise.OutOfOrder, 57_000},
		"moved":    {[]put{{12, 0, false, 65_000}}, []put{{16, 0, false, 120_000}}, 1, 0, nil, 28, exercise.OutOfOrder, 57_000},
		"drop":     {[]put{{12, 0, false, 65_000}}, []put{{13, 0, false, 120_000}}, 1, 3, nil, 25, exercise.Dropped, 65_000},
		"sideline": {[]put{{12, 0, false, 65_000}}, []put{{13, 0, false, 120_000}}, 1, 0, late(65_000), 25, exercise.Sidelined, 65_000},
		"upsert":   {[]put{{12, 0, false, 65_000}, {15, 1, false, 65_000}}, []put{{13, 0, false, 120_000}}, 1, 0, nil, 40, exercise.Corrected, 65_000},
		"retract":  {[]put{{12, 0, false, 65_000}, {12, 0, true, 65_000}, {15, 1, false, 65_000}}, []put{{13, 0, false, 120_000}}, 1, 0, nil, 28, exercise.Corrected, 65_000},
		"beyond":   {[]put{{12, 0, false, 65_000}}, []put{{13, 0, false, 120_000}}, 1, 0, late(120_000), 25, exercise.Sidelined, 120_000},
	}
	got := map[string]run{}
	for _, o := range do(t, exercise.Worked(), exercise.Default(), -1) {
		if faults := o.Faults(); len(faults) > 0 {
			t.Errorf("%q", faults)
		}
		r := run{
			Dropped: o.Dropped().Sum, Aside: o.Aside, Balance: o.Balance["account"].Sum,
			Fate: o.Inputs[o.Moved].Fate, Judged: o.Inputs[o.Moved].Before,
		}
		for _, w := range o.Windows {
			var puts []put
			for _, p := range w.Results {
				puts = append(puts, put{p.Sum, p.Revision, p.Retraction, o.Inputs[p.Place].After})
			}
			switch w.Start {
			case 0:
				r.First = puts
			case 60_000:
				r.Second = puts
			case 120_000:
				r.Open = w.Open.Sum
			}
		}
		got[o.Name] = r
	}
	// How a retraction is numbered is the library's business: what it takes back matters.
	for i, p := range got["retract"].First {
		if p.Retract {
			got["retract"].First[i].Rev = 0
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Lists by chance under all policies, against a walk through the list that knows nothing of the library.
func TestAnyList(t *testing.T) {
	t.Parallel()
	s := exercise.Setup{Size: 10 * time.Second, Disorder: 3 * time.Second, Horizon: 8 * time.Second}
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 8))
			var events []exercise.Event
			for n := range 14 {
				events = append(events, exercise.Event{
					At: max(0, int64(n)*4_000-r.Int64N(20_000)), Amount: r.Int64N(90) + 1, Key: []string{"ann", "bob"}[r.IntN(2)],
				})
			}
			for _, o := range do(t, events, s, -1) {
				if faults := o.Faults(); len(faults) > 0 {
					t.Errorf("seed %d: %q", seed, faults)
				}
				for _, d := range differences(o, s) {
					t.Errorf("seed %d: run %s: %s", seed, o.Name, d)
				}
			}
		})
	}
}

func differences(o *exercise.Outcome, s exercise.Setup) (out []string) {
	size, horizon := s.Size.Milliseconds(), int64(0)
	if o.Late == exercise.Upsert || o.Late == exercise.Retract {
		horizon = s.Horizon.Milliseconds()
	}
	type window struct {
		key   string
		start int64
	}
	sums := map[window]int64{}
	var dropped, aside int64
	w := exercise.Unknown
	for i, e := range o.Events {
		at := window{e.Key, e.At / size * size}
		want := exercise.InTime
		switch end := at.start + size; {
		case w != exercise.Unknown && w >= end+horizon:
			want = exercise.Sidelined
			if o.Late == exercise.Drop {
				want = exercise.Dropped
				dropped += e.Amount
			} else {
				aside += e.Amount
			}
		case w != exercise.Unknown && w >= end:
			want = exercise.Corrected
			sums[at] += e.Amount
		default:
			sums[at] += e.Amount
		}
		w = max(w, e.At-s.Disorder.Milliseconds())
		got := o.Inputs[i].Fate
		if got == exercise.OutOfOrder {
			got = exercise.InTime
		}
		if got != want || o.Inputs[i].After != w {
			out = append(out, fmt.Sprintf("payment %d: fate %d, want %d; W %d, want %d", i, got, want, o.Inputs[i].After, w))
		}
	}
	got := map[window]int64{}
	for _, w := range o.Windows {
		if w.Last().Count > 0 {
			got[window{w.Key, w.Start}] = w.Last().Sum
		}
	}
	if diff := cmp.Diff(sums, got, cmp.AllowUnexported(window{})); diff != "" {
		out = append(out, diff)
	}
	if o.SetAside().Sum != aside || o.Dropped().Sum != dropped {
		out = append(out, fmt.Sprintf("set aside %d and dropped %d, want %d and %d", o.SetAside().Sum, o.Dropped().Sum, aside, dropped))
	}
	return out
}

// Each way in which a run can be wrong is found.
func TestFaults(t *testing.T) {
	t.Parallel()
	all := map[string]*exercise.Outcome{}
	for _, o := range do(t, exercise.Worked(), exercise.Default(), -1) {
		all[o.Name] = o
	}
	for what, c := range map[string]struct {
		run   string
		spoil func(*exercise.Outcome)
	}{
		"a payment is missing":      {"base", func(o *exercise.Outcome) { o.Inputs = o.Inputs[1:] }},
		"a window says too much":    {"base", func(o *exercise.Outcome) { o.Windows[0].Results[0].Sum++ }},
		"a window is gone":          {"base", func(o *exercise.Outcome) { o.Windows = o.Windows[1:] }},
		"an open window is gone":    {"base", func(o *exercise.Outcome) { o.Windows = o.Windows[:2] }},
		"none was dropped":          {"drop", func(o *exercise.Outcome) { o.DroppedCount = 0 }},
		"one is set aside twice":    {"sideline", func(o *exercise.Outcome) { o.Aside = append(o.Aside, o.Aside[0]) }},
		"one is not set aside":      {"beyond", func(o *exercise.Outcome) { o.Aside = nil }},
		"a revision is left out":    {"upsert", func(o *exercise.Outcome) { o.Windows[0].Results[1].Revision = 2 }},
		"no retraction":             {"retract", func(o *exercise.Outcome) { o.Windows[0].Results = slices.Delete(o.Windows[0].Results, 1, 2) }},
		"something else taken back": {"retract", func(o *exercise.Outcome) { o.Windows[0].Results[1].Sum-- }},
		"the sum behind is wrong":   {"retract", func(o *exercise.Outcome) { o.Balance = nil }},
	} {
		o := *all[c.run]
		o.Inputs, o.Windows, o.Aside = slices.Clone(o.Inputs), slices.Clone(o.Windows), slices.Clone(o.Aside)
		for i := range o.Windows {
			o.Windows[i].Results = slices.Clone(o.Windows[i].Results)
		}
		c.spoil(&o)
		if len(o.Faults()) == 0 {
			t.Errorf("%s: not found", what)
		}
	}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	ev := func(at, amount int64) exercise.Event { return exercise.Event{At: at * 1000, Amount: amount, Key: "a"} }
	for _, c := range []struct {
		events []exercise.Event
		pick   int
		runs   int
		moved  int
		why    int
	}{
		{exercise.Worked(), -1, 7, 3, 0},
		{exercise.Worked(), 0, 7, 0, 0},
		{exercise.Worked(), 5, 2, 5, 1},                                  // nothing ends the window of the last
		{[]exercise.Event{ev(10, 1), ev(70, 1)}, -1, 6, 0, 1},            // nothing goes beyond the horizon
		{[]exercise.Event{ev(10, 1), ev(200, 1), ev(59, 2)}, 0, 7, 0, 1}, // one payment does both
	} {
		runs, why, err := exercise.Plan(c.events, exercise.Default(), c.pick)
		if err != nil || len(runs) != c.runs || runs[0].Moved != c.moved || len(why) != c.why {
			t.Errorf("%v, %d: %d runs, %q, %v", c.events, c.pick, len(runs), why, err)
		}
		for _, r := range runs {
			if len(r.Events) != len(c.events) {
				t.Errorf("run %s has %d payments of %d", r.Name, len(r.Events), len(c.events))
			}
		}
	}
	if _, _, err := exercise.Plan(exercise.Worked()[:1], exercise.Default(), -1); err == nil {
		t.Error("one payment is enough")
	}
}
