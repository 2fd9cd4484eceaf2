package main

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/headrace/headrace/internal/eos"
)

// longestGap is the longest time between two commits of an application in one life of a process, while there was input: outside the
// restart of the broker, and outside of what was done to the process itself until it was well again. The lines say where the longest
// was by the kind of fault that the other process suffered.
func (d *driver) longestGap() (time.Duration, []string) {
	type who struct {
		process, app string
		life         int
	}
	last := make(map[who]int64)
	longest := make(map[string]time.Duration) // by the kind of the fault
	where := make(map[string]string)
	for _, l := range d.hub.all() {
		if l.What != eos.Committed {
			continue
		}
		w := who{l.process, l.App, l.life}
		before, ok := last[w]
		last[w] = l.At
		if !ok {
			continue
		}
		from, to := time.UnixMilli(before), time.UnixMilli(l.At)
		if from.Before(d.well) || to.After(d.fed) || d.excused(l.process, from, to) {
			continue
		}
		kind := d.faultDuring(from, to)
		if gap := to.Sub(from); gap > longest[kind] {
			longest[kind] = gap
			where[kind] = fmt.Sprintf("%-20s %v of %s in %s, at %s, before its transaction %d", kind, gap, l.App, l.process, from.Format("15:04:05.000"), l.Sequence)
		}
	}
	var most time.Duration
	var lines []string
	for _, kind := range slices.Sorted(maps.Keys(longest)) {
		most = max(most, longest[kind])
		lines = append(lines, where[kind])
	}
	return most, lines
}

// faultDuring is the kind of the fault that falls into a span, or began it.
func (d *driver) faultDuring(from, to time.Time) string {
	for _, f := range d.faults {
		if from.Before(f.to) && to.After(f.from) {
			return f.of
		}
	}
	return "no fault"
}

func (d *driver) excused(process string, from, to time.Time) bool {
	for _, s := range d.quiet {
		if (s.of == "" || s.of == process) && from.Before(s.to) && to.After(s.from) {
			return true
		}
	}
	return false
}

// trouble sums what the processes counted, over their lives.
func (d *driver) trouble() string {
	type who struct {
		process, app string
		life         int
	}
	last := make(map[who]line)
	refused := make(map[string]int)
	for _, l := range d.hub.all() {
		switch l.What {
		case eos.Status, eos.Stopped:
			last[who{l.process, l.App, l.life}] = l
		case eos.Refused:
			refused[l.Point+" "+l.Error]++
		}
	}
	var aborts, fenced, restored int64
	for _, l := range last {
		aborts += l.Aborts
		fenced += l.Fenced
		restored += l.Restored
	}
	return fmt.Sprintf("%d aborts, %d fenced, %d records restored, refused %v", aborts, fenced, restored, refused)
}
