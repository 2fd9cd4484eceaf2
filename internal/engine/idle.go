package engine

import (
	"math"
	"slices"

	"github.com/headrace/headrace/internal/graph"
)

// never is later than any wall time.
const never = math.MaxInt64

// SetIdle says that an outside partition has nothing to read, and has had nothing for a while: it holds nobody back until something is
// pushed, or until it is said to be idle no more. Whether a partition of a repartition topic is idle its writers report. It takes effect
// with the next Step: partitions that fall idle together rest together.
//
// An idle partition follows the task's other inputs. When it wakes, its own records move it again once they have caught up with what was
// told meanwhile; those before that are judged by their operators, as any.
func (t *Task) SetIdle(source int, idle bool) { t.setIdle(source, idle, math.MaxInt64) }

// Confirm is SetIdle where the partition was seen to have nothing when TimeWithout it was upTo: it follows the others that far, and no further until
// it is confirmed again. So records that come to idle and other partitions at once cannot overtake each other. Readers behind repartition
// topics are told of each.
func (t *Task) Confirm(source int, upTo int64) {
	if t.setIdle(source, true, upTo) {
		t.confirmed = true
	}
}

func (t *Task) setIdle(source int, idle bool, leave int64) bool {
	s := &t.sources[source]
	if s.plan.Repartition || s.cfg.Absent || idle && s.waits() {
		return false
	}
	if idle && s.idle {
		leave = max(leave, s.leave)
	}
	if s.idle != idle || s.leave != leave {
		s.idle, s.leave = idle, leave
		t.turned = true
	}
	return true
}

// waits says that something of the source is queued.
func (s *source) waits() bool { return s.decoded || s.q.len() > 0 }

// SetEnd says where a partition ends: as long as what is before that has not been pushed, the task waits for it rather than go on with
// later records of other inputs.
func (t *Task) SetEnd(source int, end int64) {
	s := &t.sources[source]
	s.end = max(s.end, end)
}

// Time is how far the task has come: the smallest of what its inputs have told, those aside that are idle or at their end, and whether
// there is any other.
func (t *Task) Time() (w int64, active bool) { return t.TimeWithout(-1) }

// TimeWithout is Time without a source, as others see it.
func (t *Task) TimeWithout(source int) (w int64, active bool) {
	w = math.MaxInt64
	for i := range t.sources {
		if s := &t.sources[i]; i != source && s.streams() && !s.idle && s.told != math.MaxInt64 {
			w, active = min(w, s.told), true
		}
	}
	return w, active
}

// reach is how far an idle source may follow that could follow as far as before.
func (t *Task) reach(before int64) int64 {
	if w, active := t.Time(); active {
		return max(before, w)
	}
	return before
}

// UsesTime says whether anything in the task, or behind the repartition topics that it writes, uses event time.
func (t *Task) UsesTime() bool { return len(t.inst.Clocks) > 0 || t.Reports() }

// Reports says whether the task reports its watermark to anybody.
func (t *Task) Reports() bool {
	return slices.ContainsFunc(t.cfg.Sub.Sinks, func(s graph.Sink) bool { return s.Repartition && !s.NoReports })
}

// turn takes in that sources have fallen idle, or woken up.
func (t *Task) turn() {
	if t.turned {
		t.turned = false
		t.idles = 0
		for i := range t.sources {
			if t.sources[i].idle {
				t.idles++
			}
		}
		t.lookDue = true
	}
	t.follow()
}

// follow lets idle sources come along with the others.
func (t *Task) follow() {
	if t.idles == 0 {
		return
	}
	w, known, active := int64(math.MaxInt64), int64(math.MaxInt64), false
	for i := range t.sources {
		switch s := &t.sources[i]; {
		case s.streams() && !s.idle:
			w, active = min(w, s.told), true
		case s.streams() && s.told != graph.Unknown && s.told != math.MaxInt64:
			known = min(known, s.told)
		}
	}
	rests := false
	if !active {
		if w = t.now - t.cfg.AdvanceWhenIdle; t.cfg.AdvanceWhenIdle <= 0 {
			w, rests = known, true // all rest; only those that never had anything come along
		}
	}
	if w == graph.Unknown || rests && w == math.MaxInt64 {
		return
	}
	for i := range t.sources {
		s := &t.sources[i]
		if !s.idle || rests && s.told != graph.Unknown {
			continue
		}
		at := w
		if active {
			at = min(at, s.leave)
		}
		if s.tell(at) {
			t.lookDue = true
		}
	}
}

// resting says that none of the task's streams has anything to read, or will have without somebody else.
func (t *Task) resting() bool {
	if t.idles == 0 || t.cfg.AdvanceWhenIdle > 0 {
		return false
	}
	for i := range t.sources {
		if s := &t.sources[i]; s.streams() && !s.idle && s.told != math.MaxInt64 {
			return false
		}
	}
	return true
}

// missing says that the task should not go on without a source from which there is nothing at hand: something is in it, or it may yet
// come within MaxTaskIdle.
func (t *Task) missing(s *source) bool {
	switch {
	case s.cfg.Absent:
		return false
	case s.pushed < s.end:
		return true
	case t.cfg.MaxTaskIdle <= 0 || s.idle:
		return false
	}
	if s.missed == never {
		s.missed = t.now
	}
	return t.now-s.missed < t.cfg.MaxTaskIdle
}
