//go:build !mutant_horizon_no_grace

package topology

// horizonNoGrace is a planted bug, for proving that the simulation finds it: the horizon of corrections begins at the end of a window, and not when
// it closes.
const horizonNoGrace = false
