package window

import "math"

// Everything is the one window of [Global].
type Everything struct{}

// Global makes one window that holds every timestamp from 0 on and never closes,
// but at the end of all streams: for aggregates that give early results. Kafka
// Streams: UnlimitedWindows. Flink: GlobalWindows.
func Global() Everything { return Everything{} }

// First implements [Windows].
func (Everything) First(int64) int64 { return 0 }

// Next implements [Windows]: there is none.
func (Everything) Next(start int64) int64 { return start }

// End implements [Windows].
func (Everything) End(int64) int64 { return math.MaxInt64 }

// GraceMillis implements [Definition].
func (Everything) GraceMillis() int64 { return 0 }

// Validate implements [Definition].
func (Everything) Validate() error { return nil }

// String returns "global".
func (Everything) String() string { return "global" }
