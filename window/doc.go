// Package window is windows as arithmetic: which windows a timestamp belongs
// to, when they close, how far a watermark has come, and what happens to what
// is late. It holds no state and knows no clock.
//
// Timestamps, starts, ends and watermarks are int64 Unix milliseconds.
// Durations are time.Duration in whole milliseconds; Validate says so where
// they are not. Sums and differences stop at the ends of int64 instead of
// wrapping round.
//
// Three numbers are kept apart, besides the size. The disorder B belongs to the watermark: W is
// the largest timestamp seen minus B, and says that nothing below W is expected
// any more. It is an exclusive bound: a record at exactly W is still expected.
// The grace g belongs to the window: [start, end) closes when W reaches end + g.
// Then its final result is due and a record for it is late. The late policy
// says what becomes of such a record. The horizon h belongs to that policy: with
// [CorrectWithin] a late record corrects the result until W reaches end + g + h.
//
// A watermark begins at [Unknown], below every timestamp. That of an operator is
// the smallest over all input partitions that feed it, so a partition without a
// record keeps it at Unknown: no window closes and nothing is late until every
// partition has had one, or is idle. A partition that falls quiet holds the
// watermark where it is until it is idle. Idle is a partition of which the broker
// has had nothing for a while, the IdleAfter of the application's Config; it comes
// along with the others, and never takes a watermark back when it wakes up.
//
// For Kafka Streams W is the stream time, B is 0, g is the grace and h is 0.
// Flink's watermark is inclusive: its t is W − 1 here, g is 0, and h is the
// allowed lateness.
package window

import (
	"fmt"
	"math"
	"time"
)

// Unknown is the watermark, and the largest timestamp, of a stream of which
// nothing was seen yet.
const Unknown int64 = math.MinInt64

// addSat adds d ≥ 0 to t, at most MaxInt64.
func addSat(t, d int64) int64 {
	if t > math.MaxInt64-d {
		return math.MaxInt64
	}
	return t + d
}

// subSat subtracts d ≥ 0 from t, at least MinInt64.
func subSat(t, d int64) int64 {
	if t < math.MinInt64+d {
		return math.MinInt64
	}
	return t - d
}

// floorMod is t modulo m, between 0 and m−1 for negative t, too. It is 0 for an m
// that Validate refuses.
func floorMod(t, m int64) int64 {
	if m <= 0 {
		return 0
	}
	r := t % m
	if r < 0 {
		r += m
	}
	return r
}

// millis is d in milliseconds and never negative; Validate reports those that were.
func millis(d time.Duration) int64 { return max(0, d.Milliseconds()) }

// checkMillis reports a duration that is below least or has a fraction of a millisecond.
func checkMillis(what string, d, least time.Duration) error {
	switch {
	case d < least && least > 0:
		return fmt.Errorf("%s is %v, want at least %v", what, d, least)
	case d < 0:
		return fmt.Errorf("%s is %v, want 0 or more", what, d)
	case d%time.Millisecond != 0:
		return fmt.Errorf("%s is %v, want whole milliseconds", what, d)
	}
	return nil
}
