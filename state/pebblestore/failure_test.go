package pebblestore

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/headrace/headrace/state"
)

// faulty is a file system that fails at what matches, once armed.
type faulty struct {
	vfs.FS
	armed atomic.Bool
	hits  atomic.Int64
}

func newFaulty(inner vfs.FS, err error, match func(errorfs.Op) bool) *faulty {
	f := &faulty{}
	f.FS = errorfs.Wrap(inner, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if f.armed.Load() && match(op) {
			f.hits.Add(1)
			return &os.PathError{Op: "write", Path: op.Path, Err: err}
		}
		return nil
	}))
	return f
}

func writesTo(glob string) func(errorfs.Op) bool {
	return func(op errorfs.Op) bool {
		switch op.Kind {
		case errorfs.OpFileWrite, errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo, errorfs.OpCreate:
			ok, _ := path.Match(glob, path.Base(op.Path))
			return ok
		}
		return false
	}
}

// applyUntilError applies until it fails, and returns the history of what was applied and the error.
func applyUntilError(t *testing.T, b *backend, h history, limit int) (history, error) {
	t.Helper()
	for range limit {
		ms := []state.Mutation{
			put(0, fmt.Sprint("key ", len(h)%50), strings.Repeat("x", 5000)+fmt.Sprint(len(h))),
			put(1, fmt.Sprint("key ", len(h)%70), fmt.Sprint(len(h))),
		}
		if err := b.Apply(slices.Values(ms), at(2, int64(len(h)+1))); err != nil {
			return h, err
		}
		h = append(h, ms)
	}
	t.Fatalf("%d applies and no error", limit)
	return nil, nil
}

// A disk that refuses writes, to tables or to the manifest, fails the task: at once, for good, with all that a person needs to know.
// The process lives, and so does the other task. When the disk takes writes again, the task goes on from an earlier position.
func TestDiskRefuses(t *testing.T) {
	for name, glob := range map[string]string{"table": "*.sst", "manifest": "MANIFEST-*", "everything": "*"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mem := vfs.NewMem()
			f := newFaulty(mem, syscall.ENOSPC, writesTo(glob))
			p := provider(t, Config{Dir: "state", FS: f, FlushBytes: 64 << 10, MemoryBudget: minBudget})
			b := open(t, p, specs())
			var h history
			for range 100 { // of which something is on disk by the end
				ms := []state.Mutation{put(0, fmt.Sprint(len(h)%20), fmt.Sprint(len(h)))}
				apply(t, b, int64(len(h)+1), ms...)
				h = append(h, ms)
			}
			flush(t, b)
			f.armed.Store(true)
			h, err := applyUntilError(t, b, h, 100_000)
			for _, s := range []string{task, b.path, "no space left on device", "open the task anew"} {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("error %q does not say %q", err, s)
				}
			}
			if !errors.Is(err, syscall.ENOSPC) || errors.Is(err, state.ErrCorrupt) {
				t.Errorf("error %q: want ENOSPC, and not corrupt", err)
			}
			f.armed.Store(false) // it does not come back by itself: what failed may be half there
			if err := b.Apply(slices.Values([]state.Mutation{put(0, "a", "1")}), at(2, int64(len(h)+1))); err == nil {
				t.Error("a failed backend takes changes")
			}
			if err := b.Wipe(0); err == nil {
				t.Error("a failed backend is wiped")
			}
			hits := f.hits.Load() // of which there are no more, since nothing is tried
			f.armed.Store(true)
			if v, ok, err := b.Get(0, []byte("7")); err == nil && !ok {
				t.Errorf("get from a failed backend: %q, %v, %v", v, ok, err)
			}
			if err := b.Close(); err != nil {
				t.Errorf("close, after Apply has told: %v", err)
			}
			if n := f.hits.Load() - hits; n != 0 {
				t.Errorf("the disk was written to %d times after the failure", n)
			}
			if glob == "*" {
				if _, err := p.Open(task, specs()); !errors.Is(err, syscall.ENOSPC) || errors.Is(err, state.ErrCorrupt) {
					t.Errorf("open on a full disk: %v", err)
				}
			}
			f.armed.Store(false)
			b = open(t, p, specs())
			offset := checkPrefix(t, 0, b, h)
			if offset < 100 {
				t.Errorf("position %d, want at least the 100 that were flushed", offset)
			}
			apply(t, b, offset+1, put(0, "again", "yes"))
			closeBackend(t, b)
		})
	}
}

