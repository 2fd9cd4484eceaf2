//go:build !mutant_take_back_new

package topology

// takeBackNew is a planted bug, for proving that the simulation finds it: a retraction has the value that is new, and not the one that was
// given.
const takeBackNew = false
