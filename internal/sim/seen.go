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
}

func (s *Seen) add(r *oracle.Result) {
	s.Records += r.Taken
	s.Dropped += r.Counts["late-dropped"]
	s.Sidelined += r.Counts["late-sidelined"]
	s.Refused += r.Counts["refused"]
	s.Skipped += r.Counts["failed"] + r.Counts["refused"] + r.Counts["undecodable"] + r.Counts["bad-timestamp"]
}

// kinds are what a simulation may have met. Those that are required have to be in 5 % of the seeds.
var kinds = []struct {
	name     string
	required bool
	in       func(*Seen) bool
}{
	{"late record", true, func(s *Seen) bool { return s.Dropped+s.Sidelined > 0 }},
	{"drop", true, func(s *Seen) bool { return s.Dropped > 0 }},
	{"sideline", true, func(s *Seen) bool { return s.Sidelined > 0 }},
	{"crash inside a commit", true, func(s *Seen) bool { return s.InCommit > 0 }},
	{"abort", true, func(s *Seen) bool { return s.Aborts > 0 }},
	{"move of a task", true, func(s *Seen) bool { return s.Moves > 0 }},
	{"restore from a stale position", true, func(s *Seen) bool { return s.Stale > 0 }},
	{"time jump", true, func(s *Seen) bool { return s.Jump }},
	{"idle partition", true, func(s *Seen) bool { return s.Idle }},
	{"policy action", true, func(s *Seen) bool { return s.Skipped > 0 || s.Failures > 0 }},
	{"refused output", true, func(s *Seen) bool { return s.Refused > 0 }},
	{"panic", true, func(s *Seen) bool { return s.Panics > 0 }},
	{"end under Fail", true, func(s *Seen) bool { return s.Failures > 0 }},
	{"crash outside of a commit", true, func(s *Seen) bool { return s.Crashes > 0 }},
	{"crash in a restore", true, func(s *Seen) bool { return s.InRestore > 0 }},
	{"step during a commit", true, func(s *Seen) bool { return s.Frozen > 0 }},
	{"store wiped by a restore", true, func(s *Seen) bool { return s.Wipes > 0 }},
	{"compaction", true, func(s *Seen) bool { return s.Compacted }},
	{"trimming", true, func(s *Seen) bool { return s.Trimmed }},
}

// required is the least share of seeds, in percent.
const required = 5

// Coverage counts the seeds that have met each kind of thing.
type Coverage struct {
	Seeds   int
	records int64
	commits int64
	counts  [32]int
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
		if k.required && c.counts[i]*100 < required*c.Seeds {
			thin = append(thin, k.name)
		}
	}
	return thin
}

// String is a table.
func (c *Coverage) String() string {
	var b strings.Builder
	for i, k := range kinds {
		at := ""
		if !k.required {
			at = "  (not required)"
		}
		fmt.Fprintf(&b, "%-30s %6.1f %%%s\n", k.name, 100*float64(c.counts[i])/float64(max(1, c.Seeds)), at)
	}
	fmt.Fprintf(&b, "%d records, %d commits\n", c.records, c.commits)
	return b.String()
}
