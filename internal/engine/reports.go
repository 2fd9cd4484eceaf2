package engine

import (
	"math"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/internal/wire"
)

// report is the watermark that a repartition sink has for its readers.
type report struct {
	w     int64
	sent  int64            // what was reported last
	state wire.ReportState // with it
	at    int64            // when, math.MinInt64 if never
}

// Report sets what a sink has to tell. Where nobody uses event time nothing is.
func (r runtime) Report(sink int, w int64) {
	if !r.t.cfg.Sub.Sinks[sink].NoReports {
		r.t.reports[sink].w = max(r.t.reports[sink].w, w)
	}
}

// standing is what a sink has to say of the task beside its watermark. A task that still has something to emit is not idle, whatever it
// reads.
func (t *Task) standing(r *report, resting bool) wire.ReportState {
	switch {
	case r.w == math.MaxInt64:
		return wire.End
	case resting:
		return wire.Idle
	}
	return wire.Active
}

// rests is resting, and that nothing is due.
func (t *Task) rests() bool {
	if !t.resting() {
		return false
	}
	for _, c := range t.inst.Clocks {
		if c.Due(t.now) {
			return false
		}
	}
	return true
}

// dueReport says whether a sink's report should go out now, and with which state: at once where that has changed, after ReportInterval
// where the watermark has moved, after IdleRepeat where it was seen again that there is nothing to read, for readers to go on without this
// task, and else after ReportRepeat, for readers who know nothing.
func (t *Task) dueReport(i int, resting bool) (wire.ReportState, bool) {
	r := &t.reports[i]
	if s := &t.cfg.Sub.Sinks[i]; !s.Repartition || s.NoReports {
		return wire.Active, false
	}
	state := t.standing(r, resting)
	since := int64(math.MaxInt64)
	if r.at != math.MinInt64 {
		since = t.now - r.at
	}
	switch {
	case state != r.state:
		return state, true
	case r.w != r.sent:
		return state, since >= t.cfg.ReportInterval
	}
	if state == wire.Idle {
		return state, t.confirmed && since >= t.cfg.IdleRepeat
	}
	return state, r.w != graph.Unknown && t.cfg.ReportRepeat > 0 && since != math.MaxInt64 && since >= t.cfg.ReportRepeat
}

// reporting says whether any report is due.
func (t *Task) reporting() bool {
	rests := t.rests()
	for i := range t.reports {
		if _, due := t.dueReport(i, rests); due {
			return true
		}
	}
	return false
}

// cutReports is what is due.
func (t *Task) cutReports() []SinkReport {
	var out []SinkReport
	rests := t.rests()
	for i := range t.reports {
		if state, due := t.dueReport(i, rests); due {
			out = append(out, SinkReport{Sink: i, Watermark: t.reports[i].w, State: state})
		}
	}
	return out
}

// reported takes in that the reports of a cut are on their way. If its transaction does not commit, nothing of the task is used again.
func (t *Task) reported(all []SinkReport) {
	for _, s := range all {
		r := &t.reports[s.Sink]
		r.sent, r.state, r.at = s.Watermark, s.State, t.now
		t.confirmed = false
	}
}
