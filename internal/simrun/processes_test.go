//go:build synctests

package simrun_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/headrace/headrace/internal/simrun"
)

const (
	// perProcess is how many schedules a process runs: what one leaves behind is not there for long.
	perProcess = 25
	// hangs is how long a schedule may take by the machine's clock. It takes a quarter of a second, under the race detector some.
	hangs = 90 * time.Second
	// again is how often a trace that failed is run again: its goroutines take turns as they like.
	again = 50
	// mostAgain is how many traces are.
	mostAgain = 3
)

// simulation gathers what became of schedules.
type simulation struct {
	t     *testing.T
	began time.Time

	mu       sync.Mutex
	coverage simrun.Coverage
	failed   []result
	slowest  result
	over     bool // until-one has found one
}

func newSimulation(t *testing.T) *simulation { return &simulation{t: t, began: time.Now()} }

// runAll runs n schedules, some processes at a time.
func (s *simulation) runAll(seed uint64, n int) {
	type job struct {
		seed uint64
		n    int
	}
	jobs := make(chan job)
	var wg sync.WaitGroup
	for range *procs {
		wg.Go(func() {
			for j := range jobs {
				for j.n > 0 && !s.isOver() {
					done := s.process(j.seed, j.n) // fewer, if it fell over one
					j.seed, j.n = j.seed+uint64(done), j.n-done
				}
			}
		})
	}
	for n > 0 {
		step := min(n, perProcess)
		jobs <- job{seed, step}
		seed, n = seed+uint64(step), n-step
	}
	close(jobs)
	wg.Wait()
}

func (s *simulation) isOver() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// process runs schedules in one process, and returns how many it got through, counting one that it fell over.
func (s *simulation) process(seed uint64, n int) int {
	results := run(s.t, "-seed", fmt.Sprint(seed), "-schedules", fmt.Sprint(n))
	for _, r := range results {
		s.take(r)
	}
	return max(len(results), 1)
}

func (s *simulation) take(r result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.coverage.Add(r.Met)
	if r.Took > s.slowest.Took {
		s.slowest = r
	}
	if len(r.Violations) > 0 {
		s.failed = append(s.failed, r)
		s.over = s.over || *untilOne
		fmt.Printf("seed %d: %d violations\n", r.Seed, len(r.Violations))
		for i, v := range r.Violations {
			if i == 5 {
				fmt.Println("  …")
				break
			}
			fmt.Printf("  %s\n", v)
		}
	}
}

// run starts this program with arguments, and returns what it says of its schedules. The last may be one that took it along.
func run(t *testing.T, args ...string) []result {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"-test.run=^TestSchedules$", "-test.timeout=0", "-loud"}, args...)...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=2")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var results []result
	var under *uint64 // the seed of the one that runs
	rest := &bytes.Buffer{}
	hung := false
	guard := time.AfterFunc(hangs, func() {
		hung = true
		_ = cmd.Process.Signal(syscall.SIGQUIT) // with stacks; it may have ended
	})
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		text, ours := strings.CutPrefix(lines.Text(), mark)
		if !ours {
			rest.WriteString(lines.Text() + "\n")
			continue
		}
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		guard.Reset(hangs)
		switch {
		case l.Begin != nil:
			under = l.Begin
			rest.Reset()
		case l.Result != nil:
			under = nil
			if len(l.Result.Violations) > 0 {
				l.Result.log = rest.String()
			}
			results = append(results, *l.Result)
		}
	}
	_ = cmd.Wait() // what it says counts, and whether it got to an end
	guard.Stop()
	if under != nil {
		why := "the process fell over: " + firstLine(stderr.String(), rest.String())
		if hung {
			why = fmt.Sprintf("no time goes by: nothing came of it in %v", hangs)
		}
		results = append(results, result{Seed: *under, Violations: []string{why}, log: rest.String() + stderr.String()})
	}
	return results
}

// firstLine is what a Go program says first when it dies.
func firstLine(texts ...string) string {
	for _, text := range texts {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") || strings.Contains(line, "DATA RACE") {
				return strings.TrimSpace(line)
			}
		}
	}
	return "its last words are in the log"
}

// again runs a trace n times, and returns how often it failed. The logs of one that did are written beside it.
func (s *simulation) again(file string, n int) (failed int) {
	left := n
	for left > 0 {
		results := run(s.t, "-trace", file, "-times", fmt.Sprint(min(left, perProcess)))
		for _, r := range results {
			if len(r.Violations) == 0 {
				continue
			}
			failed++
			s.write(strings.TrimSuffix(file, ".json")+".again.log", []byte(r.log+"\n"+strings.Join(r.Violations, "\n")+"\n"))
		}
		left -= max(len(results), 1)
	}
	return failed
}

func (s *simulation) write(file string, b []byte) {
	if err := os.WriteFile(file, b, 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// summary prints what there is to say, runs what failed again, and fails if anything did.
func (s *simulation) summary() {
	took := time.Since(s.began)
	if !*untilOne {
		for i, r := range s.failed {
			trace, err := simrun.Draw(r.Seed).Format()
			if err != nil {
				s.t.Fatal(err)
			}
			if err := os.MkdirAll(*keepDir, 0o755); err != nil {
				s.t.Fatal(err)
			}
			file := filepath.Join(*keepDir, fmt.Sprintf("seed-%d.json", r.Seed))
			s.write(file, trace)
			s.write(strings.TrimSuffix(file, ".json")+".log", []byte(r.log+"\n"+strings.Join(r.Violations, "\n")+"\n"))
			if i < mostAgain {
				fmt.Printf("seed %d: run again, %d of %d fail: make simulate-runtime TRACE=%s\n", r.Seed, s.again(file, again), again, file)
			} else {
				fmt.Printf("seed %d: make simulate-runtime TRACE=%s\n", r.Seed, file)
			}
		}
		fmt.Printf("share of schedules with\n%s", s.coverage.Table())
		fmt.Printf("%.0f schedules a minute; the slowest, seed %d, took %.1f s\n", float64(s.coverage.Schedules)/took.Minutes(), s.slowest.Seed, s.slowest.Took.Seconds())
		for _, situation := range s.coverage.TooLittle() {
			s.t.Errorf("%s: in less than %d %% of the schedules", situation, simrun.Least)
		}
	}
	fmt.Printf("%d schedules, %d violations\n", s.coverage.Schedules, len(s.failed))
	if len(s.failed) > 0 {
		s.t.Fail()
	}
}
