package topology

import (
	"fmt"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
)

// From reads a topic as a stream. A record with a null value is dropped and counted, unless the topic says KeepNulls. A topology
// reads a topic once. Kafka Streams: StreamsBuilder.stream.
func From[K, V any](b *Builder, t TopicOf[K, V]) Stream[K, V] {
	t.check(b)
	n := &node[K, V]{b: b, m: b.node(graph.SourceNode, "KSTREAM-SOURCE-"), key: t.key, oneToOne: true}
	def := b.source(n.m, graph.Source{Topic: t.name, Watermarks: t.watermarks})
	def.make = func(in *instance) (graph.Entry, error) { return newEntry(in, n, t) }
	return Stream[K, V]{n}
}

// fromRepartition reads a repartition topic: the event time of its records is their timestamp.
func fromRepartition[K, V any](b *Builder, name string, key serde.Serde[K], value serde.Serde[V]) *node[K, V] {
	n := &node[K, V]{b: b, m: b.node(graph.SourceNode, name+"-repartition-source"), key: key, oneToOne: true}
	def := b.source(n.m, graph.Source{Topic: name, Repartition: true})
	def.make = func(in *instance) (graph.Entry, error) {
		return newEntry(in, n, TopicOf[K, V]{name: name, key: key, value: value})
	}
	return n
}

// entry decodes the records of one source in one task and pushes them into the operators behind it.
type entry[K, V any] struct {
	t    TopicOf[K, V]
	rt   graph.Runtime
	at   *int
	node int
	out  consumer[K, V]
	head Record[K, V]
}

func newEntry[K, V any](in *instance, n *node[K, V], t TopicOf[K, V]) (*entry[K, V], error) {
	out, err := n.build(in)
	return &entry[K, V]{t: t, rt: in.rt, at: in.rt.At(), node: n.m.local, out: out}, err
}

func (e *entry[K, V]) Head(r *graph.Raw) (int64, error) {
	e.head = Record[K, V]{Time: r.Time, raw: r}
	var err error
	if r.Key == nil {
		e.head.nullKey = true
	} else if e.head.Key, err = e.t.key.Decode(r.Key); err != nil {
		return 0, fmt.Errorf("decode the key (%d bytes): %w", len(r.Key), err)
	}
	if r.Value == nil {
		e.head.null = true
	} else if e.head.Value, err = e.t.value.Decode(r.Value); err != nil {
		return 0, fmt.Errorf("decode the value (%d bytes): %w", len(r.Value), err)
	}
	if e.t.eventTime != nil {
		if e.head.null {
			return graph.NoTime, nil // its time would be in the value; the broker's is another clock
		}
		e.head.Time = e.t.eventTime(e.head).UnixMilli()
	}
	return e.head.Time, nil
}

func (e *entry[K, V]) Record() error {
	*e.at = e.node
	if e.head.null && !e.t.keepNulls {
		e.rt.Count(e.node, graph.NullValue)
		return nil
	}
	return e.out.push(e.head)
}

func (e *entry[K, V]) Advance(w int64) { e.out.advance(w) }

// Table is the last value of each key, as a stream of its changes. Kafka Streams: KTable.
type Table[K, V any] struct {
	n     *node[K, V]
	store *storeDef
	value serde.Serde[V]
}

// TableFrom reads a topic as a table kept in the store of that name. The last value of a key wins, whatever its event time; a null
// value deletes; a null key is dropped and counted. The topic is the store's changelog: it should be compacted, and nothing is
// written beside it; the times in the store are the broker's timestamps. Before a task's streams start, the topic is read to the
// end that it had when the task was assigned. Kafka Streams: StreamsBuilder.table.
func TableFrom[K, V any](b *Builder, store string, t TopicOf[K, V]) Table[K, V] {
	t.check(b)
	n := &node[K, V]{b: b, m: b.node(graph.SourceNode, "KTABLE-SOURCE-"), key: t.key}
	st := b.store(n.m, state.Spec{Name: store, Kind: state.KeyValueKind, SourceTopic: t.name})
	def := b.source(n.m, graph.Source{Topic: t.name, Table: true, Watermarks: t.watermarks})
	def.store = st
	def.make = func(in *instance) (graph.Entry, error) {
		s, err := in.rt.OpenStore(store, state.KeyValueKind)
		if err != nil {
			return nil, err
		}
		e, err := newEntry(in, n, t)
		return &tableEntry[K, V]{entry: e, store: s}, err
	}
	return Table[K, V]{n: n, store: st, value: t.value}
}

// tableEntry keeps the table before it passes the change on.
type tableEntry[K, V any] struct {
	*entry[K, V]
	store state.Store
	buf   []byte
}

func (e *tableEntry[K, V]) Record() error {
	*e.at = e.node
	r := &e.head
	switch {
	case r.nullKey:
		e.rt.Count(e.node, graph.NullKey)
		return nil
	case r.null:
		if err := e.store.Delete(r.raw.Key); err != nil {
			return err
		}
	default:
		// The broker's timestamp, not the event time: a store restored from the topic must be the same, and restoring decodes nothing.
		e.buf = state.AppendValue(e.buf[:0], r.raw.Time, r.raw.Value)
		if err := e.store.Put(r.raw.Key, e.buf); err != nil {
			return err
		}
	}
	return e.out.push(*r)
}

// Stream returns the table's changes as a stream. A deletion is a null value: Process and To see it, other operators drop and
// count it. Kafka Streams: KTable.toStream.
func (t Table[K, V]) Stream() Stream[K, V] {
	n := same(t.n, "KTABLE-TOSTREAM-")
	attach(t.n, n, func(_ *instance, push func(Record[K, V]) error) func(Record[K, V]) error { return push })
	return Stream[K, V]{n}
}

// To writes the table's changes to a topic; a deletion is a null value.
func (t Table[K, V]) To(topic TopicOf[K, V]) { t.Stream().To(topic) }
