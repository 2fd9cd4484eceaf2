package framework

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/headrace/headrace/internal/engine"
	"github.com/headrace/headrace/state"
)

// registry owns the open backends of a process. Workers borrow them: a task that moves from one worker to another of the same
// process takes its state along, open as it is, which is all that state in memory ever has.
type registry struct {
	provider state.Provider

	mu    sync.Mutex
	tasks map[engine.TaskID]*lease
}

// lease is the state of one task: its backend, and who has it.
type lease struct {
	backend state.Backend
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

	// revoked says that a worker with a newer assignment asks for the task: let go at the next chance.
	revoked chan struct{}
	once    sync.Once
}

// idleState is how long the state of a task that is nobody's here stays open: tasks come back after a rebalance.
const idleState = time.Minute

func newRegistry(p state.Provider) *registry {
	return &registry{provider: p, tasks: make(map[engine.TaskID]*lease)}
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
		b, err := r.provider.Open(id.String(), specs)
		if err != nil {
			c.release()
			return nil, fmt.Errorf("framework: open the state of task %s: %w", id, err)
		}
		r.mu.Lock()
		r.tasks[id].backend = b
		r.mu.Unlock()
		c.backend = b
	}
	return c, nil
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
	c.backend = l.backend
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

// discard closes a backend that has failed and lets it go: the next one is opened anew.
func (c *claim) discard() error {
	r := c.reg
	var err error
	if c.backend != nil {
		err = c.backend.Close()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.tasks[c.id]; l != nil && l.holder == c {
		l.backend, l.holder = nil, nil
		close(l.freed)
	}
	if err != nil {
		return fmt.Errorf("framework: close the state of task %s: %w", c.id, err)
	}
	return nil
}

// sweep closes what nobody here has had for a while: the task is with another process.
func (r *registry) sweep(now time.Time) error { return r.closeIdle(now.Add(-idleState)) }

// close closes all that is left. Workers have let go of everything.
func (r *registry) close() error { return r.closeIdle(time.Now().Add(time.Hour)) }

func (r *registry) closeIdle(before time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var first error
	for id, l := range r.tasks {
		if l.holder != nil || l.since.After(before) {
			continue
		}
		delete(r.tasks, id)
		if l.backend == nil {
			continue
		}
		if err := l.backend.Close(); err != nil && first == nil {
			first = fmt.Errorf("framework: close the state of task %s: %w", id, err)
		}
	}
	return first
}
