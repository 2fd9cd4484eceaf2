// Package restore brings the stores of a task to a position: it reads their changelog partitions and applies them.
//
// It fetches by itself instead of consuming, because a consumer does not say where it stands: records of aborted transactions,
// transaction markers and compacted batches leave nothing behind that it would return, and "the last record has been seen" may
// never come true. A fetch says exactly which offset is next.
package restore

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headrace/headrace/state"
)

const (
	// fetchBytes is what one fetch asks for, and maxFetches how many are under way in one Restorer: together they bound memory.
	fetchBytes = 1 << 20
	maxFetches = 8

	// A batch of mutations is applied at the latest when it has that many records or bytes.
	batchRecords = 5_000
	batchBytes   = 4 << 20

	// attempts is how often a request is tried before its error counts: for about 15 seconds.
	attempts = 35
)

// Task is what is restored together: the backend of a task and those of its stores that have a topic to restore from.
type Task struct {
	Backend state.Backend
	// Specs are the specs that the backend was opened with, all of them.
	Specs  []state.Spec
	Stores []Store
}

// Store says from where a store is restored, and up to where.
type Store struct {
	// Store is the index into Task.Specs.
	Store     int
	Topic     string
	Partition int32
	// Bounded and UpTo are for a store whose topic is read as input, too: with Bounded set it is restored up to the offset UpTo
	// and not further, since what comes behind will be processed. Else it is restored to the end of the log.
	Bounded bool
	UpTo    int64
	// Check, if not nil, says that a record cannot be used. It deletes its key then, as processing it would. It is called from
	// several goroutines.
	Check func(*kgo.Record) error
	// MaxAge is how old a store's position may be, 0 for any age. It has to be below the topic's delete.retention.ms: a store that
	// was away for longer may have missed a tombstone, and would keep what was deleted.
	MaxAge time.Duration
}

// Result counts what a restore did.
type Result struct {
	// Records and Bytes are the records applied and the length of their keys and values.
	Records, Bytes int64
	// Skipped are records in topics that are not ours that a table has no place for: with a null key, or refused by Check.
	Skipped int64
	// Wiped says how many stores were emptied and restored from the start of the log, because of an old, foreign or impossible
	// position.
	Wiped int
}

// StoreError says that it is the backend that failed, and not the reading. It has to be closed and opened anew before a restore can
// go on.
type StoreError struct{ Err error }

func (e *StoreError) Error() string { return e.Err.Error() }
func (e *StoreError) Unwrap() error { return e.Err }

// Progress is where the restore of one store stands.
type Progress struct {
	Store     int
	Topic     string
	Partition int32
	// Offset is the next offset to read, End the one at which the restore is done.
	Offset, End int64
	// Records is how many were applied so far.
	Records int64
	// Waiting says that somebody's open transaction keeps the rest from being read. It ends when the transaction does, at the
	// latest after its timeout.
	Waiting bool
}

// Restorer restores stores. An App needs one: it is safe for concurrent use, and all its restores share the bound on fetches.
type Restorer struct {
	client       cluster
	decompressor kgo.Decompressor
	slots        chan struct{}
	fetchBytes   int32
	attempts     int
}

// New makes a Restorer with a client of its own. The options say how to reach the brokers, and must name no group and no topics.
// End it with Close.
func New(opts []kgo.Opt) (*Restorer, error) {
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	return over(client{cl}), nil
}

// Over makes a Restorer that asks a func instead of brokers, for a simulation that has none. It is called from several goroutines when
// several stores are restored.
func Over(ask func(context.Context, kmsg.Request) (kmsg.Response, error)) *Restorer {
	return over(asked(ask))
}

func over(c cluster) *Restorer {
	return &Restorer{
		client: c, decompressor: kgo.DefaultDecompressor(),
		slots: make(chan struct{}, maxFetches), fetchBytes: fetchBytes, attempts: attempts,
	}
}

// cluster is who answers.
type cluster interface {
	kmsg.Requestor // any broker
	askLeader(ctx context.Context, leader int32, req kmsg.Request) (kmsg.Response, error)
	Close()
}

type client struct{ *kgo.Client }

func (c client) askLeader(ctx context.Context, leader int32, req kmsg.Request) (kmsg.Response, error) {
	return c.Broker(int(leader)).Request(ctx, req)
}

type asked func(context.Context, kmsg.Request) (kmsg.Response, error)

func (f asked) Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	return f(ctx, req)
}

func (f asked) askLeader(ctx context.Context, _ int32, req kmsg.Request) (kmsg.Response, error) {
	return f(ctx, req)
}
func (f asked) Close() {}

