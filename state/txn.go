package state

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"
)

// Txn is the overlay of a task's open transaction: it takes the writes, and shows them to the task on top of the committed
// state in the [Backend]. Nothing reaches the backend before Commit.
//
// Freeze divides it: what was written before is waiting for Commit, and goes on being seen, while what is written from then on belongs
// to the next transaction.
//
// It keeps what it has read and committed, within CacheBytes, so that a key that comes again costs no look into a backend on disk.
//
// It belongs to one goroutine. The bytes that it returns are immutable and stay valid for as long as the caller holds them,
// also after Rollback, Commit and Drop.
type Txn struct {
	backend Backend
	specs   []Spec
	cells   []*cells       // by store
	memory  *memoryBackend // whose own the cells are: what has no cell does not exist
	cache   cache          // without memory

	overlays [2][]overlay // by store: one is written to, the other one is what is frozen
	applied  [][]byte     // by store: the floor that the backend has
	raised   bool         // since Freeze a floor was, over something that there may be
	now      int          // which is written to
	frozen   bool
	iced     int // how many keys are frozen
	arena    arena
	undo     []undo
	bytes    int
	count    int
	// generation changes when the transaction ends: a scan that is still open then must not go on.
	generation uint64
}

// undo takes one write back. Popped in reverse, an entry that a write made is always the last one of its store.
type undo struct {
	prev  []byte
	store int32
	entry int32 // floorRaised if it was the floor
	made  bool
}

const floorRaised = -1

// NewTxn returns an empty overlay over b, which was opened with specs. From then on b is changed through it alone. A backend has one
// Txn at a time: an older one must not be used any more, and of a backend in memory what it still held is gone, and its reads and commits
// fail.
func NewTxn(b Backend, specs []Spec) *Txn {
	t := &Txn{backend: b, specs: specs, cells: make([]*cells, len(specs)), applied: make([][]byte, len(specs)), cache: cache{limit: defaultCache}}
	for i := range t.overlays {
		t.overlays[i] = make([]overlay, len(specs))
	}
	if m, ok := b.(*memoryBackend); ok {
		m.lend(t)
		return t
	}
	for i := range t.cells {
		t.cells[i] = newCells()
	}
	return t
}

// Backend returns the backend below the overlay.
func (t *Txn) Backend() Backend { return t.backend }

// Specs returns the specs of the stores. They must not be changed.
func (t *Txn) Specs() []Spec { return t.specs }

// Len returns how many keys were written or deleted since Freeze, or, if nothing is frozen, since the last Commit: the number of
// Mutations then, and of those that have expired since.
func (t *Txn) Len() int { return t.count }

// Bytes returns the size of their keys and values.
func (t *Txn) Bytes() int { return t.bytes }

const defaultCache = 4 << 20

// CacheBytes sets how many bytes of what the backend holds may be kept in memory, 4 MiB at first. A backend in memory needs none of it.
func (t *Txn) CacheBytes(limit int) {
	t.cache.limit = limit
	t.cache.sweep(t.cells, t.overlays[t.now])
}

// Get returns the value of key as the transaction sees it, and whether there is one.
func (t *Txn) Get(store int, key []byte) ([]byte, bool, error) {
	if t.overlays[t.now][store].expired(key) {
		return nil, false, nil
	}
	c := t.cells[store].find(key)
	if c == nil {
		if t.memory != nil {
			return nil, false, nil
		}
		return t.fetch(store, nil, key)
	}
	if i := c.at[t.now]; i > 0 {
		v := t.overlays[t.now][store].entries[i-1].value
		return v, v != nil, nil
	}
	if i := c.at[1-t.now]; i > 0 {
		v := t.overlays[1-t.now][store].entries[i-1].value
		return v, v != nil, nil
	}
	if t.memory == nil {
		if !c.known {
			return t.fetch(store, c, key)
		}
		c.used = true
	}
	return c.value, c.value != nil, nil
}

// fetch reads from the backend, and keeps what it gets.
func (t *Txn) fetch(store int, c *cell, key []byte) ([]byte, bool, error) {
	v, ok, err := t.backend.Get(store, key)
	if err != nil || t.cache.limit <= 0 {
		return v, ok, err
	}
	if c == nil {
		c = t.cells[store].add(key)
	}
	switch {
	case !ok:
		v = nil
	case v == nil:
		v = []byte{}
	}
	t.cache.keep(c, v)
	return v, ok, nil
}

