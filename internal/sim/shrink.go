package sim

import (
	"errors"
	"slices"

	"github.com/headrace/headrace/internal/sim/oracle"
)

// Differs says whether an error of Run is a difference, and not a mistake of the simulator or a case that cannot be run.
func Differs(err error) bool {
	var d difference
	return errors.As(err, &d)
}

// Shrink takes from a case that differs what can be taken so that it still does: first of what happens, then of the topology. It stops
// after so many runs.
func Shrink(c *Case, runs int) *Case {
	s := shrinker{best: c, left: runs}
	for before := -1; before != s.left && s.left > 0; {
		before = s.left
		size := len(s.best.Ops) + len(s.best.Spec.Nodes)
		s.ops()
		s.nodes()
		s.fields()
		if len(s.best.Ops)+len(s.best.Spec.Nodes) == size {
			break
		}
	}
	return s.best
}

type shrinker struct {
	best *Case
	left int
}

// try keeps a smaller case if it still differs.
func (s *shrinker) try(c *Case) bool {
	if s.left == 0 {
		return false
	}
	s.left--
	if _, err := Run(c); !Differs(err) {
		return false
	}
	s.best = c
	return true
}

func (s *shrinker) ops() {
	for n := max(1, len(s.best.Ops)/2); ; n /= 2 {
		for at := 0; at < len(s.best.Ops); {
			c := *s.best
			c.Ops = slices.Delete(slices.Clone(c.Ops), at, min(at+n, len(c.Ops)))
			if !s.try(&c) {
				at += n
			}
		}
		if n == 1 {
			return
		}
	}
}

// nodes takes operators out that nothing is behind of, and joins what is around one that has a stream on both sides.
func (s *shrinker) nodes() {
	for i := len(s.best.Spec.Nodes) - 1; i > 0; i-- {
		if s.without(i, -1) {
			continue
		}
		if in := s.best.Spec.Nodes[i].In; len(in) > 0 {
			s.without(i, in[0])
		}
	}
}

// without tries the topology without a node; what was behind it is then behind instead.
func (s *shrinker) without(node, instead int) bool {
	c := *s.best
	c.Spec.Nodes = nil
	for i, n := range s.best.Spec.Nodes {
		if i == node {
			continue
		}
		n.In = slices.Clone(n.In)
		for k, in := range n.In {
			switch {
			case in == node && instead < 0:
				return false
			case in == node:
				in = instead
			}
			if in > node {
				in--
			}
			n.In[k] = in
		}
		c.Spec.Nodes = append(c.Spec.Nodes, n)
	}
	if !connected(&c.Spec) {
		return false
	}
	return s.try(&c)
}

// connected says whether every operator has what it needs: the DSL would not compile otherwise.
func connected(s *oracle.Spec) bool {
	stream := func(i int) bool {
		switch s.Nodes[i].Kind {
		case oracle.Table, oracle.To:
			return false
		}
		return !s.Nodes[i].Folds()
	}
	for _, n := range s.Nodes {
		for k, in := range n.In {
			joins := k == 1 && (n.Kind == oracle.Join || n.Kind == oracle.LeftJoin)
			if joins != (s.Nodes[in].Kind == oracle.Table) && n.Kind != oracle.Changes && n.Kind != oracle.To {
				return false
			}
			again := n.Windowed() && s.Nodes[in].Windowed() // windows of windows, twice at most
			if again && len(s.Nodes[in].In) > 0 && s.Nodes[s.Nodes[in].In[0]].Windowed() {
				return false
			}
			if n.Kind == oracle.Changes && stream(in) || n.Kind != oracle.Changes && n.Kind != oracle.To && !joins && !again && !stream(in) {
				return false
			}
		}
	}
	return true
}

// fields makes operators and the rest plainer.
func (s *shrinker) fields() {
	for _, change := range []func(*Case){
		func(c *Case) { c.Keep = KeepNothing }, func(c *Case) { c.Keep = KeepCopy }, func(c *Case) { c.Workers = 1 }, func(c *Case) { c.Fetch = 100 },
		func(c *Case) { c.Spec.Policy = oracle.Skip },
	} {
		c := *s.best
		change(&c)
		s.try(&c)
	}
	for i := range s.best.Spec.Nodes {
		for _, change := range []func(*oracle.Node){
			func(n *oracle.Node) { n.Bad, n.Panic = 0, false }, func(n *oracle.Node) { n.Policy = oracle.Inherit }, func(n *oracle.Node) { n.Disorder = 0 },
			func(n *oracle.Node) { n.KeepNulls = false }, func(n *oracle.Node) { n.Sideline = "" }, func(n *oracle.Node) { n.OnClose = false },
			func(n *oracle.Node) { n.Grace = 0 }, func(n *oracle.Node) { n.Advance = n.Size }, func(n *oracle.Node) { n.Correct, n.Retract = 0, false }, func(n *oracle.Node) { n.Early = 0 }, func(n *oracle.Node) { n.EarlyCount = 0 },
			func(n *oracle.Node) { n.Discard = false }, func(n *oracle.Node) { n.Retracting = false }, func(n *oracle.Node) { plainWindows(n) }, func(n *oracle.Node) { n.Future, n.Gen = 0, "" }, func(n *oracle.Node) { n.Limit = 0 }, func(n *oracle.Node) { n.Wall = 0 }, func(n *oracle.Node) { n.Every = 0 },
		} {
			c := *s.best
			c.Spec.Nodes = slices.Clone(c.Spec.Nodes)
			change(&c.Spec.Nodes[i])
			s.try(&c)
		}
	}
}

func plainWindows(n *oracle.Node) {
	if n.Win != "" {
		n.Win, n.Zone, n.First, n.Size, n.Advance = "", "", 0, 50, 50
	}
}
