package pebblestore

import (
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/headrace/headrace/state"
)

// get reads with the whole key.
func (b *backend) get(from pebble.Reader, key []byte) ([]byte, bool, error) {
	v, done, err := from.Get(key)
	if err != nil {
		if errors.Is(err, pebble.ErrNotFound) {
			return nil, false, b.sound()
		}
		return nil, false, b.readError(err)
	}
	value := make([]byte, len(v))
	copy(value, v)
	if err := done.Close(); err != nil {
		return nil, false, b.readError(err)
	}
	return value, true, b.sound()
}

// scan yields what lies between from and to in a store. ended, if there is one, ends it between two entries.
func (b *backend) scan(r pebble.Reader, store int, from, to []byte, ended func() error, yield func(state.Entry, error) bool) {
	s := &b.stores[store]
	bounds := make([]byte, 0, 2*prefixLen+len(from)+len(to))
	bounds = append(append(bounds, s.from...), from...)
	opts := pebble.IterOptions{LowerBound: bounds, UpperBound: s.to}
	if to != nil {
		n := len(bounds)
		bounds = append(append(bounds, s.from...), to...)
		opts.UpperBound = bounds[n:]
	}
	it, err := r.NewIter(&opts)
	if err != nil {
		yield(state.Entry{}, b.readError(err))
		return
	}
	open := true
	defer func() {
		if open { // the loop ended early: nobody is left to tell an error
			_ = it.Close()
		}
	}()
	var pack packer
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err == nil && ended != nil {
			err = ended()
		}
		if err != nil || b.unsound.Load() {
			break
		}
		if !yield(pack.entry(it.Key()[prefixLen:], value), nil) {
			return
		}
	}
	open = false
	err = it.Close() // repeats the error that ended the loop
	if err == nil && ended != nil {
		err = ended()
	}
	if err != nil && !errors.Is(err, errClosed) {
		err = b.readError(err)
	}
	if err == nil {
		err = b.sound()
	}
	if err != nil {
		yield(state.Entry{}, err)
	}
}

// sound is asked after each read: where Pebble wanted to end the process, what it returns afterwards is not to be trusted.
func (b *backend) sound() error {
	if !b.unsound.Load() {
		return nil
	}
	if f := b.failure.Load(); f != nil {
		return b.failureError(f)
	}
	return fmt.Errorf("pebblestore: read task %s: %w", b.task, errClosed)
}

// packer copies entries. Small ones share an allocation with the ones next to them: whoever keeps one keeps at most packSize.
type packer struct{ free []byte }

const packSize = 1 << 10

func (p *packer) entry(key, value []byte) state.Entry {
	n, m := len(key), len(key)+len(value)
	if m > len(p.free) {
		if m > packSize/4 {
			both := make([]byte, m)
			copy(both, key)
			copy(both[n:], value)
			return state.Entry{Key: both[:n:n], Value: both[n:]}
		}
		p.free = make([]byte, packSize)
	}
	both := p.free[:m:m]
	p.free = p.free[m:]
	copy(both, key)
	copy(both[n:], value)
	return state.Entry{Key: both[:n:n], Value: both[n:]}
}

// snapshot is a view for other goroutines. It counts its readers, so that it is closed behind the last of them, and the backend
// behind the last snapshot.
type snapshot struct {
	b    *backend
	snap *pebble.Snapshot
	refs atomic.Int64 // its readers, and one until it is released
	once sync.Once
}

// Snapshot takes a snapshot while no batch is between being in the memtable and being visible. A flush that begins there keeps, of each
// key, only the batch's value, unless it knows of a snapshot that needs another; and one taken a moment later, still without the
// batch, would find parts of what it must show gone.
func (b *backend) Snapshot() (state.Snapshot, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sealed {
		return nil, fmt.Errorf("pebblestore: snapshot of task %s: %w", b.task, errClosed)
	}
	b.commits.Lock()
	s := &snapshot{b: b, snap: b.db.NewSnapshot()}
	b.commits.Unlock()
	s.refs.Store(1)
	b.snapshots[s] = struct{}{}
	return s, nil
}

// seal releases all snapshots and lets no new ones be taken.
func (b *backend) seal() {
	b.mu.Lock()
	b.sealed = true
	left := make([]*snapshot, 0, len(b.snapshots))
	for s := range b.snapshots {
		left = append(left, s)
	}
	if len(left) == 0 {
		close(b.drained)
	}
	b.mu.Unlock()
	for _, s := range left {
		s.Release()
	}
}

func (s *snapshot) Release() { s.once.Do(s.leave) }

func (s *snapshot) enter() error {
	for {
		n := s.refs.Load()
		if n == 0 {
			return fmt.Errorf("pebblestore: read a snapshot of task %s that was released, or whose backend was: %w", s.b.task, errClosed)
		}
		if s.refs.CompareAndSwap(n, n+1) {
			return nil
		}
	}
}

func (s *snapshot) leave() {
	if s.refs.Add(-1) > 0 {
		return
	}
	b := s.b
	if err := s.snap.Close(); err != nil {
		b.log.Warn("cannot close a snapshot", "err", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.snapshots, s)
	if b.sealed && len(b.snapshots) == 0 {
		close(b.drained)
	}
}

// ended makes a scan stop when the backend is being closed.
func (s *snapshot) ended() error {
	if s.b.closing.Load() {
		return fmt.Errorf("pebblestore: read a snapshot of task %s: %w", s.b.task, errClosed)
	}
	return nil
}

// keys are buffers for the keys of reads that may run at the same time.
var keys = sync.Pool{New: func() any { return new([]byte) }}

func (s *snapshot) Get(store int, key []byte) ([]byte, bool, error) {
	if err := s.enter(); err != nil {
		return nil, false, err
	}
	defer s.leave()
	buf := keys.Get().(*[]byte)
	defer keys.Put(buf)
	*buf = append(append((*buf)[:0], s.b.stores[store].from...), key...)
	return s.b.get(s.snap, *buf)
}

func (s *snapshot) Scan(store int, from, to []byte) iter.Seq2[state.Entry, error] {
	return func(yield func(state.Entry, error) bool) {
		if err := s.enter(); err != nil {
			yield(state.Entry{}, err)
			return
		}
		defer s.leave()
		s.b.scan(s.snap, store, from, to, s.ended, yield)
	}
}
