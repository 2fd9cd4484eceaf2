//go:build !mutant_clock_forgotten

package engine

// clockForgotten is a planted bug, for proving that the simulation finds it: the time of an input partition is forgotten at a restart.
const clockForgotten = false
