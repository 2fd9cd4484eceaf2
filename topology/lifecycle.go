package topology

import (
	"fmt"
	"math"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/state"
)

// lifecycle is what windows and sessions of one store go through in one task.
//
// Each goes through three states, in order of its time, which is the start of a window and the end of a session: it is open; closed, when
// its result has gone out, if there is one on closing; and gone, when it is deleted. Without corrections it is gone when it has closed.
// They are deleted by one bound that the changelog is not told of: a restore brings them back, and the watermark that comes with it
// deletes them again.
//
// Invariants. Everything in the store has the time low or a later one. Nothing is changed whose result on closing is due: the engine
// does what is due first. The watermark behind the operator stays where it was until all results have gone out, and is then the smallest
// time of a result that may still come.
type lifecycle struct {
	lateness
	bounds    bounds
	horizon   int64 // of corrections
	byChannel bool  // late is judged by the input partition's watermark, too
	how       emission
	kind      state.Kind
	store     graph.Expirer
	panes     graph.Expirer // nil where results are not remembered
	kept      keeper        // nil where results do not wait for the commit
	stays     bool          // it is needed longer than it is open, in any case
	sparse    bool          // times are those of records and not of a grid, so there is seldom something between two watermarks
	grain     int64         // how far the bound of what is gone moves at least before anything is deleted
	pass      func(w int64) // tells those behind how far event time is
	// one gives the result on closing of an entry in the store, and early an early one, by its key among the panes.
	one   func(key, stored []byte) error
	early func(key []byte) error
	// unchanged says that the early result could not be emitted, and is not to be tried again as it is.
	unchanged func(key []byte) error

	w       int64 // the operator's own watermark
	sent    int64 // what it last told those behind it
	low     int64
	closing cursor // results on closing: all before it have gone out
	first   int64  // if sparse: nothing that closing has not passed has an earlier time
	round   int64  // early results have gone out for the watermark up to here
	walking bool   // a round is going on, and
	opening cursor // has given those of all before it

	owed  bool    // the unit in process gave a result that waited for the commit
	rest  bool    // the unit in process left something to delete
	doing *cursor // the unit in process
	buf   []byte
	index []byte
}

// bounds are where the states begin, at a watermark.
type bounds interface {
	// hold is the smallest time of a result that may still come, if it is not a correction.
	hold(w int64) int64
	// open is the time of the first that is not closed.
	open(w int64) int64
	// kept is the time of the first that is not gone, with this horizon for corrections.
	kept(w, horizon int64) int64
}

// begin says that nothing has happened yet.
func (l *lifecycle) begin() {
	l.w, l.sent, l.low, l.round = graph.Unknown, graph.Unknown, graph.Unknown, graph.Unknown
	l.closing.kind, l.opening.kind = l.kind, state.WindowKind
	l.first = graph.Unknown
	l.closing.reset(graph.Unknown)
}

// judge is the watermark by which a record is late.
func (l *lifecycle) judge() int64 {
	if l.byChannel {
		return max(l.w, l.rt.SourceWatermark())
	}
	return l.w
}

func (l *lifecycle) advance(w int64) {
	l.w = max(l.w, w)
	if l.sparse && l.how.onClose && l.w != graph.Unknown && !l.closing.busy() {
		if open := l.bounds.open(l.w); l.first >= open {
			l.closing.reset(open) // nothing is there
		}
	}
	if l.how.every && l.round == graph.Unknown && l.w != graph.Unknown {
		l.round = l.multiple() // nothing was passed: it begins here
	}
	if !l.Due(0) || forwardEarly {
		l.forward()
	}
}

// forward tells those behind how far event time is. Only when nothing is due.
func (l *lifecycle) forward() {
	if hold := l.bounds.hold(l.w); l.w != graph.Unknown && hold > l.sent {
		l.sent = hold
		l.pass(hold)
	}
}

func (l *lifecycle) Name() string     { return l.name }
func (l *lifecycle) Node() int        { return l.m.local }
func (l *lifecycle) Watermark() int64 { return l.w }
func (l *lifecycle) Passed() int64    { return l.sent }

// Due says yes when there may be something; Fire looks.
func (l *lifecycle) Due(int64) bool {
	return l.w != graph.Unknown && (l.closes() || l.expires() || l.opens())
}

func (l *lifecycle) closes() bool  { return l.how.onClose && l.closing.behind(l.bounds.open(l.w)) }
func (l *lifecycle) expires() bool { return l.low < less(l.spent(), l.grain) }
func (l *lifecycle) opens() bool   { return l.how.every && l.round < l.multiple() }
func (l *lifecycle) floor() int64  { return l.bounds.kept(l.w, l.horizon) }

