//go:build !mutant_session_part_left

package topology

// sessionPartLeft is a planted bug, for proving that the simulation finds it: the result of a session that another has absorbed is not taken back.
const sessionPartLeft = false
