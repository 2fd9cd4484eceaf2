//go:build mutant_clock_forgotten

package engine

const clockForgotten = true
