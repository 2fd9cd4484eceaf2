package window

import (
	"errors"
	"fmt"
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

// First implements [Windows].
func (f Fixed) First(t int64) int64 {
	// A window ends behind t iff start > t−size: the first start is the smallest
	// multiple of advance behind t−size.
	behind := f.firstBehind(subSat(t, f.sizeMs))
	if t >= 0 && behind < 0 {
		return 0
	}
	return behind
}

// Next implements [Windows].
func (f Fixed) Next(start int64) int64 {
	if start > math.MaxInt64-f.advanceMs {
		return start // there is none
	}
	return start + f.advanceMs
}

// End implements [Windows].
func (f Fixed) End(start int64) int64 { return addSat(start, f.sizeMs) }

// firstBehind returns the smallest multiple of advance that is greater than t.
// It does not overflow: t is at least a size, and so an advance, below MaxInt64.
func (f Fixed) firstBehind(t int64) int64 {
	return t + (f.advanceMs - floorMod(t, f.advanceMs))
}
