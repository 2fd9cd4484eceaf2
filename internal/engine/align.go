package engine

import (
	"math"

	"github.com/headrace/headrace/internal/graph"
)

// SetFloor says how far the least advanced task is of those that this one is not to run away from, as Time tells it; math.MaxInt64, as at the
// start, if there is none. It matters with MaxDrift.
func (t *Task) SetFloor(w int64) { t.floor = w }

// drifts is the largest watermark of a source whose records are still taken: MaxDrift ahead of the input that is least advanced, of those
// that are not idle. That one is always taken, so alignment alone never stops a task: it waits for an input that may have more, until that
// has, or is idle.
func (t *Task) drifts() int64 {
	if t.cfg.MaxDrift <= 0 {
		return math.MaxInt64
	}
	w, _ := t.Time()
	switch w = min(w, t.floor); {
	case w == graph.Unknown:
		return w
	case w > math.MaxInt64-t.cfg.MaxDrift:
		return math.MaxInt64
	}
	return w + t.cfg.MaxDrift
}

// ahead says that a source has to wait for others. Its records stay in the queue; it is not idle, whatever it has. A table is not part of
// time, and what has ended holds nobody's state.
func (s *source) ahead(limit int64) bool {
	return s.told > limit && s.told != math.MaxInt64 && s.streams()
}

// held says whether records of a source are kept back because it is too far ahead.
func (s *source) held(limit int64) bool { return s.waits() && s.ahead(limit) }
