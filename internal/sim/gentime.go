package sim

import (
	"time"

	"github.com/headrace/headrace/internal/sim/oracle"
	"github.com/headrace/headrace/window"
)

// past is what an aggregate has to know of the windows in front of it.
type past struct {
	horizon int64 // for how long they send corrections,
	upserts bool  // which replace what there was,
	back    bool  // or take it back first
	fronts  []oracle.Node
}

func (p past) or(o past) past {
	return past{max(p.horizon, o.horizon), p.upserts || o.upserts, p.back || o.back, append(p.fronts[:len(p.fronts):len(p.fronts)], o.fronts...)}
}

// behindTotal is what is left of it behind an aggregate that has no windows: its results are as late.
func (p past) behindTotal() past { return past{horizon: p.horizon, fronts: p.fronts} }

// needs is for how long the windows of a node must correct.
func (p past) needs(n *oracle.Node) (need int64) {
	for i := range p.fronts {
		f := &p.fronts[i]
		if f.Joins() || n.Joins() {
			need = max(need, f.Correct)
			continue
		}
		need = max(need, window.Behind(windowsOf(f), windowsOf(n), f.Correct)-n.Grace)
	}
	return need
}

// time is a number of units below n.
func (g *topologyDraw) time(n int) int64 { return int64(g.r.IntN(n)) * g.unit }

// calendar makes time run in quarters of an hour or longer, from a little before clocks are changed.
func (g *topologyDraw) calendar() {
	z := []struct {
		name string
		at   time.Time
	}{
		{"Europe/Berlin", time.Date(2013, 3, 31, 1, 0, 0, 0, time.UTC)},
		{"America/New_York", time.Date(2013, 11, 3, 6, 0, 0, 0, time.UTC)},
		{"America/Sao_Paulo", time.Date(2017, 10, 15, 3, 0, 0, 0, time.UTC)}, // no midnight
		{"America/Havana", time.Date(2013, 11, 3, 5, 0, 0, 0, time.UTC)},     // midnight twice
		{"Pacific/Apia", time.Date(2011, 12, 30, 10, 0, 0, 0, time.UTC)},     // a date left out
		{"Australia/Lord_Howe", time.Date(2013, 10, 5, 15, 30, 0, 0, time.UTC)},
		{"UTC", time.Date(2016, 2, 28, 0, 0, 0, 0, time.UTC)},
	}[g.r.IntN(7)]
	g.zone, g.unit = z.name, int64(1+g.r.IntN(8))*15*time.Minute.Milliseconds()
	g.from = z.at.UnixMilli() - int64(g.r.IntN(100))*g.unit
}

// aggregate adds an aggregate, or two of which the second has the windows of the first for keys.
func (g *topologyDraw) aggregate(e end) end {
	node, past := g.fold(e, g.chance(80), false)
	n := &g.spec.Nodes[node]
	if n.Windowed() && !n.Joins() && g.chance(25) {
		g.to(node)
		node, past = g.fold(end{node: node, past: past, behind: true}, true, true)
	}
	g.to(node)
	windowed := g.spec.Nodes[node].Windowed()
	e.behind = e.behind || windowed
	e.node, e.keyed, e.oneToOne, e.past = g.add(oracle.Node{Kind: oracle.Changes, In: []int{node}}), !windowed, false, past
	return e
}

// sums adds a sum over all windows.
func (g *topologyDraw) sums(e end) end {
	e = g.repartition(e)
	e.node = g.add(g.failing(oracle.Node{Kind: oracle.Total, In: []int{e.node}, Name: g.name("agg"), Accept: e.past.upserts}))
	g.to(e.node)
	return end{node: g.add(oracle.Node{Kind: oracle.Changes, In: []int{e.node}}), keyed: true, matches: e.matches, past: e.past.behindTotal(), behind: true}
}

// fold adds one aggregate.
func (g *topologyDraw) fold(e end, windowed, inner bool) (node int, p past) {
	kinds := []oracle.Kind{oracle.Aggregate, oracle.Aggregate, oracle.Reduce, oracle.OrDelete, oracle.Total, oracle.Total}
	n := oracle.Node{Kind: kinds[g.r.IntN(len(kinds))], In: []int{e.node}, Name: g.name("agg")}
	if e.past.back {
		n.Kind = oracle.Total
	}
	n.Accept = e.past.upserts
	p = e.past.behindTotal()
	if windowed {
		p = past{}
		if !e.past.back && !inner && g.chance(22) {
			g.sessions(&n)
		} else {
			g.windows(&n)
		}
		if g.chance(40) {
			n.Correct, n.Retract = g.unit+g.time(150), g.chance(50)
		}
		if need := e.past.needs(&n); n.Correct < need && !n.Accept {
			if g.chance(20) {
				n.Accept = true
			} else {
				n.Correct = need + g.time(30)
			}
		}
		g.emission(&n)
		n.ByChannel = !e.behind && g.chance(25)
		if e.oneToOne && g.chance(55) {
			n.Sideline = g.name("late")
		}
		if n.Correct > 0 || n.TakesBack() || n.Early > 0 || n.EarlyCount > 0 {
			p = past{horizon: n.Correct, upserts: !n.TakesBack() && !n.Discard, back: n.TakesBack()}
		}
		if n.Correct > 0 {
			p.fronts = []oracle.Node{n}
		}
	}
	return g.add(g.failing(n)), p
}

// sessions draws sessions. Their aggregates have to merge.
func (g *topologyDraw) sessions(n *oracle.Node) {
	n.Win, n.Size, n.Grace = oracle.Sessions, 2*g.unit+g.time(20), g.time(20)
	if g.chance(40) {
		n.Win = oracle.SessionsBy
	}
	if n.Kind = oracle.Reduce; g.chance(60) {
		n.Kind = oracle.Total
	}
}

// windows draws windows.
func (g *topologyDraw) windows(n *oracle.Node) {
	n.Size = 5*g.unit + g.time(60)
	n.Advance = n.Size
	switch k := g.r.IntN(100); {
	case g.zone != "" && k < 75:
		n.Win, n.Zone = []string{oracle.Daily, oracle.Daily, oracle.Daily, oracle.Weekly, oracle.Monthly}[g.r.IntN(5)], g.zone
		if n.Win == oracle.Weekly {
			n.First = g.r.IntN(7)
		}
		n.Size, n.Advance = 0, 0
	case k < 40:
	case k < 72:
		n.Advance = max(g.unit, n.Size/(1+int64(g.r.IntN(4)))-g.time(3))
	case k < 87:
		n.Win, n.Advance = oracle.Gaps, n.Size+g.unit+g.time(40)
	case k < 94:
		n.Win, n.Size, n.Advance = oracle.Global, 0, 0
		return // without grace
	}
	if g.chance(60) {
		n.Grace = g.time(40)
	}
}

// emission draws when results come.
func (g *topologyDraw) emission(n *oracle.Node) {
	if g.chance(40) && n.Win != oracle.Global {
		n.Retracting = g.chance(15)
		return
	}
	if g.chance(35) || n.Win == oracle.Global && g.chance(60) {
		n.Early = g.unit + g.time(80)
	}
	if g.chance(30) {
		n.EarlyCount = 1 + g.r.IntN(4)
	}
	switch several := n.Early > 0 || n.EarlyCount > 0 || n.Correct > 0; {
	case !several:
		n.Final = g.chance(40)
	case g.chance(30):
		n.Retracting = true
	case g.chance(35):
		n.Discard = !n.Retract && !n.Joins()
	}
	n.OnClose = !n.Final && (n.Early == 0 && n.EarlyCount == 0 || g.chance(20))
}