// What a failed manifest leaves behind must be a prefix, too.
func TestManifestFails(t *testing.T) {
	t.Parallel()
	for hit := range int64(6) {
		mem := vfs.NewCrashableMem()
		var countdown atomic.Int64
		countdown.Store(1 << 40)
		inManifest := writesTo("MANIFEST-*")
		f := newFaulty(mem, syscall.EIO, func(op errorfs.Op) bool {
			return inManifest(op) && countdown.Add(-1) < 0
		})
		f.armed.Store(true)
		p := provider(t, Config{Dir: fmt.Sprint("state ", hit), FS: f, FlushBytes: 32 << 10, MemoryBudget: minBudget})
		b := open(t, p, specs())
		countdown.Store(hit + 4)
		h, err := applyUntilError(t, b, nil, 100_000)
		if !errors.Is(err, syscall.EIO) {
			t.Fatal(err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		countdown.Store(1 << 40)
		b = open(t, p, specs())
		offset := checkPrefix(t, int(hit), b, h)
		t.Logf("manifest write %d fails: position %d of %d", hit, offset, len(h))
		closeBackend(t, b)
	}
}

// A flush that fails while nothing is applied is an error of Close: something is not on disk.
func TestCloseTells(t *testing.T) {
	t.Parallel()
	f := newFaulty(vfs.NewMem(), syscall.ENOSPC, writesTo("*.sst"))
	p := provider(t, Config{Dir: "state", FS: f})
	b := open(t, p, specs())
	apply(t, b, 1, put(0, "a", "1"))
	f.armed.Store(true)
	if err := b.Close(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("close: %v, want ENOSPC", err)
	}
	f.armed.Store(false)
	b = open(t, p, specs())
	if got := b.Position(0); got != (state.Position{}) {
		t.Errorf("position %+v of what was not flushed", got)
	}
	closeBackend(t, b)
}

// hanging is a disk that does not answer syncs of tables until it is let go.
type hanging struct {
	vfs.FS
	hangs atomic.Bool
	let   chan struct{}
}

type hangingFile struct {
	vfs.File
	fs *hanging
}

func (h *hanging) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := h.FS.Create(name, c)
	if err != nil || !strings.HasSuffix(name, ".sst") {
		return f, err
	}
	return hangingFile{f, h}, nil
}

func (f hangingFile) Sync() error     { f.fs.wait(); return f.File.Sync() }
func (f hangingFile) SyncData() error { f.fs.wait(); return f.File.SyncData() }

func (f hangingFile) SyncTo(n int64) (bool, error) { f.fs.wait(); return f.File.SyncTo(n) }

func (h *hanging) wait() {
	if h.hangs.Load() {
		<-h.let
	}
}

// A disk that does not answer stops Apply after StallTimeout, and Close, too; nobody waits for ever.
func TestDiskHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := &hanging{FS: vfs.NewMem(), let: make(chan struct{})}
		p := New(Config{Dir: "state", FS: fs, Logger: slog.New(slog.DiscardHandler), FlushBytes: 64 << 10, MemoryBudget: minBudget, StallTimeout: 8 * time.Second})
		b := open(t, p, specs())
		fs.hangs.Store(true)
		began := time.Now()
		h, err := applyUntilError(t, b, nil, 100_000)
		if !strings.Contains(err.Error(), "no progress for 8s") {
			t.Errorf("error: %v", err)
		}
		if took := time.Since(began); took != 8*time.Second {
			t.Errorf("Apply gave up after %v, want 8s", took)
		}
		if size := int64(len(h)) * 5000; size < 1<<20 || size > minBudget {
			t.Errorf("%d bytes were taken before, want at least 1 MiB and less than the budget", size)
		}
		began = time.Now()
		if err := b.Close(); err == nil || !strings.Contains(err.Error(), "does not answer") {
			t.Errorf("close: %v", err)
		}
		if took := time.Since(began); took != 8*time.Second {
			t.Errorf("Close gave up after %v, want 8s", took)
		}
		if _, err := p.Open(task, specs()); err == nil || !strings.Contains(err.Error(), "is open") {
			t.Errorf("open meanwhile: %v", err)
		}
		if err := p.Close(); err == nil {
			t.Error("the directory was unlocked while a task is open")
		}
		fs.hangs.Store(false)
		close(fs.let)
		synctest.Wait()
		b = open(t, p, specs())
		checkPrefix(t, 0, b, h)
		closeBackend(t, b)
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// damage changes a file of the task, and says whether there was one to change.
func damage(t *testing.T, fs *vfs.MemFS, glob string, how func([]byte) []byte) bool {
	t.Helper()
	names, err := fs.List("state/" + task)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if ok, _ := path.Match(glob, name); !ok {
			continue
		}
		name = "state/" + task + "/" + name
		f, err := fs.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(f)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		if text = how(text); text == nil {
			err = fs.Remove(name)
		} else {
			err = writeFile(fs, name, string(text))
		}
		if err != nil {
			t.Fatal(err)
		}
		return true
	}
	return false
}

