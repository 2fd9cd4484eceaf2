package sim

import (
	"bytes"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/state/pebblestore"
)

// Keep is what a worker keeps of its state when it ends.
type Keep string

// Nothing; what was written at some moment before, in memory; or the same with Pebble on a file system in memory.
const (
	KeepNothing Keep = "nothing"
	KeepCopy    Keep = "copy"
	KeepPebble  Keep = "pebble"
)

// disk is where a worker has its state. A crash leaves what was written at the last flush or close of each task, which the
// schedule decides and no clock.
type disk struct {
	keep   Keep
	memory state.Provider
	copies map[string]*stored

	fs     *vfs.MemFS
	pebble *pebblestore.Provider
	open   map[string]*backend
}

// stored is what is kept of a task.
type stored struct {
	mutations []state.Mutation
	positions []*state.Position
}

// backend is a task's state, which can be closed and opened again under the task, and made to fail.
type backend struct {
	state.Backend
	specs []state.Spec
	// left is how many calls of Apply still work, if bounded.
	bounded bool
	left    int
}

var errCrash = errors.New("sim: the process has crashed here")

func (b *backend) Apply(m iter.Seq[state.Mutation], p []*state.Position) error {
	if b.bounded {
		if b.left == 0 {
			return errCrash
		}
		b.left--
	}
	return b.Backend.Apply(m, p)
}

func newDisk(keep Keep) *disk {
	d := &disk{keep: keep, memory: state.Memory(), copies: map[string]*stored{}, open: map[string]*backend{}}
	if keep == KeepPebble {
		d.mount(vfs.NewCrashableMem())
	}
	return d
}

// mount opens a provider that goes to disk when it is told to, and never by itself.
func (d *disk) mount(fs *vfs.MemFS) {
	d.fs = fs
	d.pebble = pebblestore.New(pebblestore.Config{
		Dir: "state", FS: fs, MemoryBudget: 8 << 20, FlushBytes: 1 << 30, FlushInterval: 1000 * time.Hour, Logger: slog.New(slog.DiscardHandler),
	})
}

func (d *disk) openTask(task string, specs []state.Spec) (*backend, error) {
	inner, err := d.openInner(task, specs)
	if err != nil {
		return nil, err
	}
	b := &backend{Backend: inner, specs: specs}
	d.open[task] = b
	return b, nil
}

func (d *disk) openInner(task string, specs []state.Spec) (state.Backend, error) {
	if d.keep == KeepPebble {
		return d.pebble.Open(task, specs)
	}
	b, err := d.memory.Open(task, specs)
	if c := d.copies[task]; err == nil && c != nil {
		err = b.Apply(slices.Values(c.mutations), c.positions)
	}
	return b, err
}

// closeTask ends a task in an orderly way: everything is kept.
func (d *disk) closeTask(task string) error {
	b := d.open[task]
	delete(d.open, task)
	if err := d.save(task, b); err != nil {
		return err
	}
	return b.Close()
}

func (d *disk) save(task string, b *backend) error {
	if d.keep != KeepCopy {
		return nil
	}
	c := &stored{}
	for i := range b.specs {
		for e, err := range b.Scan(i, nil, nil) {
			if err != nil {
				return err
			}
			c.mutations = append(c.mutations, state.Mutation{Store: i, Key: bytes.Clone(e.Key), Value: append([]byte{}, e.Value...)})
		}
		p := b.Position(i)
		c.positions = append(c.positions, &p)
	}
	d.copies[task] = c
	return nil
}

// flush writes what a task has to disk.
func (d *disk) flush(task string) error {
	b := d.open[task]
	if b == nil || d.keep != KeepPebble {
		if b == nil {
			return nil
		}
		return d.save(task, b)
	}
	if err := b.Backend.Close(); err != nil {
		return err
	}
	inner, err := d.pebble.Open(task, b.specs)
	b.Backend = inner
	return err
}

// crash loses what was not flushed, of all tasks.
func (d *disk) crash() error {
	open := d.open
	d.open = map[string]*backend{}
	if d.keep != KeepPebble {
		for _, b := range open {
			if err := b.Close(); err != nil {
				return err
			}
		}
		return nil
	}
	fs := d.fs.CrashClone(vfs.CrashCloneCfg{})
	if err := d.closePebble(open); err != nil {
		return err
	}
	d.mount(fs)
	return nil
}

func (d *disk) closePebble(open map[string]*backend) error {
	var errs []error
	for _, b := range open {
		errs = append(errs, b.Close())
	}
	return errors.Join(append(errs, d.pebble.Close())...)
}

func (d *disk) close() {
	if d.pebble != nil {
		_ = d.closePebble(d.open) // it is thrown away
	}
}
