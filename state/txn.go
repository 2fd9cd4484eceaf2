package state

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"unsafe"

	"github.com/tidwall/btree"
)

// Txn is the overlay of a task's open transaction: it takes the writes, and shows them to the task on top of the committed
// state in the [Backend]. Nothing reaches the backend before Commit.
//
// Freeze divides it: what was written before is waiting for Commit, and goes on being seen, while what is written from then on belongs
// to the next transaction.
//
// It belongs to one goroutine. The bytes that it returns are immutable and stay valid for as long as the caller holds them,
// also after Rollback, Commit and Drop.
type Txn struct {
	backend Backend
	specs   []Spec
	stores  []overlay
	ice     []overlay // what is frozen
	frozen  bool
	iced    int // how many keys are frozen
	arena   arena
	undo    []undo
	bytes   int
	count   int
	// generation changes when the transaction ends: a scan that is still open then must not go on.
	generation uint64
}

// overlay holds what the transaction wrote to one store.
type overlay struct {
	index   map[string]int32 // key → position in entries; the strings alias the arena
	entries []write          // in the order in which the keys were first written
	// tree orders the entries. It is made by the first scan in a transaction and kept up from then on: a store that is never
	// scanned does not pay for it.
	tree    *btree.BTreeG[ordered]
	ordered bool
	// sorted is the order of entries for Mutations, valid while it has as many elements.
	sorted []sortKey
	peak   int // most keys since index was made
	// version changes with every change of the set of keys: open scans look for their place again.
	version uint64
}

// write is the last write of a key. A nil value deletes it.
type write struct {
	key, value []byte
}

// undo takes one write back. Popped in reverse, an entry that a write made is always the last one of its store.
type undo struct {
	prev  []byte
	store int32
	entry int32
	made  bool
}

type ordered struct {
	key   string
	entry int32
}

// sortKey starts with what decides most comparisons without a look at the key: its first 8 bytes, and, as those are the same for
// all keys of a window, the 8 after them.
type sortKey struct {
	first, second uint64
	entry         int32
}

// NewTxn returns an empty overlay over b, which was opened with specs.
func NewTxn(b Backend, specs []Spec) *Txn {
	t := &Txn{backend: b, specs: specs, stores: make([]overlay, len(specs)), ice: make([]overlay, len(specs))}
	for i := range t.stores {
		t.stores[i].index, t.ice[i].index = make(map[string]int32), make(map[string]int32)
	}
	return t
}

// Backend returns the backend below the overlay.
func (t *Txn) Backend() Backend { return t.backend }

// Specs returns the specs of the stores. They must not be changed.
func (t *Txn) Specs() []Spec { return t.specs }

// Len returns how many keys were written or deleted since Freeze, or, if nothing is frozen, since the last Commit: the number of
// Mutations then.
func (t *Txn) Len() int { return t.count }

// Bytes returns the size of their keys and values.
func (t *Txn) Bytes() int { return t.bytes }

// Get returns the value of key as the transaction sees it, and whether there is one.
func (t *Txn) Get(store int, key []byte) ([]byte, bool, error) {
	o := &t.stores[store]
	if len(o.entries) > 0 {
		if i, ok := o.index[alias(key)]; ok {
			v := o.entries[i].value
			return v, v != nil, nil
		}
	}
	if o := &t.ice[store]; len(o.entries) > 0 {
		if i, ok := o.index[alias(key)]; ok {
			v := o.entries[i].value
			return v, v != nil, nil
		}
	}
	return t.backend.Get(store, key)
}

// Put sets the value of key. It copies both. A nil value is an empty one.
func (t *Txn) Put(store int, key, value []byte) error {
	t.write(store, key, t.arena.copy(value))
	return nil
}

// Delete deletes key. Deleting a key that does not exist is no error; the deletion is a mutation like any other.
func (t *Txn) Delete(store int, key []byte) error {
	t.write(store, key, nil)
	return nil
}

func (t *Txn) write(store int, key, value []byte) {
	o := &t.stores[store]
	if i, ok := o.index[alias(key)]; ok {
		e := &o.entries[i]
		t.undo = append(t.undo, undo{prev: e.value, store: int32(store), entry: i})
		t.bytes += len(value) - len(e.value)
		e.value = value
		return
	}
	key = t.arena.copy(key)
	i := int32(len(o.entries))
	o.entries = append(o.entries, write{key, value})
	o.index[alias(key)] = i
	o.version++
	if o.ordered {
		o.tree.Set(ordered{alias(key), i})
	}
	t.undo = append(t.undo, undo{store: int32(store), entry: i, made: true})
	t.bytes += len(key) + len(value)
	t.count++
}

// Savepoint starts a new scope of Rollback and so gives up the one before. A new transaction begins with one.
func (t *Txn) Savepoint() {
	clear(t.undo)
	t.undo = t.undo[:0]
}

