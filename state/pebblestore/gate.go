package pebblestore

import (
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// gate is the file system of one Pebble. When its backend has failed the gate shuts, and nothing more is written: what is on disk
// stays as it is, as if the process had been killed in that moment, which is a state that Pebble is made to come back from.
//
// Pebble has two ways to take a failure, and neither will do. A flush that fails is tried again at once and for ever: so it is held
// up in Create until the backend is closed. After a failure of the manifest Pebble ends the process, and if it is not let, panics; and
// an Open that fails late leaves a goroutine behind. So it learns of failures with tables only. With all other files it is told that
// all went well, and lives on in memory, consistent with itself, until it is closed.
type gate struct {
	vfs.FS
	fail func(error)

	open     atomic.Bool // Pebble's Open has returned; until then nothing may wait
	shut     atomic.Bool // nothing is written
	sealed   atomic.Bool // nothing is deleted either
	released chan struct{}
	once     sync.Once
}

func newGate(fsys vfs.FS, fail func(error)) *gate {
	return &gate{FS: fsys, fail: fail, released: make(chan struct{})}
}

// isTable says whether name is a file of data. All others say which those are.
func isTable(name string) bool {
	return strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".blob")
}

func isLog(name string) bool { return strings.HasSuffix(name, ".log") }

// steady does what may fail, unless nothing is written any more, and tells Pebble that it went well. Pebble would then delete tables
// that only the manifest on disk names, so from here on it cannot.
func (g *gate) steady(do func() error) error {
	if g.shut.Load() {
		g.sealed.Store(true)
	} else if err := do(); err != nil {
		g.sealed.Store(true)
		g.fail(err)
		g.shut.Store(true) // also if nobody cares any more, in Close: after a gap no more may be written
	}
	return nil
}

var errShut = errors.New("pebblestore: nothing is written after a failure")

// release lets go of who waits in Create: Pebble is about to be closed.
func (g *gate) release() { g.once.Do(func() { close(g.released) }) }

func (g *gate) check() error {
	if g.shut.Load() {
		return errShut
	}
	return nil
}

// Create holds up the flush that is tried again, until the backend is closed. Pebble holds no lock of its own here. Logs are not made
// at all: Pebble's is off, so they would hold nothing, and after reading them it would flush within Open and wait for that.
func (g *gate) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	switch {
	case isTable(name):
		if !g.shut.Load() {
			return g.wrap(g.FS.Create(name, category))
		}
		if g.open.Load() {
			<-g.released
		}
		return nil, errShut
	case isLog(name):
		return idleFile{}, nil
	}
	made := vfs.File(idleFile{})
	_ = g.steady(func() error {
		f, err := g.FS.Create(name, category)
		if err == nil {
			made = f
		}
		return err
	})
	return steadyFile{made, g}, nil
}

func (g *gate) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	return g.wrap(g.FS.OpenReadWrite(name, category, opts...))
}

func (g *gate) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	return g.wrap(g.FS.ReuseForWrite(oldname, newname, category))
}

// OpenDir is for syncing, which is how the current manifest is set.
func (g *gate) OpenDir(name string) (vfs.File, error) {
	f, err := g.FS.OpenDir(name)
	if err != nil {
		return f, err
	}
	return steadyFile{f, g}, nil
}

func (g *gate) Link(oldname, newname string) error {
	if err := g.check(); err != nil {
		return err
	}
	return g.FS.Link(oldname, newname)
}

func (g *gate) Rename(oldname, newname string) error {
	return g.steady(func() error { return g.FS.Rename(oldname, newname) })
}

func (g *gate) MkdirAll(dir string, perm os.FileMode) error {
	if err := g.check(); err != nil {
		return err
	}
	return g.FS.MkdirAll(dir, perm)
}

// Remove goes on after most failures: what a failed flush or compaction leaves behind may be just the space that is missing. But
// if the manifest has failed it may or may not name the new files.
func (g *gate) Remove(name string) error {
	if isLog(name) {
		return nil
	}
	if g.sealed.Load() {
		return errShut
	}
	return g.FS.Remove(name)
}

func (g *gate) RemoveAll(name string) error {
	if g.sealed.Load() {
		return errShut
	}
	return g.FS.RemoveAll(name)
}

// GetDiskUsage does not fail: to Pebble that would be a failure of the disk, and not to know is none.
func (g *gate) GetDiskUsage(path string) (vfs.DiskUsage, error) {
	u, err := g.FS.GetDiskUsage(path)
	if err != nil {
		return u, vfs.ErrUnsupported
	}
	return u, nil
}

func (g *gate) Unwrap() vfs.FS { return g.FS }

func (g *gate) wrap(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return f, err
	}
	return gatedFile{f, g}, nil
}

// steadyFile never fails. See gate.
type steadyFile struct {
	vfs.File
	gate *gate
}

func (f steadyFile) Write(p []byte) (int, error) {
	return len(p), f.gate.steady(func() error { _, err := f.File.Write(p); return err })
}

func (f steadyFile) WriteAt(p []byte, off int64) (int, error) {
	return len(p), f.gate.steady(func() error { _, err := f.File.WriteAt(p, off); return err })
}

func (f steadyFile) Preallocate(offset, length int64) error {
	return f.gate.steady(func() error { return f.File.Preallocate(offset, length) })
}

func (f steadyFile) Sync() error     { return f.gate.steady(f.File.Sync) }
func (f steadyFile) SyncData() error { return f.gate.steady(f.File.SyncData) }

func (f steadyFile) SyncTo(length int64) (full bool, err error) {
	err = f.gate.steady(func() error { full, err = f.File.SyncTo(length); return err })
	return full, err
}

// idleFile holds nothing. It stands for a log, and for a file that cannot be made.
type idleFile struct{}

func (idleFile) Close() error                           { return nil }
func (idleFile) Read([]byte) (int, error)               { return 0, io.EOF }
func (idleFile) ReadAt([]byte, int64) (int, error)      { return 0, io.EOF }
func (idleFile) Write(p []byte) (int, error)            { return len(p), nil }
func (idleFile) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }
func (idleFile) Preallocate(_, _ int64) error           { return nil }
func (idleFile) Stat() (vfs.FileInfo, error)            { return nil, errShut }
func (idleFile) Sync() error                            { return nil }
func (idleFile) SyncData() error                        { return nil }
func (idleFile) SyncTo(int64) (bool, error)             { return true, nil }
func (idleFile) Prefetch(_, _ int64) error              { return nil }
func (idleFile) Fd() uintptr                            { return vfs.InvalidFd }

// gatedFile is a file that is written to.
type gatedFile struct {
	vfs.File
	gate *gate
}

func (f gatedFile) Write(p []byte) (int, error) {
	if err := f.gate.check(); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

func (f gatedFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.gate.check(); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, off)
}

func (f gatedFile) Preallocate(offset, length int64) error {
	if err := f.gate.check(); err != nil {
		return err
	}
	return f.File.Preallocate(offset, length)
}

func (f gatedFile) Sync() error {
	if err := f.gate.check(); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f gatedFile) SyncTo(length int64) (bool, error) {
	if err := f.gate.check(); err != nil {
		return false, err
	}
	return f.File.SyncTo(length)
}

func (f gatedFile) SyncData() error {
	if err := f.gate.check(); err != nil {
		return err
	}
	return f.File.SyncData()
}
