//go:build !mutant_forward_early

package topology

// forwardEarly is a planted bug, for proving that the simulation finds it: a windowed operator lets the watermark go on while windows that it has closed are still in the store.
const forwardEarly = false
