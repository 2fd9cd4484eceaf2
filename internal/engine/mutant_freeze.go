//go:build !mutant_no_freeze

package engine

// setApart freezes the overlay. A planted bug does not, for proving that a checker finds it.
func (t *Task) setApart() { t.txn.Freeze() }
