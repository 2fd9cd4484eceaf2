package state

import (
	"errors"
	"fmt"
	"iter"
)

// retired is the backend of a transaction that has lost its own: it was closed, or another transaction has it.
type retired struct{ *memoryBackend }

var errRetired = errors.New("state: another transaction has the backend")

func (r retired) err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return fmt.Errorf("state: use task %s: %w", r.task, errClosed)
	}
	return fmt.Errorf("state: use task %s: %w", r.task, errRetired)
}

func (r retired) Get(int, []byte) ([]byte, bool, error) { return nil, false, r.err() }

func (r retired) Scan(int, []byte, []byte) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) { yield(Entry{}, r.err()) }
}

func (r retired) Apply(iter.Seq[Mutation], []*Position) error { return r.err() }
