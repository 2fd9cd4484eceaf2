package sim

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/internal/sim/oracle"
	"github.com/headrace/headrace/internal/wire"
)

// The first thousand of what `make simulate` runs thousands of.
func TestSeedsDoNotDiffer(t *testing.T) {
	t.Parallel()
	covered, found, err := Seeds(0, 1000, 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range found {
		t.Errorf("seed %d: %v", d.Seed, d.Err)
	}
	if thin := covered.Thin(); len(thin) > 0 {
		t.Errorf("too few of %d seeds have met %v:\n%s", covered.Seeds, thin, &covered)
	}
}

// Each script is a case that once differed, with what was wrong in its first lines.
func TestScriptsDoNotDiffer(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts: ", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			c, err := Parse(string(text))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Run(c); err != nil {
				t.Error(err)
			}
		})
	}
}

// A seed, and its script, are the whole truth: what they lead to is the same each time.
func TestReplay(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		c, err := Draw(seed)
		if err != nil {
			t.Fatal(err)
		}
		first, err := Run(c)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		again, err := Parse(c.String())
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if diff := cmp.Diff(c.String(), again.String()); diff != "" {
			t.Fatalf("seed %d: the script (-written +read):\n%s", seed, diff)
		}
		second, err := Run(again)
		if diff := cmp.Diff(first, second); diff != "" || err != nil {
			t.Errorf("seed %d, read from its script: %v, what it has met (-first +second):\n%s", seed, err, diff)
		}
	}
}

func TestParseMistakes(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"case seed=1\n":               "has no ----",
		"fly worker=1\n----\n":        `no command "fly"`,
		"push in part=0\nk\n----\n":   "is no record",
		"push in part=0\nk v 7\n----": "has no timestamp",
		"step task=0_0 n=1\nstep\n":   "has no ----",
		"assign\n----\nland worker=1": "has no ----",
	} {
		if _, err := Parse(script); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", script, err, want)
		}
	}
}

// Whatever is wrong with what is written, some seed shows it, and what is left of the seed is small.
func TestDifferencesAreFound(t *testing.T) {
	t.Parallel()
	report := func(e *entry) bool { return len(e.Headers) == 1 && e.Headers[0].Key == wire.HeaderWatermark }
	for _, c := range []struct {
		name   string
		tamper func(*entry) bool
		want   string
	}{
		{"an output is lost", func(e *entry) bool { return !strings.HasPrefix(e.Topic, "out") || string(e.Key) != "k" }, "is missing"},
		{"an output is wrong", func(e *entry) bool {
			if strings.HasPrefix(e.Topic, "out") && e.Value != nil {
				e.Value = append(e.Value, '!')
			}
			return true
		}, "should be"},
		{"a change of state is lost", func(e *entry) bool { return !strings.HasSuffix(e.Topic, "-changelog") }, "restored other than it was committed"},
		{"headers are lost", func(e *entry) bool {
			if !report(e) {
				e.Headers = nil
			}
			return true
		}, "x-late-reason"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(100) {
				drawn, err := Draw(seed)
				if err != nil {
					t.Fatal(err)
				}
				drawn.tamper = c.tamper
				_, err = Run(drawn)
				if err == nil || !strings.Contains(err.Error(), c.want) {
					continue
				}
				small := Shrink(drawn, 1000)
				if _, err := Run(small); !Differs(err) {
					t.Fatalf("the small case does not differ: %v", err)
				}
				if len(small.Ops)*4 > len(drawn.Ops) {
					t.Errorf("%d ops are left of %d:\n%s", len(small.Ops), len(drawn.Ops), small)
				}
				return
			}
			t.Errorf("no seed of 100 has found it")
		})
	}
}

// Schedules that are too tame fail.
func TestThinCoverage(t *testing.T) {
	t.Parallel()
	var c Coverage
	for i := range 100 {
		s := Seen{Dropped: 1, InCommit: 1, Moves: 1, Stale: 1, Skipped: 1, Refused: 1, Panics: 1, Failures: 1, Crashes: 1, InRestore: 1, Frozen: 1, Wipes: 1}
		s.Saw, s.Laws, s.Sums, s.Input = map[string]int64{}, 1, 1, 1
		for _, k := range kinds {
			s.Saw[k.name]++
		}
		s.Jump, s.Idle, s.Compacted, s.Trimmed = true, true, true, true
		if i < 5 {
			s.Sidelined = 1
		}
		if i < 4 {
			s.Aborts = 1
		}
		c.Add(&s)
	}
	if diff := cmp.Diff([]string{"abort"}, c.Thin()); diff != "" {
		t.Errorf("thin (-want +got):\n%s", diff)
	}
	if !strings.Contains(c.String(), fmt.Sprintf("%-30s %6.1f %%", "abort", 4.0)) {
		t.Errorf("the table has no line for aborts:\n%s", &c)
	}
}

// The oracle shares nothing with what it judges, and so has its own arithmetic: some of it by hand.
func TestOracleByHand(t *testing.T) {
	t.Parallel()
	spec := &oracle.Spec{Nodes: []oracle.Node{
		{Kind: oracle.Source, Name: "in", Parts: 1, Disorder: 5},
		{Kind: oracle.Aggregate, In: []int{0}, Name: "w", Size: 60, Advance: 60, OnClose: true},
		{Kind: oracle.To, In: []int{1}, Name: "out"},
	}}
	in := oracle.Input{Spec: spec, Sub: spec.Split()[0], Logs: [][]oracle.Record{nil}}
	w := int64(oracle.Unknown)
	for i, at := range []int64{10, 50, 62, 59, 70, 125, 119} {
		o := int64(i)
		in.Logs[0] = append(in.Logs[0], oracle.Record{Offset: o, Key: []byte("k"), Value: fmt.Append(nil, i), Time: at})
		in.Events = append(in.Events, oracle.Event{What: oracle.Took, Offset: o})
		if at-5 > w {
			w = at - 5
			in.Events = append(in.Events, oracle.Event{What: oracle.Moved, Time: w})
		}
	}
	res, err := oracle.Run(in)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range res.Outputs {
		got = append(got, fmt.Sprintf("%s @%d", o.Value, o.Time))
	}
	if diff := cmp.Diff([]string{"0+1+3 @59", "2+4 @70"}, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]oracle.Entry{oracle.WindowKey(120, "k"): {Time: 125, Value: "5"}}, res.Stores["w"]); diff != "" {
		t.Errorf("store (-want +got):\n%s", diff)
	}
	if res.Counts["late-dropped"] != 1 {
		t.Errorf("%d late, want the last record alone", res.Counts["late-dropped"])
	}
	in.Events = in.Events[:len(in.Events)-1]
	if _, err := oracle.Run(in); err == nil {
		t.Error("a record that was never taken is no error")
	}
}
