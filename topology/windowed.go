package topology

import (
	"fmt"
	"time"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/window"
)

// Windowed divides a group by time: what is aggregated behind it is kept for each key and window. A window closes when the
// operator's watermark reaches its end plus the grace: on-close results go out, its state is deleted, and a record for it is late
// from then on. late says what becomes of late records: window.Drop or window.Sideline. A record that is late for some of its
// windows only, which happens with hopping ones, goes into the others. Kafka Streams: KGroupedStream.windowedBy.
//
// The watermark is the smallest of what feeds the operator. In front of a repartition topic that is the task's own input partitions,
// behind one it is every task that writes the topic, and so every partition that those read. A partition of which no record has
// come yet holds it back: as long as one of them is empty, no window closes and nothing is late. There is no timeout for
// partitions that are quiet or empty yet.
//
// Behind a repartition topic the watermark moves once per commit of a writer, behind the records of that commit. So a record counts
// that is in the same commit as the one that would have made it late. Where a commit ends depends on how the application ran: two
// runs over the same input may judge such a record differently, and so may the same run after an abort that made it do a commit's
// work again. What has been committed is never decided again.
func Windowed[K, V any](g Grouped[K, V], w window.Fixed, late window.Late) Grouped[window.Key[K], V] {
	b := g.b
	if g.window != nil {
		b.fail("Windowed: the group is windowed already; aggregate it, and window the result")
	}
	b.check(w.Validate())
	b.check(late.Validate())
	def := &windowing{b: b, fixed: w, late: late}
	out := Grouped[window.Key[K], V]{
		b: b, m: g.m, window: def,
		key: window.KeySerde(g.key).Size(time.Duration(w.SizeMillis()) * time.Millisecond),
	}
	if g.n == nil {
		out.input = func(*storeDef, bool, func(*instance, state.Store) (fold[window.Key[K], V], error)) {}
		return out
	}
	def.oneToOne = g.n.oneToOne
	out.input = func(st *storeDef, onClose bool, mk func(*instance, state.Store) (fold[window.Key[K], V], error)) {
		m := st.owner
		g.n.edges = append(g.n.edges, func(in *instance) (consumer[K, V], error) {
			opened, err := in.rt.OpenStore(st.spec.Name, state.WindowKind)
			if err != nil {
				return consumer[K, V]{}, err
			}
			store, ok := opened.(graph.Expirer)
			if !ok {
				return consumer[K, V]{}, fmt.Errorf("window store %s: the runtime's %T cannot expire windows", st.spec.Name, opened)
			}
			f, err := mk(in, store)
			if err != nil {
				return consumer[K, V]{}, err
			}
			op := &windowOp[K, V]{
				rt: in.rt, at: in.rt.At(), m: m, name: st.spec.Name, fixed: w, onClose: onClose, key: g.key,
				fold: f, store: store, w: graph.Unknown, sent: graph.Unknown, from: graph.Unknown,
				guard: keyed[K, V](in, m, g.key), sideline: def.sideline,
			}
			in.clocks = append(in.clocks, op)
			return consumer[K, V]{push: op.push, advance: op.advance}, nil
		})
	}
	return out
}

// closeBatch is how many windows one look into the store finds at most.
const closeBatch = 256

// windowOp assigns records to windows, and closes them.
//
// Two invariants. Every window in the store starts at from or later. While a window that the watermark has passed is still in the
// store, the watermark behind the operator stays where it was; otherwise it is the start of the earliest window that is not
// closed, whether it holds anything or not, since a record may still come for it.
type windowOp[K, V any] struct {
	rt      graph.Runtime
	at      *int
	m       *meta
	name    string
	fixed   window.Fixed
	onClose bool
	key     serde.Serde[K]
	fold    fold[window.Key[K], V]
	store   graph.Expirer
	guard   func(Record[K, V]) (*Record[K, V], []byte, error)

	w    int64 // the operator's own watermark
	sent int64 // what it last told those behind it
	from int64
	due  [][]byte // store keys of closed windows, found and not yet done
	more bool     // the look that found them stopped at closeBatch
	next []byte   // where the next look starts then: those before are done, and stay in the overlay as deletions until the commit

	kr Record[window.Key[K], V] // the record in process, as keyed's

	sideline *sinkDef
	aside    graph.Raw // the input record set aside last: topic, partition and offset
	buf      []byte
}

func (op *windowOp[K, V]) push(rec Record[K, V]) error {
	r, key, err := op.guard(rec)
	if r == nil || err != nil {
		return err
	}
	var missed []int64 // starts; late records are few
	took := false
	for start := range op.fixed.Starts(r.Time) {
		if op.fixed.Closed(start, op.w) && !reopenClosed {
			missed = append(missed, start)
			continue
		}
		took = true
		*op.at = op.m.local // the window before this one may have passed its result on
		op.buf = state.AppendWindowKey(op.buf[:0], start, key)
		op.from = min(op.from, start)
		k := window.Key[K]{Key: r.Key, Start: start, End: op.fixed.End(start)}
		op.kr = Record[window.Key[K], V]{Key: k, Value: r.Value, Time: r.Time, raw: r.raw}
		if err := op.fold.add(k, op.buf, &op.kr); err != nil {
			return err
		}
	}
	if len(missed) > 0 {
		op.late(r, missed, took)
	}
	return nil
}

