//go:build mutant_one_short

package restore

const oneShort = true
