//go:build mutant_forward_early

package topology

const forwardEarly = true
