package window

import (
	"iter"
	"math"
)

// Definition is a way to divide a stream by time: [Windows], and what is not
// made of fixed intervals. The functions of this package make those that there
// are; Windows can be implemented by anybody.
type Definition interface {
	// GraceMillis is how long after the watermark has reached a window's end it
	// closes, in milliseconds.
	GraceMillis() int64
	// Validate reports what is wrong with the definition.
	Validate() error
	// String describes it for people.
	String() string
}

// Windows are intervals on the time line that do not depend on the records. A
// window is named by its start, inclusive; its end, exclusive, follows from the
// start, and both ascend together: of two windows the one that starts later does
// not end earlier. Windows may overlap and may leave gaps.
//
// [Tumbling], [Hopping], [Daily], [Weekly], [Monthly] and [Global] make them. An
// implementation of one's own must be immutable and deterministic, since a
// restart computes the same windows again, and is called for every record, from
// several goroutines. Kafka Streams: Windows.
type Windows interface {
	Definition
	// First returns the start of the earliest window that ends behind t. The
	// windows that t belongs to begin with it: those that start at t at the latest.
	First(t int64) int64
	// Next returns the start of the window behind the one that begins at start. A
	// value that is not larger than start says that there is none.
	Next(start int64) int64
	// End returns the end of the window that begins at start, larger than start.
	End(start int64) int64
}

// Starts ranges over the starts of the windows that t belongs to, ascending. It
// does not allocate.
func Starts(w Windows, t int64) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for s := w.First(t); s <= t; {
			if !yield(s) {
				return
			}
			next := w.Next(s)
			if next <= s {
				return
			}
			s = next
		}
	}
}

// Closed reports whether the window that begins at start is closed at watermark
// wm: whether wm ≥ end + grace. A record for it is late then. Judge before the
// record moves the watermark.
func Closed(w Windows, start, wm int64) bool {
	if closedLate {
		return wm > addSat(w.End(start), w.GraceMillis())
	}
	return wm >= addSat(w.End(start), w.GraceMillis())
}

// Hold returns the start of the earliest window that is not closed at watermark
// wm, whether or not anything is in it: the smallest timestamp that a result can
// still have, at which an operator holds the watermark it passes on. It never
// falls when wm rises, is never above wm, and is [Unknown] for [Unknown]. At
// MaxInt64, the end of all streams, all windows are closed and it is MaxInt64.
func Hold(w Windows, wm int64) int64 {
	grace := w.GraceMillis()
	if holdNoGrace {
		grace = 0
	}
	return Open(w, wm, grace)
}

// Open is Hold for windows that stay open for grace milliseconds, whatever their
// own is: the start of the earliest window with end + grace > wm, and never above wm.
func Open(w Windows, wm, grace int64) int64 {
	if wm == math.MaxInt64 || wm == Unknown {
		return wm
	}
	t := subSat(wm, grace)
	if t == math.MinInt64 {
		return t
	}
	return min(w.First(t), wm)
}
