package topology

import (
	"fmt"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/state"
)

// JoinTable gives each record of a stream the table's value of its key; f makes the result, at the event time of the stream's
// record. A record whose key the table does not have is left out. Only the stream triggers results, and only its watermark counts:
// the table is what it is when the record is processed. Stream and table must have the same number of partitions. Null keys and
// null values are dropped and counted. Kafka Streams: KStream.join(KTable).
func JoinTable[K, V, T, V2 any](s Stream[K, V], t Table[K, T], f func(V, T) V2) Stream[K, V2] {
	b := s.n.b
	switch {
	case t.n.b != b:
		b.fail("JoinTable: the table belongs to another Builder; build one topology with one Builder")
	case s.n.key == nil:
		b.fail("JoinTable: the stream's key may have been changed by %s, so the table's entry may be on another partition; use GroupBy(…).Stream() or Repartition first", s.n.changed)
	case t.store.spec.Kind != state.KeyValueKind:
		b.fail("JoinTable: table %q is windowed; a stream can join a table of plain keys", t.store.spec.Name)
	}
	m := b.node(graph.ProcessorNode, "KSTREAM-JOIN-", s.n.m)
	m.stores = append(m.stores, t.store)
	n := &node[K, V2]{b: b, m: m, key: s.n.key, oneToOne: s.n.oneToOne}
	name := t.store.spec.Name
	attach(s.n, n, func(in *instance, push func(Record[K, V2]) error) func(Record[K, V]) error {
		store, err := in.rt.OpenStore(name, state.KeyValueKind)
		if err != nil { // the plan lists the store: this cannot be
			return func(Record[K, V]) error { return err }
		}
		guard := keyed[K, V](in, m, t.n.key) // as the table's topic encodes keys
		return func(r Record[K, V]) error {
			key, ok, err := guard(&r)
			if !ok || err != nil {
				return err
			}
			stored, ok, err := store.Get(key)
			if !ok || err != nil {
				return err
			}
			_, value, err := state.SplitValue(stored)
			if err != nil {
				return fmt.Errorf("table %s: %w", name, err)
			}
			right, err := t.value.Decode(value)
			if err != nil {
				return fmt.Errorf("decode the value in table %s: %w", name, err)
			}
			return push(Record[K, V2]{Key: r.Key, Value: f(r.Value, right), Time: r.Time, raw: r.raw})
		}
	})
	return Stream[K, V2]{n}
}
