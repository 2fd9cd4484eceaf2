//go:build mutant_timers_forgotten

package topology

const timersForgotten = true