// Close closes the client. Restores that are under way fail.
func (r *Restorer) Close() { r.client.Close() }

// Restore brings every store of the task to the end of its log as it is now, or to its bound, and returns when all are there. It
// is read committed: what was aborted is not applied, and where a transaction is open below the end, Restore waits for it. So the
// caller must own the partitions, and must have fetched the committed offsets with RequireStable, before it calls.
//
// Each store goes on from its position in the backend. It is wiped and read from the start of the log if it has none, if the
// topic has been made anew, if the log does not reach to the position or no longer reaches back to it, if the position is over
// MaxAge old and there is something to read, or if it is beyond UpTo.
//
// now is the wall time for positions. progress, if not nil, is called after each batch and at the end of each store. Both are
// called, like the backend, from the caller's goroutine. Partitions are read concurrently.
//
// After an error the stores are at some position on their way, and consistent: a later Restore goes on from there. A record that
// cannot be decoded is an error that names it. If the backend fails the error is a [*StoreError]. ctx ends a restore early with ctx's error.
func (r *Restorer) Restore(ctx context.Context, task Task, now func() time.Time, progress func(Progress)) (Result, error) {
	if err := task.check(); err != nil {
		return Result{}, err
	}
	readers, err := r.readers(ctx, task, now())
	if err != nil {
		return Result{}, err
	}

	reads, cancel := context.WithCancel(ctx)
	defer cancel()
	chunks := make(chan chunk)
	var reading sync.WaitGroup
	for _, rd := range readers {
		reading.Go(func() { rd.run(reads, chunks) })
	}
	go func() { // ends with the readers, for whom the loop below waits
		reading.Wait()
		close(chunks)
	}()
	a := applier{task: task, now: now, progress: progress, positions: make([]*state.Position, len(task.Specs))}
	for c := range chunks {
		if err != nil {
			continue // the readers are on their way out
		}
		if err = a.apply(c); err != nil {
			cancel()
		}
	}
	if err == nil && a.done < len(readers) {
		err = fmt.Errorf("restore: %w", ctx.Err())
	}
	return a.result, err
}

func (t Task) check() error {
	seen := map[int]bool{}
	for _, s := range t.Stores {
		switch {
		case s.Store < 0 || s.Store >= len(t.Specs):
			return fmt.Errorf("restore: %s[%d]: there is no store %d, the task has %d", s.Topic, s.Partition, s.Store, len(t.Specs))
		case seen[s.Store]:
			return fmt.Errorf("restore: store %q is listed twice", t.Specs[s.Store].Name)
		}
		seen[s.Store] = true
	}
	return nil
}

// chunk is what a reader hands to the applier: the next step of its store.
type chunk struct {
	rd        *reader
	wipe      bool // first of all
	mutations []state.Mutation
	records   int64 // that the mutations come from
	bytes     int64
	skipped   int64
	topicID   [16]byte
	next, end int64
	epoch     int32
	waiting   bool
	done      bool
	err       error
}

// applier is the one writer of the backend.
type applier struct {
	task      Task
	now       func() time.Time
	progress  func(Progress)
	positions []*state.Position
	result    Result
	done      int
}

func (a *applier) apply(c chunk) error {
	rd := c.rd
	if c.err != nil {
		return c.err
	}
	if c.wipe {
		if err := a.task.Backend.Wipe(rd.Store.Store); err != nil {
			return &StoreError{fmt.Errorf("restore: wipe store %q: %w", rd.spec.Name, err)}
		}
		a.result.Wiped++
	}
	if !c.waiting {
		pos := &state.Position{TopicID: c.topicID, Offset: c.next, LeaderEpoch: c.epoch, AppliedAt: a.now().UnixMilli()}
		a.positions[rd.Store.Store] = pos
		err := a.task.Backend.Apply(slices.Values(c.mutations), a.positions)
		a.positions[rd.Store.Store] = nil
		if err != nil {
			return &StoreError{fmt.Errorf("restore: apply %s[%d] up to offset %d to store %q: %w", rd.Topic, rd.Partition, c.next, rd.spec.Name, err)}
		}
	}
	rd.applied += c.records
	a.result.Records += c.records
	a.result.Bytes += c.bytes
	a.result.Skipped += c.skipped
	if c.done {
		a.done++
	}
	if a.progress != nil {
		a.progress(Progress{
			Store: rd.Store.Store, Topic: rd.Topic, Partition: rd.Partition,
			Offset: c.next, End: c.end, Records: rd.applied, Waiting: c.waiting,
		})
	}
	return nil
}
