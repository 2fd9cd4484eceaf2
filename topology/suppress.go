package topology

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
)

// Suppression says how long Table.Suppress keeps changes back, and how many. UntilWindowCloses and UntilTimeLimit make it; the zero one
// is refused. Kafka Streams: Suppressed.
type Suppression struct {
	kind    suppressionKind
	limit   time.Duration
	bounded bool
	records int
	bytes   int64
	full    whenFull
}

type (
	suppressionKind uint8
	whenFull        uint8
)

const (
	untilCloses suppressionKind = 1 + iota
	untilLimit

	failWhenFull whenFull = 1 + iota
	emitWhenFull
)

// UntilWindowCloses keeps the changes of a windowed table back until the window has closed, and passes the last of them on: one result
// for each window and key, with its own event time and headers, and no record that is late for it can come any more. A window whose last
// change deletes it gives nothing.
//
// It is for tables that emit on every update, and it keeps what they have a second time. EmitFinal gives the same results without
// that. Kafka Streams: Suppressed.untilWindowCloses.
func UntilWindowCloses() Suppression { return Suppression{kind: untilCloses} }

// UntilTimeLimit keeps the changes of a key back for d of event time: the first one starts the time, those that follow replace it, and the
// last of them is passed on when the watermark is d past the event time of the first. A deletion is a change like any other. The next
// change starts anew. So a key changes no more often than every d, and its last change is never lost. Kafka Streams:
// Suppressed.untilTimeLimit.
func UntilTimeLimit(d time.Duration) Suppression { return Suppression{kind: untilLimit, limit: d} }

// MaxRecords bounds how many keys are kept back in each task. FailWhenFull or EmitEarlyWhenFull must say what happens then. Kafka
// Streams: BufferConfig.maxRecords, which bounds an application's thread.
func (s Suppression) MaxRecords(n int) Suppression {
	s.records, s.bounded = n, true
	return s
}

// MaxBytes bounds how many bytes are kept back in each task: keys, values and headers as they are stored. FailWhenFull or
// EmitEarlyWhenFull must say what happens then. Kafka Streams: BufferConfig.maxBytes.
func (s Suppression) MaxBytes(n int64) Suppression {
	s.bytes, s.bounded = n, true
	return s
}

// FailWhenFull makes a change for which there is no room an error of its record, which the policy decides on: by default the
// application ends. Kafka Streams: shutDownWhenFull.
func (s Suppression) FailWhenFull() Suppression {
	s.full = failWhenFull
	return s
}

// EmitEarlyWhenFull passes on what was kept back the longest, before its time, until the rest has room. It makes more results than were
// asked for, so it is not for UntilWindowCloses. Kafka Streams: emitEarlyWhenFull.
func (s Suppression) EmitEarlyWhenFull() Suppression {
	s.full = emitWhenFull
	return s
}

// Suppress keeps changes of the table back, in the store of that name, and passes the last one of each key on when its time has come: by
// that time, then by the bytes of the key. It goes on with its event time, its headers and its pane, but for the pane of a window that
// has closed, which has no other result then.
//
// The watermark behind it is held at the smallest event time that is kept back, so that nothing is late for operators behind that
// was not late here. What is kept back is state: restored, moved, and part of the transaction. Null keys are dropped and counted.
// Kafka Streams: KTable.suppress.
func (t Table[K, V]) Suppress(name string, until Suppression) Stream[K, V] {
	b := builder(t.n)
	b.suppresses(name, until, t.window, t.how)
	m := b.node(graph.ProcessorNode, "KTABLE-SUPPRESS-", t.n.m)
	before := len(b.errs)
	def := b.store(m, state.Spec{Name: name, Kind: state.KeyValueKind})
	if len(b.errs) == before {
		b.clock("Suppress", name)
	}
	if until.kind == untilCloses {
		m.past = revised{} // one result for each window
	}
	n := &node[K, V]{b: b, m: m, key: t.n.key}
	t.n.edges = append(t.n.edges, func(in *instance) (consumer[K, V], error) {
		out, err := n.build(in)
		if err != nil {
			return consumer[K, V]{}, err
		}
		store, err := in.rt.OpenStore(def.spec.Name, state.KeyValueKind)
		if err != nil {
			return consumer[K, V]{}, err
		}
		op := &suppressOp[K, V]{
			agenda: agenda{store: store, index: allOf(dueTag)}, oldest: allOf(dueTag), lows: allOf(holdTag),
			rt: in.rt, at: in.rt.At(), m: m, name: name, until: until, sessions: t.window != nil && t.window.merges,
			key: t.n.key, serde: t.value, out: out, w: graph.Unknown, sent: graph.Unknown, over: until.full == emitWhenFull,
		}
		in.clocks = append(in.clocks, op)
		return consumer[K, V]{push: op.push, advance: op.advance}, nil
	})
	return Stream[K, V]{n}
}

