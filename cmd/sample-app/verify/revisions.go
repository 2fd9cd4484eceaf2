package verify

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// A history is what was put out for one window, one behind the other.
type history struct {
	last  result
	added []int64 // the delays of the flights that came as corrections
}

// checkRevisions puts the results together to histories. A revision has the next number and exactly one more flight; the first result
// of a window has the number 0, and is a correction itself if it came when the window had closed.
func (c *Checker) checkRevisions(results []result, rep *Report, found *faults) map[windowKey]*history {
	all := map[windowKey]*history{}
	for _, r := range results {
		if r.bad != "" {
			found.add(wrong, "bad result", r.bad)
			continue
		}
		h := all[r.key]
		switch {
		case h == nil && r.revision > 0:
			found.add(wrong, "revision of nothing", fmt.Sprintf("window %v begins with revision %d", r.key, r.revision))
		case h == nil:
		case r.revision == 0:
			found.add(extra, "doubled window", fmt.Sprintf("window %v is doubled: count %d, then count %d", r.key, h.last.value.Count, r.value.Count))
			continue
		case r.revision <= h.last.revision:
			found.add(extra, "doubled revision", fmt.Sprintf("window %v has revision %d behind revision %d", r.key, r.revision, h.last.revision))
			continue
		case r.revision > h.last.revision+1:
			found.add(wrong, "missing revision", fmt.Sprintf("window %v goes from revision %d to %d", r.key, h.last.revision, r.revision))
		case !r.late:
			found.add(wrong, "revision in time", fmt.Sprintf("revision %d of window %v does not say that it is late", r.revision, r.key))
		}
		if h == nil {
			h = &history{}
			all[r.key] = h
		}
		if r.revision > 0 || r.late {
			before := h.last.value
			if fault := revisionFault(before, r.value); fault != "" {
				found.add(wrong, "wrong revision", fmt.Sprintf("revision %d of window %v is wrong: %s", r.revision, r.key, fault))
			}
			h.added = append(h.added, r.value.Sum-before.Sum)
			rep.Corrections = append(rep.Corrections, Correction{
				Airport: r.key.airport, City: r.value.City, Start: r.key.start, End: r.key.end(), Revision: r.revision,
				Delay: r.value.Sum - before.Sum, CountBefore: before.Count, MeanBefore: before.Mean, Count: r.value.Count, Mean: r.value.Mean,
			})
		}
		h.last = r
	}
	return all
}

// revisionFault says how a revision is not the result before it with one more flight, or nothing.
func revisionFault(before, v resultValue) string {
	delay := v.Sum - before.Sum
	longest := delay
	if before.Count > 0 {
		longest = max(longest, before.Max)
	}
	switch {
	case v.Count != before.Count+1:
		return fmt.Sprintf("count %d behind count %d, one more is one correction", v.Count, before.Count)
	case v.Max != longest:
		return fmt.Sprintf("max %d behind max %d, with a delay of %d", v.Max, before.Max, delay)
	case !(math.Abs(v.Mean-float64(v.Sum)/float64(v.Count)) <= 1e-9):
		return fmt.Sprintf("mean %v of sum %d and count %d", v.Mean, v.Sum, v.Count)
	}
	return ""
}

// checkCorrected compares the delays of the flights that came as corrections with those of the flights that could, and had to. Flights of
// one window with the same delay cannot be told apart, so they are counted.
func (c *Checker) checkCorrected(seen map[windowKey]*history, want map[windowKey]*answer, rep *Report, found *faults) {
	type of struct {
		key   windowKey
		delay int64
	}
	came, could, had := map[of]int{}, map[of]int{}, map[of]int{}
	for key, h := range seen {
		for _, d := range h.added {
			came[of{key, d}]++
		}
	}
	for key, a := range want {
		for _, row := range a.rows {
			f := &c.flights[row-1]
			if at := (of{key, int64(f.delay)}); f.mayLate {
				could[at]++
				if f.mustLate && !f.must { // where it had to be sidelined, that has been told
					had[at]++
				}
			}
		}
	}
	order := func(a, b of) int {
		if n := a.key.compare(b.key); n != 0 {
			return n
		}
		return int(a.delay - b.delay)
	}
	for _, at := range slices.SortedFunc(maps.Keys(came), order) {
		for range came[at] - could[at] {
			found.add(extra, "corrected in time", fmt.Sprintf("window %v was corrected by a flight with a delay of %d that could not be late", at.key, at.delay))
		}
	}
	for _, at := range slices.SortedFunc(maps.Keys(had), order) {
		for range had[at] - came[at] {
			if seen[at.key] != nil && c.opts.LatenessChecked { // a window that is missing is told as such
				found.add(missing, "late but no correction", fmt.Sprintf("window %v has a flight with a delay of %d that had to come as a correction, and did not", at.key, at.delay))
			}
		}
	}
}
