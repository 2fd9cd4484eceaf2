package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/headrace/headrace/internal/eos"
)

// gapAim is how long a process may commit nothing while another is killed and comes back within its session.
const gapAim = time.Second

// gaps are the longest times between two commits of an application in one life of a process, while there was input: outside of what was done to the process itself until it was well again.
//
// There are two, both without the restart of the broker. stable is with a process that was back within its session, if anything was done to the other at all: the group knows
// it again, and nobody waits. gone is with one that stayed away for longer: if it went while the group was gathering, everybody waits
// for it in the join until its session is over, as the classic group protocol has it. The lines say where the longest were, by the
// kind of the fault.
type gaps struct {
	stable, gone time.Duration
	lines        []string
}

func (d *driver) longestGaps() gaps {
	type who struct {
		process, app string
		life         int
	}
	type when struct {
		kind string
		gone bool
	}
	last := make(map[who]int64)
	longest := make(map[when]time.Duration)
	where := make(map[when]string)
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
		f := d.faultDuring(from, to)
		k := when{f.of, f.gone}
		if gap := to.Sub(from); gap > longest[k] {
			longest[k] = gap
			where[k] = fmt.Sprintf("%v of %s in %s, at %s, before its transaction %d", gap, l.App, l.process, from.Format("15:04:05.000"), l.Sequence)
		}
	}
	var g gaps
	keys := slices.SortedFunc(maps.Keys(longest), func(a, b when) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	for _, k := range keys {
		back := "back in time"
		switch {
		case k.gone:
			back = "gone for long"
			g.gone = max(g.gone, longest[k])
		case k.kind != restart: // whoever is well at once after that may still find its transaction gone
			g.stable = max(g.stable, longest[k])
		}
		g.lines = append(g.lines, fmt.Sprintf("%-20s %-14s %s", k.kind, back, where[k]))
	}
	return g
}

// faultDuring is the fault that falls into a span, or began it: the first of several.
func (d *driver) faultDuring(from, to time.Time) fault {
	for _, f := range d.faults {
		if from.Before(f.to) && to.After(f.from) {
			return f
		}
	}
	return fault{span: span{of: "no fault"}}
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
