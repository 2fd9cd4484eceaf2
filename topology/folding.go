package topology

import (
	"fmt"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
)

// fold is an aggregate in one task, as what divides its input sees it.
type fold[K, V any] struct {
	// add takes one value into the aggregate under the key, which is storeKey in the store, and gives the results that are due. closed
	// says that it is of a window that has closed: then it corrects what was the result.
	add func(k K, storeKey []byte, r *Record[K, V], closed bool) error
	// close gives the result of a window that closes. The window stays.
	close func(k K, storeKey, stored []byte) error
	// early gives the result of a window that is still open, if it has changed since the last one.
	early func(k K, storeKey []byte) error
	// unchanged says that an early result could not be emitted, and is not to be tried again as it is.
	unchanged func(storeKey []byte) error
	// advance tells what is behind the aggregate how far event time is.
	advance func(w int64)
	// join, closeSession and earlySession are what add, close and early are, for sessions.
	join                       func(j *joint[K], r *Record[K, V]) error
	closeSession, earlySession func(j *joint[K]) error
	unchangedSession           func(pane []byte) error
	// place is add for sliding windows: it does to one window what is said.
	place func(k K, p *placed, r *Record[K, V]) error
	// kept are the results that wait for the commit; nil where none do.
	kept keeper
	// panes is the store of what results windows have given; nil where that is not remembered.
	panes state.Store
}

// keeper has results that wait for the commit.
type keeper interface {
	graph.Giver
	// owesBelow says whether there is one with a key below a bound, and makes it the one that give gives.
	owesBelow(bound []byte) bool
	give() error
	// endsWith says which windows nothing more comes for: they are deleted with their result.
	endsWith(ended func(storeKey []byte) (bool, error))
}

// folding is an aggregate in one task.
//
// What it remembers of a window's results is in panes, and only where there can be several: a window that has only given the one on
// closing has nothing there. So what a closed window had in the store, when a record for it comes, has been a result; and that is one
// result, where panes do not know of others.
type folding[K, V, A any] struct {
	store state.Store
	name  string
	serde serde.Serde[A]
	steps steps[V, A]
	push  func(Record[K, A]) error
	how   emission
	count func(node int, reason graph.Reason)
	node  int
	// setTime says what writes of those behind belong to, where no record does.
	setTime func(ms int64)
	panes   state.Store
	tag     int // how many bytes of a key in the store are not in that among the panes
	buf     []byte
	pbuf    []byte
	ibuf    []byte
	told    []told
}

func (f *folding[K, V, A]) fold(advance func(int64)) fold[K, V] {
	out := fold[K, V]{
		advance: advance, panes: f.panes, close: f.close, early: f.early, unchanged: f.unchanged,
		join: f.join, closeSession: f.closeSession, earlySession: f.earlySession, unchangedSession: f.unchangedSession,
		place: f.place,
	}
	switch {
	case f.how.onCommit:
		h := &kept[K, V, A]{f: f, index: map[string]int{}, advance: advance, w: graph.Unknown}
		out.add, out.advance, out.kept = h.add, h.pass, h
	case f.panes != nil:
		out.add = f.addToPanes
	default:
		out.add = f.add
	}
	return out
}

// change is what a record has made of an aggregate.
type change[A any] struct {
	old, now     A
	had, has     bool
	oldAt, nowAt int64
	stored       []byte // what the store had, nil for nothing
}

// apply takes a record into the aggregate.
func (f *folding[K, V, A]) apply(storeKey []byte, r *Record[K, V]) (c change[A], err error) {
	stored, had, err := f.store.Get(storeKey)
	if err != nil {
		return c, err
	}
	c.nowAt = r.Time
	if had {
		if c.oldAt, c.old, err = f.decode(stored); err != nil {
			return c, err
		}
		c.had, c.nowAt, c.stored = true, max(c.nowAt, c.oldAt), stored
	}
	if r.retraction {
		c.now, c.has = f.steps.subtract(c.old, r.Value), true
	} else {
		c.now, c.has = f.steps.add(c.old, had, r.Value)
	}
	switch {
	case c.has:
		return c, f.put(storeKey, c.nowAt, c.now)
	case had:
		return c, f.store.Delete(storeKey)
	}
	return c, nil
}

func (f *folding[K, V, A]) put(storeKey []byte, at int64, a A) (err error) {
	f.buf = state.AppendValue(f.buf[:0], at, nil)
	if f.buf, err = f.serde.Append(f.buf, a); err != nil {
		return fmt.Errorf("encode the aggregate for store %s: %w", f.name, err)
	}
	return f.store.Put(storeKey, f.buf)
}

func (f *folding[K, V, A]) decode(stored []byte) (at int64, a A, err error) {
	at, b, err := state.SplitValue(stored)
	if err == nil {
		a, err = f.serde.Decode(b)
	}
	if err != nil {
		err = fmt.Errorf("decode the aggregate in store %s: %w", f.name, err)
	}
	return at, a, err
}

// add is fold.add where nothing is remembered of results: they go out on every update, or once, on closing.
func (f *folding[K, V, A]) add(k K, storeKey []byte, r *Record[K, V], closed bool) error {
	c, err := f.apply(storeKey, r)
	if err != nil {
		return err
	}
	if f.how.onClose {
		return nil
	}
	if closed {
		f.count(f.node, graph.LateCorrected)
	}
	return f.emit(k, c, r.updated(), closed)
}

// emit gives what an update has made, where nothing is remembered of results.
func (f *folding[K, V, A]) emit(k K, c change[A], from trace, closed bool) error {
	if !c.had && !c.has {
		return nil
	}
	out := Record[K, A]{Key: k, Value: c.now, Time: c.nowAt, trace: from}
	if closed {
		out.timing = Late
	}
	if f.how.retract && c.had {
		back := out
		back.Value, back.Time, back.retraction = c.old, c.oldAt, true
		if err := f.push(back); err != nil {
			return err
		}
		if !c.has {
			return nil
		}
	}
	if !c.has {
		var zero A
		out.Value, out.null = zero, true
	}
	return f.push(out)
}

// close emits the result of a window that closes.
func (f *folding[K, V, A]) close(k K, storeKey, stored []byte) error {
	at, a, err := f.decode(stored)
	if err != nil {
		return err
	}
	if f.panes == nil {
		return f.push(Record[K, A]{Key: k, Value: a, Time: at})
	}
	p, err := f.pane(storeKey)
	if err != nil {
		return err
	}
	// Without corrections the window is over; with them, that it had a result follows from what the store has, unless it is discarded.
	keep := f.how.correct && (p.results > 0 || f.how.discard)
	if err := f.result(k, storeKey, &p, OnTime, change[A]{now: a, has: true, nowAt: at}, trace{}); err != nil || !keep {
		return err
	}
	return f.keep(storeKey, &p)
}
