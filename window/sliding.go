package window

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// SlidingWindows describes windows that slide with the records: for each record
// of a key there is one that ends at it, and one that begins behind it, if
// anything is in that. [Sliding] makes it.
//
// Windows have one length, and both their bounds are inclusive: with a difference
// d the windows of a record at t are [t−d, t] and [t+1, t+1+d]. So any two records
// that are at most d apart are in one window. As in Kafka Streams no timestamp of
// 0 or later is in a window that begins before 0: the window that ends at one
// before d is [0, d] instead.
//
// A window [start, end] closes when end plus grace lie before the watermark. A
// record is late for the windows that have closed and goes into the others, of
// which the last ends d behind it.
//
// It is a value, may be compared with ==, and is safe for concurrent use. The zero
// SlidingWindows is not valid. Kafka Streams: SlidingWindows.
type SlidingWindows struct {
	diff, grace     time.Duration
	diffMs, graceMs int64
}

// Sliding makes windows of records that are at most diff apart, without grace.
func Sliding(diff time.Duration) SlidingWindows {
	return SlidingWindows{diff: diff, diffMs: millis(diff)}
}

// Grace returns the same windows, closing d later.
func (s SlidingWindows) Grace(d time.Duration) SlidingWindows {
	s.grace, s.graceMs = d, millis(d)
	return s
}

// DiffMillis is the difference in milliseconds.
func (s SlidingWindows) DiffMillis() int64 { return s.diffMs }

// GraceMillis is the grace in milliseconds.
func (s SlidingWindows) GraceMillis() int64 { return s.graceMs }

// Validate reports a difference that is not positive, a negative grace, a fraction of a millisecond.
func (s SlidingWindows) Validate() error {
	if err := errors.Join(checkMillis("difference", s.diff, time.Millisecond), checkMillis("grace", s.grace, 0)); err != nil {
		return fmt.Errorf("window: %v: %w", s, err)
	}
	return nil
}

// String returns, for example, "sliding(5s) grace 10s".
func (s SlidingWindows) String() string {
	text := fmt.Sprintf("sliding(%v)", s.diff)
	if s.grace != 0 {
		text += fmt.Sprintf(" grace %v", s.grace)
	}
	return text
}

// Start returns the start of the window that ends at ts: of the earliest that holds ts.
func (s SlidingWindows) Start(ts int64) int64 {
	start := subSat(ts, s.diffMs)
	if ts >= 0 && start < 0 {
		return 0
	}
	return start
}

// End returns the end of the window that begins at start. It is inclusive.
func (s SlidingWindows) End(start int64) int64 { return addSat(start, s.diffMs) }

// Closed reports whether the window that begins at start is closed at watermark w.
func (s SlidingWindows) Closed(start, w int64) bool {
	return w == math.MaxInt64 || addSat(s.End(start), s.graceMs) < w
}

// ClosedBelow returns the start of the earliest window that is not closed at
// watermark w, and so the smallest timestamp that a result can still have: an
// operator holds the watermark that it passes on there. It is [Unknown] for
// Unknown, and MaxInt64 for MaxInt64, where all windows are closed.
func (s SlidingWindows) ClosedBelow(w int64) int64 {
	if w == math.MaxInt64 {
		return w
	}
	return subSat(w, s.diffMs+s.graceMs)
}

// Late reports whether a record at ts is late at watermark w for every window that
// it could be in. Judge before the record moves the watermark.
func (s SlidingWindows) Late(ts, w int64) bool { return s.Closed(ts, w) }

// From returns the start of the earliest window that a record at ts needs: those
// of the records that may be in a window with it tell what is in its own.
func (s SlidingWindows) From(ts int64) int64 {
	from := subSat(ts, 2*s.diffMs)
	if ts >= 0 && from < 0 {
		return 0
	}
	return from
}

// KeptFrom returns the start of the earliest window that a record which is not
// late at watermark w can need: see From.
func (s SlidingWindows) KeptFrom(w int64) int64 {
	if w == math.MaxInt64 {
		return w
	}
	return subSat(w, 3*s.diffMs+s.graceMs)
}

// Slide is a window of a key, as [SlidingWindows.Place] needs to know it.
type Slide struct {
	Start  int64
	Latest int64 // the largest timestamp in it
}

// Placing says what a record does to the windows of its key. Indexes are those of
// the windows that Place was given.
type Placing struct {
	// From and To are the windows that hold the record already by their bounds: it is to be added to each.
	From, To int
	// Left is the window that ends at the record, to be made if NewLeft: of what the window at LeftOf has in it,
	// or of nothing if that is -1, and of the record.
	Left    int64
	NewLeft bool
	LeftOf  int
	// Before, if NewBefore, is the window behind the last record that lies before this one. Nothing but the record is in it.
	Before    int64
	NewBefore bool
	// Right, if NewRight, is the window behind the record: it has what the window at RightOf had without the record.
	Right    int64
	NewRight bool
	RightOf  int
}

// Place says in which windows a record at ts goes, and which ones there have to be
// from then on. windows are all those of its key that begin at From(ts) or later
// and at ts+1 at the latest, in order of their start, also those that have closed:
// what was in them may be in one that has not.
func (s SlidingWindows) Place(windows []Slide, ts int64) Placing {
	p := Placing{Left: s.Start(ts), NewLeft: true, LeftOf: -1, RightOf: -1, Right: addSat(ts, 1)}
	behind := ts < math.MaxInt64 // there is a window behind the record
	before, has := int64(0), false
	for i, w := range windows {
		end := s.End(w.Start)
		switch {
		case end < ts:
			// The last of them has all that is before ts and not before Left, and nothing else if it has any of that: had it, there
			// would be a window behind that other record, and it would be later.
			p.LeftOf = i
			p.From, p.To = i+1, i+1
		case w.Start <= ts:
			p.To = i + 1
			if w.Start == p.Left {
				p.NewLeft = false
			}
			p.RightOf = i // the last of them, for the same reason
		default:
			behind = false // there already
		}
		if (end < ts || w.Start == p.Left) && w.Latest < ts && (!has || w.Latest > before) {
			before, has = w.Latest, true
		}
	}
	if p.LeftOf >= 0 && windows[p.LeftOf].Latest < p.Left {
		p.LeftOf = -1
	}
	if p.NewRight = behind && p.RightOf >= 0 && windows[p.RightOf].Latest > ts; !p.NewRight {
		p.RightOf = -1
	}
	if has && ts <= s.End(before+1) {
		p.Before, p.NewBefore = before+1, before+1 != p.Left
		for i := 0; i < p.To && p.NewBefore; i++ {
			p.NewBefore = windows[i].Start != p.Before
		}
	}
	return p
}
