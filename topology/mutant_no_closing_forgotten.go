//go:build !mutant_closing_forgotten

package topology

// closingForgotten is a planted bug, for proving that the simulation finds it: a restart forgets how far the closing of windows had come.
const closingForgotten = false
