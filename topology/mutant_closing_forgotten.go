//go:build mutant_closing_forgotten

package topology

const closingForgotten = true
