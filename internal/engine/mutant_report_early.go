//go:build mutant_report_early

package engine

import (
	"math"

	"github.com/headrace/headrace/internal/graph"
)

const reportEarly = true

// lookAhead raises what the repartition sinks report to what it will be once the queues are done with. It is right for operators
// that pass the watermark on as it is.
func (t *Task) lookAhead() {
	ahead := int64(math.MaxInt64)
	for i := range t.sources {
		if s := &t.sources[i]; !s.plan.Table && !s.cfg.Absent {
			ahead = min(ahead, t.ahead(s))
		}
	}
	for i := range t.reports {
		if t.cfg.Sub.Sinks[i].Repartition {
			t.reports[i].w = max(t.reports[i].w, ahead)
		}
	}
}

// ahead is the watermark of a source after the records in its queue.
func (t *Task) ahead(s *source) int64 {
	if s.plan.Repartition {
		return s.w
	}
	last := s.maxTime
	see := func(r *graph.Raw) {
		if at, err := s.entry.Head(r); err == nil && at >= 0 {
			last = max(last, at)
		}
	}
	for i := s.q.head; i < len(s.q.buf); i++ {
		if r := &s.q.buf[i]; !r.Control {
			see(r)
		}
	}
	if s.decoded { // also brings back what the entry had decoded
		see(&s.head)
	}
	return max(s.w, s.plan.Watermarks.After(last))
}
