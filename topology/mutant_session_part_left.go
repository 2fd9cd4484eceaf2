//go:build mutant_session_part_left

package topology

const sessionPartLeft = true
