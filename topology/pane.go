package topology

import "github.com/headrace/headrace/internal/graph"

// Pane says what a result of a window is in the history of that window and key: early, on time or late; which revision, from 0; and
// whether it takes a result back. The zero Pane is that of any other record, and of windows that emit on every update, as long as they
// have not closed. Beam: PaneInfo.
//
// On a topic it is told by headers behind the record's own: x-rev, the revision where it is not 0; x-pane, "early" or "late" where
// it is not on time; x-retract, "true". The first result, on time, has none of them. Behind a repartition topic they are the record's
// pane again, where on time is NoTiming. On other topics they are headers like any: what another application has written tells no pane.
type Pane = graph.Pane

// Timing says when a result of a window went out.
type Timing = graph.Timing

// The timings of results: before the window closed, when it did, and afterwards, as a correction. NoTiming is that of a record that
// is no such result.
const (
	NoTiming = graph.NoTiming
	Early    = graph.Early
	OnTime   = graph.OnTime
	Late     = graph.Late
)

// trace is what a record has of the input record that it stems from.
type trace struct {
	raw *graph.Raw
	// The pane of the result of a window that the record is, or stems from. Flat, as every record is copied often.
	revision   int32
	timing     Timing
	retraction bool
	// hidden is how many of raw's headers, the last ones, tell the pane.
	hidden uint8
}

func (t trace) pane() Pane {
	return Pane{Revision: t.revision, Timing: t.timing, Retraction: t.retraction}
}

// as is the trace of a result with this pane.
func (t trace) as(p Pane) trace {
	t.revision, t.timing, t.retraction = p.Revision, p.Timing, p.Retraction
	return t
}

// updated is the trace of what an aggregate makes of a record: its result is no revision of anything.
func (t trace) updated() trace { return trace{raw: t.raw, hidden: t.hidden} }

// headers are those that the record is written with, all but those of its pane.
func (t trace) headers() []Header {
	if t.raw == nil {
		return nil
	}
	return t.raw.Headers[:len(t.raw.Headers)-int(t.hidden)]
}
