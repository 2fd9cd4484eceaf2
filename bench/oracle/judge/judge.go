// Package judge compares what this library and Kafka Streams make of a case. They may differ only where a rule says that Kafka
// Streams is wrong and how: then the library's answer has to be what the batch finds right, and that of Kafka Streams what the batch
// finds with the mistakes that the rules name, result for result.
package judge

import (
	"fmt"
	"slices"
	"strings"

	"github.com/headrace/headrace/bench/oracle/batch"
)

// A Rule excuses a difference.
type Rule struct {
	ID   string
	Says string
	set  func(q *batch.Quirks, on bool)
	also func(c *batch.Case, kafka batch.Answer) bool // what else has to be so, if not nil
}

// Rules are all that there are. README.md of bench/oracle says what the ids stand for.
var Rules = []Rule{
	{
		ID: "C07", Says: "a null value is an event in fixed windows and sessions",
		set: func(q *batch.Quirks, on bool) { q.Nulls = on },
	},
	{
		ID: "F10", Says: "a record that is dropped for a null does not move time",
		set: func(q *batch.Quirks, on bool) { q.Blind = on },
	},
	{
		ID: "C58", Says: "windows that the store's retention hides, and sessions in segments that it drops, are never emitted on close",
		set: func(q *batch.Quirks, on bool) { q.Lost = on },
	},
	{
		ID: "C12a", Says: "late is judged by the session that a record would make, not by its own time",
		set: func(q *batch.Quirks, on bool) { q.Merged = on },
	},
	{
		ID: "C12b", Says: "a session, or sliding window, that the store's retention hides is not found by the next record",
		set: func(q *batch.Quirks, on bool) { q.Hidden = on },
	},
	{
		ID: "O1", Says: "a sliding window that two records bound has two results at the second",
		set: func(q *batch.Quirks, on bool) { q.Twice = on },
	},
	{
		ID: "O2", Says: "a record that is late for the sliding window that it ends is not in windows made later",
		set: func(q *batch.Quirks, on bool) { q.Forgets = on },
	},
	{
		ID: "C08d", Says: "the results of a record that is less than the difference after the epoch come in another order",
		set: func(q *batch.Quirks, on bool) { q.Upwards = on },
	},
	{
		ID: "C25", Says: "final sessions that are over at once leave by key, not by start",
		set: func(q *batch.Quirks, on bool) { q.KeyFirst = on },
	},
	{
		ID: "C56", Says: "a suppressed sliding window is final while a record may still change it",
		set:  func(q *batch.Quirks, on bool) { q.Early = on },
		also: func(c *batch.Case, _ batch.Answer) bool { return c.Window == batch.Sliding },
	},
	{
		ID: "C27b", Says: "a session is final one gap earlier, with the same result",
		set:  func(q *batch.Quirks, on bool) { q.Early = on },
		also: func(c *batch.Case, kafka batch.Answer) bool { return c.Window == batch.Session && !twice(c, kafka) },
	},
	{
		ID: "C66", Says: "a session is final while a record may still prolong it, and then has a second final result",
		set:  func(q *batch.Quirks, on bool) { q.Early = on },
		also: func(c *batch.Case, kafka batch.Answer) bool { return c.Window == batch.Session && twice(c, kafka) },
	},
}

// twice says whether some sessions of a key are so near to each other that they are one.
func twice(c *batch.Case, a batch.Answer) bool {
	var seen []batch.Result
	for _, r := range slices.Concat(a.Out...) {
		for _, s := range seen {
			if s.Key == r.Key && s.Start <= r.End+c.Gap && r.Start <= s.End+c.Gap {
				return true
			}
		}
		seen = append(seen, r)
	}
	return false
}

// Verdict is what is found of a case.
type Verdict struct {
	Same  bool
	Rules []string // that excuse the difference
	Wrong string   // what nothing excuses; empty if all is well
}

// Case judges the answers to a case.
func Case(c *batch.Case, ours, kafka batch.Answer) Verdict {
	if c.Window == batch.Sliding {
		ours.Dropped, kafka.Dropped = 0, 0 // see batch.Answer
	}
	right := batch.Run(c, batch.Quirks{})
	if equal(ours, kafka) {
		if !equal(ours, right) {
			return Verdict{Same: true, Wrong: "both answers differ from the batch\n" + diff(c, "answer", ours, "batch", right)}
		}
		return Verdict{Same: true}
	}
	if !equal(ours, right) {
		who := "Kafka Streams is right"
		if !equal(kafka, right) {
			who = "neither answer is right"
		}
		return Verdict{Wrong: who + "\n" + diff(c, "ours", ours, "right", right)}
	}
	q := batch.All()
	if !equal(kafka, batch.Run(c, q)) {
		return Verdict{Wrong: "ours is right, and no rule says that Kafka Streams answers so\n" + diff(c, "kafka", kafka, "rules", batch.Run(c, q))}
	}
	// Of the quirks keep those that it takes.
	var v Verdict
	for _, r := range Rules {
		if r.also != nil && !r.also(c, kafka) {
			continue
		}
		r.set(&q, false)
		if !equal(kafka, batch.Run(c, q)) {
			r.set(&q, true)
			v.Rules = append(v.Rules, r.ID)
		}
	}
	if len(v.Rules) == 0 {
		v.Wrong = "the answers differ, and no rule does anything\n" + diff(c, "ours", ours, "kafka", kafka)
	}
	return v
}

func equal(a, b batch.Answer) bool {
	return a.Dropped == b.Dropped && slices.EqualFunc(a.Out, b.Out, slices.Equal)
}

// diff tells of every record what two answers say of it.
func diff(c *batch.Case, nameA string, a batch.Answer, nameB string, b batch.Answer) string {
	var out strings.Builder
	at := func(x batch.Answer, i int) []batch.Result {
		if i < len(x.Out) {
			return x.Out[i]
		}
		return nil
	}
	for i, r := range c.In {
		mark := " "
		if !slices.Equal(at(a, i), at(b, i)) {
			mark = "!"
		}
		fmt.Fprintf(&out, "%s %-16s", mark, r)
		if mark == "!" {
			fmt.Fprintf(&out, " %s %v, %s %v\n", nameA, at(a, i), nameB, at(b, i))
		} else {
			fmt.Fprintf(&out, " %v\n", at(a, i))
		}
	}
	if a.Dropped != b.Dropped {
		fmt.Fprintf(&out, "! dropped: %s %d, %s %d\n", nameA, a.Dropped, nameB, b.Dropped)
	}
	return out.String()
}
