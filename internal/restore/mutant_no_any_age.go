//go:build !mutant_any_age

package restore

// anyAge is a planted bug, for proving that the tests find it: the position of a store may be older than tombstones are kept.
const anyAge = false
