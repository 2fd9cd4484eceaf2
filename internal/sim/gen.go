package sim

import (
	"fmt"
	"math/rand/v2"

	"github.com/headrace/headrace/internal/engine"
	"github.com/headrace/headrace/internal/sim/oracle"
)

// Draw makes the case of a seed.
func Draw(seed uint64) (*Case, error) {
	r := rand.New(rand.NewPCG(seed, 0x73696d))
	c := &Case{Seed: seed, Workers: 2 + r.IntN(2), Keep: KeepCopy, Fetch: 1 + r.IntN(20)}
	switch n := r.IntN(20); {
	case n < 3:
		c.Keep = KeepPebble
	case n < 6:
		c.Keep = KeepNothing
	}
	g := &topologyDraw{r: r, parts: 1 + int32(r.IntN(3)), unit: 1}
	if g.chance(16) {
		g.calendar()
	}
	g.calm = g.chance(20)
	g.draw()
	c.Spec = g.spec
	w, err := newWorld(&Case{Spec: c.Spec, Keep: KeepNothing}) // to know the tasks
	if err != nil {
		return nil, fmt.Errorf("sim: the topology of seed %d: %w", seed, err)
	}
	d := &scheduleDraw{r: r, c: c, bad: g.bad, unit: g.unit, at: max(g.from, 1000)}
	for _, t := range w.tasks {
		d.tasks = append(d.tasks, t.id)
	}
	d.draw()
	return c, nil
}

// topologyDraw draws a topology.
type topologyDraw struct {
	r     *rand.Rand
	spec  oracle.Spec
	parts int32
	bad   []byte // letters in use
	names int
	table int    // node, -1 if there is none
	unit  int64  // all durations of event time are multiples of it
	zone  string // of calendars; empty if there are none
	from  int64
	calm  bool // nothing fails: for the laws, which do not hold otherwise
}

// end is the end of a stream that is being made.
type end struct {
	node     int
	keyed    bool
	oneToOne bool // a sideline may write what the task has read
	matches  bool // has as many partitions as the table
	past     past
	behind   bool // a repartition topic
}

func (g *topologyDraw) chance(percent int) bool { return g.r.IntN(100) < percent }

func (g *topologyDraw) name(prefix string) string {
	g.names++
	return fmt.Sprintf("%s%d", prefix, g.names)
}

func (g *topologyDraw) add(n oracle.Node) int {
	g.spec.Nodes = append(g.spec.Nodes, n)
	return len(g.spec.Nodes) - 1
}

func (g *topologyDraw) policy() oracle.Policy {
	return []oracle.Policy{oracle.Inherit, oracle.Fail, oracle.Skip, oracle.DeadLetter}[g.r.IntN(4)]
}

// badLetters are those that mean nothing else.
const badLetters = "abceghijklnopqrs"

// failing makes a node one that may fail.
func (g *topologyDraw) failing(n oracle.Node) oracle.Node {
	if g.calm || !g.chance(40) || len(g.bad) == len(badLetters) {
		return n
	}
	n.Bad = badLetters[len(g.bad)]
	g.bad = append(g.bad, n.Bad)
	n.Policy = g.policy()
	n.Panic = n.Kind != oracle.FlatMap && n.Kind != oracle.Process || g.chance(30)
	return n
}

