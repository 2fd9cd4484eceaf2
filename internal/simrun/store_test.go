//go:build synctests

package simrun_test

import (
	"errors"
	"iter"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/headrace/headrace/internal/eos"
	"github.com/headrace/headrace/internal/simrun"
	"github.com/headrace/headrace/state"
)

var errDisk = errors.New("the disk has failed")

// mostFailures is how often a disk fails before it is well again: Pebble tries a compaction again at once, and while it does no time goes
// by in a bubble.
const mostFailures = 200

// trouble makes a disk fail while op is set.
type trouble struct {
	met  *met
	op   atomic.Pointer[string]
	left atomic.Int64
}

func (d *trouble) set(op string) {
	d.left.Store(mostFailures)
	d.op.Store(&op)
}

// MaybeError is asked by errorfs before each operation.
func (d *trouble) MaybeError(o errorfs.Op) error {
	op := d.op.Load()
	if op == nil || *op == "" {
		return nil
	}
	fails := false
	switch o.Kind {
	case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
		fails = *op == "sync" || *op == "all"
	default:
		fails = *op == "all" || *op == "read" && o.Kind.ReadOrWrite() == errorfs.OpIsRead || *op == "write" && o.Kind.ReadOrWrite() == errorfs.OpIsWrite
	}
	if !fails || d.left.Add(-1) < 0 {
		return nil
	}
	d.met.add(simrun.DiskFault)
	return errDisk
}

func (d *trouble) String() string { return "trouble" }

// copies gathers what stores hold when they are closed for the last time.
type copies struct {
	mu    sync.Mutex
	final bool
	of    map[string][]eos.StoreCopy // by store
	err   error
}

func (c *copies) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.final = true
}

func (c *copies) take(b *backend) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.final {
		return
	}
	_, p, _ := strings.Cut(b.task, "_")
	part, err := strconv.ParseInt(p, 10, 32)
	c.err = errors.Join(c.err, err)
	for i, spec := range b.specs {
		cp, err := eos.ReadStore(b.life.m.name, int32(part), b.Backend, i, spec.Kind)
		c.err = errors.Join(c.err, err)
		c.of[spec.Name] = append(c.of[spec.Name], cp)
	}
}

// provider looks at what a member does with its stores.
type provider struct {
	state.Provider
	life *life
}

// durable is a provider whose state outlives the member's process.
type durable struct {
	provider
	disk state.Durable
}

func (d durable) Instance() (string, error) { return d.disk.Instance() }
func (d durable) Remove(task string) error  { return d.disk.Remove(task) }
func (d durable) Close() error              { return d.disk.Close() }

func (p provider) Open(task string, specs []state.Spec) (state.Backend, error) {
	b, err := p.Provider.Open(task, specs)
	if err != nil {
		return nil, err
	}
	for i := range specs {
		if b.Position(i).Offset > 0 {
			p.life.stale(task, true)
		}
	}
	return &backend{Backend: b, life: p.life, task: task, specs: specs}, nil
}

type backend struct {
	state.Backend
	life  *life
	task  string
	specs []state.Spec
}

func (b *backend) Apply(mutations iter.Seq[state.Mutation], positions []*state.Position) error {
	restoring := b.life.makes(b.task)
	if !restoring {
		b.life.reach(simrun.AtApply)
	}
	err := b.Backend.Apply(mutations, positions)
	if err == nil {
		b.life.stale(b.task, false)
		if !restoring {
			b.life.reach(simrun.AtApplied)
		}
	}
	return err
}

func (b *backend) Size() int64 {
	if s, ok := b.Backend.(state.Sized); ok {
		return s.Size()
	}
	return 0
}

func (b *backend) Close() error {
	b.life.w.copies.take(b)
	return b.Backend.Close()
}