// Put sets the value of key. It copies both. A nil value is an empty one.
func (t *Txn) Put(store int, key, value []byte) error {
	return t.write(store, key, t.arena.copy(value))
}

// Delete deletes key. Deleting a key that does not exist is no error; the deletion is a mutation like any other.
func (t *Txn) Delete(store int, key []byte) error {
	return t.write(store, key, nil)
}

func (t *Txn) write(store int, key, value []byte) error {
	o := &t.overlays[t.now][store]
	if o.expired(key) {
		return fmt.Errorf("state: write to store %q: %w", t.specs[store].Name, ErrExpired)
	}
	c := t.cells[store].find(key)
	if c == nil {
		c = t.cells[store].add(key)
	}
	if i := c.at[t.now]; i > 0 {
		e := &o.entries[i-1]
		t.undo = append(t.undo, undo{prev: e.value, store: int32(store), entry: i - 1})
		t.bytes += len(value) - len(e.value)
		e.value = value
		return nil
	}
	o.add(c, value)
	i := int32(len(o.entries))
	c.at[t.now] = i
	t.undo = append(t.undo, undo{store: int32(store), entry: i - 1, made: true})
	t.bytes += len(key) + len(value)
	t.count++
	return nil
}

// ErrExpired says that a write came for a key that has expired, as one of a window that has closed. It changes nothing.
var ErrExpired = errors.New("the key has expired: it lies before what the store still keeps")

// Expire deletes every key of a store that is below floor, at once, and for good: what is below can not be written any more. It is no
// mutation that a changelog is told of. So it is for what can be found out again after a restore, as windows that the watermark has
// passed. The store must not be scanned meanwhile.
func (t *Txn) Expire(store int, floor []byte) error {
	o := &t.overlays[t.now][store]
	if bytes.Compare(floor, o.floor) <= 0 {
		return nil
	}
	t.raised = t.raised || len(t.overlays[1-t.now][store].entries) > 0
	if !t.raised { // what was written since is to be committed anyway
		for _, err := range t.backend.Scan(store, o.floor, floor) {
			if err != nil {
				return err
			}
			t.raised = true
			break
		}
	}
	t.undo = append(t.undo, undo{prev: o.floor, store: int32(store), entry: floorRaised})
	o.floor = clone(floor)
	return nil
}

// Pending says whether there is anything for Commit since Freeze: a mutation, or something that has expired.
func (t *Txn) Pending() bool { return t.count > 0 || t.raised }

// Floor returns what the last Expire of a store was given, nil if there was none.
func (t *Txn) Floor(store int) []byte { return t.overlays[t.now][store].floor }

// Savepoint starts a new scope of Rollback and so gives up the one before. A new transaction begins with one.
func (t *Txn) Savepoint() {
	clear(t.undo)
	t.undo = t.undo[:0]
}

// Rollback undoes every write since the last Savepoint, which stays in force.
func (t *Txn) Rollback() {
	for i := len(t.undo) - 1; i >= 0; i-- {
		u := &t.undo[i]
		o := &t.overlays[t.now][u.store]
		if u.entry == floorRaised {
			o.floor = u.prev
			continue
		}
		e := &o.entries[u.entry]
		if !u.made {
			t.bytes += len(u.prev) - len(e.value)
			e.value = u.prev
			continue
		}
		t.bytes -= len(e.cell.key) + len(e.value)
		t.count--
		t.release(int(u.store), e.cell, t.now)
		o.removeLast()
	}
	t.Savepoint()
}

// release takes a cell out of an overlay. It goes if nothing is known of it then.
func (t *Txn) release(store int, c *cell, side int) {
	c.at[side] = 0
	if c.value == nil && !c.known && c.idle() {
		t.cells[store].remove(c)
	}
}

// moved says that a cell has taken the place of another one.
func (t *Txn) moved(store int, c *cell) {
	for side, i := range c.at {
		if i > 0 {
			t.overlays[side][store].entries[i-1].cell = c
		}
	}
}

