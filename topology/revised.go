package topology

import (
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

// needs is how long after they have ended windows must take records in, for no correction of the front to be too late, in milliseconds.
func (f front) needs(w window.Windows) int64 {
	if f.windows == nil || w == nil {
		return f.horizon
	}
	return window.Behind(f.windows, w, f.horizon)
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
	takes := sum(w.def.GraceMillis(), w.late.CorrectMillis())
	for _, f := range past.fronts {
		if need := f.needs(w.windows); need > takes {
			b.fail("store %q: the windows made at %s send corrections for %v after they have closed, and these windows are there for %v from their end on, so that corrections would be late; give them window.CorrectWithin, or Grace, of %v in all, or say AcceptRevisions()",
				store, past.at, duration(f.horizon), duration(takes), duration(need))
			return
		}
	}
}

func duration(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
