package window

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"time"
)

// Fixed describes windows of one size that begin at multiples of one advance
// since the epoch, start inclusive, end exclusive. [Tumbling] and [Hopping] make
// it. It is a value, may be compared with ==, and is safe for concurrent use.
//
// A timestamp of 0 or later belongs to no window that starts before 0, as in
// Kafka Streams, so the first hopping windows are fewer. A negative timestamp
// has windows by the same arithmetic, with negative starts; Kafka Streams gives
// it none.
//
// The zero Fixed is not valid; see [Fixed.Validate]. Kafka Streams: TimeWindows.
type Fixed struct {
	size, advance, grace       time.Duration
	sizeMs, advanceMs, graceMs int64
}

// Tumbling makes windows of this size, one behind the other, without grace:
// each timestamp belongs to one.
func Tumbling(size time.Duration) Fixed { return Hopping(size, size) }

// Hopping makes windows of this size, one beginning every advance, without
// grace: where advance is smaller than size they overlap and a timestamp belongs
// to several.
func Hopping(size, advance time.Duration) Fixed {
	f := Fixed{size: size, advance: advance, sizeMs: millis(size)}
	f.advanceMs = min(millis(advance), f.sizeMs) // what overflows nowhere below
	return f
}

// Grace returns the same windows, closing d after the watermark has reached
// their end. The default is 0.
func (f Fixed) Grace(d time.Duration) Fixed {
	f.grace, f.graceMs = d, millis(d)
	return f
}

// SizeMillis is the size in milliseconds.
func (f Fixed) SizeMillis() int64 { return f.sizeMs }

// AdvanceMillis is the distance between two starts in milliseconds; tumbling
// windows have their size here.
func (f Fixed) AdvanceMillis() int64 { return f.advanceMs }

// GraceMillis is the grace in milliseconds.
func (f Fixed) GraceMillis() int64 { return f.graceMs }

// Validate reports all that is wrong: a size that is not positive, an advance
// outside (0, size], a negative grace, a fraction of a millisecond. The other
// methods do not panic on such a value, but mean nothing.
func (f Fixed) Validate() error {
	errs := []error{
		checkMillis("size", f.size, time.Millisecond),
		checkMillis("advance", f.advance, time.Millisecond),
		checkMillis("grace", f.grace, 0),
	}
	if f.advance > f.size {
		errs = append(errs, fmt.Errorf("advance %v is larger than size %v, and would leave gaps between the windows", f.advance, f.size))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("window: %v: %w", f, err)
	}
	return nil
}

// String returns, for example, "tumbling(1m0s)" or "hopping(5s, 1s) grace 10s".
func (f Fixed) String() string {
	s := fmt.Sprintf("hopping(%v, %v)", f.size, f.advance)
	if f.advance == f.size {
		s = fmt.Sprintf("tumbling(%v)", f.size)
	}
	if f.grace != 0 {
		s += fmt.Sprintf(" grace %v", f.grace)
	}
	return s
}

// First returns the start of the earliest window that ts belongs to. The later
// ones begin an advance apart, up to and including ts.
func (f Fixed) First(ts int64) int64 {
	// A window holds ts iff ts−size < start ≤ ts: the first start is the
	// smallest multiple of advance behind ts−size.
	behind := f.firstBehind(subSat(ts, f.sizeMs))
	if ts >= 0 && behind < 0 {
		return 0
	}
	return behind
}

// Starts ranges over the starts of the windows that ts belongs to, ascending.
// It does not allocate.
func (f Fixed) Starts(ts int64) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for s := f.First(ts); s <= ts; s += f.advanceMs {
			// The check comes before the addition: the next start may not fit in an int64.
			if !yield(s) || ts-s < f.advanceMs || f.advanceMs <= 0 {
				return
			}
		}
	}
}

// End returns the end of the window that begins at start.
func (f Fixed) End(start int64) int64 { return addSat(start, f.sizeMs) }

// Closed reports whether the window that begins at start is closed at watermark
// w: whether w ≥ end + grace. A record for it is late then. Judge before the
// record moves the watermark.
func (f Fixed) Closed(start, w int64) bool {
	if closedLate {
		return w > addSat(f.End(start), f.graceMs)
	}
	return w >= addSat(f.End(start), f.graceMs)
}

// Hold returns the start of the earliest window that is not closed at watermark
// w, whether or not anything is in it: the smallest timestamp that a result can
// still have, at which an operator holds the watermark it passes on. It never
// falls when w rises, is never above w, and is [Unknown] for [Unknown]. At
// MaxInt64, the end of all streams, all windows are closed and it is MaxInt64.
func (f Fixed) Hold(w int64) int64 {
	if w == math.MaxInt64 {
		return w
	}
	// Not closed iff w < start+size+grace: the smallest multiple of advance
	// behind w−size−grace. Where that difference does not fit, nor does the start.
	behind := subSat(subSat(w, f.sizeMs), f.graceMs)
	if holdNoGrace {
		behind = subSat(w, f.sizeMs)
	}
	if behind == math.MinInt64 {
		return behind
	}
	return f.firstBehind(behind)
}

// firstBehind returns the smallest multiple of advance that is greater than t.
// It does not overflow: t is at least a size, and so an advance, below MaxInt64.
func (f Fixed) firstBehind(t int64) int64 {
	return t + (f.advanceMs - floorMod(t, f.advanceMs))
}
