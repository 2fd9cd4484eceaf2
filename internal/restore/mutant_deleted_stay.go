//go:build mutant_deleted_stay

package restore

const deletedStay = true
