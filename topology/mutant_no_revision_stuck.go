//go:build !mutant_revision_stuck

package topology

// revisionStuck is a planted bug, for proving that the simulation finds it: a correction has the revision of the result before it.
const revisionStuck = false