// goes says whether one is gone with its result.
func (l *lifecycle) goes() bool { return l.how.onClose && l.horizon == 0 && !l.stays }

// spent is the time of the first that is not to be deleted yet. What goes with its result and costs nothing to delete is deleted by then.
func (l *lifecycle) spent() int64 {
	switch {
	case !l.goes():
		return l.floor()
	case l.kind == state.WindowKind:
		return l.low
	}
	return min(l.closing.from, l.bounds.open(l.w))
}

// multiple is the last time for early results that the watermark has passed.
func (l *lifecycle) multiple() int64 {
	d := l.how.earlyEvery.Milliseconds()
	past := l.w % d
	if past < 0 {
		past += d
	}
	if l.w < math.MinInt64+past {
		return math.MinInt64
	}
	return l.w - past
}

// Fire gives one result, or finds that there is none, or deletes what is gone.
func (l *lifecycle) Fire(int64) error {
	l.doing = nil
	switch {
	case l.closes():
		l.doing = &l.closing
		found, err := l.closing.look(l.store, l.bounds.open(l.w))
		if l.sparse {
			l.first = l.closing.then
		}
		if err != nil || !found {
			return err
		}
		return l.close(l.closing.due[0])
	case l.expires():
		l.owed = l.owes()
		if l.owed {
			return l.kept.give()
		}
		return l.expire(l.spent(), lookBatch)
	case l.opens():
		l.doing = &l.opening
		if !l.walking {
			l.walking = true
			l.opening.reset(l.bounds.open(l.w))
		}
		if found, err := l.opening.look(l.panes, math.MaxInt64); err != nil || !found {
			return err
		}
		if at, ok := l.opening.kind.TimeOf(l.opening.due[0]); ok && at < l.bounds.open(l.w) {
			return nil // it has closed since the round began
		}
		return l.early(l.opening.due[0])
	}
	return nil
}

// owes says whether a result waits for the commit whose window is about to be deleted.
func (l *lifecycle) owes() bool {
	return l.kept != nil && l.kept.Holds() && l.kept.owesBelow(l.kind.AppendTime(nil, l.floor()))
}

// close gives the result of one window and key.
func (l *lifecycle) close(key []byte) error {
	stored, ok, err := l.store.Get(key)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("window store %s: a window to close is no longer there", l.name)
	}
	at, _, err := state.SplitValue(stored)
	if err != nil {
		return fmt.Errorf("window store %s: %w", l.name, err)
	}
	l.rt.SetTime(at)
	return l.one(key, stored)
}

// Fired goes on to the next window. One whose result could not be emitted, and whom the policy skips, is deleted without it.
func (l *lifecycle) Fired(failed bool) error {
	switch c := l.doing; {
	case l.owed:
		l.owed = false
		if err := l.kept.Fired(failed); err != nil {
			return err
		}
	case c == nil:
		if !l.rest {
			l.low = max(l.low, l.spent())
		}
	case c == &l.closing:
		if failed && len(c.due) > 0 && !l.stays {
			if err := l.remove(c.due[0]); err != nil {
				return err
			}
		}
		if c.done((!failed || l.stays) && !l.how.discard) {
			c.reset(c.to)
		}
		if l.goes() && l.kind == state.WindowKind { // room is made while a long row of windows closes, and not only at its end
			if err := l.expire(min(c.from, l.bounds.open(l.w)), math.MaxInt); err != nil {
				return err
			}
		}
	default:
		if failed && len(c.due) > 0 {
			if err := l.unchanged(c.due[0]); err != nil {
				return err
			}
		}
		if c.done(true) {
			l.walking, l.round = false, l.multiple()
		}
	}
	l.onward()
	return nil
}

// onward lets the watermark go on when nothing is due.
func (l *lifecycle) onward() {
	if l.w != graph.Unknown && !l.Due(0) {
		l.forward()
	}
}

// Save keeps the watermark, where the closing stands and for when the last early results went out.
func (l *lifecycle) Save(dst []int64) []int64 {
	if !l.how.onClose {
		return append(dst, l.w)
	}
	dst = append(dst, l.w, l.closing.from, int64(l.closing.skip))
	if l.how.every {
		dst = append(dst, l.round)
	}
	return dst
}

