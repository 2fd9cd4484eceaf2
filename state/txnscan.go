package state

import (
	"bytes"
	"errors"
	"iter"

	"github.com/tidwall/btree"
)

// errEnded ends a scan whose loop body committed or dropped the transaction.
var errEnded = errors.New("state: the transaction ended while it was scanned; end the scan before committing or dropping")

// Scan returns the entries with from <= key < to as the transaction sees them, in ascending order. A nil from or to is no
// bound. An error comes last, with the zero Entry. from and to must not change until the scan has ended.
//
// The loop body may write to the transaction. The scan never goes back: keys at or before the one that it is at are done.
// Keys beyond it show what the transaction holds when the scan gets there. After Commit or Drop in the loop body the scan
// ends with an error.
func (t *Txn) Scan(store int, from, to []byte) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if floor := t.overlays[t.now][store].floor; floor != nil && bytes.Compare(from, floor) < 0 {
			from = floor
		}
		below := t.backend.Scan(store, from, to)
		if ice := &t.overlays[1-t.now][store]; len(ice.entries) > 0 {
			below = t.over(ice, below, from, to)
		}
		t.over(&t.overlays[t.now][store], below, from, to)(yield)
	}
}

// over is a scan of what lies below an overlay with the overlay on top.
func (t *Txn) over(o *overlay, below iter.Seq2[Entry, error], from, to []byte) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		m := merge{t: t, o: o, from: from, to: to, yield: yield, generation: t.generation}
		for e, err := range below {
			if err != nil {
				yield(Entry{}, err)
				return
			}
			if !m.below(e) {
				return
			}
		}
		m.overlay(nil, true)
	}
}

// merge walks through an overlay of one store alongside a scan of what lies below it.
type merge struct {
	t          *Txn
	o          *overlay
	from, to   []byte
	yield      func(Entry, error) bool
	generation uint64

	cursor  []byte // the last key that was reached
	started bool
	iter    btree.IterG[ordered]
	valid   bool // iter is at an entry beyond cursor
	placed  bool // iter has been placed at version
	version uint64
}

// next returns the first entry of the overlay beyond the cursor. Its value is nil if it deletes the key.
func (m *merge) next() (Entry, bool) {
	o := m.o
	if !m.placed || m.version != o.version {
		m.placed, m.version = true, o.version
		m.valid = false
		if len(o.entries) > 0 {
			o.order()
			m.iter.Init(o.tree, false)
			after := m.from
			if m.started {
				after = m.cursor
			}
			m.valid = m.iter.Seek(ordered{key: alias(after)})
			if m.valid && m.started && m.iter.Item().key == alias(m.cursor) {
				m.valid = m.iter.Next()
			}
		}
	}
	if !m.valid {
		return Entry{}, false
	}
	w := &o.entries[m.iter.Item().entry]
	e := Entry{Key: w.key(), Value: w.value}
	if m.to != nil && bytes.Compare(e.Key, m.to) >= 0 {
		return Entry{}, false
	}
	return e, true
}

// reach moves the cursor to key.
func (m *merge) reach(key []byte) { m.cursor, m.started = key, true }

// step moves past the overlay's entry that next returned.
func (m *merge) step(key []byte) {
	m.reach(key)
	m.valid = m.iter.Next()
}

// emit gives an entry to the loop body and says whether to go on.
func (m *merge) emit(e Entry) bool {
	if !m.yield(e, nil) {
		return false
	}
	if m.generation != m.t.generation {
		m.yield(Entry{}, errEnded)
		return false
	}
	return true
}

// overlay emits the overlay's entries below limit, or all that are left.
func (m *merge) overlay(limit []byte, all bool) bool {
	for {
		w, ok := m.next()
		if !ok || !all && bytes.Compare(w.Key, limit) >= 0 {
			return true
		}
		m.step(w.Key)
		if w.Value != nil && !m.emit(w) {
			return false
		}
	}
}

// below emits what comes before the entry e from below, and then e, unless the overlay says otherwise.
func (m *merge) below(e Entry) bool {
	if !m.overlay(e.Key, false) {
		return false
	}
	if w, ok := m.next(); ok && bytes.Equal(w.Key, e.Key) {
		m.step(w.Key)
		return w.Value == nil || m.emit(w)
	}
	m.reach(e.Key)
	return m.emit(e)
}

// Store returns store i of the transaction as operators use it. now tells the event time of the record in process.
func (t *Txn) Store(i int, now func() int64) Store { return &txnStore{t, i, now} }

type txnStore struct {
	txn   *Txn
	store int
	now   func() int64
}

func (s *txnStore) Get(key []byte) ([]byte, bool, error) { return s.txn.Get(s.store, key) }
func (s *txnStore) Scan(from, to []byte) iter.Seq2[Entry, error] {
	return s.txn.Scan(s.store, from, to)
}

func (s *txnStore) Put(key, value []byte) error { return s.txn.Put(s.store, key, value) }

func (s *txnStore) Delete(key []byte) error { return s.txn.Delete(s.store, key) }
func (s *txnStore) Time() int64             { return s.now() }
