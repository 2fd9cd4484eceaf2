package topology

import (
	"bytes"

	"github.com/headrace/headrace/internal/graph"
)

// kept is what an aggregate that emits on commit has changed in the open transaction: each key once, in the order of the first change.
// As long as there is something, the watermark behind the aggregate stays where it was.
//
// What is in here may have been rolled back since. So what goes out is what the store has when it does, and nothing if that is what it
// had before.
type kept[K, V, A any] struct {
	f     *folding[K, V, A]
	items []keptItem[K]
	index map[string]int // in items, by store key
	left  int            // not given yet
	next  int            // all before it are given
	doing int

	below []byte // the bound of the walk over those that are about to be deleted,
	at    int    // which has come so far

	advance func(int64) // of what is behind the aggregate
	w       int64       // what it has not been told

	ended func(storeKey []byte) (bool, error) // as of endsWith
}

type keptItem[K any] struct {
	k      K
	key    []byte
	before []byte // what the store had, nil for nothing
	closed bool   // something came when the window had closed,
	open   []byte // and before that the store had this
	at     int64  // of its deletion
	given  bool
}

// add is fold.add: it changes the aggregate, and remembers that.
func (h *kept[K, V, A]) add(k K, storeKey []byte, r *Record[K, V], closed bool) error {
	i, ok := h.index[string(storeKey)]
	c, err := h.f.apply(storeKey, r)
	if err != nil {
		return err
	}
	if closed {
		h.f.count(h.f.node, graph.LateCorrected)
	}
	if !c.had && !c.has && !ok {
		return nil
	}
	if !ok {
		i = len(h.items)
		h.items = append(h.items, keptItem[K]{k: k, key: bytes.Clone(storeKey), before: c.stored})
		h.index[string(storeKey)] = i
		h.left++
	}
	it := &h.items[i]
	if closed && !it.closed {
		it.closed, it.open = true, c.stored
	}
	if c.had && !c.has {
		it.at = c.nowAt
	}
	return nil
}

// pass is fold.advance.
func (h *kept[K, V, A]) pass(w int64) {
	if h.w = w; h.left == 0 {
		h.advance(w)
	}
}

// owesBelow says whether something below a bound has not been given, and makes it the next.
func (h *kept[K, V, A]) owesBelow(bound []byte) bool {
	if !bytes.Equal(bound, h.below) {
		h.below, h.at = bytes.Clone(bound), 0
	}
	for ; h.at < len(h.items); h.at++ {
		if it := &h.items[h.at]; !it.given && bytes.Compare(it.key, bound) < 0 {
			h.doing = h.at
			return true
		}
	}
	return false
}

func (h *kept[K, V, A]) Name() string { return h.f.name }
func (h *kept[K, V, A]) Node() int    { return h.f.node }
func (h *kept[K, V, A]) Holds() bool  { return h.left > 0 }

// Fire gives the next result.
func (h *kept[K, V, A]) Fire(int64) error {
	for h.items[h.next].given {
		h.next++
	}
	h.doing = h.next
	return h.give()
}

func (h *kept[K, V, A]) give() error {
	it, f := &h.items[h.doing], h.f
	now, has, err := f.store.Get(it.key)
	if err != nil || has == (it.before != nil) && bytes.Equal(now, it.before) {
		return err
	}
	var c change[A]
	if c.had = it.before != nil; c.had {
		if c.oldAt, c.old, err = f.decode(it.before); err != nil {
			return err
		}
	}
	if c.has = has; has {
		if c.nowAt, c.now, err = f.decode(now); err != nil {
			return err
		}
	} else {
		c.nowAt = max(c.oldAt, it.at)
	}
	return f.emit(it.k, c, trace{}, it.closed && !bytes.Equal(now, it.open))
}

func (h *kept[K, V, A]) endsWith(ended func(storeKey []byte) (bool, error)) { h.ended = ended }

// Fired forgets the result, given or given up. Where results are retracted, one that was given up must not be: the aggregate goes back to
// what it was when it gave the one before.
func (h *kept[K, V, A]) Fired(failed bool) error {
	it := &h.items[h.doing]
	switch {
	case failed && h.f.how.retract && it.before != nil:
		if err := h.f.store.Put(it.key, it.before); err != nil {
			return err
		}
	case failed && h.f.how.retract:
		if err := h.f.store.Delete(it.key); err != nil {
			return err
		}
	}
	if h.ended != nil {
		over, err := h.ended(it.key)
		if err == nil && over {
			err = h.f.store.Delete(it.key)
		}
		if err != nil {
			return err
		}
	}
	it.given = true
	if h.left--; h.left > 0 {
		return nil
	}
	clear(h.items)
	clear(h.index)
	h.items, h.next, h.at, h.below = h.items[:0], 0, 0, nil
	if h.w != graph.Unknown {
		h.advance(h.w)
	}
	return nil
}
