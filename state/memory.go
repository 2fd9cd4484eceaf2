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
// All state must fit into memory; every entry costs about 80 bytes more than its key and value.
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
		task: task, trees: make([]*tree, len(specs)), positions: make([]Position, len(specs)),
	}
	for i := range b.trees {
		b.trees[i] = newTree()
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

// item is an entry in a tree. Keys compare by their prefix first, which spares most comparisons the way to the key's bytes.
type item struct {
	prefix     uint64
	key, value []byte
}

type tree = btree.BTreeG[item]

func newTree() *tree {
	return btree.NewBTreeGOptions(func(a, b item) bool {
		if a.prefix != b.prefix {
			return a.prefix < b.prefix
		}
		return alias(a.key) < alias(b.key)
	}, btree.Options{NoLocks: true})
}

// memoryBackend keeps each store in a copy-on-write tree.
//
// Only the writer changes a tree's content, and it holds mu while it does; so its own reads need no lock. Taking a snapshot
// touches a tree's copy-on-write mark alone, which reads do not look at.
type memoryBackend struct {
	close     func()
	task      string
	positions []Position
	batch     []Mutation

	mu       sync.Mutex
	trees    []*tree
	snapshot *memorySnapshot // shared by all who ask between two applies
	closed   bool
}

var errClosed = errors.New("state: the backend is closed")

func (b *memoryBackend) Get(store int, key []byte) ([]byte, bool, error) {
	if b.closed {
		return nil, false, fmt.Errorf("state: read task %s: %w", b.task, errClosed)
	}
	return get(b.trees[store], key)
}

func (b *memoryBackend) Scan(store int, from, to []byte) iter.Seq2[Entry, error] {
	if b.closed {
		return func(yield func(Entry, error) bool) {
			yield(Entry{}, fmt.Errorf("state: read task %s: %w", b.task, errClosed))
		}
	}
	return scan(b.trees[store], from, to)
}

func (b *memoryBackend) Position(store int) Position { return b.positions[store] }

func (b *memoryBackend) Apply(mutations iter.Seq[Mutation], positions []*Position) error {
	if b.closed {
		return fmt.Errorf("state: apply to task %s: %w", b.task, errClosed)
	}
	if len(positions) != len(b.trees) {
		return fmt.Errorf("state: apply to task %s: %d positions for %d stores", b.task, len(positions), len(b.trees))
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
		if m.Store < 0 || m.Store >= len(b.trees) {
			return fmt.Errorf("state: apply to task %s: mutation of store %d of %d", b.task, m.Store, len(b.trees))
		}
		b.batch = append(b.batch, m)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.snapshot = nil
	for i := range b.batch {
		m := &b.batch[i]
		it := item{prefix: prefix(m.Key)}
		if m.Value == nil {
			it.key = m.Key
			b.trees[m.Store].Delete(it)
			continue
		}
		// A copy for each entry: keeping the bytes given would keep the whole chunk that they are part of, for one cold key.
		block := make([]byte, len(m.Key)+len(m.Value))
		n := copy(block, m.Key)
		copy(block[n:], m.Value)
		it.key, it.value = block[:n:n], block[n:]
		b.trees[m.Store].Set(it)
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
	b.trees[store] = newTree()
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
		s := &memorySnapshot{make([]*tree, len(b.trees))}
		for i, t := range b.trees {
			s.trees[i] = t.Copy()
		}
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
	for i := range b.trees {
		b.trees[i] = newTree()
	}
	b.close()
	return nil
}

type memorySnapshot struct{ trees []*tree }

func (s *memorySnapshot) Get(store int, key []byte) ([]byte, bool, error) {
	return get(s.trees[store], key)
}

func (s *memorySnapshot) Scan(store int, from, to []byte) iter.Seq2[Entry, error] {
	return scan(s.trees[store], from, to)
}

func (s *memorySnapshot) Release() {}

func get(t *tree, key []byte) ([]byte, bool, error) {
	it, ok := t.Get(item{prefix: prefix(key), key: key})
	return it.value, ok, nil
}

func scan(t *tree, from, to []byte) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		t.Ascend(item{prefix: prefix(from), key: from}, func(it item) bool {
			if to != nil && alias(it.key) >= alias(to) {
				return false
			}
			return yield(Entry{Key: it.key, Value: it.value}, nil)
		})
	}
}
