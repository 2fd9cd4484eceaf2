//go:build mutant_stale_kept

package restore

const staleKept = true
