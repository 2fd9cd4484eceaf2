package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/headrace/headrace/internal/sim/oracle"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/window"
)

// failure is the error of user code.
type failure struct{ at string }

func (f *failure) Error() string { return "bad for " + f.at }

// user is what the functions of a topology share in one simulation.
type user struct {
	spec *oracle.Spec
	// healed has what has failed under the policy Fail, and does so once: the application ends, somebody mends it, and it starts again.
	healed map[string]bool
	failed bool // something has, and the application is to end
	panics int
	// making is where the task that is being made writes down what it does.
	making *recorder
}

// fail fails at a node for the reason what.
func (u *user) fail(node int, what string) error {
	n := &u.spec.Nodes[node]
	name := fmt.Sprintf("node %d", node)
	if u.spec.PolicyOf(node) == oracle.Fail {
		k := name + what
		if u.healed[k] {
			return nil
		}
		u.healed[k], u.failed = true, true
	}
	if n.Panic {
		u.panics++
		panic("bad for " + name) // as user code may, for the engine to recover
	}
	return &failure{name}
}

// check is fail for a value that is bad for the node.
func (u *user) check(node int, v string) error {
	if n := &u.spec.Nodes[node]; !oracle.Has(v, n.Bad) {
		return nil
	}
	return u.fail(node, v)
}

// mustPanic is check in functions that return no error: their nodes panic.
func (u *user) mustPanic(node int, v string) { _ = u.check(node, v) }

// text is a serde that cannot decode everything.
type text struct{}

func (text) Append(dst []byte, v string) ([]byte, error) { return append(dst, v...), nil }

func (text) Decode(b []byte) (string, error) {
	if oracle.Undecodable(string(b)) {
		return "", &failure{"the serde"}
	}
	return string(b), nil
}

// made is what a node is in the DSL: one of these.
type made struct {
	stream   topology.Stream[string, string]
	table    topology.Table[string, string]
	windowed topology.Table[window.Key[string], string]
	twice    topology.Table[window.Key[window.Key[string]], string]
}