func (g *topologyDraw) draw() {
	g.spec.Policy = g.policy()
	g.table = -1
	source := func(name string, parts int32) oracle.Node {
		n := oracle.Node{Kind: oracle.Source, Name: name, Parts: parts, Policy: g.policy(), OwnTime: g.chance(25), KeepNulls: g.chance(25)}
		if g.chance(60) {
			n.Disorder = g.time(40)
		}
		if g.chance(20) {
			n.Gen = []string{oracle.Punctuate, oracle.Second}[g.r.IntN(2)]
		}
		if n.OwnTime && g.chance(50) {
			n.Future = 100*g.unit + g.time(200)
			if g.chance(50) {
				n.Sideline = g.name("future")
			}
		}
		return n
	}
	e := end{node: g.add(source("in", g.parts)), keyed: true, oneToOne: true, matches: true}
	if g.chance(45) {
		g.table = g.add(oracle.Node{Kind: oracle.Table, Name: "tab", Store: "tab-store", Parts: g.parts, Policy: g.policy(), Disorder: g.time(20)})
		if g.chance(30) {
			g.to(g.add(oracle.Node{Kind: oracle.Changes, In: []int{g.table}}))
		}
	}
	if g.chance(30) {
		parts := g.parts
		if g.chance(25) {
			parts = 1 + int32(g.r.IntN(3))
		}
		other := end{node: g.add(source("in2", parts)), keyed: true, oneToOne: true, matches: true}
		if g.chance(50) {
			other = g.stateless(other)
		}
		e = g.merge(e, other)
		if parts != g.parts { // no keyed operator may see both
			e = g.repartition(e)
		}
	} else if g.chance(15) { // two ways to one place
		e = g.merge(g.stateless(e), g.stateless(e))
	}
	if g.chance(25) {
		g.to(e.node)
	}
	for range 1 + g.r.IntN(4) {
		switch {
		case e.past.back && g.chance(60):
			e = g.sums(e)
		case e.past.horizon > 0 && g.chance(40):
			if !e.keyed {
				e = g.repartition(e)
			}
			e = g.aggregate(e)
		default:
			e = g.stage(e)
		}
		if g.chance(15) {
			g.to(e.node)
		}
	}
	g.to(e.node)
}

func (g *topologyDraw) to(node int) {
	n := oracle.Node{Kind: oracle.To, In: []int{node}, Name: g.name("out")}
	if g.chance(25) {
		n.Policy = g.policy()
	}
	if p := n.Policy; !g.calm && g.chance(20) && p != oracle.Fail && (p != oracle.Inherit || g.spec.Policy != oracle.Fail && g.spec.Policy != oracle.Inherit) {
		n.Limit = 8 + g.r.IntN(70) // what is over it stays so: under Fail the application would never get on
	}
	g.add(n)
}

func (g *topologyDraw) merge(a, b end) end {
	return end{
		node: g.add(oracle.Node{Kind: oracle.Merge, In: []int{a.node, b.node}}), keyed: a.keyed && b.keyed, oneToOne: a.oneToOne && b.oneToOne,
		matches: a.matches && b.matches, past: a.past.or(b.past), behind: a.behind || b.behind,
	}
}

// stateless adds an operator without a store that keeps the key.
func (g *topologyDraw) stateless(e end) end {
	kind := oracle.Filter
	if g.chance(50) {
		kind = oracle.MapValues
	}
	e.node = g.add(g.failing(oracle.Node{Kind: kind, In: []int{e.node}}))
	return e
}

func (g *topologyDraw) repartition(e end) end {
	n := oracle.Node{Kind: oracle.GroupBy, In: []int{e.node}, Name: g.name("by")}
	if g.chance(40) {
		n.Kind = oracle.Repartition
		if g.chance(40) {
			n.Parts = 1 + int32(g.r.IntN(3))
		}
	}
	return end{node: g.add(n), keyed: true, oneToOne: true, matches: n.Parts == 0, past: e.past, behind: true}
}

