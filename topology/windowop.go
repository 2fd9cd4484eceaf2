package topology

import (
	"fmt"
	"math"
	"slices"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/window"
)

// windowOp assigns records to windows, and closes them.
//
// A window goes through three states, in order of its start: it is open; closed, when its result has gone out, if there is one on
// closing; and gone, when it is deleted. Without corrections it is gone when it has closed. Windows are deleted by one bound that the
// changelog is not told of: a restore brings them back, and the watermark that comes with it deletes them again.
//
// Invariants. Every window in the store starts at low or later. No record is taken while a closed window has its result to give: the
// engine does what is due first. The watermark behind the operator stays where it was until all results have gone out, and is then the
// start of the earliest window that is not closed, whether it holds anything or not, since a record may still come for it.
type windowOp[K, V any] struct {
	lateness
	at        *int
	windows   window.Windows
	horizon   int64 // of corrections
	byChannel bool  // late is judged by the input partition's watermark, too
	how       emission
	key       serde.Serde[K]
	fold      fold[window.Key[K], V]
	store     graph.Expirer
	panes     graph.Expirer // nil where results are not remembered
	guard     func(Record[K, V]) (*Record[K, V], []byte, error)

	w       int64 // the operator's own watermark
	sent    int64 // what it last told those behind it
	low     int64
	closing cursor // results on closing: all before it have gone out
	round   int64  // early results have gone out for the watermark up to here
	walking bool   // a round is going on, and
	opening cursor // has given those of all before it

	owed    bool                     // the unit in process gave a result that waited for the commit
	doing   *cursor                  // the unit in process
	kr      Record[window.Key[K], V] // the record in process, as keyed's
	missing []graph.Interval
	buf     []byte
}

func (op *windowOp[K, V]) push(rec Record[K, V]) error {
	r, key, err := op.guard(rec)
	if r == nil || err != nil {
		return err
	}
	op.missing = op.missing[:0]
	took := false
	judge := op.w // of what is gone
	if op.byChannel {
		judge = max(judge, op.rt.SourceWatermark())
	}
	for start := op.windows.First(r.Time); start <= r.Time; {
		closed := window.Closed(op.windows, start, op.w)
		switch {
		case (closed || op.byChannel) && !reopenClosed && op.gone(start, judge):
			op.missing = append(op.missing, graph.Interval{Start: start, End: op.windows.End(start)})
		default:
			took = true
			*op.at = op.m.local // the window before this one may have passed its result on
			op.buf = state.AppendWindowKey(op.buf[:0], start, key)
			op.low = min(op.low, start)
			k := window.Key[K]{Key: r.Key, Start: start, End: op.windows.End(start)}
			op.kr = Record[window.Key[K], V]{Key: k, Value: r.Value, Time: r.Time, trace: r.trace}
			if err := op.fold.add(k, op.buf, &op.kr, closed && !reopenClosed); err != nil {
				return err
			}
		}
		next := op.windows.Next(start)
		if next <= start {
			break
		}
		start = next
	}
	if len(op.missing) > 0 {
		op.missed(r.Time, judge, slices.Clone(op.missing), took)
	} else if !took {
		op.rt.Count(op.m.local, graph.NoWindow)
	}
	return nil
}

// gone says whether a window is closed at watermark w, and too old to be corrected.
func (op *windowOp[K, V]) gone(start, w int64) bool {
	return window.Closed(op.windows, start, w) && (op.horizon == 0 || start < op.floorAt(w))
}

// hold is the start of the earliest window that is not closed, and floor of the earliest that is not gone.
func (op *windowOp[K, V]) hold() int64 { return window.Hold(op.windows, op.w) }

func (op *windowOp[K, V]) floor() int64 { return op.floorAt(op.w) }

func (op *windowOp[K, V]) floorAt(w int64) int64 {
	if op.horizon == 0 {
		return window.Hold(op.windows, w)
	}
	return window.Open(op.windows, w, op.windows.GraceMillis()+op.horizon)
}

func (op *windowOp[K, V]) advance(w int64) {
	op.w = max(op.w, w)
	if op.how.every && op.round == graph.Unknown && op.w != graph.Unknown {
		op.round = op.multiple() // nothing was passed: it begins here
	}
	if !op.Due(0) || forwardEarly {
		op.forward()
	}
}