// suppresses finds what contradicts in what is said of a table whose windows and emission are these.
func (b *Builder) suppresses(name string, s Suppression, w *windowing, how emission) {
	fail := func(format string, args ...any) { b.fail("Suppress %q: "+format, append([]any{name}, args...)...) }
	switch s.kind {
	case untilCloses:
		switch {
		case w == nil:
			fail("UntilWindowCloses: the table has no windows that could close; use it behind Windowed, or UntilTimeLimit")
		case w.counts():
			fail("UntilWindowCloses: the windows hold so many records each, and are closed by the last of them; use EmitFinal")
		case how.correct:
			fail("UntilWindowCloses promises one result for each window, and window.CorrectWithin sends more; use EmitOnClose instead")
		}
		if s.full == emitWhenFull {
			fail("UntilWindowCloses with EmitEarlyWhenFull: a result that goes out early is not the last; use FailWhenFull")
		}
	case untilLimit:
		if s.limit < time.Millisecond || s.limit%time.Millisecond != 0 {
			fail("UntilTimeLimit(%v): give a positive number of milliseconds", s.limit)
		}
	default:
		fail("it does not say how long; use UntilWindowCloses or UntilTimeLimit")
	}
	if how.discard || how.retract {
		fail("each result of the windows counts, as they discard or retract, and a change that is replaced would be missing; leave Discarding, Retracting or Retract out")
	}
	switch {
	case s.records < 0 || s.bytes < 0 || s.bounded && s.records == 0 && s.bytes == 0:
		fail("MaxRecords and MaxBytes: give 1 or more")
	case s.bounded && s.full == 0:
		fail("it is bounded and does not say what happens when it is full; add FailWhenFull or EmitEarlyWhenFull")
	case !s.bounded && s.full != 0:
		fail("it says what happens when it is full, and has no bound; add MaxRecords or MaxBytes")
	}
}

// suppressOp keeps changes back in one task.
//
// The store has an entry for each key that is kept back, and an index by what its time is counted from: the event time of the first change,
// the start of the window, or the end of the session. Where a later change has an earlier event time, a second index has that.
type suppressOp[K, V any] struct {
	agenda
	oldest timeIndex // the first entry of the index, due or not
	lows   timeIndex

	rt       graph.Runtime
	at       *int
	m        *meta
	name     string
	until    Suppression
	sessions bool
	key      serde.Serde[K]
	serde    serde.Serde[V]
	out      consumer[K, V]

	w, sent int64
	over    bool // more than the bounds may be kept back

	passing []byte // the entry of the index whose change is being passed on
	kbuf    []byte // of keys, with their tag
	vbuf    []byte
}

// sizeKey has how much is kept back, where that is bounded.
var sizeKey = []byte{'s'}

func (op *suppressOp[K, V]) push(rec Record[K, V]) error {
	*op.at = op.m.local
	if rec.nullKey {
		op.rt.Count(op.m.local, graph.NullKey)
		return nil
	}
	var err error
	if op.kbuf, err = op.key.Append(append(op.kbuf[:0], keyTag), rec.Key); err != nil {
		return fmt.Errorf("encode the key for store %s: %w", op.name, err)
	}
	stored, had, err := op.store.Get(op.kbuf)
	if err != nil {
		return err
	}
	var have heldBack
	if had {
		if have, err = op.decode(stored); err != nil {
			return err
		}
	}
	if op.until.kind == untilCloses && rec.null {
		if !had {
			return nil
		}
		return op.remove(op.kbuf, stored, have)
	}
	now := heldBack{since: have.since, low: min(have.low, rec.Time), at: rec.Time, pane: rec.pane(), headers: rec.headers(), null: rec.null}
	if !had {
		now.since, now.low = rec.Time, rec.Time
	}
	if op.until.kind == untilCloses {
		if now.since, err = op.closing(op.kbuf[1:]); err != nil {
			return err
		}
		now.low, now.pane = now.since, Pane{}
	}
	op.vbuf = now.append(state.AppendValue(op.vbuf[:0], now.at, nil))
	if !rec.null {
		if op.vbuf, err = op.serde.Append(op.vbuf, rec.Value); err != nil {
			return fmt.Errorf("encode the value for store %s: %w", op.name, err)
		}
	}
	records, bytes := 0, len(op.vbuf)-len(stored)
	if !had {
		records, bytes = 1, bytes+len(op.kbuf)
		entry, err := op.put(dueTag, now.since, op.kbuf)
		if err != nil {
			return err
		}
		op.enter(entry)
		op.oldest.added(entry)
	}
	if now.low < now.since && (!had || now.low < have.low) {
		if had && have.low < have.since {
			op.lows.gone(have.low)
			if err := op.store.Delete(op.entry(holdTag, have.low, op.kbuf)); err != nil {
				return err
			}
		}
		entry, err := op.put(holdTag, now.low, op.kbuf)
		if err != nil {
			return err
		}
		op.lows.added(entry)
	}
	if err := op.store.Put(op.kbuf, op.vbuf); err != nil {
		return err
	}
	if now.since <= op.limit() {
		op.rt.Look() // it is due at once
	}
	return op.grow(records, bytes)
}