// Rollback undoes every write since the last Savepoint, which stays in force.
func (t *Txn) Rollback() {
	for i := len(t.undo) - 1; i >= 0; i-- {
		u := &t.undo[i]
		o := &t.stores[u.store]
		e := &o.entries[u.entry]
		if !u.made {
			t.bytes += len(u.prev) - len(e.value)
			e.value = u.prev
			continue
		}
		t.bytes -= len(e.key) + len(e.value)
		t.count--
		delete(o.index, alias(e.key))
		if o.ordered {
			o.tree.Delete(ordered{key: alias(e.key)})
		}
		*e = write{}
		o.entries = o.entries[:u.entry]
		o.version++
		// A key written next may make the lengths equal again.
		o.sorted = o.sorted[:0]
	}
	t.Savepoint()
}

// Freeze sets apart what was written so far: Mutations and Commit are of that alone, until Commit or Drop. It is still seen. Savepoint,
// Rollback, Len and Bytes are of what is written from here on. While something is frozen it does nothing.
func (t *Txn) Freeze() {
	if t.frozen {
		return
	}
	t.stores, t.ice, t.frozen, t.iced = t.ice, t.stores, true, t.count
	for i := range t.stores { // as much again is likely
		t.stores[i].entries = slices.Grow(t.stores[i].entries, len(t.ice[i].entries))
	}
	t.Savepoint()
	t.bytes, t.count = 0, 0
	t.generation++
}

// Mutations returns the last write of each key, store by store in the order of the keys: of what is frozen, if something is. The
// transaction must not be written to while it is iterated over, unless it is frozen. The mutations' bytes are immutable.
func (t *Txn) Mutations() iter.Seq[Mutation] {
	return func(yield func(Mutation) bool) {
		stores := t.stores
		if t.frozen {
			stores = t.ice
		}
		for s := range stores {
			o := &stores[s]
			o.sort()
			for _, k := range o.sorted {
				e := &o.entries[k.entry]
				if !yield(Mutation{Store: s, Key: e.key, Value: e.value}) {
					return
				}
			}
		}
	}
}

// Commit applies what is frozen, or else all writes, and the positions to the backend in one batch and takes them out of the overlay.
// When the backend fails the overlay is left as it was.
func (t *Txn) Commit(positions []*Position) error {
	n := t.count
	if t.frozen {
		n = t.iced
	}
	if err := t.backend.Apply(t.Mutations(), positions); err != nil {
		return fmt.Errorf("state: apply %d mutations of the transaction: %w", n, err)
	}
	if !t.frozen {
		t.Drop()
		return nil
	}
	t.thaw()
	t.generation++
	return nil
}

// Drop empties the overlay: what was written since the last Commit is gone, frozen or not.
func (t *Txn) Drop() {
	for i := range t.stores {
		t.stores[i].reset()
	}
	t.thaw()
	t.Savepoint()
	t.bytes, t.count = 0, 0
	t.generation++
}

func (t *Txn) thaw() {
	for i := range t.ice {
		t.ice[i].reset()
	}
	t.frozen = false
}

func (o *overlay) reset() {
	if len(o.entries) == 0 {
		return
	}
	// Clearing a map costs its capacity, so one huge transaction must not slow down all small ones after it.
	o.peak = max(o.peak, len(o.entries))
	if o.peak > 1024 && len(o.entries) < o.peak/16 {
		*o = overlay{index: make(map[string]int32), version: o.version + 1}
		return
	}
	clear(o.index)
	clear(o.entries)
	o.entries = o.entries[:0]
	o.sorted = o.sorted[:0]
	if o.ordered {
		o.tree.Clear()
		o.ordered = false
	}
	o.version++
}

// sort brings sorted up to date.
func (o *overlay) sort() {
	if len(o.sorted) == len(o.entries) {
		return
	}
	o.sorted = slices.Grow(o.sorted[:0], len(o.entries))
	for i := range o.entries {
		key := o.entries[i].key
		o.sorted = append(o.sorted, sortKey{prefix(key), prefix(key[min(8, len(key)):]), int32(i)})
	}
	slices.SortFunc(o.sorted, func(a, b sortKey) int {
		if a.first != b.first {
			return cmp.Compare(a.first, b.first)
		}
		if a.second != b.second {
			return cmp.Compare(a.second, b.second)
		}
		return bytes.Compare(o.entries[a.entry].key, o.entries[b.entry].key)
	})
}

// order makes the tree, if the transaction has none yet.
func (o *overlay) order() {
	if o.ordered {
		return
	}
	if o.tree == nil {
		o.tree = btree.NewBTreeGOptions(func(a, b ordered) bool { return a.key < b.key }, btree.Options{NoLocks: true})
	}
	o.sort()
	for _, k := range o.sorted {
		o.tree.Load(ordered{alias(o.entries[k.entry].key), k.entry})
	}
	o.ordered = true
}

// prefix returns the first 8 bytes of key as a number that sorts as they do; a shorter key counts as followed by zeros.
func prefix(key []byte) uint64 {
	if len(key) >= 8 {
		return binary.BigEndian.Uint64(key)
	}
	var p uint64
	for i, c := range key {
		p |= uint64(c) << (56 - 8*i)
	}
	return p
}

// alias returns b as a string without copying. It is for bytes that never change, and for look-ups that keep nothing.
func alias(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
