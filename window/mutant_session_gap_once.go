//go:build mutant_session_gap_once

package window

const sessionGapOnce = true