// Freeze sets apart what was written so far: Mutations and Commit are of that alone, until Commit or Drop. It is still seen. Savepoint,
// Rollback, Len and Bytes are of what is written from here on. While something is frozen it does nothing.
func (t *Txn) Freeze() {
	if t.frozen {
		return
	}
	t.now, t.frozen, t.iced = 1-t.now, true, t.count
	for i := range t.specs { // as much again is likely
		o, ice := &t.overlays[t.now][i], &t.overlays[1-t.now][i]
		o.entries, o.floor = slices.Grow(o.entries, len(ice.entries)), ice.floor
	}
	t.Savepoint()
	t.bytes, t.count, t.raised = 0, 0, false
	t.generation++
}

// leaving is the side of what Commit is about: what is frozen, or else everything.
func (t *Txn) leaving() int {
	if t.frozen {
		return 1 - t.now
	}
	return t.now
}

// Mutations returns the last write of each key, store by store in the order in which the keys were first written: of what is frozen, if
// something is. The transaction must not be written to while it is iterated over, unless it is frozen. The mutations' bytes are immutable.
//
// They are what a changelog is told, and so without an index. A session that has come and gone in between is left out where nothing is
// known to be committed of it: one that grows is another one with every record.
func (t *Txn) Mutations() iter.Seq[Mutation] {
	return func(yield func(Mutation) bool) {
		for s := range t.specs {
			o, kind := &t.overlays[t.leaving()][s], t.specs[s].Kind
			for i := range o.entries {
				w := &o.entries[i]
				if o.expired(w.key()) || kind.indexed() && (kind.Local(w.key()) || w.value == nil && t.absent(w.cell)) {
					continue
				}
				if !yield(w.mutation(s)) {
					return
				}
			}
		}
	}
}

// absent says that a cell is known to have no committed value.
func (t *Txn) absent(c *cell) bool { return c.value == nil && (c.known || t.memory != nil) }

// sorted are the mutations, and what has expired, store by store in the order of the keys, which spares a backend on disk much of its
// search for their places.
func (t *Txn) sorted() iter.Seq[Mutation] {
	return func(yield func(Mutation) bool) {
		for s := range t.specs {
			o := &t.overlays[t.leaving()][s]
			if o.floor != nil && !bytes.Equal(o.floor, t.applied[s]) && !yield(Mutation{Store: s, Key: o.floor, Below: true}) {
				return
			}
			o.sort()
			for _, k := range o.sorted {
				if w := &o.entries[k.entry]; !o.expired(w.key()) && !yield(w.mutation(s)) {
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
	if err := t.apply(positions); err != nil {
		return fmt.Errorf("state: apply %d mutations of the transaction: %w", n, err)
	}
	for s := range t.specs {
		t.applied[s] = t.overlays[t.leaving()][s].floor
	}
	if !t.frozen {
		t.Drop()
		return nil
	}
	t.thaw()
	t.generation++
	return nil
}

func (t *Txn) apply(positions []*Position) error {
	if t.memory != nil {
		return t.memory.commit(t, positions)
	}
	if err := t.backend.Apply(t.sorted(), positions); err != nil {
		return err
	}
	for s := range t.specs {
		o := &t.overlays[t.leaving()][s]
		for i := range o.entries {
			e := &o.entries[i]
			switch {
			case t.cache.limit <= 0 || o.expired(e.key()):
				t.cache.forget(e.cell)
			case e.value == nil:
				t.cache.keep(e.cell, nil)
			default:
				t.cache.keep(e.cell, clone(e.value)) // or a cold key would keep the whole chunk of the arena
			}
		}
	}
	return nil
}

// Drop empties the overlay: what was written since the last Commit is gone, frozen or not.
func (t *Txn) Drop() {
	t.clear(t.now)
	t.thaw()
	for s := range t.specs {
		t.overlays[t.now][s].floor = t.applied[s]
	}
	t.Savepoint()
	t.bytes, t.count, t.raised = 0, 0, false
	t.generation++
}

func (t *Txn) thaw() {
	t.clear(1 - t.now)
	t.frozen = false
	t.cache.sweep(t.cells, t.overlays[t.now])
}

func (t *Txn) clear(side int) {
	for s := range t.specs {
		o := &t.overlays[side][s]
		for i := range o.entries {
			t.release(s, o.entries[i].cell, side)
		}
		o.reset()
	}
}
