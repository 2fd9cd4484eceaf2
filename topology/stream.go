package topology

import (
	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/serde"
)

// consumer is the end of an edge in one task: where records and watermarks of an operator go.
type consumer[K, V any] struct {
	push    func(Record[K, V]) error
	advance func(w int64)
}

// node is the typed side of an operator: what it gives to the next ones.
type node[K, V any] struct {
	b   *Builder
	m   *meta
	key serde.Serde[K] // nil once the key may have changed
	// changed is the operator that may have changed the key, for the error of a keyed operator behind it.
	changed string
	// oneToOne says that a record here stems from the task's input record and from nothing else, so that a sideline may write
	// that one instead.
	oneToOne bool
	edges    []func(in *instance) (consumer[K, V], error)
}

// build makes what the operator feeds, in one task.
func (n *node[K, V]) build(in *instance) (consumer[K, V], error) {
	outs := make([]consumer[K, V], len(n.edges))
	for i, edge := range n.edges {
		out, err := edge(in)
		if err != nil {
			return out, err
		}
		outs[i] = out
	}
	switch len(outs) {
	case 0:
		return consumer[K, V]{push: func(Record[K, V]) error { return nil }, advance: func(int64) {}}, nil
	case 1:
		return outs[0], nil
	}
	return consumer[K, V]{
		push: func(r Record[K, V]) error {
			for i := range outs {
				if err := outs[i].push(r); err != nil {
					return err
				}
			}
			return nil
		},
		advance: func(w int64) {
			for i := range outs {
				outs[i].advance(w)
			}
		},
	}, nil
}

// attach adds an operator behind n: wrap makes its closures for one task, given what the operator feeds. Watermarks pass.
func attach[K, V, K2, V2 any](n *node[K, V], next *node[K2, V2], wrap func(in *instance, push func(Record[K2, V2]) error) func(Record[K, V]) error) {
	n.edges = append(n.edges, func(in *instance) (consumer[K, V], error) {
		out, err := next.build(in)
		if err != nil {
			return consumer[K, V]{}, err
		}
		return consumer[K, V]{push: wrap(in, out.push), advance: out.advance}, nil
	})
}

// callback attaches an operator that calls user code for each record whose value is not null.
func callback[K, V, K2, V2 any](n *node[K, V], next *node[K2, V2], wrap func(in *instance, push func(Record[K2, V2]) error) func(Record[K, V]) error) {
	m := next.m
	attach(n, next, func(in *instance, push func(Record[K2, V2]) error) func(Record[K, V]) error {
		f := wrap(in, push)
		at, rt := in.rt.At(), in.rt
		return func(r Record[K, V]) error {
			if r.null {
				rt.Count(m.local, graph.NullValue)
				return nil
			}
			*at = m.local
			return f(r)
		}
	})
}

// Stream is an endless sequence of records. Kafka Streams: KStream.
type Stream[K, V any] struct{ n *node[K, V] }

// same returns a node behind n that keeps key and value.
func same[K, V any](n *node[K, V], name string) *node[K, V] {
	return &node[K, V]{b: n.b, m: n.b.node(graph.ProcessorNode, name, n.m), key: n.key, changed: n.changed, oneToOne: n.oneToOne}
}

// Filter keeps the records for which keep is true. A null key arrives as the zero K. Key, time and headers stay.
func (s Stream[K, V]) Filter(keep func(K, V) bool) Stream[K, V] {
	builder(s.n).need("Filter", keep == nil)
	n := same(s.n, "KSTREAM-FILTER-")
	callback(s.n, n, func(_ *instance, push func(Record[K, V]) error) func(Record[K, V]) error {
		return func(r Record[K, V]) error {
			if !keep(r.Key, r.Value) {
				return nil
			}
			return push(r)
		}
	})
	return Stream[K, V]{n}
}

// Peek calls f with each record and passes it on. What f does outside of the topology is outside of the guarantee: after an
// abort it happens again.
func (s Stream[K, V]) Peek(f func(K, V)) Stream[K, V] {
	builder(s.n).need("Peek", f == nil)
	n := same(s.n, "KSTREAM-PEEK-")
	callback(s.n, n, func(_ *instance, push func(Record[K, V]) error) func(Record[K, V]) error {
		return func(r Record[K, V]) error {
			f(r.Key, r.Value)
			return push(r)
		}
	})
	return Stream[K, V]{n}
}