// stage adds an operator of some weight.
func (g *topologyDraw) stage(e end) end {
	if !e.keyed && g.chance(70) {
		e = g.repartition(e)
	}
	switch n := g.r.IntN(100); {
	case n < 10:
		return g.stateless(e)
	case n < 18:
		kind := oracle.Map
		if g.chance(60) {
			kind, e.oneToOne = oracle.FlatMap, false
		}
		e.node, e.keyed = g.add(g.failing(oracle.Node{Kind: kind, In: []int{e.node}})), false
		return e
	case n < 28:
		return g.repartition(e)
	case !e.keyed:
		e.node, e.oneToOne = g.add(g.failing(oracle.Node{Kind: oracle.Process, In: []int{e.node}, Name: g.name("proc")})), false
		return e
	case n < 43 && g.table >= 0 && e.matches:
		kind := oracle.Join
		if g.chance(50) {
			kind = oracle.LeftJoin
		}
		e.node = g.add(g.failing(oracle.Node{Kind: kind, In: []int{e.node, g.table}}))
		return e
	case n < 58:
		p := g.failing(oracle.Node{Kind: oracle.Process, In: []int{e.node}, Name: g.name("proc"), Store: g.name("kept")})
		if g.chance(60) {
			p.Every = 10*g.unit + g.time(100)
		}
		wall := g.chance(25)
		if wall {
			p.Wall = 1000 + int64(g.r.IntN(4000))
		}
		e.node, e.keyed, e.oneToOne = g.add(p), false, false
		if wall { // what it makes comes between other things that are due: only a topic may be behind it
			g.to(e.node)
			return g.restart(e)
		}
		return e
	}
	return g.aggregate(e)
}

// restart goes on from the first source.
func (g *topologyDraw) restart(end) end {
	return g.repartition(end{node: 0, keyed: true, oneToOne: true})
}

// scheduleDraw draws what happens.
type scheduleDraw struct {
	r     *rand.Rand
	c     *Case
	bad   []byte
	tasks []engine.TaskID
	ids   int
	at    int64 // event time, about
	idle  map[tp]bool
	wide  bool
	unit  int64
}

func (d *scheduleDraw) chance(percent int) bool { return d.r.IntN(100) < percent }

func (d *scheduleDraw) op(op Op) { d.c.Ops = append(d.c.Ops, op) }

func (d *scheduleDraw) someTask() engine.TaskID { return d.tasks[d.r.IntN(len(d.tasks))] }

func (d *scheduleDraw) draw() {
	d.idle = map[tp]bool{}
	var sources []*oracle.Node
	for i := range d.c.Spec.Nodes {
		n := &d.c.Spec.Nodes[i]
		if n.Kind == oracle.Source || n.Kind == oracle.Table {
			sources = append(sources, n)
			for p := range n.Parts {
				if d.chance(8) {
					d.idle[tp{n.Name, p}] = true
				}
			}
		}
	}
	d.op(Op{Do: Assign})
	pushes, pause := 30+d.r.IntN(90), 0
	if d.r.IntN(100) == 0 { // so many keys in a window that its closing takes several looks into the store
		d.wide, pushes = true, 600
	}
	for pushes > 0 || pause > 0 {
		if n := min(pushes, d.r.IntN(8)); n > 0 && pause == 0 {
			for range n {
				d.push(sources[d.r.IntN(len(sources))])
			}
			pushes -= n
			pause = d.r.IntN(8)
		}
		pause = max(0, pause-1)
		d.happen()
	}
}

// happen draws one op that is no push.
func (d *scheduleDraw) happen() {
	worker := d.r.IntN(d.c.Workers)
	n := d.r.IntN(100)
	switch {
	case n < 58:
		d.op(Op{Do: Step, Task: d.someTask(), N: 1 + d.r.IntN(8), Budget: 1 + d.r.IntN(12)})
	case n < 68:
		op := Op{Do: TakeOff, Worker: worker}
		if d.chance(6) {
			op.Crash, op.N = true, d.r.IntN(8)
		}
		d.op(op)
	case n < 82:
		op := Op{Do: Land, Worker: worker}
		if d.chance(7) {
			op.Crash, op.N = true, d.r.IntN(3)
		}
		d.op(op)
	case n < 85:
		d.op(Op{Do: Abort, Worker: worker})
	case n < 87:
		d.op(Op{Do: Crash, Worker: worker})
	case n < 90:
		op := Op{Do: Move, Task: d.someTask(), Worker: worker}
		if d.chance(20) {
			op.Crash, op.N = true, d.r.IntN(3)
		}
		d.op(op)
	case n < 93:
		d.op(Op{Do: Assign, Worker: worker})
	case n < 95:
		d.op(Op{Do: Flush, Task: d.someTask()})
	case n < 97:
		d.op(Op{Do: Compact, Task: d.someTask()})
	case n < 99:
		d.op(Op{Do: Trim, Task: d.someTask()})
	default:
		if d.chance(50) {
			d.op(Op{Do: Pass, N: d.r.IntN(5000)})
			break
		}
		t := d.someTask()
		d.op(Op{Do: Compact, Task: t})
		d.op(Op{Do: Pass, N: day * (1 + d.r.IntN(10))}) // long enough for tombstones to go, and somebody comes back
		d.op(Op{Do: Compact, Task: t})
		d.op(Op{Do: Move, Task: t, Worker: worker})
	}
}

