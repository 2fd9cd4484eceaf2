package topology

import (
	"fmt"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
)

// Grouped is a stream whose records of one key are on one partition, ready to be aggregated. Kafka Streams: KGroupedStream, and
// TimeWindowedKStream where K is a window.Key.
type Grouped[K, V any] struct {
	b     *Builder
	m     *meta // what feeds the aggregate
	key   serde.Serde[K]
	input groupInput[K, V]
	n     *node[K, V] // nil with windows
	// window is what Windowed said; nil without windows.
	window *windowing
}

// groupInput attaches an aggregate: make gives its closures for one task.
type groupInput[K, V any] func(def *storeDef, how emission, make func(in *instance, store state.Store) (fold[K, V], error))

// GroupByKey groups the stream by the key that it has. It is a build error behind an operator that may have changed the key.
func (s Stream[K, V]) GroupByKey() Grouped[K, V] {
	b := builder(s.n)
	if s.n.key == nil {
		b.fail("GroupByKey: the key may have been changed by %s, so records of one key may be on several partitions; use GroupBy or Repartition, which name a repartition topic", s.n.changed)
	}
	return group(s.n)
}

func group[K, V any](n *node[K, V]) Grouped[K, V] {
	g := Grouped[K, V]{b: n.b, m: n.m, key: n.key, n: n}
	g.input = func(def *storeDef, _ emission, mk func(in *instance, store state.Store) (fold[K, V], error)) {
		m := def.owner
		n.edges = append(n.edges, func(in *instance) (consumer[K, V], error) {
			store, err := in.rt.OpenStore(def.spec.Name, state.KeyValueKind)
			if err != nil {
				return consumer[K, V]{}, err
			}
			f, err := mk(in, store)
			if err != nil {
				return consumer[K, V]{}, err
			}
			guard := keyed[K, V](in, m, n.key)
			return consumer[K, V]{advance: f.advance, push: func(rec Record[K, V]) error {
				r, key, err := guard(rec)
				if r == nil || err != nil {
					return err
				}
				return f.add(r.Key, key, r, false)
			}}, nil
		})
	}
	return g
}

// keyed returns what stands before everything keyed: it drops and counts null keys and null values, for which it returns nil, and encodes
// the key. The record and the bytes that it returns are good until the next call: it has one record for all, since the address of one
// on the way would have each allocated.
func keyed[K, V any](in *instance, m *meta, key serde.Serde[K]) func(Record[K, V]) (*Record[K, V], []byte, error) {
	rt, at := in.rt, in.rt.At()
	cur, buf := new(Record[K, V]), []byte(nil)
	return func(r Record[K, V]) (*Record[K, V], []byte, error) {
		*at = m.local
		switch {
		case r.nullKey:
			rt.Count(m.local, graph.NullKey)
			return nil, nil, nil
		case r.null:
			rt.Count(m.local, graph.NullValue)
			return nil, nil, nil
		}
		var err error
		*cur = r
		buf, err = key.Append(buf[:0], r.Key)
		return cur, buf, err
	}
}

// GroupBy groups the stream by another key: the records go through the topic <app>-<name>-repartition, where those of one key
// meet on one partition. Event time, headers and the watermark go with them, but the watermark comes behind the records of a whole
// commit: see Windowed for what that means for late records. Kafka Streams: KStream.groupBy.
func GroupBy[K, V, K2 any](s Stream[K, V], name string, f func(K, V) K2, key serde.Serde[K2], value serde.Serde[V]) Grouped[K2, V] {
	builder(s.n).need(fmt.Sprintf("GroupBy %q", name), f == nil)
	m := s.n.b.node(graph.ProcessorNode, "KSTREAM-KEY-SELECT-", s.n.m)
	n := &node[K2, V]{b: s.n.b, m: m, key: key, oneToOne: s.n.oneToOne}
	callback(s.n, n, func(_ *instance, push func(Record[K2, V]) error) func(Record[K, V]) error {
		return func(r Record[K, V]) error {
			return push(Record[K2, V]{Key: f(r.Key, r.Value), Value: r.Value, Time: r.Time, trace: r.trace})
		}
	})
	return group(repartition(n, name, 0, key, value))
}

// Stream returns the grouped records as a stream by their new key. A windowed group has none: aggregate it first.
func (g Grouped[K, V]) Stream() Stream[K, V] {
	if b := g.b.must(); g.n == nil {
		b.fail("Stream: a windowed group is no stream; aggregate it and take the table's stream")
		return Stream[K, V]{&node[K, V]{b: g.b, m: g.m, key: g.key}}
	}
	return Stream[K, V]{g.n}
}

// Repartition sends the stream through the topic <app>-<name>-repartition: behind it records of one key are on one partition. A
// record with a null key is dropped and counted. partitions is the number of partitions, 0 to follow the topics that it is used
// with. Event time, headers and the watermark go as with GroupBy. Kafka Streams: KStream.repartition.
func Repartition[K, V any](s Stream[K, V], name string, partitions int, key serde.Serde[K], value serde.Serde[V]) Stream[K, V] {
	if b := builder(s.n); partitions < 0 {
		b.fail("Repartition %q: %d partitions; give a positive number, or 0 to follow the topics that it is used with", name, partitions)
	}
	return Stream[K, V]{repartition(s.n, name, int32(partitions), key, value)}
}

// repartition adds the sink and the source of a repartition topic.
func repartition[K, V any](n *node[K, V], name string, partitions int32, key serde.Serde[K], value serde.Serde[V]) *node[K, V] {
	b := n.b
	b.claim("repartition topic", name)
	b.serdes(fmt.Sprintf("repartition topic %q", name), "no serde for its keys or values", key, value)
	m := b.node(graph.SinkNode, name+"-repartition-sink", n.m)
	def := b.sink(m, graph.Sink{Topic: name, Repartition: true, Partitions: partitions})
	n.edges = append(n.edges, func(in *instance) (consumer[K, V], error) {
		rt := in.rt
		write := writer(in, def, key, value)
		return consumer[K, V]{
			push: func(r Record[K, V]) error {
				if r.nullKey {
					rt.Count(m.local, graph.NullKey)
					return nil
				}
				return write(r)
			},
			advance: func(w int64) { rt.Report(def.local, w) },
		}, nil
	})
	return fromRepartition(b, name, key, value, n.m.past)
}
