package framework

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/headrace/headrace/internal/engine"
	"github.com/headrace/headrace/state"
)

// registry owns the open backends of a process. Workers borrow them: a task that moves from one worker to another of the same
// process takes its state along, open as it is, which is all that state in memory ever has.
type registry struct {
	provider state.Provider
	// damaged is told of state that was thrown away, and why.
	damaged func(id engine.TaskID, cause error)

	mu    sync.Mutex
	tasks map[engine.TaskID]*lease
}

// lease is the state of one task: its backend, and who has it.
type lease struct {
	backend state.Backend
	trails  map[int]*trail // by store, of those with windows; they go with the backend
	holder  *claim
	freed   chan struct{} // closed when holder lets go
	since   time.Time     // when it was last let go
}

// claim is a worker's right to a backend. Only its holder touches the backend, from one goroutine at a time.
type claim struct {
	reg        *registry
	id         engine.TaskID
	worker     int
	generation int32
	backend    state.Backend
	trails     map[int]*trail

	// revoked says that a worker with a newer assignment asks for the task: let go at the next chance.
	revoked chan struct{}
	once    sync.Once
}

// idleState is how long the state of a task that is nobody's here stays open: tasks come back after a rebalance.
const idleState = time.Minute

func newRegistry(p state.Provider, damaged func(id engine.TaskID, cause error)) *registry {
	return &registry{provider: p, damaged: damaged, tasks: make(map[engine.TaskID]*lease)}
}

// acquire gives the worker the backend of a task, opening it if need be. If another worker has it, by an assignment of an older
// generation, its claim is revoked; either way this waits until it is let go.
func (r *registry) acquire(ctx context.Context, id engine.TaskID, specs []state.Spec, worker int, generation int32, wake func(worker int)) (*claim, error) {
	c := &claim{reg: r, id: id, worker: worker, generation: generation, revoked: make(chan struct{})}
	for {
		freed, holder := r.take(id, c)
		if freed == nil {
			break
		}
		if holder.generation < generation || holder.worker == worker {
			holder.once.Do(func() { close(holder.revoked) })
			wake(holder.worker)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-freed:
		}
	}
	if c.backend == nil && len(specs) > 0 {
		b, err := r.open(id, specs)
		if err != nil {
			c.release()
			return nil, err
		}
		r.mu.Lock()
		c.backend, c.trails = b, make(map[int]*trail)
		r.tasks[id].backend, r.tasks[id].trails = c.backend, c.trails
		r.mu.Unlock()
	}
	return c, nil
}

// open opens the state of a task. What is damaged on disk is thrown away first, and the task starts with empty stores.
func (r *registry) open(id engine.TaskID, specs []state.Spec) (state.Backend, error) {
	b, err := r.provider.Open(id.String(), specs)
	if errors.Is(err, state.ErrCorrupt) {
		if removeErr := r.remove(id, err); removeErr == nil {
			b, err = r.provider.Open(id.String(), specs)
		} else {
			err = errors.Join(err, removeErr)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("framework: open the state of task %s: %w", id, err)
	}
	return b, nil
}

// remove throws the state of a task away, which is damaged and closed: it is a copy of the changelog.
func (r *registry) remove(id engine.TaskID, cause error) error {
	durable, ok := r.provider.(state.Durable)
	if !ok {
		return nil // then nothing is left of it
	}
	if err := durable.Remove(id.String()); err != nil {
		return fmt.Errorf("framework: remove the damaged state of task %s: %w", id, err)
	}
	r.damaged(id, cause)
	return nil
}

// take makes c the holder, or returns what to wait for.
func (r *registry) take(id engine.TaskID, c *claim) (freed chan struct{}, holder *claim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.tasks[id]
	if l == nil {
		l = &lease{}
		r.tasks[id] = l
	}
	if l.holder != nil {
		return l.freed, l.holder
	}
	l.holder, l.freed = c, make(chan struct{})
	c.backend, c.trails = l.backend, l.trails
	return nil, nil
}

// isRevoked says whether the holder must let go.
func (c *claim) isRevoked() bool {
	select {
	case <-c.revoked:
		return true
	default:
		return false
	}
}

// release lets the backend go. It stays open for whoever comes next.
func (c *claim) release() {
	r := c.reg
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.tasks[c.id]; l != nil && l.holder == c {
		l.holder, l.since = nil, time.Now()
		close(l.freed)
	}
}

// discard closes a backend and lets it go: the next one is opened anew. cause is how it has failed, nil if it has not; if it is
// damaged it is thrown away. It takes as long as the disk does, so no worker calls it while the group may wait.
func (c *claim) discard(cause error) error {
	r := c.reg
	var err error
	if c.backend != nil {
		if err = c.backend.Close(); err != nil {
			err = fmt.Errorf("framework: close the state of task %s: %w", c.id, err)
		}
		if errors.Is(cause, state.ErrCorrupt) {
			err = r.remove(c.id, cause) // how it was closed does not matter then
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.tasks[c.id]; l != nil && l.holder == c {
		delete(r.tasks, c.id)
		close(l.freed)
	}
	return err
}

// sweep closes what nobody here has had for a while: the task is with another process.
func (r *registry) sweep(now time.Time) error { return r.closeIdle(now.Add(-idleState)) }

// close closes all that is left. Workers have let go of everything.
func (r *registry) close() error { return r.closeIdle(time.Now().Add(time.Hour)) }

func (r *registry) closeIdle(before time.Time) error {
	var idle []*claim
	r.mu.Lock()
	for id, l := range r.tasks {
		if l.holder != nil || l.since.After(before) {
			continue
		}
		// Of no worker, and of a generation that nobody can revoke: who wants the task waits until it is closed.
		c := &claim{reg: r, id: id, worker: -1, generation: math.MaxInt32, backend: l.backend, revoked: make(chan struct{})}
		l.holder, l.freed = c, make(chan struct{})
		idle = append(idle, c)
	}
	r.mu.Unlock()
	var closing sync.WaitGroup
	errs := make([]error, len(idle))
	for i, c := range idle {
		closing.Go(func() { errs[i] = c.discard(nil) })
	}
	closing.Wait()
	return errors.Join(errs...)
}
