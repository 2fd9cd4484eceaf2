package pebblestore

import (
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/headrace/headrace/state"
)

// backend is the state of one task. Its writer's methods have no lock; what other goroutines touch says so.
type backend struct {
	provider   *Provider
	set        *Config
	task, path string
	log        *slog.Logger
	files      *gate
	db         *pebble.DB

	stores []store
	key    []byte // of the read in progress
	closed bool

	flusher

	compacted chan struct{}           // Pebble has finished a compaction
	failed    chan struct{}           // closed when failure is set
	failure   atomic.Pointer[failure] // set once, by anyone
	told      bool                    // the writer has been given the failure
	unsound   atomic.Bool             // Pebble has gone on where it saw no way on
	closing   atomic.Bool             // reads by others end, failures do not count any more

	commits sync.Mutex // while a batch is committed or a snapshot is taken (see Snapshot)

	mu        sync.Mutex // guards what follows
	snapshots map[*snapshot]struct{}
	sealed    bool          // no new snapshots
	drained   chan struct{} // closed when sealed and the last snapshot is gone
}

// store is one of the specs.
type store struct {
	number   uint32
	from, to []byte // bounds of its keys
	position state.Position
	at       []byte // key of its position
}

func newBackend(p *Provider, set *Config, task string, stores int) *backend {
	b := &backend{
		provider: p, set: set, task: task, path: set.FS.PathJoin(set.Dir, task), log: taskLogger(set.Logger, task),
		stores: make([]store, stores), flusher: newFlusher(),
		compacted: make(chan struct{}, 1), failed: make(chan struct{}),
		snapshots: make(map[*snapshot]struct{}), drained: make(chan struct{}),
	}
	b.files = newGate(set.FS, func(err error) { b.fail(err, false) })
	return b
}

// fail shuts the backend. It may be called by any goroutine and with Pebble's locks held, so it neither waits nor reads.
func (b *backend) fail(cause error, corrupt bool) {
	if b.closing.Load() || !b.failure.CompareAndSwap(nil, &failure{cause, corrupt}) {
		return
	}
	b.files.shut.Store(true)
	close(b.failed)
}

// usable returns the error of a backend that takes no more changes.
func (b *backend) usable(what string) error {
	if b.closed {
		return fmt.Errorf("pebblestore: %s task %s: %w", what, b.task, errClosed)
	}
	if f := b.failure.Load(); f != nil {
		b.told = true
		return b.failureError(f)
	}
	return nil
}

func (b *backend) Position(store int) state.Position { return b.stores[store].position }

// Size is what the files take, those that wait to be deleted too, and what is not on disk yet. See [state.Sized].
func (b *backend) Size() int64 {
	if b.closed {
		return 0
	}
	return int64(b.db.Metrics().DiskSpaceUsage()) + b.waiting()
}

func (b *backend) Get(store int, key []byte) ([]byte, bool, error) {
	if b.closed {
		return nil, false, fmt.Errorf("pebblestore: read task %s: %w", b.task, errClosed)
	}
	b.key = append(append(b.key[:0], b.stores[store].from...), key...)
	return b.get(b.db, b.key)
}

func (b *backend) Scan(store int, from, to []byte) iter.Seq2[state.Entry, error] {
	if b.closed {
		return func(yield func(state.Entry, error) bool) {
			yield(state.Entry{}, fmt.Errorf("pebblestore: read task %s: %w", b.task, errClosed))
		}
	}
	return func(yield func(state.Entry, error) bool) { b.scan(b.db, store, from, to, nil, yield) }
}

// maxBatch is how many bytes one Apply can take. Pebble panics at 4 GiB.
const maxBatch = 1 << 30

