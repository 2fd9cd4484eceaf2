//go:build mutant_closed_late

package window

const closedLate = true