// Damage is found, wherever it is, and said to be damage; then the task can be removed, and starts empty. The other task is well.
func TestDamage(t *testing.T) {
	gone := func([]byte) []byte { return nil }
	flip := func(at func(n int) int) func([]byte) []byte {
		return func(b []byte) []byte {
			b = slices.Clone(b)
			b[at(len(b))] ^= 0x10
			return b
		}
	}
	for name, c := range map[string]struct {
		glob string
		how  func([]byte) []byte
	}{
		"table gone":        {"*.sst", gone},
		"table cut":         {"*.sst", func(b []byte) []byte { return b[:len(b)/2] }},
		"table empty":       {"*.sst", func([]byte) []byte { return []byte{} }},
		"table, first byte": {"*.sst", flip(func(int) int { return 1 })},
		"table, middle":     {"*.sst", flip(func(n int) int { return n / 3 })},
		"table, footer":     {"*.sst", flip(func(n int) int { return n - 20 })},
		"manifest gone":     {"MANIFEST-*", gone},
		"manifest, first":   {"MANIFEST-*", flip(func(int) int { return 9 })},
		"manifest garbage":  {"MANIFEST-*", func(b []byte) []byte { return []byte(strings.Repeat("garbage", len(b))) }},
		"options garbage":   {"OPTIONS-*", func([]byte) []byte { return []byte("[Garbage\n") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fs := vfs.NewMem()
			p := provider(t, Config{Dir: "state", FS: fs})
			b := open(t, p, specs())
			other, err := p.Open("1_4", specs())
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			apply(t, other, 9, put(0, "a", "well"))
			err = b.Apply(repeat(2000, func(i int) state.Mutation {
				return put(i%2, fmt.Sprintf("%05d", i), strings.Repeat("v", 200))
			}), at(2, 5))
			if err != nil {
				t.Fatal(err)
			}
			closeBackend(t, b)
			if !damage(t, fs, c.glob, c.how) {
				t.Fatalf("there is no %s", c.glob)
			}

			err = readAll(p)
			if !errors.Is(err, state.ErrCorrupt) {
				t.Fatalf("error %v, want ErrCorrupt", err)
			}
			for _, s := range []string{task, "state/" + task, "restored from its changelog"} {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("error %q does not say %q", err, s)
				}
			}
			want(t, other, 0, map[string]string{"a": "well"})
			if err := p.Remove(task); err != nil {
				t.Fatal(err)
			}
			b = open(t, p, specs())
			want(t, b, 0, map[string]string{})
			if got := b.Position(0); got != (state.Position{}) {
				t.Errorf("position %+v after the removal", got)
			}
			closeBackend(t, b)
		})
	}
}

// readAll opens the task, reads every entry, and applies something; it returns the first error.
func readAll(p *Provider) error {
	b, err := p.Open(task, specs())
	if err != nil {
		return err
	}
	defer b.Close()
	for store := range specs() {
		for _, err := range b.Scan(store, nil, nil) {
			if err != nil {
				// Once damage was seen nothing is applied either.
				if later := b.Apply(slices.Values([]state.Mutation(nil)), at(2, 1)); !errors.Is(later, state.ErrCorrupt) {
					return fmt.Errorf("apply after %w: %v", errors.New(err.Error()), later)
				}
				return err
			}
		}
	}
	return nil
}

func TestRemove(t *testing.T) {
	t.Parallel()
	p := provider(t, Config{FS: vfs.NewMem(), Dir: "state"})
	if err := p.Remove(task); err != nil {
		t.Errorf("remove of what is not there: %v", err)
	}
	b := open(t, p, specs())
	if err := p.Remove(task); err == nil || !strings.Contains(err.Error(), "close it first") {
		t.Errorf("remove of an open task: %v", err)
	}
	closeBackend(t, b)
	for _, name := range []string{"", ".", "..", "../x", "a/b", `a\b`, "/x", "LOCK", "lock", "instance"} {
		if err := p.Remove(name); err == nil {
			t.Errorf("task %q was removed", name)
		}
		if b, err := p.Open(name, nil); err == nil {
			t.Errorf("task %q was opened", name)
			_ = b.Close()
		}
	}
}