func policyOf(p oracle.Policy) topology.ErrorPolicy {
	switch p {
	case oracle.Fail:
		return topology.Fail()
	case oracle.Skip:
		return topology.Skip()
	case oracle.DeadLetter:
		return topology.DeadLetter(oracle.DeadLetters)
	}
	return topology.ErrorPolicy{}
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// build makes the topology by the public DSL.
func (u *user) build() (*topology.Topology, error) {
	b := topology.NewBuilder()
	all := make([]made, len(u.spec.Nodes))
	for i := range u.spec.Nodes {
		u.add(b, all, i)
	}
	return b.Build()
}

func (u *user) add(b *topology.Builder, all []made, i int) {
	n, str := u.spec.Nodes[i], serde.String()
	var in, other made
	if len(n.In) > 0 {
		in = all[n.In[0]]
	}
	if len(n.In) > 1 {
		other = all[n.In[1]]
	}
	p := policyOf(n.Policy)
	var out made
	switch n.Kind {
	case oracle.Source, oracle.Table:
		t := topology.Topic(n.Name, str, text{}).Watermarks(window.BoundedDisorder(ms(n.Disorder))).OnError(p)
		if n.OwnTime {
			t = t.EventTime(func(r topology.Record[string, string]) time.Time { return time.UnixMilli(oracle.TimeOf(r.Value)) })
		}
		if n.Future > 0 {
			late := window.Drop()
			if n.Sideline != "" {
				late = window.Sideline(n.Sideline)
			}
			t = t.FutureGuard(ms(n.Future), late)
		}
		switch n.Gen {
		case oracle.Punctuate:
			t = t.Punctuated(func(r topology.Record[string, string]) (time.Time, bool) {
				return time.UnixMilli(r.Time - n.Disorder), oracle.Has(r.Value, 'w')
			})
		case oracle.Second:
			t = t.WatermarksBy(func() topology.Generator[string, string] {
				return &second{disorder: n.Disorder, first: oracle.Unknown, next: oracle.Unknown}
			})
		}
		if n.KeepNulls {
			t = t.KeepNulls()
		}
		if n.Kind == oracle.Table {
			out.table = topology.TableFrom(b, n.Store, t)
		} else {
			out.stream = topology.From(b, t)
			if !slices.ContainsFunc(u.spec.Nodes, func(n oracle.Node) bool { return slices.Contains(n.In, i) }) {
				out.stream.Peek(func(_, _ string) {}) // with nothing behind it Build refuses a stream
			}
		}
	case oracle.Filter:
		out.stream = in.stream.Filter(func(_, v string) bool { u.mustPanic(i, v); return oracle.Keeps(v) }).OnError(p)
	case oracle.MapValues:
		out.stream = topology.MapValues(in.stream, func(v string) string { u.mustPanic(i, v); return oracle.Mapped(v) }).OnError(p)
	case oracle.Map:
		out.stream = topology.Map(in.stream, func(_, v string) (string, string) { u.mustPanic(i, v); return oracle.Rekeyed(v), v }).OnError(p)
	case oracle.FlatMap:
		out.stream = topology.FlatMap(in.stream, func(r topology.Record[string, string], emit func(string, string) error) error {
			if err := emit(r.Key, r.Value); err != nil {
				return err
			}
			if err := u.check(i, r.Value); err != nil || !oracle.Twice(r.Value) {
				return err
			}
			return emit(r.Key+"2", r.Value)
		}).OnError(p)
	case oracle.Merge:
		out.stream = in.stream.Merge(other.stream)
	case oracle.Repartition:
		out.stream = topology.Repartition(in.stream, n.Name, int(n.Parts), str, str)
	case oracle.GroupBy:
		out.stream = topology.GroupBy(in.stream, n.Name, func(_, v string) string { return oracle.Rekeyed(v) }, str, str).Stream()
	case oracle.Aggregate, oracle.Reduce, oracle.OrDelete, oracle.Total:
		switch {
		case !n.Windowed():
			out.table = fold(u, i, in.stream.GroupByKey()).OnError(p)
		case u.spec.Nodes[n.In[0]].Windowed():
			out.twice = fold(u, i, topology.Windowed(in.windowed.Stream().GroupByKey(), definitionOf(&n), lateOf(&n))).OnError(p)
		default:
			out.windowed = fold(u, i, topology.Windowed(in.stream.GroupByKey(), definitionOf(&n), lateOf(&n))).OnError(p)
		}
	case oracle.Changes:
		up := &u.spec.Nodes[n.In[0]]
		switch {
		case up.Joins():
			out.stream = topology.Map(in.windowed.Stream(), func(k window.Key[string], v string) (string, string) {
				return fmt.Sprintf("%s@%d-%d", k.Key, k.Start, k.End), v
			})
		case !up.Windowed():
			out.stream = in.table.Stream()
		case u.spec.Nodes[up.In[0]].Windowed():
			out.stream = topology.Map(in.twice.Stream(), func(k window.Key[window.Key[string]], v string) (string, string) {
				return fmt.Sprintf("%s@%d@%d", k.Key.Key, k.Key.Start, k.Start), v
			})
		default:
			out.stream = topology.Map(in.windowed.Stream(), func(k window.Key[string], v string) (string, string) {
				return fmt.Sprintf("%s@%d", k.Key, k.Start), v
			})
		}
	case oracle.Join:
		out.stream = topology.JoinTable(in.stream, other.table, func(v, right string) string {
			u.mustPanic(i, v)
			return oracle.Joined(v, right, true)
		}).OnError(p)
	case oracle.LeftJoin:
		out.stream = topology.LeftJoinTable(in.stream, other.table, func(v, right string, ok bool) string {
			u.mustPanic(i, v)
			return oracle.Joined(v, right, ok)
		}).OnError(p)
	case oracle.Process:
		var stores []topology.StoreSpec
		if n.Store != "" {
			stores = append(stores, state.KeyValueOf(n.Store, str, str))
		}
		out.stream = topology.Process(in.stream, n.Name, func() *processor { return &processor{u: u, node: i, n: n} }, stores...).OnError(p)
	case oracle.To:
		switch up := &u.spec.Nodes[n.In[0]]; {
		case up.Windowed() && u.spec.Nodes[up.In[0]].Windowed():
			in.twice.To(topology.Topic(n.Name, window.KeySerde(keysOf(&u.spec.Nodes[up.In[0]])).For(windowsOf(up)), str).OnError(p))
		case up.Windowed():
			in.windowed.To(topology.Topic(n.Name, keysOf(up), str).OnError(p))
		case up.Folds() || up.Kind == oracle.Table:
			in.table.To(topology.Topic(n.Name, str, str).OnError(p))
		default:
			in.stream.To(topology.Topic(n.Name, str, str).OnError(p).AcceptRevisions())
		}
	}
	all[i] = out
}

// processor is what oracle.Process is in Go.
type processor struct {
	u    *user
	node int
	n    oracle.Node
	view *state.KeyValueView[string, string]
}

func (p *processor) Init(t *topology.Task, out topology.Emitter[string, string]) error {
	if p.n.Store != "" {
		var err error
		if p.view, err = state.KeyValueOf(p.n.Store, serde.String(), serde.String()).Open(t); err != nil {
			return err
		}
	}
	if p.n.Every > 0 {
		if err := t.EveryStreamTime(ms(p.n.Every), func(w time.Time) error { return p.punctuate(t, w.UnixMilli(), out) }); err != nil {
			return err
		}
	}
	if p.n.Wall > 0 {
		rec := p.u.making
		return t.EveryWallClock(ms(p.n.Wall), func(now time.Time) error {
			rec.events = append(rec.events, oracle.Event{What: oracle.Ticked, Node: p.node, Time: now.UnixMilli()})
			entries, err := p.entries()
			if err != nil {
				return err
			}
			return out(topology.Record[string, string]{Key: "tick", Value: oracle.Counted(len(entries)), Time: now.UnixMilli()})
		})
	}
	return nil
}

func (p *processor) Process(r topology.Record[string, string], out topology.Emitter[string, string]) error {
	if p.view != nil {
		if r.Null() {
			if err := p.view.Delete(r.Key); err != nil {
				return err
			}
		} else {
			old, _, err := p.view.Get(r.Key)
			if err != nil {
				return err
			}
			r.Value = oracle.Folded(old, r.Value)
			if err := p.view.Put(r.Key, r.Value); err != nil {
				return err
			}
		}
	}
	if err := out(r); err != nil || r.Null() {
		return err
	}
	return p.u.check(p.node, r.Value)
}

func (p *processor) entries() ([]state.Item[string, string], error) {
	var all []state.Item[string, string]
	for e, err := range p.view.All() {
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

func (p *processor) punctuate(t *topology.Task, w int64, out topology.Emitter[string, string]) error {
	entries, err := p.entries()
	if err != nil {
		return err
	}
	for i, e := range entries {
		if i%2 == 1 {
			if err := p.view.Delete(e.Key); err != nil {
				return err
			}
		}
		if err := out(topology.Record[string, string]{Key: e.Key, Value: oracle.Punctuated(w, e.Value), Time: max(w, 0)}); err != nil {
			return err
		}
	}
	if p.n.Bad != 0 && oracle.Breaks(w, p.n.Every) {
		return p.u.fail(p.node, fmt.Sprint("punctuation ", t.Partition(), " ", w))
	}
	return nil
}
