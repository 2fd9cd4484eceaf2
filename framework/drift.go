package framework

import "math"

// align tells tasks how far the least advanced of their sub-topology is on this worker: with MaxDrift they do not run away from it, since
// what they write would have to be kept further down until that one has come as far. Tasks of other sub-topologies are no measure: they
// come after, or have nothing to do with it. A task that is being made holds nobody up.
func (w *worker) align() {
	if w.app.set.MaxDrift <= 0 {
		return
	}
	for i, t := range w.running {
		if i > 0 && w.running[i-1].sub == t.sub {
			continue // they are in order: done with the first
		}
		floor := int64(math.MaxInt64)
		same := w.running[i:]
		for j, o := range same {
			if o.sub != t.sub {
				same = same[:j]
				break
			}
			if at, active := o.run.Time(); active {
				floor = min(floor, at)
			}
		}
		for _, o := range same {
			o.run.SetFloor(floor)
		}
	}
}
