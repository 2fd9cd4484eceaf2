package engine

import (
	"math"

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
func (t *Task) SetIdle(source int, idle bool) {
	s := &t.sources[source]
	if s.plan.Repartition || s.cfg.Absent || s.idle == idle || idle && s.waits() {
		return
	}
	s.idle = idle
	t.turned = true
}

// waits says that something of the source is queued.
func (s *source) waits() bool { return s.decoded || s.q.len() > 0 }

// SetEnd says where a partition ends: as long as what is before that has not been pushed, the task waits for it rather than go on with
// later records of other inputs.
func (t *Task) SetEnd(source int, end int64) {
	s := &t.sources[source]
	s.end = max(s.end, end)
}

// Pass says that nothing is in a partition from what was pushed up to an offset: compaction has left nothing there.
func (t *Task) Pass(source int, to int64) {
	s := &t.sources[source]
	s.pushed = max(s.pushed, to)
}

// Time is how far the task has come: the smallest of what its inputs have told, those aside that are idle or at their end, and whether
// there is any other.
func (t *Task) Time() (w int64, active bool) {
	w = math.MaxInt64
	for i := range t.sources {
		if s := &t.sources[i]; s.streams() && !s.idle && s.told != math.MaxInt64 {
			w, active = min(w, s.told), true
		}
	}
	return w, active
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
	w, active := int64(math.MaxInt64), false
	for i := range t.sources {
		if s := &t.sources[i]; s.streams() && !s.idle {
			w, active = min(w, s.told), true
		}
	}
	if !active {
		if t.cfg.AdvanceWhenIdle <= 0 {
			return // all rest
		}
		w = t.now - t.cfg.AdvanceWhenIdle
	}
	if w == graph.Unknown {
		return
	}
	for i := range t.sources {
		if s := &t.sources[i]; s.idle && s.tell(w) {
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