// time is a number of units below n.
func (d *scheduleDraw) time(n int) int64 { return int64(d.r.IntN(n)) * d.unit }

const letters = "fddt"

// push draws a record.
func (d *scheduleDraw) push(n *oracle.Node) {
	part := int32(d.r.IntN(int(n.Parts)))
	if d.idle[tp{n.Name, part}] {
		return
	}
	if d.at += d.time(8); d.wide {
		d.at -= 3 * d.unit
	}
	switch {
	case d.chance(2):
		d.at += 200*d.unit + d.time(300)
	case d.r.IntN(300) == 0:
		d.at += day
	case d.r.IntN(600) == 0:
		d.at += 1_000_000_000_000
	}
	at := max(0, d.at-d.time(30))
	if d.chance(15) {
		at = max(0, d.at-d.time(300))
	}
	d.ids++
	v := fmt.Sprint(d.ids)
	if len(d.bad) > 0 && d.chance(12) {
		v += string(d.bad[d.r.IntN(len(d.bad))])
	}
	if d.chance(25) {
		v += string(letters[d.r.IntN(len(letters))])
	}
	if n.Gen == oracle.Punctuate && d.chance(40) {
		v += "w"
	}
	op := Op{Do: Push, Topic: n.Name, Part: part, At: at}
	mayBeBad := n.Policy != oracle.Fail && (n.Policy != oracle.Inherit || d.c.Spec.Policy != oracle.Fail && d.c.Spec.Policy != oracle.Inherit)
	if mayBeBad && d.chance(3) {
		at = -5
	}
	if n.OwnTime {
		op.At = int64(d.r.IntN(1000))
		if n.Future > 0 {
			op.At = max(0, at)
			if d.chance(5) {
				at = op.At + n.Future - d.unit + d.time(200)
			}
		}
		v += fmt.Sprint("@", at)
	} else {
		op.At = at
	}
	if mayBeBad && d.chance(4) {
		v = "x" + v
	}
	op.Key, op.Value = []byte{"klmnop"[d.r.IntN(6)]}, []byte(v)
	if d.wide {
		op.Key = fmt.Append(nil, "k", d.r.IntN(500))
	}
	if d.chance(5) {
		op.Key = nil
	}
	if null := 4; d.chance(null) || n.Kind == oracle.Table && d.chance(20) {
		op.Value = nil
	}
	switch m := d.r.IntN(20); {
	case m < 2:
		op.How = Aborted
	case m < 4:
		op.How = Committed
	}
	d.op(op)
	if d.chance(4) { // and once more
		d.op(op)
	}
}

// jumps says whether event time jumps in the input, and idles whether a partition of it stays empty.
func (c *Case) jumps() bool {
	var last int64
	for i := range c.Ops {
		op := &c.Ops[i]
		if op.Do != Push {
			continue
		}
		at := max(op.At, oracle.TimeOf(string(op.Value)))
		if last > 0 && at > last+190 {
			return true
		}
		last = max(last, at)
	}
	return false
}

func (c *Case) idles() bool {
	used := map[tp]bool{}
	for i := range c.Ops {
		used[tp{c.Ops[i].Topic, c.Ops[i].Part}] = true
	}
	for _, n := range c.Spec.Nodes {
		for p := range n.Parts {
			if n.Kind == oracle.Source && !used[tp{n.Name, p}] {
				return true
			}
		}
	}
	return false
}
