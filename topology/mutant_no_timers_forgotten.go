//go:build !mutant_timers_forgotten

package topology

// timersForgotten is a planted bug, for proving that the simulation finds it: when a punctuation is due is forgotten at a restart.
const timersForgotten = false
