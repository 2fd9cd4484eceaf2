//go:build mutant_repartition_time

package engine

const timeFromRecords = true
