package window

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Sessions describes windows that activity makes: records of a key that follow
// each other within a gap are one session, and a gap that is reached exactly
// still joins. A session begins at its first timestamp and ends at its last one,
// so both bounds are inclusive. [Session] and [SessionBy] make it.
//
// A record opens a session that reaches from its timestamp to a gap behind it,
// and absorbs every session of its key that this touches. With a gap of its own
// for each record, the reach of a session is the furthest that any of its records
// has.
//
// A record is late when its timestamp, gap and grace lie before the watermark. A
// session closes when its last timestamp, twice the gap and the grace do: a record
// that is not late may still come one gap in front of the earliest that may, and a
// session one gap before that would have to take it in. So what has closed is
// final, and what was accepted gives the sessions that a batch over it would.
// Where the gap is each record's own, its bound takes the place of the gap, and
// the reach that of the last timestamp and the first of the two gaps.
//
// It is a value, may be compared with ==, and is safe for concurrent use. The zero
// Sessions is not valid. Kafka Streams: SessionWindows, which closes one gap
// earlier, and so closes sessions that it extends later.
type Sessions struct {
	gap, grace     time.Duration
	gapMs, graceMs int64
	own            bool // gap is the bound of gaps that each record has
}

// Session makes sessions that end when nothing came for longer than gap, without grace.
func Session(gap time.Duration) Sessions { return Sessions{gap: gap, gapMs: millis(gap)} }

// Grace returns the same sessions, with late records accepted and sessions closing d later.
func (s Sessions) Grace(d time.Duration) Sessions {
	s.grace, s.graceMs = d, millis(d)
	return s
}

// GapMillis is the gap in milliseconds, or the bound of the gaps.
func (s Sessions) GapMillis() int64 { return s.gapMs }

// GraceMillis is the grace in milliseconds.
func (s Sessions) GraceMillis() int64 { return s.graceMs }

// Validate reports a gap that is not positive, a negative grace, a fraction of a millisecond.
func (s Sessions) Validate() error {
	what := "gap"
	if s.own {
		what = "largest gap"
	}
	if err := errors.Join(checkMillis(what, s.gap, time.Millisecond), checkMillis("grace", s.grace, 0)); err != nil {
		return fmt.Errorf("window: %v: %w", s, err)
	}
	return nil
}

// String returns, for example, "session(30s) grace 10s", and "session(by record, at most 30s)".
func (s Sessions) String() string {
	text := fmt.Sprintf("session(%v)", s.gap)
	if s.own {
		text = fmt.Sprintf("session(by record, at most %v)", s.gap)
	}
	if s.grace != 0 {
		text += fmt.Sprintf(" grace %v", s.grace)
	}
	return text
}

// Late reports whether a record at ts is late at watermark w: it could belong to a
// session that has closed. Judge before the record moves the watermark.
func (s Sessions) Late(ts, w int64) bool {
	return w == math.MaxInt64 || addSat(ts, s.gapMs+s.graceMs) < w
}

// Reach returns how far a record at ts with this gap reaches: up to where it
// would be joined by another one.
func (s Sessions) Reach(ts, gap int64) int64 { return addSat(ts, gap) }

// Closed reports whether a session that reaches this far is closed at watermark w:
// no record that is not late can touch it.
func (s Sessions) Closed(reach, w int64) bool {
	if sessionGapOnce {
		return w == math.MaxInt64 || addSat(reach, s.graceMs) < w
	}
	return w == math.MaxInt64 || addSat(reach, s.gapMs+s.graceMs) < w
}

// ClosedBelow returns the smallest reach of a session that is not closed at
// watermark w: all those that reach less far are closed. At MaxInt64 even the
// furthest is, and the result is MaxInt64.
func (s Sessions) ClosedBelow(w int64) int64 {
	if w == math.MaxInt64 {
		return w
	}
	if sessionGapOnce {
		return subSat(w, s.graceMs)
	}
	return subSat(w, s.gapMs+s.graceMs)
}

// Hold returns the smallest timestamp that a result can still have at watermark w:
// the last timestamp of the earliest session that may be open. An operator holds
// the watermark that it passes on there. It is [Unknown] for Unknown, and MaxInt64
// for MaxInt64.
func (s Sessions) Hold(w int64) int64 {
	if w == math.MaxInt64 {
		return w
	}
	return subSat(w, 2*s.gapMs+s.graceMs)
}

// SessionsBy are [Sessions] whose gap is each record's own. [SessionBy] makes it.
type SessionsBy[V any] struct {
	Sessions
	gap func(V) time.Duration
}

// SessionBy makes sessions with a gap for each record, which gap computes from its
// value: a record reaches from its timestamp to its gap behind it, and joins what
// reaches that far back, or is reached by what lies before it. No gap may be
// larger than most, which stands in for the gap where sessions close and records
// become late; fractions of a millisecond are left out. gap must give the same for
// the same value at any time, since a restart may compute it again. It is called
// once for each record, on the task's goroutine. Flink: SessionWindowTimeGapExtractor.
func SessionBy[V any](gap func(V) time.Duration, most time.Duration) SessionsBy[V] {
	return SessionsBy[V]{Sessions: Sessions{gap: most, gapMs: millis(most), own: true}, gap: gap}
}

// Grace returns the same sessions, with late records accepted and sessions closing d later.
func (s SessionsBy[V]) Grace(d time.Duration) SessionsBy[V] {
	s.Sessions = s.Sessions.Grace(d)
	return s
}

// Validate reports what Sessions does, and a missing function.
func (s SessionsBy[V]) Validate() error {
	if s.gap == nil {
		return errors.Join(errors.New("window: SessionBy: no function that gives the gaps"), s.Sessions.Validate())
	}
	return s.Sessions.Validate()
}

// GapOf returns the gap of a value in milliseconds. A negative one and one over the
// bound are errors: the value's, not the stream's.
func (s SessionsBy[V]) GapOf(v V) (int64, error) {
	d := s.gap(v)
	switch {
	case d < 0:
		return 0, fmt.Errorf("window: SessionBy: the gap of the record is %v, want 0 or more", d)
	case d > s.Sessions.gap:
		return 0, fmt.Errorf("window: SessionBy: the gap of the record is %v, more than the bound of %v", d, s.Sessions.gap)
	}
	return d.Milliseconds(), nil
}
