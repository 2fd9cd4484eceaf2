//go:build !mutant_time_first

package engine

// timeFirst is a planted bug, for proving that the simulation finds it: a record moves the watermark before it is judged by it.
const timeFirst = false