// grow counts what is kept back, if that is bounded.
func (op *suppressOp[K, V]) grow(records, bytes int) error {
	if !op.until.bounded {
		return nil
	}
	haveRecords, haveBytes, err := op.size()
	if err != nil {
		return err
	}
	haveRecords, haveBytes = haveRecords+int64(records), haveBytes+int64(bytes)
	if (records > 0 || bytes > 0) && op.exceeded(haveRecords, haveBytes) {
		if op.until.full == failWhenFull {
			return fmt.Errorf("suppress %s: no room: %d keys of %d bytes would be kept back, more than MaxRecords or MaxBytes allow; allow more, or use EmitEarlyWhenFull", op.name, haveRecords, haveBytes)
		}
		op.over = true
		op.rt.Look()
	}
	op.vbuf = state.AppendValue(op.vbuf[:0], op.store.Time(), nil)
	op.vbuf = binary.BigEndian.AppendUint64(op.vbuf, uint64(haveRecords))
	op.vbuf = binary.BigEndian.AppendUint64(op.vbuf, uint64(haveBytes))
	return op.store.Put(sizeKey, op.vbuf)
}

func (op *suppressOp[K, V]) exceeded(records, bytes int64) bool {
	return op.until.records > 0 && records > int64(op.until.records) || op.until.bytes > 0 && bytes > op.until.bytes
}

func (op *suppressOp[K, V]) size() (records, bytes int64, err error) {
	stored, ok, err := op.store.Get(sizeKey)
	if err != nil || !ok {
		return 0, 0, err
	}
	_, b, err := state.SplitValue(stored)
	if err == nil && len(b) != 16 {
		err = errors.New("what it says of its size is malformed")
	}
	if err != nil {
		return 0, 0, fmt.Errorf("store %s: %w", op.name, err)
	}
	return int64(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint64(b[8:])), nil
}

// closing is what the closing of a key's window goes by: its start, or the end of a session. Those in front hold the watermark there
// until it has closed.
func (op *suppressOp[K, V]) closing(key []byte) (int64, error) {
	n := len(key) - 8
	if op.sessions {
		n -= 8
	}
	if n < 0 {
		return 0, fmt.Errorf("suppress %s: a key of %d bytes is that of no window", op.name, len(key))
	}
	return int64(binary.BigEndian.Uint64(key[n:])), nil
}

// limit is how far the time of what is due may have been counted from.
func (op *suppressOp[K, V]) limit() int64 {
	switch {
	case op.w == graph.Unknown || op.w == math.MaxInt64:
		return op.w
	case op.until.kind == untilCloses:
		return op.w - 1
	}
	return max(op.w, math.MinInt64+op.until.limit.Milliseconds()) - op.until.limit.Milliseconds()
}

// remove takes all entries of a key away, and counts that.
func (op *suppressOp[K, V]) remove(key, stored []byte, have heldBack) error {
	op.oldest.gone(have.since)
	if err := op.store.Delete(op.entry(dueTag, have.since, key)); err != nil {
		return err
	}
	if have.low < have.since {
		op.lows.gone(have.low)
		if err := op.store.Delete(op.entry(holdTag, have.low, key)); err != nil {
			return err
		}
	}
	if err := op.store.Delete(key); err != nil {
		return err
	}
	op.rt.Look() // the watermark may go on
	return op.grow(-1, -len(stored)-len(key))
}

func (op *suppressOp[K, V]) advance(w int64) {
	op.w = max(op.w, w)
	op.forward()
}

