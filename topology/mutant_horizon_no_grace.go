//go:build mutant_horizon_no_grace

package topology

const horizonNoGrace = true
