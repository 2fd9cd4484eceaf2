//go:build !mutant_back_from_changelog

package topology

// backFromChangelog is a planted bug, for proving that the simulation finds it: windows that had closed, and that a restore brings back, stay.
const backFromChangelog = false
