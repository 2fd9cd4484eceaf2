package state

import (
	"errors"
	"fmt"
	"iter"
	"sync"
	"unsafe"

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
		b.stores[i] = newMemoryStore()
	}
	return b, nil
}

// CheckSpecs says whether a backend can be opened with specs: each needs a name of its own and a kind. It is for providers.
func CheckSpecs(specs []Spec) error {
	for i, s := range specs {
		if s.Name == "" {
			return fmt.Errorf("state: store %d has no name", i)
		}
		if s.Kind != KeyValueKind && s.Kind != WindowKind {
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

// memoryBackend holds each store twice: in a map for its one writer, and in a copy-on-write tree for scans and snapshots. Both
// lead to the same cells.
//
// Only the writer changes what they hold, and it holds mu while it does; so its own reads need no lock. Taking a snapshot
// touches a tree's copy-on-write mark alone, which reads do not look at.
type memoryBackend struct {
	close     func()
	task      string
	positions []Position
	batch     []Mutation

	mu       sync.Mutex
	stores   []memoryStore
	epoch    uint64          // counts the snapshots
	snapshot *memorySnapshot // shared by all who ask between two applies
	closed   bool
}

type memoryStore struct {
	index map[string]*cell
	tree  *tree
	bytes int64 // of keys and values, as of the last apply
}

// cell holds a value. It is overwritten in place only in the epoch in which it was made: no snapshot can know it then.
type cell struct {
	value []byte
	epoch uint64
}

// item is an entry in a tree. Keys compare by their prefix first, which spares most comparisons the way to the key's bytes.
type item struct {
	prefix uint64
	key    string
	cell   *cell
}

func itemOf(key []byte) item { return item{prefix: prefix(key), key: alias(key)} }

type tree = btree.BTreeG[item]

func newMemoryStore() memoryStore {
	less := func(a, b item) bool {
		if a.prefix != b.prefix {
			return a.prefix < b.prefix
		}
		return a.key < b.key
	}
	return memoryStore{index: make(map[string]*cell), tree: btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})}
}

// put copies key and value: keeping the bytes given would keep the whole chunk that they are part of, for one cold key.
func (s *memoryStore) put(key, value []byte, epoch uint64) {
	value = append(make([]byte, 0, len(value)), value...)
	c, ok := s.index[alias(key)]
	if ok {
		s.bytes += int64(len(value) - len(c.value))
	} else {
		s.bytes += int64(len(key) + len(value))
	}
	if ok && c.epoch == epoch {
		c.value = value
		return
	}
	it := item{prefix: prefix(key), cell: &cell{value, epoch}}
	if ok {
		old, _ := s.tree.Get(itemOf(key))
		it.key = old.key
	} else {
		it.key = string(key)
	}
	s.index[it.key] = it.cell
	s.tree.Set(it)
}

func (s *memoryStore) delete(key []byte) {
	if c, ok := s.index[alias(key)]; ok {
		s.bytes -= int64(len(key) + len(c.value))
		delete(s.index, alias(key))
		s.tree.Delete(itemOf(key))
	}
}

var errClosed = errors.New("state: the backend is closed")

func (b *memoryBackend) Get(store int, key []byte) ([]byte, bool, error) {
	if b.closed {
		return nil, false, fmt.Errorf("state: read task %s: %w", b.task, errClosed)
	}
	c, ok := b.stores[store].index[alias(key)]
	if !ok {
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
		n += b.stores[i].bytes + entryCost*int64(len(b.stores[i].index))
	}
	return n
}

func (b *memoryBackend) Position(store int) Position { return b.positions[store] }

func (b *memoryBackend) Apply(mutations iter.Seq[Mutation], positions []*Position) error {
	if b.closed {
		return fmt.Errorf("state: apply to task %s: %w", b.task, errClosed)
	}
	if len(positions) != len(b.stores) {
		return fmt.Errorf("state: apply to task %s: %d positions for %d stores", b.task, len(positions), len(b.stores))
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
	b.snapshot = nil
	for i := range b.batch {
		m := &b.batch[i]
		if m.Value == nil {
			b.stores[m.Store].delete(m.Key)
		} else {
			b.stores[m.Store].put(m.Key, m.Value, b.epoch)
		}
	}
	for i, p := range positions {
		if p != nil {
			b.positions[i] = *p
		}
	}
	return nil
}

func (b *memoryBackend) Wipe(store int) error {
	if b.closed {
		return fmt.Errorf("state: wipe a store of task %s: %w", b.task, errClosed)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.snapshot = nil
	b.stores[store] = newMemoryStore()
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
			key := unsafe.Slice(unsafe.StringData(it.key), len(it.key))
			return yield(Entry{Key: key, Value: it.cell.value}, nil)
		})
	}
}
