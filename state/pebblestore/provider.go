package pebblestore

import (
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/headrace/headrace/state"
)

// Provider opens tasks in one directory. It is a [state.Durable], safe for concurrent use. Make one with [In] or [New].
type Provider struct {
	given Config

	mu     sync.Mutex
	set    *Config // given with its defaults; nil before the first use
	lock   io.Closer
	id     string
	open   map[string]bool // open, being opened, closed or removed
	caches *caches         // while a backend is open

	opened atomic.Int64 // len(open), for those who must not wait for mu
}

var _ state.Durable = (*Provider)(nil)

// In returns a provider that keeps state below dir, with the defaults of [Config].
func In(dir string) *Provider { return New(Config{Dir: dir}) }

// New returns a provider that keeps state as c says. It touches nothing yet: what is wrong with c or its directory is an error of
// the first use.
func New(c Config) *Provider { return &Provider{given: c, open: make(map[string]bool)} }

// caches are what the backends of a provider share.
type caches struct {
	blocks *pebble.Cache
	files  *pebble.FileCache
}

// hold locks the directory, if that is still to be done. p.mu is held.
func (p *Provider) hold() error {
	if p.lock != nil {
		return nil
	}
	c, err := p.given.withDefaults()
	if err != nil {
		return err
	}
	if c.FS == vfs.Default {
		// The process remembers what it has locked by name, so one directory must have one name.
		if err := makeDir(c.FS, c.Dir); err != nil {
			return dirError(c.Dir, err)
		}
		if c.Dir, err = filepath.EvalSymlinks(c.Dir); err != nil {
			return dirError(p.given.Dir, err)
		}
	}
	lock, err := lockDir(c.FS, c.Dir)
	if err != nil {
		return err
	}
	id, err := instanceID(c.FS, c.Dir)
	if err != nil {
		_ = lock.Close()
		return err
	}
	p.set, p.lock, p.id = &c, lock, id
	return nil
}

// Instance returns the id that is kept in the directory. See [state.Durable].
func (p *Provider) Instance() (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.hold(); err != nil {
		return "", err
	}
	return p.id, nil
}

// Open opens a task's directory, or makes it. See [state.Provider].
//
// It blocks while the directory is read, which is short: there is no log to replay. An error wraps [state.ErrCorrupt] if the
// directory is damaged.
func (p *Provider) Open(task string, specs []state.Spec) (state.Backend, error) {
	if err := state.CheckSpecs(specs); err != nil {
		return nil, fmt.Errorf("pebblestore: open task %s: %w", task, err)
	}
	p.mu.Lock()
	err := p.begin("open", task)
	if err == nil && p.caches == nil {
		p.caches = &caches{
			blocks: pebble.NewCache(p.set.MemoryBudget),
			files:  pebble.NewFileCache(runtime.GOMAXPROCS(0), maxOpenFiles),
		}
	}
	set, shared := p.set, p.caches
	p.mu.Unlock()
	if err != nil {
		return nil, err
	}
	b := newBackend(p, set, task, len(specs))
	if err := b.open(specs, shared); err != nil {
		p.end(task)
		return nil, err
	}
	return b, nil
}

// begin marks a task as in use, and end undoes it. p.mu is held for begin.
func (p *Provider) begin(what, task string) error {
	if err := p.hold(); err != nil {
		return err
	}
	if err := checkTask(task); err != nil {
		return err
	}
	if p.open[task] {
		return fmt.Errorf("pebblestore: %s task %s: it is open; close it first", what, task)
	}
	p.open[task] = true
	p.opened.Add(1)
	return nil
}

func (p *Provider) end(task string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, task)
	p.opened.Add(-1)
	if len(p.open) == 0 && p.caches != nil {
		p.caches.files.Unref()
		p.caches.blocks.Unref()
		p.caches = nil
	}
}

// checkTask says whether a task's name can be that of a directory beside our files.
func checkTask(task string) error {
	taken := []string{lockName, ownerName, instanceName, tempName}
	if !filepath.IsLocal(task) || task == "." || strings.ContainsAny(task, `/\`) ||
		slices.ContainsFunc(taken, func(name string) bool { return strings.EqualFold(name, task) }) {
		return fmt.Errorf("pebblestore: task %q cannot be the name of a directory", task)
	}
	return nil
}

// Remove deletes a task's directory. See [state.Durable].
func (p *Provider) Remove(task string) error {
	p.mu.Lock()
	err := p.begin("remove", task)
	set := p.set
	p.mu.Unlock()
	if err != nil {
		return err
	}
	defer p.end(task)
	if err = set.FS.RemoveAll(set.FS.PathJoin(set.Dir, task)); err == nil {
		err = syncDir(set.FS, set.Dir)
	}
	if err != nil {
		return fmt.Errorf("pebblestore: remove task %s: %w", task, err)
	}
	return nil
}

// Close unlocks the directory. See [state.Durable].
func (p *Provider) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lock == nil {
		return nil
	}
	if len(p.open) > 0 {
		return fmt.Errorf("pebblestore: state directory %s stays locked: %d tasks are open; close them first", p.set.Dir, len(p.open))
	}
	err := p.lock.Close()
	p.lock = nil
	if err != nil {
		return fmt.Errorf("pebblestore: unlock state directory %s: %w", p.set.Dir, err)
	}
	return nil
}
