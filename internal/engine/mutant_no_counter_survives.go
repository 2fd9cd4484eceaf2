//go:build !mutant_counter_survives

package engine

// survive and survived are a planted bug, for proving that a checker finds it: a counter outlives the task when its transaction is
// aborted.
func (*Task) survive() {}

func survived(TaskID) int64 { return 0 }
