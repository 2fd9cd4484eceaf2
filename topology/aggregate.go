package topology

import (
	"fmt"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/window"
)

// AggregateOption changes how an aggregate emits.
type AggregateOption struct{ onClose bool }

// EmitOnClose makes a windowed aggregate emit one result for each window and key, when the window closes, instead of one for each
// record. Results of one watermark advance come by window start, then by the bytes of the key. Nothing comes before the watermark
// is known, which takes a record in every input partition: see Windowed. Kafka Streams: EmitStrategy.onWindowClose.
func EmitOnClose() AggregateOption { return AggregateOption{onClose: true} }

// Aggregate folds the values of each key into an A, from the zero A, and keeps it in the store of that name. Every record gives a
// result, whose event time is the largest that went in. add must not modify an A that it was given, or what that points to, other
// than to return it: after an error the fold starts again from what the store has. Null keys and null values are dropped and
// counted. Kafka Streams: KGroupedStream.aggregate.
func Aggregate[K, V, A any](g Grouped[K, V], store string, s serde.Serde[A], add func(A, V) A, opts ...AggregateOption) Table[K, A] {
	g.b.need(fmt.Sprintf("Aggregate into store %q", store), add == nil)
	return aggregate(g, "KSTREAM-AGGREGATE-", store, s, func(a A, _ bool, v V) (A, bool) { return add(a, v), true }, opts)
}

// AggregateOrDelete is Aggregate for a fold that can end: where add returns false the key is deleted, which the table passes on as
// a null value, and its next record starts from the zero A again. Kafka Streams: an aggregator that returns null.
func AggregateOrDelete[K, V, A any](g Grouped[K, V], store string, s serde.Serde[A], add func(A, V) (A, bool), opts ...AggregateOption) Table[K, A] {
	g.b.need(fmt.Sprintf("AggregateOrDelete into store %q", store), add == nil)
	return aggregate(g, "KSTREAM-AGGREGATE-", store, s, func(a A, _ bool, v V) (A, bool) { return add(a, v) }, opts)
}

// Reduce folds the values of each key; the first one is the first aggregate, and f is not called for it. Kafka Streams:
// KGroupedStream.reduce.
func Reduce[K, V any](g Grouped[K, V], store string, s serde.Serde[V], f func(V, V) V, opts ...AggregateOption) Table[K, V] {
	g.b.need(fmt.Sprintf("Reduce into store %q", store), f == nil)
	return aggregate(g, "KSTREAM-REDUCE-", store, s, func(a V, ok bool, v V) (V, bool) {
		if !ok {
			return v, true
		}
		return f(a, v), true
	}, opts)
}

// Count counts the records of each key. Kafka Streams: KGroupedStream.count.
func Count[K, V any](g Grouped[K, V], store string, opts ...AggregateOption) Table[K, int64] {
	return aggregate(g, "KSTREAM-AGGREGATE-", store, serde.Int64(), func(a int64, _ bool, _ V) (int64, bool) { return a + 1, true }, opts)
}

func aggregate[K, V, A any](g Grouped[K, V], kind, name string, s serde.Serde[A], step func(a A, ok bool, v V) (A, bool), opts []AggregateOption) Table[K, A] {
	b := g.b
	onClose := false
	for _, o := range opts {
		onClose = onClose || o.onClose
	}
	if onClose && g.window == nil {
		b.fail("EmitOnClose on store %q: there is no window that could close; use it behind Windowed", name)
	}
	b.serdes(fmt.Sprintf("store %q", name), "no serde for its values", s)
	m := b.node(graph.ProcessorNode, kind, g.m)
	spec := state.Spec{Name: name, Kind: state.KeyValueKind}
	if g.window != nil {
		spec.Kind, spec.Retention = state.WindowKind, g.window.retention()
	}
	before := len(b.errs)
	def := b.store(m, spec)
	if g.window != nil {
		if len(b.errs) == before { // otherwise the store's error says it
			b.clock("windowed store", name)
		}
		g.window.connect(def)
	}
	n := &node[K, A]{b: b, m: m, key: g.key}
	g.input(def, onClose, func(in *instance, st state.Store) (fold[K, V], error) {
		out, err := n.build(in)
		if err != nil {
			return fold[K, V]{}, err
		}
		f := &folding[K, V, A]{store: st, name: name, serde: s, step: step, push: out.push, onClose: onClose}
		return fold[K, V]{add: f.add, closed: f.closed, advance: out.advance}, nil
	})
	return Table[K, A]{n: n, store: def, value: s}
}

// folding is an aggregate in one task.
type folding[K, V, A any] struct {
	store   state.Store
	name    string
	serde   serde.Serde[A]
	step    func(a A, ok bool, v V) (A, bool)
	push    func(Record[K, A]) error
	onClose bool
	buf     []byte
}

func (f *folding[K, V, A]) add(k K, storeKey []byte, r *Record[K, V]) error {
	stored, had, err := f.store.Get(storeKey)
	if err != nil {
		return err
	}
	var a A
	at := r.Time
	if had {
		var before int64
		if before, a, err = f.decode(stored); err != nil {
			return err
		}
		at = max(at, before)
	}
	a, keep := f.step(a, had, r.Value)
	out := Record[K, A]{Key: k, Value: a, Time: at, raw: r.raw}
	if !keep {
		if !had {
			return nil
		}
		if err := f.store.Delete(storeKey); err != nil {
			return err
		}
		var zero A
		out.Value, out.null = zero, true
	} else {
		f.buf = state.AppendValue(f.buf[:0], at, nil)
		if f.buf, err = f.serde.Append(f.buf, a); err != nil {
			return fmt.Errorf("encode the aggregate for store %s: %w", f.name, err)
		}
		if err := f.store.Put(storeKey, f.buf); err != nil {
			return err
		}
	}
	if f.onClose {
		return nil
	}
	return f.push(out)
}

func (f *folding[K, V, A]) decode(stored []byte) (at int64, a A, err error) {
	at, b, err := state.SplitValue(stored)
	if err == nil {
		a, err = f.serde.Decode(b)
	}
	if err != nil {
		err = fmt.Errorf("decode the aggregate in store %s: %w", f.name, err)
	}
	return at, a, err
}

// closed emits the result of a window that has closed.
func (f *folding[K, V, A]) closed(k K, _ int64, stored []byte) error {
	if !f.onClose {
		return nil
	}
	at, a, err := f.decode(stored)
	if err != nil {
		return err
	}
	return f.push(Record[K, A]{Key: k, Value: a, Time: at})
}

// windowing is the part of a windowed group that has no types.
type windowing struct {
	b        *Builder
	fixed    window.Fixed
	late     window.Late
	oneToOne bool
	sideline *sinkDef
}

func (w *windowing) retention() int64 { return w.fixed.SizeMillis() + w.fixed.GraceMillis() }

// connect checks the late policy against what the operator can know, and adds the sideline's sink.
func (w *windowing) connect(def *storeDef) {
	topic, ok := w.late.Topic()
	if !ok {
		return
	}
	if !w.oneToOne {
		w.b.fail("Sideline(%q): a record here is not the one that the task read, because FlatMap, Process, or an aggregate made it, so the input record cannot be set aside; put a Repartition in front of the window, or use Drop", topic)
	}
	m := w.b.node(graph.SinkNode, def.spec.Name+"-late-sink", def.owner)
	w.sideline = w.b.sink(m, graph.Sink{Topic: topic})
}
