//go:build !mutant_closed_late

package window

// closedLate is a planted bug, for proving that the simulation finds it: a window takes records for a millisecond after it has closed.
const closedLate = false
