//go:build !mutant_deleted_stay

package restore

// deletedStay is a planted bug, for proving that the simulation finds it: a restore takes no notice of tombstones.
const deletedStay = false
