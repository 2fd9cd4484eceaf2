//go:build !mutant_stale_kept

package restore

// staleKept is a planted bug, for proving that the tests find it: a store whose position is before the start of the log goes on from there.
const staleKept = false
