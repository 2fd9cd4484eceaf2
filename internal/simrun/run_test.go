//go:build synctests

package simrun_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/headrace/headrace/internal/simrun"
)

var (
	firstSeed = flag.Uint64("seed", 1, "the seed of the first schedule")
	schedules = flag.Int("schedules", 6, "how many schedules to run")
	traceFile = flag.String("trace", "", "a trace to run, instead of drawing schedules")
	times     = flag.Int("times", 1, "how often to run the trace")
	loud      = flag.Bool("loud", false, "write down what apps log")
	loudest   = flag.Bool("loudest", false, "that, and what they log for developers")
	simulate  = flag.Bool("simulate", false, "run the schedules in processes of their own, and report: scripts/simulate-runtime.sh")
	keepDir   = flag.String("keep", "", "where traces and logs of schedules that failed are kept")
	untilOne  = flag.Bool("until-one", false, "end with the first violation: for planted bugs")
	procs     = flag.Int("procs", 2, "how many processes run schedules at a time")
)

// mark begins a line of a process to the one that started it.
const mark = "simrun: "

// line is what it says: which schedule it begins, or what became of it.
type line struct {
	Begin  *uint64 `json:",omitempty"`
	Result *result `json:",omitempty"`
}

func say(l line) {
	b, err := json.Marshal(l)
	if err != nil {
		panic(err) // a struct of numbers and texts
	}
	fmt.Printf("%s%s\n", mark, b)
}

// TestSchedules runs schedules, one after another, or one trace again and again.
func TestSchedules(t *testing.T) {
	if *simulate {
		t.Skip("TestSimulate does")
	}
	log, level := io.Discard, slog.LevelInfo
	if *loud || *loudest {
		log = os.Stdout
	}
	if *loudest {
		level = slog.LevelDebug
	}
	traces := make([]simrun.Trace, 0, *schedules)
	if *traceFile != "" {
		text, err := os.ReadFile(*traceFile)
		if err != nil {
			t.Fatal(err)
		}
		trace, err := simrun.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		traces = slices.Repeat([]simrun.Trace{trace}, *times)
	} else {
		for i := range *schedules {
			traces = append(traces, simrun.Draw(*firstSeed+uint64(i)))
		}
	}
	for _, trace := range traces {
		say(line{Begin: &trace.Seed})
		began := time.Now()
		res := runTrace(t, trace, log, level)
		res.Took = time.Since(began)
		say(line{Result: &res})
		for _, v := range res.Violations {
			t.Errorf("seed %d: %s", res.Seed, v)
		}
	}
}

// TestSimulate runs schedules in processes of their own, since one that hangs, panics or leaves a goroutine behind takes its process along.
// Each that fails is kept and run again.
func TestSimulate(t *testing.T) {
	if !*simulate {
		t.Skip("runs with -simulate: make simulate-runtime")
	}
	s := newSimulation(t)
	if *traceFile != "" {
		if n := s.again(*traceFile, *times); n > 0 {
			t.Errorf("%s fails %d times of %d: the log of the last is beside it", *traceFile, n, *times)
		}
		return
	}
	s.runAll(*firstSeed, *schedules)
	s.summary()
}
