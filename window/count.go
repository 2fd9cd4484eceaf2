package window

import (
	"fmt"
	"math"
)

// CountWindows are n records of a key each, in the order in which they come,
// whatever their event time: nothing is ever late for them. [Count] makes it. A
// window closes with its nth record; one that is not full stays open.
//
// In a [Key], Start is how many records of the key came before, and End what
// Start is for the next window.
//
// Flink: countWindow. Kafka Streams has none.
type CountWindows struct{ n int }

// Count makes windows of n records.
func Count(n int) CountWindows { return CountWindows{n: n} }

// Records is how many records a window has.
func (c CountWindows) Records() int { return c.n }

// End returns the end of the window that begins at start.
func (c CountWindows) End(start int64) int64 { return addSat(start, max(0, int64(c.n))) }

// GraceMillis implements [Definition]: there is none.
func (c CountWindows) GraceMillis() int64 { return 0 }

// Validate reports a number of records below 1, or too many to be counted.
func (c CountWindows) Validate() error {
	if c.n < 1 || int64(c.n) > math.MaxInt32 {
		return fmt.Errorf("window: %v: a window has from 1 to %d records", c, math.MaxInt32)
	}
	return nil
}

// String returns, for example, "count(100)".
func (c CountWindows) String() string { return fmt.Sprintf("count(%d)", c.n) }
