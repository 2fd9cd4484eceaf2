//go:build mutant_time_first

package engine

const timeFirst = true
