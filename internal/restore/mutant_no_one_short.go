//go:build !mutant_one_short

package restore

// oneShort is a planted bug, for proving that the simulation finds it: a restore to an offset leaves out the record before it.
const oneShort = false
