package sim

import (
	"fmt"
	"time"
	_ "time/tzdata" // the same zones everywhere

	"github.com/headrace/headrace/internal/sim/oracle"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/window"
)

// gaps are windows of a user's own: one of size each advance, and nothing between.
type gaps struct{ size, advance, grace int64 }

func (g gaps) First(t int64) int64 {
	start := t - (t%g.advance+g.advance)%g.advance
	if t < start+g.size {
		return start
	}
	return start + g.advance
}

func (g gaps) Next(start int64) int64 { return start + g.advance }
func (g gaps) End(start int64) int64  { return start + g.size }
func (g gaps) GraceMillis() int64     { return g.grace }
func (g gaps) Validate() error        { return nil }
func (g gaps) String() string         { return fmt.Sprintf("gaps(%d of %d)", g.size, g.advance) }

// definitionOf is what a node's windows are in the DSL.
func definitionOf(n *oracle.Node) window.Definition {
	switch n.Win {
	case oracle.Sessions:
		return window.Session(ms(n.Size)).Grace(ms(n.Grace))
	case oracle.SessionsBy:
		return window.SessionBy(func(v string) time.Duration { return ms(oracle.GapOf(v, n.Size)) }, ms(n.Size)).Grace(ms(n.Grace))
	}
	return windowsOf(n)
}

func windowsOf(n *oracle.Node) window.Windows {
	calendar := func(make func(*time.Location) window.Calendar) window.Windows {
		loc, err := time.LoadLocation(n.Zone)
		if err != nil {
			loc = nil // Build says so
		}
		return make(loc).Grace(ms(n.Grace))
	}
	switch n.Win {
	case oracle.Daily:
		return calendar(window.Daily)
	case oracle.Weekly:
		return calendar(func(loc *time.Location) window.Calendar { return window.Weekly(loc, time.Weekday(n.First)) })
	case oracle.Monthly:
		return calendar(window.Monthly)
	case oracle.Global:
		return window.Global()
	case oracle.Gaps:
		return gaps{n.Size, n.Advance, n.Grace}
	}
	return window.Hopping(ms(n.Size), ms(n.Advance)).Grace(ms(n.Grace))
}

func lateOf(n *oracle.Node) window.Late {
	late := window.Drop()
	if n.Sideline != "" {
		late = window.Sideline(n.Sideline)
	}
	if n.Correct > 0 {
		c := window.CorrectWithin(ms(n.Correct))
		if n.Retract {
			c = c.Retract()
		}
		late = c.Otherwise(late)
	}
	if n.ByChannel {
		late = late.LateBy(window.Channel)
	}
	return late
}

// keysOf is how the keys of a node's windows are written.
func keysOf(n *oracle.Node) serde.Serde[window.Key[string]] {
	if n.Joins() {
		return window.SessionKeySerde(serde.String())
	}
	return window.KeySerde(serde.String()).For(windowsOf(n))
}

func fold[K any](u *user, i int, g topology.Grouped[K, string]) topology.Table[K, string] {
	n, str := u.spec.Nodes[i], serde.String()
	var opts []topology.AggregateOption
	for _, o := range []struct {
		said bool
		opt  topology.AggregateOption
	}{
		{n.OnClose, topology.EmitOnClose()},
		{n.Final, topology.EmitFinal()},
		{n.Early > 0, topology.EmitEarlyEvery(ms(n.Early))},
		{n.EarlyCount > 0, topology.EmitEarlyCount(n.EarlyCount)},
		{n.Discard, topology.Discarding()},
		{n.Retracting, topology.Retracting()},
		{n.Accept, topology.AcceptRevisions()},
	} {
		if o.said {
			opts = append(opts, o.opt)
		}
	}
	add := func(a, v string) string { u.mustPanic(i, v); return oracle.Folded(a, v) }
	switch n.Kind {
	case oracle.Reduce:
		return topology.Reduce(g, n.Name, str, add, opts...)
	case oracle.OrDelete:
		return topology.AggregateOrDelete(g, n.Name, str, func(a, v string) (string, bool) {
			s := add(a, v)
			return s, !oracle.Ends(v)
		}, opts...)
	case oracle.Total:
		return topology.AggregateWith(g, n.Name, str, topology.Aggregator[string, string]{
			Add:      func(a, v string) string { u.mustPanic(i, v); return oracle.Plus(a, v) },
			Subtract: func(a, v string) string { u.mustPanic(i, v); return oracle.Minus(a, v) },
			Merge:    oracle.Plus,
		}, opts...)
	}
	return topology.Aggregate(g, n.Name, str, add, opts...)
}

// second makes the watermark of the second largest time, which it has to remember.
type second struct{ disorder, first, next int64 }

func (s *second) Observe(r topology.Record[string, string]) time.Time {
	switch {
	case r.Time > s.first:
		s.first, s.next = r.Time, s.first
	case r.Time > s.next:
		s.next = r.Time
	}
	if s.next == oracle.Unknown {
		return time.Time{}
	}
	return time.UnixMilli(s.next - s.disorder)
}

func (s *second) Save(dst []int64) []int64 { return append(dst, s.first, s.next) }

func (s *second) Load(state []int64) error {
	if len(state) == 2 {
		s.first, s.next = state[0], state[1]
	}
	return nil
}
