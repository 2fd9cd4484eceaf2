package simrun_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/internal/simrun"
)

// A trace that was kept is read as it was written.
func TestTraceIsReadAsWritten(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		want := simrun.Draw(seed)
		text, err := want.Format()
		if err != nil {
			t.Fatal(err)
		}
		got, err := simrun.Parse(text)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d (-drawn +read):\n%s", seed, diff)
		}
	}
}

// The format is what version 1 wrote, whatever is drawn today.
func TestTraceFormat(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("testdata", "trace1.json"))
	if err != nil {
		t.Fatal(err)
	}
	trace, err := simrun.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	again, err := trace.Format()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(text), string(again)); diff != "" {
		t.Errorf("the trace is written in another way (-kept +written):\n%s", diff)
	}
	if n := len(trace.Events); n != 15 || trace.Events[2].Point != simrun.AtEnded {
		t.Errorf("the trace has %d events, the third of them %+v", n, trace.Events[2])
	}
}

func TestTraceThatCannotBeRun(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("testdata", "trace1.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, says string }{
		{`"version":1`, `"version":2`, "version 2"},
		{`"app":"fold"`, `"app":"other"`, `app "other"`},
		{`"do":"forge"`, `"do":"forget"`, `"forget" is not known`},
		{`"point":"ended"`, `"point":"end of days"`, "no point to die at"},
		{`"member":3`, `"member":33`, "no member 33"},
		{`"seed"`, `"sead"`, "sead"},
	} {
		changed := strings.Replace(string(text), c.from, c.to, 1)
		if changed == string(text) {
			t.Fatalf("the trace has no %s", c.from)
		}
		if _, err := simrun.Parse([]byte(changed)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("with %s the error is %v, want one that says %q", c.to, err, c.says)
		}
	}
}

// What is drawn is the same for a seed, in order, and begins when members have had time for themselves.
func TestDraw(t *testing.T) {
	t.Parallel()
	kinds := make(map[string]bool)
	for seed := range uint64(500) {
		a, b := simrun.Draw(seed), simrun.Draw(seed)
		if diff := cmp.Diff(a, b); diff != "" {
			t.Fatalf("seed %d is drawn in two ways:\n%s", seed, diff)
		}
		if !slices.IsSortedFunc(a.Events, func(x, y simrun.Event) int { return int(x.At - y.At) }) {
			t.Errorf("seed %d: its events are out of order", seed)
		}
		for _, e := range a.Events {
			kinds[e.Do] = true
		}
	}
	if len(kinds) != 15 {
		t.Errorf("%d kinds of events are drawn, want all 15", len(kinds))
	}
}

// A situation that comes up too seldom is named.
func TestCoverage(t *testing.T) {
	t.Parallel()
	var c simrun.Coverage
	for i := range 100 {
		met := slices.Clone(simrun.Situations())
		if i >= 5 {
			met = slices.DeleteFunc(met, func(s string) bool { return s == simrun.ReadBack })
		}
		if i >= 4 {
			met = slices.DeleteFunc(met, func(s string) bool { return s == simrun.Fence })
		}
		c.Add(append(met, met...))
	}
	if got := c.TooLittle(); !slices.Equal(got, []string{simrun.Fence}) {
		t.Errorf("too little is met of %q, want of %q", got, simrun.Fence)
	}
	if text := c.Table(); !strings.Contains(text, "read-back                            5.0 %") {
		t.Errorf("the table does not say 5 %% of read-backs:\n%s", text)
	}
}