// forward tells those behind how far event time is. Only when nothing is due.
func (op *windowOp[K, V]) forward() {
	if hold := op.hold(); op.w != graph.Unknown && hold > op.sent {
		op.sent = hold
		op.fold.advance(hold)
	}
}

func (op *windowOp[K, V]) Name() string     { return op.name }
func (op *windowOp[K, V]) Node() int        { return op.m.local }
func (op *windowOp[K, V]) Watermark() int64 { return op.w }

// Due says yes when there may be something; Fire looks.
func (op *windowOp[K, V]) Due(int64) bool {
	return op.w != graph.Unknown && (op.closes() || op.expires() || op.opens())
}

func (op *windowOp[K, V]) closes() bool  { return op.how.onClose && op.closing.behind(op.hold()) }
func (op *windowOp[K, V]) expires() bool { return !op.goes() && op.low < op.floor() }
func (op *windowOp[K, V]) opens() bool   { return op.how.every && op.round < op.multiple() }

// goes says whether a window is gone with its result.
func (op *windowOp[K, V]) goes() bool { return op.how.onClose && op.horizon == 0 }

// multiple is the last time for early results that the watermark has passed.
func (op *windowOp[K, V]) multiple() int64 {
	d := op.how.earlyEvery.Milliseconds()
	past := op.w % d
	if past < 0 {
		past += d
	}
	if op.w < math.MinInt64+past {
		return math.MinInt64
	}
	return op.w - past
}

// Fire gives one result, or finds that there is none, or deletes what is gone.
func (op *windowOp[K, V]) Fire(int64) error {
	op.doing = nil
	switch {
	case op.closes():
		op.doing = &op.closing
		if found, err := op.closing.look(op.store, op.hold()); err != nil || !found {
			return err
		}
		return op.close(op.closing.due[0])
	case op.expires():
		op.owed = op.owes()
		if op.owed {
			return op.fold.kept.give()
		}
		return op.expire(op.floor())
	case op.opens():
		op.doing = &op.opening
		if !op.walking {
			op.walking = true
			op.opening.reset(op.hold())
		}
		found, err := op.opening.look(op.panes, math.MaxInt64)
		if err != nil || !found {
			return err
		}
		key := op.opening.due[0]
		k, err := op.windowKey(key)
		if err != nil {
			return err
		}
		return op.fold.early(k, key)
	}
	return nil
}

// owes says whether a result waits for the commit whose window is about to be deleted.
func (op *windowOp[K, V]) owes() bool {
	return op.fold.kept != nil && op.fold.kept.Holds() && op.fold.kept.owesBelow(state.AppendWindowStart(nil, op.floor()))
}

// close gives the result of one window and key.
func (op *windowOp[K, V]) close(key []byte) error {
	stored, ok, err := op.store.Get(key)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("window store %s: a window to close is no longer there", op.name)
	}
	at, _, err := state.SplitValue(stored)
	if err != nil {
		return fmt.Errorf("window store %s: %w", op.name, err)
	}
	op.rt.SetTime(at)
	k, err := op.windowKey(key)
	if err != nil {
		return err
	}
	return op.fold.close(k, key, stored)
}

func (op *windowOp[K, V]) windowKey(key []byte) (window.Key[K], error) {
	start, inner, ok := state.SplitWindowKey(key)
	if !ok {
		return window.Key[K]{}, fmt.Errorf("window store %s: a key of %d bytes is too short for a window", op.name, len(key))
	}
	k, err := op.key.Decode(inner)
	if err != nil {
		return window.Key[K]{}, fmt.Errorf("decode the key of a window in store %s: %w", op.name, err)
	}
	return window.Key[K]{Key: k, Start: start, End: op.windows.End(start)}, nil
}

// Fired goes on to the next window. One whose result could not be emitted, and whom the policy skips, is deleted without it.
func (op *windowOp[K, V]) Fired(failed bool) error {
	switch c := op.doing; {
	case op.owed:
		op.owed = false
		if err := op.fold.kept.Fired(failed); err != nil {
			return err
		}
	case c == nil:
		op.low = max(op.low, op.floor())
	case c == &op.closing:
		if failed && len(c.due) > 0 {
			if err := op.store.Delete(c.due[0]); err != nil {
				return err
			}
		}
		if c.done(!failed && !op.how.discard) {
			c.reset(op.hold())
		}
		if op.goes() { // room is made while a long row of windows closes, and not only at its end
			if err := op.expire(min(c.from, op.hold())); err != nil {
				return err
			}
		}
	case c.done(true):
		op.walking, op.round = false, op.multiple()
	}
	op.onward()
	return nil
}