// forward tells those behind how far event time is. Only when nothing is due.
func (op *suppressOp[K, V]) forward() {
	if op.ready() {
		return
	}
	w := op.w
	for _, x := range []*timeIndex{&op.oldest, &op.lows} {
		if !x.none {
			w = min(w, x.low)
		}
	}
	if w > op.sent {
		op.sent = w
		op.out.advance(w)
	}
}

// ready says whether something may be due.
func (op *suppressOp[K, V]) ready() bool {
	since, ok := op.next()
	return ok && op.w != graph.Unknown && since <= op.limit()
}

// unsure is an index that holds the watermark back, and may do so by mistake: at a time that nothing has any more.
func (op *suppressOp[K, V]) unsure() *timeIndex {
	for _, x := range []*timeIndex{&op.oldest, &op.lows} {
		if !x.none && !x.exact && x.low < op.w {
			return x
		}
	}
	return nil
}

func (op *suppressOp[K, V]) Name() string     { return op.name }
func (op *suppressOp[K, V]) Node() int        { return op.m.local }
func (op *suppressOp[K, V]) Watermark() int64 { return op.w }

func (op *suppressOp[K, V]) Due(int64) bool { return op.ready() || op.over || op.unsure() != nil }

// Fire passes one change on that is due, or the oldest if there is no room, or finds that there is none.
func (op *suppressOp[K, V]) Fire(int64) error {
	if op.ready() {
		if len(op.due) == 0 {
			return op.look()
		}
		return op.pass()
	}
	if x := op.unsure(); x != nil {
		return x.settle(op.store)
	}
	if op.over {
		records, bytes, err := op.size()
		if err != nil {
			return err
		}
		if op.over = op.exceeded(records, bytes); !op.over {
			return nil
		}
		if len(op.due) == 0 {
			if err := op.look(); err != nil || len(op.due) == 0 {
				op.over = false
				return err
			}
		}
		return op.pass()
	}
	return nil
}

// pass passes the first change of the list on, if it is still there.
func (op *suppressOp[K, V]) pass() error {
	entry := op.pop()
	since, key := splitIndex(entry)
	op.kbuf = append(append(op.kbuf[:0], keyTag), key...)
	stored, ok, err := op.store.Get(op.kbuf)
	if err != nil || !ok {
		return err
	}
	op.passing = entry
	have, err := op.decode(stored)
	if err != nil {
		return err
	}
	if have.since != since {
		op.passing = nil
		return nil
	}
	if err := op.remove(op.kbuf, stored, have); err != nil {
		return err
	}
	op.rt.SetTime(max(have.at, 0))
	r := Record[K, V]{Time: have.at, null: have.null}
	if len(have.headers) > 0 {
		r.raw = &graph.Raw{Headers: have.headers}
	}
	r.trace = r.as(have.pane)
	if r.Key, err = op.key.Decode(key); err != nil {
		return fmt.Errorf("decode a key in store %s: %w", op.name, err)
	}
	if !have.null {
		if r.Value, err = op.serde.Decode(have.value); err != nil {
			return fmt.Errorf("decode a value in store %s: %w", op.name, err)
		}
	}
	return op.out.push(r)
}

// Fired gives a change up that could not be passed on, and whom the policy skips: rolled back, it is there again.
func (op *suppressOp[K, V]) Fired(failed bool) error {
	entry := op.passing
	op.passing = nil
	if failed && entry != nil {
		since, key := splitIndex(entry)
		op.kbuf = append(append(op.kbuf[:0], keyTag), key...)
		stored, ok, err := op.store.Get(op.kbuf)
		if err != nil {
			return err
		}
		if ok {
			have, err := op.decode(stored)
			if err != nil {
				have = heldBack{since: since, low: since} // it can not even be read
			}
			if err := op.remove(op.kbuf, stored, have); err != nil {
				return err
			}
		}
	}
	op.forward()
	return nil
}

func (op *suppressOp[K, V]) Save(dst []int64) []int64 { return append(dst, op.w) }

func (op *suppressOp[K, V]) Load(v []int64) error {
	if len(v) != 1 {
		return fmt.Errorf("%d values, want 1", len(v))
	}
	op.w = v[0]
	return nil
}

func (op *suppressOp[K, V]) decode(stored []byte) (heldBack, error) {
	k, err := decodeHeldBack(stored)
	if err != nil {
		return k, fmt.Errorf("store %s: %w", op.name, err)
	}
	return k, nil
}
