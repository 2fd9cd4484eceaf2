//go:build mutant_hold_no_grace

package window

const holdNoGrace = true
