package topology

import (
	"fmt"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
)

// From reads a topic as a stream. A record with a null value is dropped and counted, unless the topic says KeepNulls. A topology
// reads a topic once, and does not write it. Kafka Streams: StreamsBuilder.stream.
func From[K, V any](b *Builder, t TopicOf[K, V]) Stream[K, V] {
	t.check(b)
	n := &node[K, V]{b: b, m: b.node(graph.SourceNode, "KSTREAM-SOURCE-"), key: t.key, oneToOne: true}
	def := b.source(n.m, graph.Source{Topic: t.name, Watermarks: t.watermarks, Generates: t.generator != nil, OwnTime: t.eventTime != nil})
	b.onError(n.m, t.onError)
	t.guard(b, def)
	def.make = func(in *instance) (graph.Entry, error) { return newEntry(in, n, t) }
	return Stream[K, V]{n}
}

// fromRepartition reads a repartition topic: the event time of its records is their timestamp.
func fromRepartition[K, V any](b *Builder, name string, key serde.Serde[K], value serde.Serde[V], past revised) *node[K, V] {
	n := &node[K, V]{b: b, m: b.node(graph.SourceNode, name+"-repartition-source"), key: key, oneToOne: true}
	n.m.past = past
	def := b.source(n.m, graph.Source{Topic: name, Repartition: true})
	def.make = func(in *instance) (graph.Entry, error) {
		e, err := newEntry(in, n, TopicOf[K, V]{name: name, key: key, value: value})
		e.ours = true
		return e, err
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
	ours bool            // a repartition topic: its records tell their panes
	gen  Generator[K, V] // nil where the topic has none of its own
}

func newEntry[K, V any](in *instance, n *node[K, V], t TopicOf[K, V]) (*entry[K, V], error) {
	out, err := n.build(in)
	e := &entry[K, V]{t: t, rt: in.rt, at: in.rt.At(), node: n.m.local, out: out}
	if t.generator != nil && err == nil {
		if e.gen = t.generator(); e.gen == nil {
			return nil, fmt.Errorf("topic %s: the function of WatermarksBy returned nil; return a new Generator", t.name)
		}
	}
	return e, err
}

func (e *entry[K, V]) Head(r *graph.Raw) (at int64, err error) {
	e.head, at, err = e.t.decode(r)
	if e.ours && len(r.Headers) > 0 {
		pane, n := e.rt.Heard(r.Headers)
		e.head.trace = e.head.as(pane)
		e.head.hidden = uint8(n)
	}
	return at, err
}

// decode makes a record, and says when it happened.
func (t TopicOf[K, V]) decode(r *graph.Raw) (Record[K, V], int64, error) {
	rec := Record[K, V]{Time: r.Time, trace: trace{raw: r}}
	var err error
	if r.Key == nil {
		rec.nullKey = true
	} else if rec.Key, err = t.key.Decode(r.Key); err != nil {
		return rec, 0, fmt.Errorf("decode the key (%d bytes): %w", len(r.Key), err)
	}
	if r.Value == nil {
		rec.null = true
	} else if rec.Value, err = t.value.Decode(r.Value); err != nil {
		return rec, 0, fmt.Errorf("decode the value (%d bytes): %w", len(r.Value), err)
	}
	if t.eventTime != nil {
		if rec.null {
			return rec, graph.NoTime, nil // its time would be in the value; the broker's is another clock
		}
		rec.Time = t.eventTime(rec).UnixMilli()
	}
	return rec, rec.Time, nil
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

	window *windowing // of a windowed aggregate, else nil
	how    emission   // of an aggregate
}

// TableFrom reads a topic as a table kept in the store of that name. The last value of a key wins, whatever its event time; a null
// value deletes, and so does a record that the policy skips because it cannot be decoded; a null key is dropped and counted. The topic
// is the store's changelog: it should be compacted, and nothing is written beside it; the times in the store are the broker's
// timestamps. Before a task's streams start, the topic is read to the end that it had when the task was assigned. Kafka Streams: StreamsBuilder.table.
func TableFrom[K, V any](b *Builder, store string, t TopicOf[K, V]) Table[K, V] {
	t.check(b)
	n := &node[K, V]{b: b, m: b.node(graph.SourceNode, "KTABLE-SOURCE-"), key: t.key}
	st := b.store(n.m, state.Spec{Name: store, Kind: state.KeyValueKind, SourceTopic: t.name})
	def := b.source(n.m, graph.Source{Topic: t.name, Table: true, Watermarks: t.watermarks, Generates: t.generator != nil, OwnTime: t.eventTime != nil})
	b.onError(n.m, t.onError)
	if t.futureAt != "" {
		b.fail("topic %q: FutureGuard at %s, and the topic is read as a table: a table has the last value of each key, whatever its event time; leave FutureGuard out", t.name, t.futureAt)
	}
	def.store = st
	def.src.Check = func(r *graph.Raw) (err error) {
		defer func() {
			if v := recover(); v != nil { // of the user's EventTime or serde
				err = fmt.Errorf("panic: %v", v)
			}
		}()
		_, at, err := t.decode(r)
		if err == nil && at < 0 && at != graph.NoTime {
			err = fmt.Errorf("event time %d ms is before 1970", at)
		}
		return err
	}
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
	if e.head.nullKey {
		e.rt.Count(e.node, graph.NullKey)
		return nil
	}
	if err := e.Keep(e.head.raw, false); err != nil {
		return err
	}
	return e.out.push(e.head)
}

// Keep puts a record into the store, or deletes its key. A store restored from the topic must be the same.
func (e *tableEntry[K, V]) Keep(r *graph.Raw, bad bool) error {
	switch {
	case r.Key == nil:
		return nil
	case r.Value == nil || bad:
		return e.store.Delete(r.Key)
	}
	// The broker's timestamp, not the event time: restoring keeps no other.
	e.buf = state.AppendValue(e.buf[:0], r.Time, r.Value)
	return e.store.Put(r.Key, e.buf)
}

// Stream returns the table's changes as a stream. A deletion is a null value: Process and To see it, other operators drop and
// count it. Kafka Streams: KTable.toStream.
func (t Table[K, V]) Stream() Stream[K, V] {
	builder(t.n)
	n := same(t.n, "KTABLE-TOSTREAM-")
	attach(t.n, n, func(_ *instance, push func(Record[K, V]) error) func(Record[K, V]) error { return push })
	return Stream[K, V]{n}
}

// To writes the table's changes to a topic; a deletion is a null value.
func (t Table[K, V]) To(topic TopicOf[K, V]) { t.Stream().To(topic) }