// onward lets the watermark go on when nothing is due.
func (op *windowOp[K, V]) onward() {
	if op.w != graph.Unknown && !op.Due(0) {
		op.forward()
	}
}

// Save keeps the watermark, where the closing stands and for when the last early results went out.
func (op *windowOp[K, V]) Save(dst []int64) []int64 {
	if !op.how.onClose {
		return append(dst, op.w)
	}
	dst = append(dst, op.w, op.closing.from, int64(op.closing.skip))
	if op.how.every {
		dst = append(dst, op.round)
	}
	return dst
}

// Load sets what Save gave. A restore may have brought back what is gone. Where only the watermark was kept, results on closing had
// windows deleted: what is in the store has not been emitted.
func (op *windowOp[K, V]) Load(v []int64) error {
	if len(v) != 1 && len(v) != 3 && len(v) != 4 {
		return fmt.Errorf("%d values, want 1, 3 or 4", len(v))
	}
	op.w = v[0]
	op.closing.reset(graph.Unknown)
	if op.how.onClose && len(v) > 1 {
		op.closing.from, op.closing.skip = v[1], int(v[2])
	}
	if op.how.every && len(v) > 3 {
		op.round = v[3]
	}
	if op.w == graph.Unknown || backFromChangelog {
		return nil
	}
	to := op.floor()
	if op.how.onClose {
		to = min(to, op.closing.from)
	}
	if to == graph.Unknown {
		return nil
	}
	return op.expire(to)
}

// expire deletes the windows that start before to.
func (op *windowOp[K, V]) expire(to int64) error {
	if to <= op.low {
		return nil
	}
	op.low = to
	bound := state.AppendWindowStart(op.buf[:0], to)
	op.buf = bound
	if op.panes != nil {
		if err := op.panes.Expire(bound); err != nil {
			return err
		}
	}
	return op.store.Expire(bound)
}

// lookBatch is how many windows one look into the store finds at most.
const lookBatch = 256

// cursor is how far a walk over windows has come, by start and then by the bytes of the key. It is kept as two numbers: nothing is
// added to what it has passed, and what it has yet to pass is in the store.
type cursor struct {
	from int64 // all windows that start before it are done
	skip int   // and so many of those that start with it
	due  [][]byte
	more bool   // the look that found them stopped at lookBatch
	next []byte // where the next look starts then
}

// reset sets the walk to all windows that start at from or later.
func (c *cursor) reset(from int64) { *c = cursor{from: from, due: c.due[:0]} }

// behind says whether there may be windows before to.
func (c *cursor) behind(to int64) bool { return len(c.due) > 0 || c.more || c.from < to }

// look finds the next windows that start before to, unless some have been found already. With none the walk has ended.
func (c *cursor) look(s state.Store, to int64) (bool, error) {
	if len(c.due) > 0 {
		return true, nil
	}
	from, skip := c.next, 0
	if !c.more {
		from, skip = state.AppendWindowStart(nil, c.from), c.skip
	}
	c.more = false
	for e, err := range s.Scan(from, state.AppendWindowStart(nil, to)) {
		if err != nil {
			return false, err
		}
		if skip > 0 {
			if start, _, ok := state.SplitWindowKey(e.Key); ok && start == c.from {
				skip--
				continue
			}
			skip = 0
		}
		if len(c.due) == lookBatch {
			c.more, c.next = true, e.Key
			break
		}
		c.due = append(c.due, e.Key)
	}
	return len(c.due) > 0, nil
}

// done goes on behind the first of what was found, and says whether the walk has ended. stays says that it is still in the store.
func (c *cursor) done(stays bool) (ended bool) {
	if len(c.due) == 0 {
		return true
	}
	if start, _, ok := state.SplitWindowKey(c.due[0]); ok && start != c.from {
		c.from, c.skip = start, 0
	}
	if stays {
		c.skip++
	}
	c.due = c.due[1:]
	return len(c.due) == 0 && !c.more
}
