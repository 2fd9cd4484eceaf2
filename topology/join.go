package topology

import (
	"fmt"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/state"
)

// JoinTable gives each record of a stream the table's value of its key; f makes the result, at the event time of the stream's
// record. A record whose key the table does not have is left out, and counted as no-match; LeftJoinTable keeps it. Only the stream
// triggers results, and only its watermark counts: the table is what it is when the record is processed. Stream and table must have
// the same number of partitions. Null keys and null values are dropped and counted. Behind windows that take results back, a
// retraction meets the table as it is by then, too: if the entry has changed it does not undo what the result did. Kafka Streams:
// KStream.join(KTable).
func JoinTable[K, V, T, V2 any](s Stream[K, V], t Table[K, T], f func(V, T) V2) Stream[K, V2] {
	builder(s.n).need("JoinTable", f == nil)
	return joinTable(s, t, "JoinTable", "KSTREAM-JOIN-", func(in *instance, m *meta) func(V, T, bool) (V2, bool) {
		rt := in.rt
		return func(v V, right T, ok bool) (out V2, keep bool) {
			if !ok {
				rt.Count(m.local, graph.NoMatch)
				return out, false
			}
			return f(v, right), true
		}
	})
}

// LeftJoinTable is JoinTable that keeps the records whose key the table does not have: f gets the zero T and false for them.
// Kafka Streams: KStream.leftJoin(KTable), but that null keys are dropped and counted here, as before everything keyed.
func LeftJoinTable[K, V, T, V2 any](s Stream[K, V], t Table[K, T], f func(v V, right T, ok bool) V2) Stream[K, V2] {
	builder(s.n).need("LeftJoinTable", f == nil)
	return joinTable(s, t, "LeftJoinTable", "KSTREAM-LEFTJOIN-", func(*instance, *meta) func(V, T, bool) (V2, bool) {
		return func(v V, right T, ok bool) (V2, bool) { return f(v, right, ok), true }
	})
}

// joinTable adds a join: mk gives what makes the result in one task, or says that there is none. ok says that the table has the key.
func joinTable[K, V, T, V2 any](s Stream[K, V], t Table[K, T], verb, kind string, mk func(*instance, *meta) func(v V, right T, ok bool) (V2, bool)) Stream[K, V2] {
	b := s.n.b
	switch {
	case !belongs(b, t.n, verb, "table"):
		return Stream[K, V2]{&node[K, V2]{b: b, m: s.n.m, key: s.n.key, changed: s.n.changed}}
	case s.n.key == nil:
		b.fail("%s: the stream's key may have been changed by %s, so the table's entry may be on another partition; use GroupBy(…).Stream() or Repartition first", verb, s.n.changed)
	case t.store.spec.Kind != state.KeyValueKind:
		b.fail("%s: table %q is windowed; a stream can join a table of plain keys", verb, t.store.spec.Name)
	}
	m := b.node(graph.ProcessorNode, kind, s.n.m)
	m.stores = append(m.stores, t.store)
	n := &node[K, V2]{b: b, m: m, key: s.n.key, oneToOne: s.n.oneToOne}
	name := t.store.spec.Name
	attach(s.n, n, func(in *instance, push func(Record[K, V2]) error) func(Record[K, V]) error {
		store, err := in.rt.OpenStore(name, state.KeyValueKind)
		if err != nil { // the plan lists the store: this cannot be
			return func(Record[K, V]) error { return err }
		}
		guard := keyed[K, V](in, m, t.n.key) // as the table's topic encodes keys
		join := mk(in, m)
		return func(rec Record[K, V]) error {
			r, key, err := guard(rec)
			if r == nil || err != nil {
				return err
			}
			stored, has, err := store.Get(key)
			if err != nil {
				return err
			}
			var right T
			if has {
				_, value, err := state.SplitValue(stored)
				if err != nil {
					return fmt.Errorf("table %s: %w", name, err)
				}
				if right, err = t.value.Decode(value); err != nil {
					return fmt.Errorf("decode the value in table %s: %w", name, err)
				}
			}
			v, keep := join(r.Value, right, has)
			if !keep {
				return nil
			}
			return push(Record[K, V2]{Key: r.Key, Value: v, Time: r.Time, trace: r.trace})
		}
	})
	return Stream[K, V2]{n}
}
