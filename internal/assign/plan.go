package assign

import (
	"cmp"
	"slices"
)

// plan is an assignment in the making. Members are indexes from here on.
type plan struct {
	members   []Member
	instances []instance
	given     [][]ID
	of        []map[int]int // how many tasks of each sub-topology were given
	load      []int         // how many of all tasks are owned now
}

// instance is a range of members.
type instance struct{ from, to int }

// place gives away one class of tasks, on top of what has been given. Each member's quota is the even share of both together, or
// one more; members keep what they own up to their quota, and the rest goes where there is room.
func (p *plan) place(tasks []ID, owner map[ID]int) {
	owned := make([][]ID, len(p.members))
	var loose []ID
	for _, id := range tasks {
		if m, ok := owner[id]; ok {
			owned[m] = append(owned[m], id)
		} else {
			loose = append(loose, id)
		}
	}
	quota := p.quotas(owned, len(tasks))
	for m := range owned {
		keep, evicted := shrink(owned[m], quota[m]-len(p.given[m]))
		for _, id := range keep {
			p.give(m, id)
		}
		loose = append(loose, evicted...)
	}
	slices.SortFunc(loose, ID.compare)
	for _, id := range loose {
		best := -1
		for m := range p.members {
			room := quota[m] - len(p.given[m])
			if room <= 0 {
				continue
			}
			if best < 0 || cmp.Or(
				cmp.Compare(p.of[m][id.SubTopology], p.of[best][id.SubTopology]),
				cmp.Compare(quota[best]-len(p.given[best]), room),
			) < 0 {
				best = m
			}
		}
		p.give(best, id)
	}
}

func (p *plan) give(m int, id ID) {
	p.given[m] = append(p.given[m], id)
	p.of[m][id.SubTopology]++
}

// quotas says how many tasks each member has in the end, when n more are given to those that own them. They sum up to all tasks.
//
// Dividing evenly leaves a rest of fewer tasks than members: the extras. A member over the even share saves one move if it gets
// an extra, any other none, so members over it come first as far as the spread over instances allows.
func (p *plan) quotas(owned [][]ID, n int) []int {
	for _, g := range p.given {
		n += len(g)
	}
	base, extras := n/len(p.members), n%len(p.members)
	quota := make([]int, len(p.members))
	forced := func(m int) bool { return len(p.given[m]) > base } // by the class before, which left nobody above base+1
	over := func(m int) bool { return len(p.given[m])+len(owned[m]) > base }

	// An instance has at most one extra for each of its members. Nobody gets its second before all that can have got their first.
	has := make([]int, len(p.instances))
	saves := make([]int, len(p.instances))
	load := make([]int, len(p.instances))
	for i, in := range p.instances {
		for m := in.from; m < in.to; m++ {
			if forced(m) {
				has[i]++
				extras--
			}
			if over(m) {
				saves[i]++
			}
			load[i] += p.load[m]
		}
	}
	for extras > 0 {
		var round []int
		for i, in := range p.instances {
			switch {
			case has[i] == in.to-in.from:
			case len(round) == 0 || has[i] < has[round[0]]:
				round = append(round[:0], i)
			case has[i] == has[round[0]]:
				round = append(round, i)
			}
		}
		slices.SortStableFunc(round, func(a, b int) int {
			return cmp.Or(first(saves[a] > has[a], saves[b] > has[b]), cmp.Compare(load[a], load[b]))
		})
		for _, i := range round[:min(extras, len(round))] {
			has[i]++
			extras--
		}
	}

	for i, in := range p.instances {
		var order []int
		for m := in.from; m < in.to; m++ {
			order = append(order, m)
			quota[m] = base
		}
		slices.SortStableFunc(order, func(a, b int) int {
			return cmp.Or(first(forced(a), forced(b)), first(over(a), over(b)), cmp.Compare(p.load[a], p.load[b]))
		})
		for _, m := range order[:has[i]] {
			quota[m]++
		}
	}
	return quota
}

// first sorts what is true before what is not.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// shrink takes tasks away, in ascending order as given, until n are left: always the last one of the sub-topology with the most.
func shrink(ids []ID, n int) (keep, evicted []ID) {
	count := map[int]int{}
	for _, id := range ids {
		count[id.SubTopology]++
	}
	keep = slices.Clone(ids)
	for len(keep) > max(n, 0) {
		most := len(keep) - 1
		for i := len(keep) - 1; i >= 0; i-- {
			if count[keep[i].SubTopology] > count[keep[most].SubTopology] {
				most = i
			}
		}
		evicted = append(evicted, keep[most])
		count[keep[most].SubTopology]--
		keep = slices.Delete(keep, most, most+1)
	}
	return keep, evicted
}
