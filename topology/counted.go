package topology

import (
	"encoding/binary"
	"fmt"

	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/window"
)

// windowedByCount is Windowed for windows of so many records.
func windowedByCount[K, V any](g Grouped[K, V], out *Grouped[window.Key[K], V], w window.CountWindows) {
	how := out.window
	if how.late != window.Drop() && how.late.Validate() == nil {
		g.b.fail("Windowed: nothing is late for %v, so there is nothing to do about it; give it window.Drop()", w)
	}
	if past := g.m.past; past.retract {
		g.b.fail("Windowed: the windows made at %s take results back, and one that is taken back would be counted as a record of %v; use windows of time", past.at, w)
	}
	out.input = func(st *storeDef, emit emission, mk func(*instance, state.Store) (fold[window.Key[K], V], error)) {
		counts := g.b.within(st.owner, st.spec.Name, "-counts", "counts", state.Spec{Kind: state.KeyValueKind})
		if g.n == nil {
			return
		}
		m := st.owner
		g.n.edges = append(g.n.edges, func(in *instance) (consumer[K, V], error) {
			store, err := in.rt.OpenStore(st.spec.Name, state.WindowKind)
			if err != nil {
				return consumer[K, V]{}, err
			}
			op := &countOp[K, V]{at: in.rt.At(), m: m, name: st.spec.Name, windows: w, how: emit, store: store, guard: keyed[K, V](in, m, g.key)}
			if op.counts, err = in.rt.OpenStore(counts.spec.Name, state.KeyValueKind); err != nil {
				return consumer[K, V]{}, err
			}
			if op.fold, err = mk(in, store); err != nil {
				return consumer[K, V]{}, err
			}
			if op.fold.kept != nil {
				op.fold.kept.endsWith(op.full)
			}
			return consumer[K, V]{push: op.push, advance: op.fold.advance}, nil
		})
	}
}

// countOp numbers the records of each key, and closes a window with its last one. A result has the time of one of its records, and is
// given when the last comes: what is not late in front of it is not late behind it, so it does not hold the watermark.
type countOp[K, V any] struct {
	at      *int
	m       *meta
	name    string
	windows window.CountWindows
	how     emission
	fold    fold[window.Key[K], V]
	store   state.Store
	counts  state.Store // how many records of each key have come
	guard   func(Record[K, V]) (*Record[K, V], []byte, error)

	kr  Record[window.Key[K], V]
	buf []byte
}

func (op *countOp[K, V]) push(rec Record[K, V]) error {
	r, key, err := op.guard(rec)
	if r == nil || err != nil {
		return err
	}
	n, err := op.count(key)
	if err != nil {
		return err
	}
	op.buf = binary.BigEndian.AppendUint64(state.AppendValue(op.buf[:0], r.Time, nil), uint64(n+1))
	if err := op.counts.Put(key, op.buf); err != nil {
		return err
	}
	start := n - n%int64(op.windows.Records())
	k := window.Key[K]{Key: r.Key, Start: start, End: op.windows.End(start)}
	op.kr = Record[window.Key[K], V]{Key: k, Value: r.Value, Time: r.Time, trace: r.trace}
	op.buf = state.AppendWindowKey(op.buf[:0], start, key)
	if err := op.fold.add(k, op.buf, &op.kr, false); err != nil || n+1 < k.End {
		return err
	}
	*op.at = op.m.local
	if op.fold.kept != nil {
		return nil // it goes when it has given its result
	}
	if op.how.onClose {
		stored, ok, err := op.store.Get(op.buf)
		if err != nil {
			return err
		}
		if ok {
			if err := op.fold.close(k, op.buf, stored); err != nil {
				return err
			}
		}
	}
	if op.fold.panes != nil {
		if err := op.fold.panes.Delete(op.buf); err != nil {
			return err
		}
	}
	return op.store.Delete(op.buf)
}

// count is how many records of a key have come.
func (op *countOp[K, V]) count(key []byte) (int64, error) {
	stored, ok, err := op.counts.Get(key)
	if err != nil || !ok {
		return 0, err
	}
	_, b, err := state.SplitValue(stored)
	if err != nil || len(b) != 8 {
		return 0, fmt.Errorf("store %s-counts: a value of %d bytes is no count", op.name, len(stored))
	}
	return int64(binary.BigEndian.Uint64(b)), nil
}

// full says whether all records of a window have come.
func (op *countOp[K, V]) full(storeKey []byte) (bool, error) {
	start, key, ok := state.SplitWindowKey(storeKey)
	if !ok {
		return false, fmt.Errorf("window store %s: a key of %d bytes is too short for a window", op.name, len(storeKey))
	}
	n, err := op.count(key)
	return n >= op.windows.End(start), err
}
