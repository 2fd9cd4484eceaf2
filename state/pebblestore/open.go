package pebblestore

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/headrace/headrace/state"
)

// open opens the task's Pebble, finds the specs' stores in it, and drops what is nobody's.
func (b *backend) open(specs []state.Spec, shared *caches) error {
	// It is fixed for as long as the task is open, so it leaves room for some more tasks. The flusher's bounds follow their number.
	memTable := min(max(b.set.MemoryBudget/2/gatherPart/max(b.provider.opened.Load(), 4), minMemTable), maxMemTable)
	db, err := openPebble(b.path, b.options(shared, memTable))
	if err != nil {
		if f := b.failure.Load(); f != nil {
			err = f.cause // Pebble has not been told of it
		}
		return openError(b.set.FS, b.task, b.path, err)
	}
	b.db = db
	b.files.open.Store(true)
	if err = b.adopt(specs); err == nil {
		if f := b.failure.Load(); f != nil {
			err = b.failureError(f)
		}
	}
	if err == nil {
		b.startFlusher()
		return nil
	}
	b.closing.Store(true)
	b.files.release()
	_ = db.Close() // what went wrong is known
	return err
}

// openPebble opens, and turns what Pebble cannot digest into an error: files come from a disk, and must not end the process.
func openPebble(path string, o *pebble.Options) (db *pebble.DB, err error) {
	defer func() {
		if r := recover(); r != nil {
			db, err = nil, fmt.Errorf("pebble panicked: %v", r)
		}
	}()
	return pebble.Open(path, o)
}

// adopt reads the catalog and brings it to what the specs say.
func (b *backend) adopt(specs []state.Spec) error {
	c, err := b.readCatalog()
	if err != nil {
		return err
	}
	batch := b.db.NewBatch()
	defer batch.Close()
	write := func(err error) { // a batch has no way to fail but a key that is too large
		if err != nil {
			b.fail(err, false)
		}
	}
	if c.format == 0 {
		c.next = 1
		write(batch.Set(keyFormat, prefixOf(formatNumber), nil))
		write(batch.Set(keyNext, prefixOf(c.next), nil))
	}
	next := c.next
	claimed := make(map[string]bool, len(specs))
	for i, spec := range specs {
		old, ok := c.stores[spec.Name]
		if ok && old.kind == spec.Kind {
			claimed[spec.Name] = true
			b.stores[i] = storeOf(old.number)
			b.stores[i].position = c.positions[old.number]
			continue
		}
		b.stores[i] = storeOf(next)
		write(batch.Set(storeKey(spec.Name), encodeStore(next, spec.Kind), nil))
		next++
	}
	for name, old := range c.stores {
		if claimed[name] {
			continue
		}
		s := storeOf(old.number)
		write(batch.DeleteRange(s.from, s.to, nil))
		write(batch.Delete(s.at, nil))
		// Its name may be that of a store of another kind by now.
		if !isNamed(specs, name) {
			write(batch.Delete(storeKey(name), nil))
		}
		b.log.Info("store dropped: the topology has none of that name and kind", "name", name, "kind", old.kind)
	}
	if next != c.next {
		write(batch.Set(keyNext, prefixOf(next), nil))
	}
	if batch.Empty() {
		return nil
	}
	return b.commit("open", batch)
}

func storeOf(number uint32) store {
	return store{number: number, from: prefixOf(number), to: prefixOf(number + 1), at: positionKey(number)}
}

func isNamed(specs []state.Spec, name string) bool {
	for _, s := range specs {
		if s.Name == name {
			return true
		}
	}
	return false
}

func (b *backend) readCatalog() (*catalog, error) {
	c := &catalog{stores: make(map[string]kept), positions: make(map[uint32]state.Position)}
	it, err := b.db.NewIter(nil)
	if err != nil {
		return nil, openError(b.files.FS, b.task, b.path, err)
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		key := it.Key()
		if string(key) >= string(metaEnd) {
			if c.format == 0 {
				return nil, corruptError(b.task, b.path, errors.New("there are entries but no format number"))
			}
			break
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return nil, openError(b.files.FS, b.task, b.path, err)
		}
		if len(key) <= prefixLen {
			return nil, corruptError(b.task, b.path, fmt.Errorf("an entry with the key %q", key))
		}
		if err := c.add(key, value); err != nil {
			if c.format > formatNumber {
				break // it is not ours to understand
			}
			return nil, corruptError(b.task, b.path, err)
		}
		if c.format > formatNumber {
			break
		}
	}
	if err := it.Error(); err != nil {
		return nil, openError(b.files.FS, b.task, b.path, err)
	}
	switch {
	case c.format > formatNumber:
		return nil, fmt.Errorf("pebblestore: open task %s: %s has format %d, this version reads %d at most; run the version that wrote it, or delete the directory: the task is then restored from its changelog",
			b.task, b.path, c.format, formatNumber)
	case c.format == 0:
		return c, nil
	}
	if err := c.check(); err != nil {
		return nil, corruptError(b.task, b.path, err)
	}
	return c, nil
}
