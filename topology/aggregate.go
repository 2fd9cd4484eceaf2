package topology

import (
	"fmt"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
)

// Aggregate folds the values of each key into an A, from the zero A, and keeps it in the store of that name. Every record gives a
// result, whose event time is the largest that went in. add must not modify an A that it was given, or what that points to, other
// than to return it: after an error the fold starts again from what the store has. Null keys and null values are dropped and
// counted. Kafka Streams: KGroupedStream.aggregate.
func Aggregate[K, V, A any](g Grouped[K, V], store string, s serde.Serde[A], add func(A, V) A, opts ...AggregateOption) Table[K, A] {
	g.b.must().need(fmt.Sprintf("Aggregate into store %q", store), add == nil)
	return aggregate(g, "KSTREAM-AGGREGATE-", store, s, steps[V, A]{add: func(a A, _ bool, v V) (A, bool) { return add(a, v), true }}, opts)
}

// AggregateOrDelete is Aggregate for a fold that can end: where add returns false the key is deleted, which the table passes on as
// a null value, and its next record starts from the zero A again. Kafka Streams: an aggregator that returns null.
func AggregateOrDelete[K, V, A any](g Grouped[K, V], store string, s serde.Serde[A], add func(A, V) (A, bool), opts ...AggregateOption) Table[K, A] {
	g.b.must().need(fmt.Sprintf("AggregateOrDelete into store %q", store), add == nil)
	return aggregate(g, "KSTREAM-AGGREGATE-", store, s, steps[V, A]{ends: true, add: func(a A, _ bool, v V) (A, bool) { return add(a, v) }}, opts)
}

// Aggregator is a fold with more than one direction. None of its functions may modify an A that it was given, or what that points to,
// other than to return it.
type Aggregator[V, A any] struct {
	// Add takes a value in. It is required.
	Add func(A, V) A
	// Subtract takes a value out again that was added before. It is required behind windows that take results back: a sum has one, a
	// maximum has none.
	Subtract func(A, V) A
	// Merge makes one aggregate of those of two sessions that a record joins, the earlier one first. It is required with session windows.
	Merge func(A, A) A
}

// AggregateWith is Aggregate for a fold that can subtract, or merge. Kafka Streams: KGroupedStream.aggregate with a subtractor, or with a
// session merger.
func AggregateWith[K, V, A any](g Grouped[K, V], store string, s serde.Serde[A], f Aggregator[V, A], opts ...AggregateOption) Table[K, A] {
	g.b.must().need(fmt.Sprintf("AggregateWith into store %q: Add", store), f.Add == nil)
	st := steps[V, A]{add: func(a A, _ bool, v V) (A, bool) { return f.Add(a, v), true }, subtract: f.Subtract, merge: f.Merge}
	return aggregate(g, "KSTREAM-AGGREGATE-", store, s, st, opts)
}

// Reduce folds the values of each key; the first one is the first aggregate, and f is not called for it. With session windows it merges
// two sessions, too, so it must not matter how the values are put together. Kafka Streams: KGroupedStream.reduce.
func Reduce[K, V any](g Grouped[K, V], store string, s serde.Serde[V], f func(V, V) V, opts ...AggregateOption) Table[K, V] {
	g.b.must().need(fmt.Sprintf("Reduce into store %q", store), f == nil)
	return aggregate(g, "KSTREAM-REDUCE-", store, s, steps[V, V]{merge: f, add: func(a V, ok bool, v V) (V, bool) {
		if !ok {
			return v, true
		}
		return f(a, v), true
	}}, opts)
}

// Count counts the records of each key. Kafka Streams: KGroupedStream.count.
func Count[K, V any](g Grouped[K, V], store string, opts ...AggregateOption) Table[K, int64] {
	return aggregate(g, "KSTREAM-AGGREGATE-", store, serde.Int64(), steps[V, int64]{
		add:      func(a int64, _ bool, _ V) (int64, bool) { return a + 1, true },
		subtract: func(a int64, _ V) int64 { return a - 1 },
		merge:    func(a, b int64) int64 { return a + b },
	}, opts)
}

// steps are the functions of a fold. subtract and merge may be nil.
type steps[V, A any] struct {
	add      func(a A, ok bool, v V) (next A, keep bool)
	subtract func(A, V) A
	merge    func(A, A) A
	ends     bool // add may return false
}

func aggregate[K, V, A any](g Grouped[K, V], kind, name string, s serde.Serde[A], st steps[V, A], opts []AggregateOption) Table[K, A] {
	b := g.b.must()
	how := b.emits(name, g.window, opts)
	b.behind(name, g.m.past, g.window, st.subtract != nil, &how)
	b.serdes(fmt.Sprintf("store %q", name), "no serde for its values", s)
	m := b.node(graph.ProcessorNode, kind, g.m)
	m.past = revises(g.m.past, g.window, &how, m.at)
	spec := state.Spec{Name: name, Kind: state.KeyValueKind}
	if g.window != nil {
		spec.Kind, spec.Retention = g.window.kind, g.window.retention()
	}
	before := len(b.errs)
	def := b.store(m, spec)
	panes := ""
	if w := g.window; w != nil {
		if w.merges && st.merge == nil {
			b.fail("store %q: sessions grow together, and this aggregate cannot merge two of them; give it an Aggregator with Merge, by AggregateWith", name)
		}
		if w.kind == state.SlidingKind && st.ends {
			b.fail("store %q: sliding windows are made of those before them, so none of those can be deleted; use Aggregate", name)
		}
		if len(b.errs) == before { // otherwise the store's error says it
			b.clock("windowed store", name)
		}
		w.connect(def)
		if !w.counts() {
			m.windows = name
		}
		if how.keepsPanes() {
			panes = name + "-panes"
			b.within(m, name, "-panes", "results", state.Spec{Kind: state.WindowKind, Retention: spec.Retention})
		}
	}
	n := &node[K, A]{b: b, m: m, key: g.key}
	g.input(def, how, func(in *instance, st0 state.Store) (fold[K, V], error) {
		out, err := n.build(in)
		if err != nil {
			return fold[K, V]{}, err
		}
		f := &folding[K, V, A]{store: st0, name: name, serde: s, steps: st, push: out.push, how: how, count: in.rt.Count, setTime: in.rt.SetTime, node: m.local}
		if from, end := spec.Kind.Entries(); end != nil {
			f.tag = len(from)
		}
		if panes != "" {
			if f.panes, err = in.rt.OpenStore(panes, state.WindowKind); err != nil {
				return fold[K, V]{}, err
			}
		}
		made := f.fold(out.advance)
		if made.kept != nil {
			in.givers = append(in.givers, made.kept)
		}
		return made, nil
	})
	return Table[K, A]{n: n, store: def, value: s, window: g.window, how: how}
}
