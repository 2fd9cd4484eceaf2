//go:build !mutant_repartition_time

package engine

// timeFromRecords is a planted bug, for proving that the demo's checker finds it: the watermark of a repartition partition is made
// from its records' own timestamps, and not from what their writers report.
const timeFromRecords = false
