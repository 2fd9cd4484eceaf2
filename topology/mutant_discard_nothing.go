//go:build mutant_discard_nothing

package topology

const discardNothing = true
