package topology

import (
	"math"
	"time"

	"github.com/headrace/headrace/window"
)

// revised is what an operator has to know of the windows in front of it, up to the next aggregate.
type revised struct {
	upserts bool // a result replaces the one before it of the same window and key, or
	retract bool // is preceded by its retraction
	results bool // what comes are such results themselves, and not totals of them
	fronts  []front
	at      string
}

// front are windows that send corrections for so long after they have closed. windows is nil where their ends depend on the records.
type front struct {
	windows window.Windows
	horizon int64
}

// revises is what an aggregate over windows sends to those behind it, one without windows with w nil.
func revises(past revised, w *windowing, how *emission, at string) revised {
	switch {
	case w == nil: // its results have the time of what went in last: they are as late as that
		return revised{fronts: past.fronts, at: past.at}
	case !how.correct && !how.retract && !how.opens():
		return revised{}
	}
	r := revised{upserts: !how.retract && !how.discard, retract: how.retract, results: true, at: at}
	if how.correct {
		r.fronts = []front{{w.windows, w.late.CorrectMillis()}}
	}
	return r
}

// or is what is known behind both.
func (r revised) or(o revised) revised {
	if r.at == "" {
		r.at = o.at
	}
	return revised{
		upserts: r.upserts || o.upserts, retract: r.retract || o.retract, results: r.results || o.results, at: r.at,
		fronts: append(r.fronts[:len(r.fronts):len(r.fronts)], o.fronts...),
	}
}

// tells says whether a reader has to know which of several results of a window one is.
func (r revised) tells() bool { return r.results && (r.upserts || r.retract || len(r.fronts) > 0) }

// sampled is from where on, and how many windows are looked at, of what repeats itself after that or nearly so: the year 2020, in UTC.
const (
	sampledFrom = 1_577_836_800_000
	sampled     = 2048
)

// needs is how long after they have closed windows must take records in, for no correction of the front to be too late, in milliseconds.
//
// That is as long as the front sends them, if the windows end when those of the front do, or later. Otherwise one may end before the front's
// closes, and what the front tells them of time is then, at most, the start of its first window that is open when its last correction comes.
func (f front) needs(w window.Windows) int64 {
	if f.windows == nil || w == nil {
		return f.horizon
	}
	need, ends := f.horizon, false
	for start, n := f.windows.First(sampledFrom), 0; n < sampled; n++ {
		end, first := f.windows.End(start), w.End(w.First(start)) // of what a result of the front may go into, the first to end
		if ends = ends || first < math.MaxInt64; end < math.MaxInt64-f.horizon {
			if told := f.windows.First(end + f.horizon - 1); told < math.MaxInt64 {
				need = max(need, told-first+1)
			}
		}
		next := f.windows.Next(start)
		if next <= start {
			break
		}
		start = next
	}
	if !ends {
		return 0 // nothing is ever too late for them
	}
	return need
}

// behind checks an aggregate against what the windows in front of it send.
func (b *Builder) behind(store string, past revised, w *windowing, canSubtract bool, e *emission) {
	switch {
	case past.retract && !canSubtract:
		b.fail("store %q: the windows made at %s take results back, and this aggregate cannot subtract; give it an Aggregator with Subtract, by AggregateWith", store, past.at)
		return
	case past.upserts && !e.accept:
		b.fail("store %q: the windows made at %s give several results for one window and key, early ones or corrections, and each would be counted again here; let them retract, by window.CorrectWithin(…).Retract() or Retracting(), or say AcceptRevisions()",
			store, past.at)
		return
	}
	if w == nil || w.counts() || e.accept {
		return
	}
	takes := w.def.GraceMillis() + w.late.CorrectMillis()
	for _, f := range past.fronts {
		if need := f.needs(w.windows); need > takes {
			b.fail("store %q: the windows made at %s send corrections for %v after they have closed, and these windows are there for %v from their end on, so that corrections would be late; give them window.CorrectWithin, or Grace, of %v in all, or say AcceptRevisions()",
				store, past.at, duration(f.horizon), duration(takes), duration(need))
			return
		}
	}
}

func duration(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
