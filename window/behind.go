package window

import "math"

// Behind returns how long windows w must take records in after their end, by grace and correction together, if those in front of them send
// corrections for horizon: for no correction to be too late there. All in milliseconds.
//
// That is as long as the horizon, where the windows behind end when those in front do, or later: days behind hours. Otherwise one may have
// ended before the one in front closes, and what the front tells of event time when its last correction comes is, at most, the start of its
// first window that is open then: minutes behind hours. It is reckoned for 2048 windows in front from the year 2020 on, after which windows
// repeat themselves, or nearly so. Where windows never end it is 0.
func Behind(front, w Windows, horizon int64) int64 {
	need, ends := horizon, false
	start := front.First(sampledFrom)
	for range sampled {
		end, first := front.End(start), w.End(w.First(start)) // first: of what a result of the front may go into, the first to end
		ends = ends || first < math.MaxInt64
		if end < math.MaxInt64-horizon && first < math.MaxInt64 {
			if told := front.First(end + horizon - 1); told < math.MaxInt64 {
				need = max(need, told-first+1)
			}
		}
		next := front.Next(start)
		if next <= start {
			break
		}
		start = next
	}
	if !ends {
		return 0
	}
	return need
}

const (
	sampledFrom = 1_577_836_800_000
	sampled     = 2048
)