// Load sets what Save gave. A restore may have brought back what is gone. Where only the watermark was kept, results on closing had
// windows deleted: what is in the store has not been emitted.
func (l *lifecycle) Load(v []int64) error {
	if len(v) != 1 && len(v) != 3 && len(v) != 4 {
		return fmt.Errorf("%d values, want 1, 3 or 4", len(v))
	}
	l.w = v[0]
	l.closing.reset(graph.Unknown)
	if l.how.onClose && len(v) > 1 && !closingForgotten {
		l.closing.from, l.closing.skip = v[1], int(v[2])
	}
	if l.how.every && len(v) > 3 {
		l.round = v[3]
	}
	if l.w == graph.Unknown || backFromChangelog {
		return nil
	}
	to := l.floor()
	if l.how.onClose {
		to = min(to, l.closing.from)
	}
	if to == graph.Unknown {
		return nil
	}
	return l.expire(to, math.MaxInt)
}

// entry is the key in the store of what has this key among the panes.
func (l *lifecycle) entry(pane []byte) []byte {
	from, _ := l.kind.Entries()
	if from == nil {
		return pane
	}
	return append(from, pane...)
}

// remove deletes an entry, with what the index has of it, and what is remembered of its results: another session may get its bounds.
func (l *lifecycle) remove(key []byte) error {
	from, _ := l.kind.Entries()
	if index, _, ok := l.kind.Index(nil, state.Mutation{Key: key}); ok {
		if err := l.store.Delete(index.Key); err != nil {
			return err
		}
		if l.panes != nil {
			if err := l.panes.Delete(key[len(from):]); err != nil {
				return err
			}
		}
	}
	return l.store.Delete(key)
}

// expire deletes what has an earlier time than to: all at once, but where there is an index no more than most, since that has to be
// looked after one by one.
func (l *lifecycle) expire(to int64, most int) error {
	l.rest = false
	if to <= l.low {
		return nil
	}
	bound := l.kind.AppendTime(l.buf[:0], to)
	l.buf = bound
	tag := 0
	if from, end := l.kind.Entries(); end != nil {
		tag = len(from)
		for e, err := range l.store.Scan(from, bound) {
			if err != nil {
				return err
			}
			if most == 0 {
				l.rest, bound = true, e.Key
				break
			}
			most--
			index, buf, ok := l.kind.Index(l.index[:0], state.Mutation{Key: e.Key})
			if l.index = buf; !ok {
				return fmt.Errorf("window store %s: a key of %d bytes is not of a %s store", l.name, len(e.Key), l.kind)
			}
			if err := l.store.Delete(index.Key); err != nil {
				return err
			}
		}
	}
	if !l.rest {
		l.low = to
	}
	if l.panes != nil {
		if err := l.panes.Expire(bound[tag:]); err != nil {
			return err
		}
	}
	return l.store.Expire(bound)
}

// lookBatch is how many windows one look into the store finds at most.
const lookBatch = 256

// cursor is how far a walk over windows has come, by their time and then by the bytes behind it in the key. It is kept as two numbers:
// nothing is added to what it has passed, and what it has yet to pass is in the store.
type cursor struct {
	kind state.Kind
	from int64 // all windows that start before it are done
	skip int   // and so many of those that start with it
	to   int64 // where the last look ended: the watermark may have moved since, by an input that fell idle
	due  [][]byte
	more bool   // the look that found them stopped at lookBatch
	next []byte // where the next look starts then
	then int64  // all that is not done, and was not found, has no earlier time
}

// reset sets the walk to all windows that start at from or later.
func (c *cursor) reset(from int64) { *c = cursor{kind: c.kind, from: from, due: c.due[:0]} }

// behind says whether there may be windows before to.
func (c *cursor) behind(to int64) bool { return c.busy() || c.from < to }

// busy says that something was found and is not done.
func (c *cursor) busy() bool { return len(c.due) > 0 || c.more }

// look finds the next windows that start before to, unless some have been found already. With none the walk has ended.
func (c *cursor) look(s state.Store, to int64) (bool, error) {
	if len(c.due) > 0 {
		return true, nil
	}
	c.to = to
	from, skip := c.next, 0
	if !c.more {
		from, skip = c.kind.AppendTime(nil, c.from), c.skip
	}
	c.more, c.then = false, math.MaxInt64
	_, end := c.kind.Entries()
	for e, err := range s.Scan(from, end) {
		if err != nil {
			return false, err
		}
		if at, ok := c.kind.TimeOf(e.Key); ok && at >= to {
			c.then = at
			break
		}
		if skip > 0 {
			if start, ok := c.kind.TimeOf(e.Key); ok && start == c.from {
				skip--
				continue
			}
			skip = 0
		}
		if len(c.due) == lookBatch {
			c.more, c.next, c.then = true, e.Key, graph.Unknown
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
	if start, ok := c.kind.TimeOf(c.due[0]); ok && start != c.from {
		c.from, c.skip = start, 0
	}
	if stays {
		c.skip++
	}
	c.due = c.due[1:]
	return len(c.due) == 0 && !c.more
}
