package sim

import (
	"fmt"
	"strings"

	"github.com/headrace/headrace/internal/sim/oracle"
)

// Seen counts what a simulation has met.
type Seen struct {
	Records                                            int64 // taken and committed
	Dropped, Sidelined                                 int64
	Skipped                                            int64 // failed under Skip or DeadLetter
	Refused                                            int64 // of them, outputs that were too large
	Failures                                           int   // ends of the application under Fail
	Panics                                             int
	Commits, Frozen                                    int // Frozen: steps while a transaction was ending
	Aborts, Crashes, InCommit, InRestore, Moves, Stale int
	Wipes                                              int
	Jump, Idle, Compacted, Trimmed                     bool
	Laws, Sums, Input                                  int // how often each law was tried
	Saw                                                map[string]int64
}

func (s *Seen) add(r *oracle.Result) {
	s.Records += r.Taken
	s.Dropped += r.Counts["late-dropped"]
	s.Sidelined += r.Counts["late-sidelined"]
	s.Refused += r.Counts["refused"]
	if s.Saw == nil {
		s.Saw = map[string]int64{}
	}
	for what, n := range r.Saw {
		s.Saw[what] += n
	}
	s.Skipped += r.Counts["failed"] + r.Counts["refused"] + r.Counts["undecodable"] + r.Counts["bad-timestamp"]
}

// kind is something that a simulation may have met.
type kind struct {
	name  string
	least float64 // share of the seeds that have to have met it, in percent
	in    func(*Seen) bool
}

// saw is a kind that the oracle tells.
func saw(name string) kind {
	return kind{name, 2, func(s *Seen) bool { return s.Saw[name] > 0 }}
}

// rarely is one that takes much to come together.
func rarely(name string) kind {
	k := saw(name)
	k.least = 0.5
	return k
}

// kinds are what a simulation may have met.
var kinds = []kind{
	{"late record", 5, func(s *Seen) bool { return s.Dropped+s.Sidelined > 0 }},
	{"drop", 5, func(s *Seen) bool { return s.Dropped > 0 }},
	{"sideline", 5, func(s *Seen) bool { return s.Sidelined > 0 }},
	{"crash inside a commit", 5, func(s *Seen) bool { return s.InCommit > 0 }},
	{"abort", 5, func(s *Seen) bool { return s.Aborts > 0 }},
	{"move of a task", 5, func(s *Seen) bool { return s.Moves > 0 }},
	{"restore from a stale position", 5, func(s *Seen) bool { return s.Stale > 0 }},
	{"time jump", 5, func(s *Seen) bool { return s.Jump }},
	{"idle partition", 5, func(s *Seen) bool { return s.Idle }},
	{"policy action", 5, func(s *Seen) bool { return s.Skipped > 0 || s.Failures > 0 }},
	{"refused output", 5, func(s *Seen) bool { return s.Refused > 0 }},
	{"panic", 5, func(s *Seen) bool { return s.Panics > 0 }},
	{"end under Fail", 5, func(s *Seen) bool { return s.Failures > 0 }},
	{"crash outside of a commit", 5, func(s *Seen) bool { return s.Crashes > 0 }},
	{"crash in a restore", 5, func(s *Seen) bool { return s.InRestore > 0 }},
	{"step during a commit", 5, func(s *Seen) bool { return s.Frozen > 0 }},
	{"store wiped by a restore", 5, func(s *Seen) bool { return s.Wipes > 0 }},
	{"compaction", 5, func(s *Seen) bool { return s.Compacted }},
	{"trimming", 5, func(s *Seen) bool { return s.Trimmed }},
	saw(oracle.SawCorrected), saw(oracle.SawTakenBack), saw(oracle.SawSubtracted), saw(oracle.SawNothing), rarely(oracle.SawDeleted), saw(oracle.SawBeyond),
	saw(oracle.SawEarly), saw(oracle.SawEarlyCount), saw(oracle.SawFinal), saw(oracle.SawDiscarded), saw(oracle.SawRetracting), saw(oracle.SawHeard),
	saw(oracle.SawCalendar), rarely(oracle.SawClocks), saw(oracle.SawGlobal), saw(oracle.SawGap), saw(oracle.SawTwice), saw(oracle.SawFuture), saw(oracle.SawPunctuated), saw(oracle.SawSecond),
	saw(oracle.SawSession), saw(oracle.SawOwnGap), rarely(oracle.SawMerged), rarely(oracle.SawCorrectedSession), rarely(oracle.SawChannel),
	rarely(oracle.SawChained),
	{"law: what goes in comes out", 2, func(s *Seen) bool { return s.Laws > 0 }},
	{"law: what comes in is counted", 2, func(s *Seen) bool { return s.Input > 0 }},
	{"law: sums behind retractions", 2, func(s *Seen) bool { return s.Sums > 0 }},
}

// Coverage counts the seeds that have met each kind of thing.
type Coverage struct {
	Seeds   int
	records int64
	commits int64
	counts  [64]int
}

// Add takes a seed in.
func (c *Coverage) Add(s *Seen) {
	c.Seeds++
	c.records += s.Records
	c.commits += int64(s.Commits)
	for i, k := range kinds {
		if k.in(s) {
			c.counts[i]++
		}
	}
}

// Thin are the kinds that too few seeds have met.
func (c *Coverage) Thin() []string {
	var thin []string
	for i, k := range kinds {
		if float64(c.counts[i]*100) < k.least*float64(c.Seeds) {
			thin = append(thin, k.name)
		}
	}
	return thin
}

// String is a table.
func (c *Coverage) String() string {
	var b strings.Builder
	for i, k := range kinds {
		fmt.Fprintf(&b, "%-30s %6.1f %%\n", k.name, 100*float64(c.counts[i])/float64(max(1, c.Seeds)))
	}
	fmt.Fprintf(&b, "%d records, %d commits\n", c.records, c.commits)
	return b.String()
}