// Apply never writes to disk itself. It waits while more is waiting for the disk than there is room for, at most StallTimeout
// without any progress.
func (b *backend) Apply(mutations iter.Seq[state.Mutation], positions []*state.Position) error {
	if err := b.usable("apply to"); err != nil {
		return err
	}
	if len(positions) != len(b.stores) {
		return fmt.Errorf("pebblestore: apply to task %s: %d positions for %d stores", b.task, len(positions), len(b.stores))
	}
	batch := b.db.NewBatch()
	defer batch.Close()
	size := 0
	for m := range mutations {
		if m.Store < 0 || m.Store >= len(b.stores) {
			return fmt.Errorf("pebblestore: apply to task %s: mutation of store %d of %d", b.task, m.Store, len(b.stores))
		}
		if size += len(m.Key) + len(m.Value); size > maxBatch {
			return fmt.Errorf("pebblestore: apply to task %s: more than %s at a time; commit more often", b.task, bytesText(maxBatch))
		}
		prefix := b.stores[m.Store].from
		if m.Below {
			if err := batch.DeleteRange(prefix, slices.Concat(prefix, m.Key), nil); err != nil {
				return fmt.Errorf("pebblestore: apply to task %s: %w", b.task, err)
			}
			continue
		}
		var op *pebble.DeferredBatchOp
		if m.Value == nil {
			op = batch.DeleteDeferred(prefixLen + len(m.Key))
		} else {
			op = batch.SetDeferred(prefixLen+len(m.Key), len(m.Value))
			copy(op.Value, m.Value)
		}
		copy(op.Key, prefix)
		copy(op.Key[prefixLen:], m.Key)
		if err := op.Finish(); err != nil {
			return fmt.Errorf("pebblestore: apply to task %s: %w", b.task, err)
		}
	}
	if err := b.positionFirst(positions); err != nil {
		return err
	}
	for i, p := range positions {
		if p == nil {
			continue
		}
		at := b.stores[i].at
		op := batch.SetDeferred(len(at), positionLen)
		copy(op.Key, at)
		encodePosition(op.Value, p)
		if err := op.Finish(); err != nil {
			return fmt.Errorf("pebblestore: apply to task %s: %w", b.task, err)
		}
	}
	if err := b.commit("apply to", batch); err != nil {
		return err
	}
	for i, p := range positions {
		if p != nil {
			b.stores[i].position = *p
		}
	}
	return nil
}

// commit makes a batch visible, when there is room for it. Pebble keeps a batch whole: it goes into one memtable, or into a table of
// its own if it is large, and those are flushed in order, each with one edit of the manifest. So what is on disk is always all
// batches up to one of them.
func (b *backend) commit(what string, batch *pebble.Batch) error {
	if err := b.room(); err != nil {
		return fmt.Errorf("pebblestore: %s task %s: %w", what, b.task, err)
	}
	size, count := batch.Len(), int(batch.Count())
	b.commits.Lock()
	err := b.db.Apply(batch, pebble.NoSync)
	b.commits.Unlock()
	if err := b.usable(what); err != nil { // an error of Pebble's in here comes as a call of Fatalf
		return err
	}
	if err != nil {
		b.fail(err, false)
		return b.usable(what)
	}
	b.applied(size, count)
	return nil
}

// Wipe is on disk with the next flush. Until then a crash brings the store back as it was, with its position.
func (b *backend) Wipe(store int) error {
	if err := b.usable("wipe a store of"); err != nil {
		return err
	}
	s := &b.stores[store]
	batch := b.db.NewBatch()
	defer batch.Close()
	if err := errors.Join(batch.DeleteRange(s.from, s.to, nil), batch.Delete(s.at, nil)); err != nil {
		return fmt.Errorf("pebblestore: wipe a store of task %s: %w", b.task, err)
	}
	if err := b.commit("wipe a store of", batch); err != nil {
		return err
	}
	s.position = state.Position{}
	return nil
}

// Close flushes what waits and closes the files. An error says that something is not on disk, and so will be read from the changelog
// again, or that the disk does not answer or a reader does not let go: then the task stays open, and is closed when they do.
func (b *backend) Close() error {
	if b.closed {
		return nil
	}
	b.closed = true
	b.stopFlusher()
	lost := b.flushAll()
	b.closing.Store(true)
	b.files.release()
	b.seal()

	done := make(chan error, 1)
	go func() { // ends when the disk answers: this waits for it, but not for ever
		<-b.drained
		err := b.db.Close()
		b.provider.end(b.task)
		done <- err
	}()
	timer := time.NewTimer(b.set.StallTimeout)
	defer timer.Stop()
	select {
	case err := <-done:
		if lost == nil && err != nil && b.failure.Load() == nil {
			lost = fmt.Errorf("pebblestore: close task %s in %s: %w", b.task, b.path, err)
		}
		return lost
	case <-timer.C:
		return fmt.Errorf("pebblestore: close task %s in %s: not closed after %v, because the disk does not answer or a reader does not end; the task cannot be opened before that",
			b.task, b.path, b.set.StallTimeout)
	}
}

// flushAll brings everything to disk.
func (b *backend) flushAll() error {
	if b.failure.Load() == nil && b.waiting() > 0 {
		done, err := b.db.AsyncFlush()
		if err != nil {
			b.fail(err, false)
		} else {
			timer := time.NewTimer(b.set.StallTimeout)
			defer timer.Stop()
			select {
			case <-done:
			case <-b.failed:
			case <-timer.C:
				b.fail(fmt.Errorf("a flush has not ended within %v", b.set.StallTimeout), false)
			}
		}
	}
	if f := b.failure.Load(); f != nil && !b.told {
		return b.failureError(f)
	}
	return nil
}
