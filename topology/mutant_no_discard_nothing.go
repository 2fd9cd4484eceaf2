//go:build !mutant_discard_nothing

package topology

// discardNothing is a planted bug, for proving that the simulation finds it: what was given is not discarded after a correction.
const discardNothing = false
