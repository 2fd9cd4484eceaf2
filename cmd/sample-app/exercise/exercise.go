// Package exercise is a small experiment about event time: the same few payments go through the same windows, once as they are, once
// with one of them moved over the boundary of a window, and then with that one late, under each policy for late records.
//
// Every run is an app of its own on a broker: framework, topology, transactions. What it says of a run was read back from topics,
// read-committed; nothing is taken from the app's memory but the counter of what it dropped, which is in no topic.
package exercise

import (
	"fmt"
	"slices"
	"time"

	"github.com/headrace/headrace/window"
)

// An Event is a payment. Times are Unix milliseconds.
type Event struct {
	At     int64
	Amount int64
	Key    string
}

// Worked is the list that the documents explain: one account, and the payment of second 59 comes out of order, but in time.
func Worked() []Event {
	var out []Event
	for _, e := range [][2]int64{{10, 5}, {50, 7}, {62, 11}, {59, 3}, {70, 2}, {125, 1}} {
		out = append(out, Event{At: e[0] * 1000, Amount: e[1], Key: "account"})
	}
	return out
}

// Setup is what all runs have in common.
type Setup struct {
	// Size is that of the tumbling windows, Disorder that of the watermark, Horizon how long a window can be corrected.
	Size, Disorder, Horizon time.Duration
}

// Default is the setup of the documents.
func Default() Setup {
	return Setup{Size: time.Minute, Disorder: 5 * time.Second, Horizon: 30 * time.Second}
}

func (s Setup) windows() window.Fixed { return window.Tumbling(s.Size) }

// Validate reports what no run can be made with.
func (s Setup) Validate() error {
	if err := s.windows().Validate(); err != nil {
		return err
	}
	if s.Disorder < 0 || s.Disorder%time.Millisecond != 0 {
		return fmt.Errorf("exercise: disorder %v; give whole milliseconds, 0 or more", s.Disorder)
	}
	if s.Horizon <= 0 || s.Horizon%time.Millisecond != 0 {
		return fmt.Errorf("exercise: horizon %v; give whole milliseconds, above 0", s.Horizon)
	}
	return nil
}

// Policy is what happens to late payments in a run.
type Policy int

// The policies. Beyond the horizon, those that correct set aside.
const (
	Drop Policy = iota
	Sideline
	Upsert
	Retract
)

func (p Policy) String() string {
	return [...]string{"drop", "sideline", "correct, upsert", "correct, retract"}[p]
}

func (p Policy) corrects() bool { return p == Upsert || p == Retract }

// horizon is how long a window is kept after it has closed.
func (p Policy) horizon(s Setup) int64 {
	if p.corrects() {
		return s.Horizon.Milliseconds()
	}
	return 0
}

// A Run is one of the experiments.
type Run struct {
	Name   string // short, and fit for a file
	Title  string
	Events []Event // in their order of arrival
	Late   Policy
	// Moved is the place in Events of the one that is moved.
	Moved int
}

// Plan makes the runs of a list. One payment is moved in them: that at place pick, or, if pick is negative, the one that is closest to
// the end of its window. The runs in which it is late are left out where no other payment
// ends its window; why says so.
func Plan(events []Event, s Setup, pick int) (runs []Run, why []string, err error) {
	if err := s.Validate(); err != nil {
		return nil, nil, err
	}
	if len(events) < 2 {
		return nil, nil, fmt.Errorf("exercise: %d payments; at least 2 are needed", len(events))
	}
	if pick >= len(events) {
		return nil, nil, fmt.Errorf("exercise: there is no payment %d, only %d", pick+1, len(events))
	}
	w := s.windows()
	end := func(e Event) int64 { return w.End(w.First(e.At)) }
	if pick < 0 {
		pick = 0
		for i, e := range events {
			if end(e)-e.At < end(events[pick])-events[pick].At {
				pick = i
			}
		}
	}
	one := events[pick]
	rest := slices.Delete(slices.Clone(events), pick, pick+1)

	moved := slices.Clone(events)
	moved[pick].At = end(one)
	runs = []Run{
		{Name: "base", Title: "As they come", Events: slices.Clone(events), Late: Drop, Moved: pick},
		{Name: "moved", Title: fmt.Sprintf("One moved over the boundary, %s to %s", Seconds(one.At), Seconds(end(one))), Events: moved, Late: Drop, Moved: pick},
	}
	// behind puts the payment behind the first of the others that takes the watermark so far.
	behind := func(until int64) (int, []Event) {
		for i, e := range rest {
			if e.At-s.Disorder.Milliseconds() >= until {
				return i + 1, slices.Insert(slices.Clone(rest), i+1, one)
			}
		}
		return 0, nil
	}
	at, late := behind(end(one))
	if late == nil {
		return runs, []string{fmt.Sprintf("no other payment brings the watermark to %s, where the window of the one at %s ends: it cannot be late here", Seconds(end(one)), Seconds(one.At))}, nil
	}
	if horizon := s.Horizon.Milliseconds(); rest[at-1].At-s.Disorder.Milliseconds() >= end(one)+horizon {
		why = append(why, fmt.Sprintf("the payment at %s ends the window and its time for corrections at once: what is late is beyond the horizon in all runs", Seconds(rest[at-1].At)))
	}
	for _, r := range []Run{
		{Name: "drop", Title: "Late: dropped", Late: Drop},
		{Name: "sideline", Title: "Late: set aside", Late: Sideline},
		{Name: "upsert", Title: "Late: the result is corrected", Late: Upsert},
		{Name: "retract", Title: "Late: the result is taken back and given anew", Late: Retract},
	} {
		r.Events, r.Moved = slices.Clone(late), at
		runs = append(runs, r)
	}
	at, beyond := behind(end(one) + s.Horizon.Milliseconds())
	if beyond == nil {
		return runs, append(why, fmt.Sprintf("no other payment brings the watermark to %s, the end of its window and %v: it cannot be beyond the horizon here", Seconds(end(one)+s.Horizon.Milliseconds()), s.Horizon)), nil
	}
	return append(runs, Run{Name: "beyond", Title: "Later than corrections go: set aside", Events: beyond, Late: Upsert, Moved: at}), why, nil
}

// Seconds writes a time as seconds since 0.
func Seconds(ms int64) string {
	if ms%1000 == 0 {
		return fmt.Sprint(ms / 1000)
	}
	return fmt.Sprint(float64(ms) / 1000)
}
