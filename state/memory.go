package state

import (
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/tidwall/btree"
)

// Memory returns a [Provider] that keeps state in memory, and only there: nothing is left after a backend was closed or the
// process ended, so every start restores every store from its changelog topic. Use it for tests, for state that is small, and
// where the time to restore does not matter. Kafka Streams: in-memory stores.
//
// All state must fit into memory; every entry costs about 150 bytes more than its key and value.
func Memory() Provider { return &memory{open: make(map[string]bool)} }

type memory struct {
	mu   sync.Mutex
	open map[string]bool
}

func (p *memory) Open(task string, specs []Spec) (Backend, error) {
	if err := CheckSpecs(specs); err != nil {
		return nil, fmt.Errorf("state: open task %s in memory: %w", task, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open[task] {
		return nil, fmt.Errorf("state: open task %s in memory: it is open already; close it first", task)
	}
	p.open[task] = true
	b := &memoryBackend{
		close: func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			delete(p.open, task)
		},
		task: task, stores: make([]memoryStore, len(specs)), positions: make([]Position, len(specs)),
	}
	for i := range b.stores {
		b.stores[i] = memoryStore{cells: newCells(), tree: newTree()}
	}
	return b, nil
}

// CheckSpecs says whether a backend can be opened with specs: each needs a name of its own and a kind. It is for providers.
func CheckSpecs(specs []Spec) error {
	for i, s := range specs {
		if s.Name == "" {
			return fmt.Errorf("state: store %d has no name", i)
		}
		if s.Kind < KeyValueKind || s.Kind > SlidingKind {
			return fmt.Errorf("state: store %q has the unknown kind %d", s.Name, uint8(s.Kind))
		}
		for _, other := range specs[:i] {
			if other.Name == s.Name {
				return fmt.Errorf("state: two stores are named %q", s.Name)
			}
		}
	}
	return nil
}

// memoryBackend holds each store twice: in cells for its one writer, and in a copy-on-write tree for scans and snapshots. Both
// lead to the same cells. Its Txn shares the cells, so that neither a read nor a commit looks a key up again.
//
// Only the writer changes what they hold, and it holds mu while it does; so its own reads need no lock. Taking a snapshot
// touches a tree's copy-on-write mark alone, which reads do not look at.
type memoryBackend struct {
	close     func()
	task      string
	positions []Position
	batch     []Mutation
	lent      *Txn // who has the cells, too

	mu       sync.Mutex
	stores   []memoryStore
	epoch    uint64          // counts the snapshots
	snapshot *memorySnapshot // shared by all who ask between two applies
	closed   bool
}

type memoryStore struct {
	cells *cells
	tree  *tree
	bytes int64 // of keys and values, as of the last apply
}

// item is an entry in a tree. Keys compare by their prefix first, which spares most comparisons the way to the key's bytes.
type item struct {
	prefix uint64
	key    string
	cell   *cell
}

func itemOf(key []byte) item { return item{prefix: prefix(key), key: alias(key)} }

type tree = btree.BTreeG[item]

func newTree() *tree {
	return btree.NewBTreeGOptions(func(a, b item) bool {
		if a.prefix != b.prefix {
			return a.prefix < b.prefix
		}
		return a.key < b.key
	}, btree.Options{NoLocks: true})
}

// put sets the value of a cell and returns the cell that has it. It copies value: keeping the bytes given would keep the whole chunk that
// they are part of, for one cold key. Of a cell that a snapshot may know the value stays, and another one takes its place.
func (s *memoryStore) put(c *cell, value []byte, epoch uint64) *cell {
	value = clone(value)
	switch {
	case c.value == nil: // in no tree
		s.bytes += int64(len(c.key) + len(value))
	case c.epoch == epoch:
		s.bytes += int64(len(value) - len(c.value))
		c.value = value
		return c
	default:
		s.bytes += int64(len(value) - len(c.value))
		c = s.cells.renew(c)
	}
	c.value, c.epoch = value, epoch
	s.tree.Set(item{prefix: prefix(bytesOf(c.key)), key: c.key, cell: c})
	return c
}

// delete takes the value from a cell, and returns the cell without it, or nil if nobody needs one.
func (s *memoryStore) delete(c *cell) *cell {
	if c.value == nil {
		return c
	}
	s.tree.Delete(itemOf(bytesOf(c.key)))
	return s.gone(c)
}

// gone is for a cell that has been taken out of the tree.
func (s *memoryStore) gone(c *cell) *cell {
	s.bytes -= int64(len(c.key) + len(c.value))
	if c.idle() {
		s.cells.remove(c)
		return nil
	}
	c = s.cells.renew(c)
	c.value = nil
	return c
}

var errClosed = errors.New("state: the backend is closed")

// lend gives the cells to a transaction, and takes them from the one before.
func (b *memoryBackend) lend(t *Txn) {
	b.retire()
	b.lent, t.memory = t, b
	for i := range b.stores {
		t.cells[i] = b.stores[i].cells
	}
}

// retire takes the cells back: what the transaction held is dropped, and it reads and writes nothing any more.
func (b *memoryBackend) retire() {
	t := b.lent
	if t == nil {
		return
	}
	b.lent = nil
	t.Drop()
	t.memory, t.backend, t.cache.limit = nil, retired{b}, 0
	for i := range t.cells {
		t.cells[i] = newCells()
	}
}

func (b *memoryBackend) Get(store int, key []byte) ([]byte, bool, error) {
	if b.closed {
		return nil, false, fmt.Errorf("state: read task %s: %w", b.task, errClosed)
	}
	c := b.stores[store].cells.find(key)
	if c == nil || c.value == nil {
		return nil, false, nil
	}
	return c.value, true, nil
}

func (b *memoryBackend) Scan(store int, from, to []byte) iter.Seq2[Entry, error] {
	if b.closed {
		return func(yield func(Entry, error) bool) {
			yield(Entry{}, fmt.Errorf("state: read task %s: %w", b.task, errClosed))
		}
	}
	return scan(b.stores[store].tree, from, to)
}

// entryCost is what an entry costs besides its key and value, about.
const entryCost = 150

// Size is what the entries take, without what snapshots keep of older ones. See [Sized].
func (b *memoryBackend) Size() int64 {
	n := int64(0)
	for i := range b.stores {
		n += b.stores[i].bytes + entryCost*int64(b.stores[i].tree.Len())
	}
	return n
}

func (b *memoryBackend) Position(store int) Position { return b.positions[store] }

func (b *memoryBackend) Apply(mutations iter.Seq[Mutation], positions []*Position) error {
	if err := b.check(positions); err != nil {
		return err
	}
	// Gather before the first change: what is wrong must leave everything as it was, and readers must not wait for mutations.
	defer func() {
		clear(b.batch)
		b.batch = b.batch[:0]
		if cap(b.batch) > 1<<16 {
			b.batch = nil
		}
	}()
	for m := range mutations {
		if m.Store < 0 || m.Store >= len(b.stores) {
			return fmt.Errorf("state: apply to task %s: mutation of store %d of %d", b.task, m.Store, len(b.stores))
		}
		b.batch = append(b.batch, m)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.batch {
		m := &b.batch[i]
		if m.Below {
			b.expire(m.Store, m.Key)
			continue
		}
		cells := b.stores[m.Store].cells
		c := cells.find(m.Key)
		if c == nil {
			if m.Value == nil {
				continue
			}
			c = cells.add(m.Key)
		}
		b.set(m.Store, c, m.Value)
	}
	b.applied(positions)
	return nil
}

// commit is Apply for what the transaction has in the cells.
func (b *memoryBackend) commit(t *Txn, positions []*Position) error {
	if err := b.check(positions); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.stores {
		o := &t.overlays[t.leaving()][s]
		if o.floor != nil {
			b.expire(s, o.floor)
		}
		for i := range o.entries {
			if w := &o.entries[i]; !o.expired(w.key()) {
				b.set(s, w.cell, w.value)
			}
		}
	}
	b.applied(positions)
	return nil
}

func (b *memoryBackend) check(positions []*Position) error {
	if b.closed {
		return fmt.Errorf("state: apply to task %s: %w", b.task, errClosed)
	}
	if len(positions) != len(b.stores) {
		return fmt.Errorf("state: apply to task %s: %d positions for %d stores", b.task, len(positions), len(b.stores))
	}
	return nil
}

// set gives a cell its value, nil for none.
func (b *memoryBackend) set(store int, c *cell, value []byte) {
	s := &b.stores[store]
	if value == nil {
		b.moved(store, c, s.delete(c))
	} else {
		b.moved(store, c, s.put(c, value, b.epoch))
	}
}

// expire deletes the keys below floor.
func (b *memoryBackend) expire(store int, floor []byte) {
	s := &b.stores[store]
	for {
		it, ok := s.tree.Min()
		if !ok || it.key >= alias(floor) {
			return
		}
		s.tree.PopMin()
		b.moved(store, it.cell, s.gone(it.cell))
	}
}

// moved tells the transaction that a cell has taken the place of another one, if one has.
func (b *memoryBackend) moved(store int, was, is *cell) {
	if is != nil && is != was && !is.idle() {
		b.lent.moved(store, is)
	}
}

func (b *memoryBackend) applied(positions []*Position) {
	b.snapshot = nil
	for i, p := range positions {
		if p != nil {
			b.positions[i] = *p
		}
	}
}

// Wipe drops what a transaction holds, too.
func (b *memoryBackend) Wipe(store int) error {
	if b.closed {
		return fmt.Errorf("state: wipe a store of task %s: %w", b.task, errClosed)
	}
	if b.lent != nil {
		b.lent.Drop()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.snapshot = nil
	s := &b.stores[store]
	s.cells.clear()
	s.tree, s.bytes = newTree(), 0
	b.positions[store] = Position{}
	return nil
}

func (b *memoryBackend) Snapshot() (Snapshot, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, fmt.Errorf("state: snapshot of task %s: %w", b.task, errClosed)
	}
	if b.snapshot == nil {
		s := &memorySnapshot{make([]*tree, len(b.stores))}
		for i := range b.stores {
			s.trees[i] = b.stores[i].tree.Copy()
		}
		b.epoch++
		b.snapshot = s
	}
	return b.snapshot, nil
}

func (b *memoryBackend) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	b.retire()
	b.closed = true
	b.snapshot = nil
	b.stores = nil
	b.close()
	return nil
}

type memorySnapshot struct{ trees []*tree }

func (s *memorySnapshot) Get(store int, key []byte) ([]byte, bool, error) {
	it, ok := s.trees[store].Get(itemOf(key))
	if !ok {
		return nil, false, nil
	}
	return it.cell.value, true, nil
}

func (s *memorySnapshot) Scan(store int, from, to []byte) iter.Seq2[Entry, error] {
	return scan(s.trees[store], from, to)
}

func (s *memorySnapshot) Release() {}

func scan(t *tree, from, to []byte) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		t.Ascend(itemOf(from), func(it item) bool {
			if to != nil && it.key >= alias(to) {
				return false
			}
			return yield(Entry{Key: bytesOf(it.key), Value: it.cell.value}, nil)
		})
	}
}
