//go:build !mutant_session_gap_once

package window

// sessionGapOnce is a planted bug, for proving that the simulation finds it: a session closes one gap too early, as in Kafka Streams.
const sessionGapOnce = false
