package window

import (
	"fmt"
	"time"
)

// Watermarks makes the watermark of a partition from the timestamps seen in it:
// a function of the records alone, in their order, so that a replay comes to the
// same watermark. The zero value is [Monotonic]. It is a value, may be compared
// with ==, and is safe for concurrent use.
//
// Kafka Streams has stream time, which is Monotonic.
type Watermarks struct {
	disorder   time.Duration
	disorderMs int64
}

// BoundedDisorder makes watermarks for streams in which a record comes at most d
// of event time behind a later one: W is the largest timestamp seen minus d. A
// record at exactly that distance is still expected.
func BoundedDisorder(d time.Duration) Watermarks {
	return Watermarks{disorder: d, disorderMs: millis(d)}
}

// Monotonic makes watermarks for streams in order: W is the largest timestamp
// seen. It is BoundedDisorder(0).
func Monotonic() Watermarks { return Watermarks{} }

// After returns the watermark after a largest timestamp of maxTs, and Unknown
// for Unknown.
func (m Watermarks) After(maxTs int64) int64 { return subSat(maxTs, m.disorderMs) }

// DisorderMillis is the disorder in milliseconds.
func (m Watermarks) DisorderMillis() int64 { return m.disorderMs }

// Validate reports a disorder that is negative or not in whole milliseconds.
func (m Watermarks) Validate() error {
	if err := checkMillis("disorder", m.disorder, 0); err != nil {
		return fmt.Errorf("window: watermarks: %w", err)
	}
	return nil
}

// String returns, for example, "bounded-disorder(15m0s)" or "monotonic".
func (m Watermarks) String() string {
	if m.disorder == 0 {
		return "monotonic"
	}
	return fmt.Sprintf("bounded-disorder(%v)", m.disorder)
}
