// Package simrun simulates the whole runtime: several apps on a broker in memory, in virtual time, under a schedule of faults.
//
// A schedule is a [Trace]: what happens to whom, and when. It is drawn from a seed, and is all that a run is told; goroutines still take
// turns as they like, so one trace is a family of runs and not one. What was met in the runs is counted ([Coverage]), because a simulator that
// meets nothing finds nothing.
//
// The runs themselves are in the tests of this package: they need a synctest bubble. scripts/simulate-runtime.sh starts them.
package simrun
