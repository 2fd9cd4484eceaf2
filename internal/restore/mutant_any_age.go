//go:build mutant_any_age

package restore

const anyAge = true
