//go:build !mutant_hold_no_grace

package window

// holdNoGrace is a planted bug, for proving that the simulation finds it: what is told to the next operator leaves the grace out.
const holdNoGrace = false
