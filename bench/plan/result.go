package plan

import (
	"maps"
	"slices"
)

// Result is what one run of a peer has shown. Its outputs were right, else there is none.
type Result struct {
	Work    string
	Variant string // of a row beside the targets: "4 partitions"; else empty
	Peer    Peer
	Values  map[Metric]float64
}

// Summary is the runs of one row.
type Summary struct {
	Min, Median, Max float64
	Runs             int
}

// Summarize returns the summary of what the runs have for a metric, and false if none has it.
func Summarize(results []Result, m Metric) (Summary, bool) {
	var all []float64
	for _, r := range results {
		if v, ok := r.Values[m]; ok {
			all = append(all, v)
		}
	}
	if len(all) == 0 {
		return Summary{}, false
	}
	slices.Sort(all)
	n := len(all)
	median := all[n/2]
	if n%2 == 0 {
		median = (all[n/2-1] + all[n/2]) / 2
	}
	return Summary{all[0], median, all[n-1], n}, true
}

// Of returns the runs of a peer at a work.
func Of(results []Result, work, variant string, p Peer) []Result {
	var found []Result
	for _, r := range results {
		if r.Work == work && r.Variant == variant && r.Peer == p {
			found = append(found, r)
		}
	}
	return found
}

// Copy returns a result that shares nothing.
func (r Result) Copy() Result {
	r.Values = maps.Clone(r.Values)
	return r
}