// Merge puts two streams into one. The records of one task come in the order in which the task takes them, smallest event time
// first; the watermark is the smaller of the two.
func (s Stream[K, V]) Merge(o Stream[K, V]) Stream[K, V] {
	if !belongs(builder(s.n), o.n, "Merge", "other stream") {
		return s
	}
	n := same(s.n, "KSTREAM-MERGE-")
	n.m.up = append(n.m.up, o.n.m)
	o.n.m.down = append(o.n.m.down, n.m)
	n.m.past = n.m.past.or(o.n.m.past)
	if o.n.key == nil {
		n.key, n.changed = nil, o.n.changed
	}
	n.oneToOne = s.n.oneToOne && o.n.oneToOne
	for _, up := range []*node[K, V]{s.n, o.n} {
		up.edges = append(up.edges, func(in *instance) (consumer[K, V], error) { return mergeEdge(n, in) })
	}
	return Stream[K, V]{n}
}

// merged is a merge in one task: one consumer behind it, and the watermark of each edge that leads to it.
type merged[K, V any] struct {
	out  consumer[K, V]
	ws   []int64
	sent int64
}

func mergeEdge[K, V any](n *node[K, V], in *instance) (consumer[K, V], error) {
	m, ok := in.made[n].(*merged[K, V])
	if !ok {
		out, err := n.build(in)
		if err != nil {
			return consumer[K, V]{}, err
		}
		m = &merged[K, V]{out: out, sent: graph.Unknown}
		in.made[n] = m
	}
	i := len(m.ws)
	m.ws = append(m.ws, graph.Unknown)
	return consumer[K, V]{push: m.out.push, advance: func(w int64) {
		m.ws[i] = max(m.ws[i], w)
		low := m.ws[0]
		for _, w := range m.ws[1:] {
			low = min(low, w)
		}
		if low > m.sent {
			m.sent = low
			m.out.advance(low)
		}
	}}, nil
}

// Map makes another key and value of each record. Behind it the stream has no key to work by: see GroupBy.
func Map[K, V, K2, V2 any](s Stream[K, V], f func(K, V) (K2, V2)) Stream[K2, V2] {
	builder(s.n).need("Map", f == nil)
	m := s.n.b.node(graph.ProcessorNode, "KSTREAM-MAP-", s.n.m)
	n := &node[K2, V2]{b: s.n.b, m: m, changed: "Map at " + here(), oneToOne: s.n.oneToOne}
	callback(s.n, n, func(_ *instance, push func(Record[K2, V2]) error) func(Record[K, V]) error {
		return func(r Record[K, V]) error {
			k, v := f(r.Key, r.Value)
			return push(Record[K2, V2]{Key: k, Value: v, Time: r.Time, trace: r.trace})
		}
	})
	return Stream[K2, V2]{n}
}

// MapValues makes another value of each record and keeps its key, null or not.
func MapValues[K, V, V2 any](s Stream[K, V], f func(V) V2) Stream[K, V2] {
	builder(s.n).need("MapValues", f == nil)
	m := s.n.b.node(graph.ProcessorNode, "KSTREAM-MAPVALUES-", s.n.m)
	n := &node[K, V2]{b: s.n.b, m: m, key: s.n.key, changed: s.n.changed, oneToOne: s.n.oneToOne}
	callback(s.n, n, func(_ *instance, push func(Record[K, V2]) error) func(Record[K, V]) error {
		return func(r Record[K, V]) error {
			return push(Record[K, V2]{Key: r.Key, Value: f(r.Value), Time: r.Time, trace: r.trace, nullKey: r.nullKey})
		}
	})
	return Stream[K, V2]{n}
}

// FlatMap makes any number of records of each one, by calling emit during the call. An error of f is an error of the record: all
// that it emitted is taken back, and the policy decides.
func FlatMap[K, V, K2, V2 any](s Stream[K, V], f func(r Record[K, V], emit func(K2, V2) error) error) Stream[K2, V2] {
	builder(s.n).need("FlatMap", f == nil)
	m := s.n.b.node(graph.ProcessorNode, "KSTREAM-FLATMAP-", s.n.m)
	n := &node[K2, V2]{b: s.n.b, m: m, changed: "FlatMap at " + here()}
	callback(s.n, n, func(in *instance, push func(Record[K2, V2]) error) func(Record[K, V]) error {
		at := in.rt.At()
		var cur Record[K2, V2] // of the record in hand: made once, so that no closure is made for each
		var failed error       // of an emit, which f may not swallow
		emit := func(k K2, v V2) error {
			if failed != nil {
				return failed
			}
			cur.Key, cur.Value = k, v
			failed = errPanic
			if failed = push(cur); failed == nil {
				*at = m.local
			}
			return failed
		}
		return func(r Record[K, V]) error {
			cur.Time, cur.trace, failed = r.Time, r.trace, nil
			if err := f(r, emit); err != nil {
				return err
			}
			return failed
		}
	})
	return Stream[K2, V2]{n}
}