// late applies the policy to a record that came too late for the windows at these starts.
func (op *windowOp[K, V]) late(r *Record[K, V], missed []int64, took bool) {
	if op.sideline == nil {
		for range missed {
			op.rt.Count(op.m.local, graph.LateDropped)
		}
		return
	}
	raw := op.rt.Record()
	if raw.Offset == op.aside.Offset && raw.Partition == op.aside.Partition && raw.Topic == op.aside.Topic {
		return // it came by two ways, and is set aside once
	}
	op.aside = graph.Raw{Topic: raw.Topic, Partition: raw.Partition, Offset: raw.Offset}
	op.rt.Count(op.m.local, graph.LateSidelined)
	l := graph.Late{
		Sink: op.sideline.local, Operator: op.name, EventTime: r.Time, Watermark: op.w, Grace: op.fixed.GraceMillis(), Partial: took,
	}
	for _, start := range missed {
		l.Windows = append(l.Windows, graph.Interval{Start: start, End: op.fixed.End(start)})
	}
	op.rt.Sideline(l)
}

func (op *windowOp[K, V]) advance(w int64) {
	op.w = max(op.w, w)
	if !op.Due(0) || forwardEarly {
		op.forward()
	}
}

// forward tells those behind how far event time is. Only when no closed window is left in the store.
func (op *windowOp[K, V]) forward() {
	if hold := op.fixed.Hold(op.w); op.w != graph.Unknown && hold > op.sent {
		op.sent = hold
		op.fold.advance(hold)
	}
}

func (op *windowOp[K, V]) Name() string     { return op.name }
func (op *windowOp[K, V]) Node() int        { return op.m.local }
func (op *windowOp[K, V]) Watermark() int64 { return op.w }

// Due says yes when a closed window may be in the store; Fire looks.
func (op *windowOp[K, V]) Due(int64) bool {
	return len(op.due) > 0 || (op.w != graph.Unknown && op.from < op.fixed.Hold(op.w))
}

// Fire closes one window, or finds that there is none. Where nothing is emitted on closing it closes all of them at once, and the
// changelog is not told: a restore brings them back, and the watermark that comes with it closes them again.
func (op *windowOp[K, V]) Fire(int64) error {
	if !op.onClose {
		return op.expire()
	}
	if len(op.due) == 0 {
		if err := op.look(); err != nil || len(op.due) == 0 {
			return err
		}
	}
	key := op.due[0]
	stored, ok, err := op.store.Get(key)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("window store %s: a window to close is no longer there", op.name)
	}
	start, inner, ok := state.SplitWindowKey(key)
	if !ok {
		return fmt.Errorf("window store %s: a key of %d bytes is too short for a window", op.name, len(key))
	}
	at, _, err := state.SplitValue(stored)
	if err != nil {
		return fmt.Errorf("window store %s: %w", op.name, err)
	}
	op.rt.SetTime(at)
	k, err := op.key.Decode(inner)
	if err != nil {
		return fmt.Errorf("decode the key of a window in store %s: %w", op.name, err)
	}
	if err := op.fold.closed(window.Key[K]{Key: k, Start: start, End: op.fixed.End(start)}, at, stored); err != nil {
		return err
	}
	return op.store.Delete(key)
}

// look finds the next closed windows, by start and then by key.
func (op *windowOp[K, V]) look() error {
	hold := op.fixed.Hold(op.w)
	from := op.next
	if !op.more {
		from = state.AppendWindowStart(nil, op.from)
	}
	op.due, op.more = op.due[:0], false
	for e, err := range op.store.Scan(from, state.AppendWindowStart(nil, hold)) {
		if err != nil {
			return err
		}
		if len(op.due) == closeBatch {
			op.more, op.next = true, e.Key
			break
		}
		op.due = append(op.due, e.Key)
	}
	if len(op.due) == 0 {
		op.from = hold
	}
	return nil
}

// Fired goes on to the next window. One whose result could not be emitted, and whom the policy skips, is deleted without it.
func (op *windowOp[K, V]) Fired(failed bool) error {
	if !op.onClose {
		op.from = op.fixed.Hold(op.w)
	}
	if len(op.due) > 0 {
		key := op.due[0]
		if failed {
			if err := op.store.Delete(key); err != nil {
				return err
			}
		}
		if start, _, ok := state.SplitWindowKey(key); ok {
			op.from = start // others of the same start may follow
		}
		op.due = op.due[1:]
		if len(op.due) == 0 && !op.more {
			op.from = op.fixed.Hold(op.w)
		}
	}
	if !op.Due(0) {
		op.forward()
	}
	return nil
}

func (op *windowOp[K, V]) Save(dst []int64) []int64 { return append(dst, op.w) }

// Load sets the watermark. What was due for emission when it was saved is still in the store, and is found there. What was closed
// without, a restore may have brought back.
func (op *windowOp[K, V]) Load(v []int64) error {
	if len(v) != 1 {
		return fmt.Errorf("%d values, want 1", len(v))
	}
	op.w = v[0]
	if op.onClose || op.w == graph.Unknown || backFromChangelog {
		return nil
	}
	if err := op.expire(); err != nil {
		return err
	}
	op.from = op.fixed.Hold(op.w)
	return nil
}

func (op *windowOp[K, V]) expire() error {
	return op.store.Expire(state.AppendWindowStart(nil, op.fixed.Hold(op.w)))
}
