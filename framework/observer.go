package framework

import (
	"time"

	"github.com/headrace/headrace/internal/engine"
	"github.com/headrace/headrace/state"
)

// Observer is told what happens in an app: for logs, metrics and traces of one's own. Each func may be nil. A Config may have several.
//
// They are called for events, never for each record that is processed, on the goroutine of the worker: it waits for them, so they must
// neither block nor panic nor call the App, but for Snapshot. Only Stalled comes from another goroutine, since the worker's is stuck.
// Two workers may call at the same time; the calls of one come in order.
//
// An event is told after the fact. A process that dies in between tells nothing, so what an observer has heard is at most what has
// happened, and nothing that has to be exactly once may depend on it. Kafka Streams: StateListener, StateRestoreListener.
type Observer struct {
	// Transaction is told of each transaction once its outcome is known: of one that has committed when stores have taken it in.
	Transaction func(Transaction)
	// Task is told when a task of this process begins to be made, runs, and ends.
	Task func(TaskEvent)
	// Rebalanced is told when the group has given a worker other tasks than before.
	Rebalanced func(Rebalance)
	// LeftOut is told of each record that an error policy leaves out, and whether it goes to the dead letters. That is so only if its
	// transaction commits: if it aborts, the record comes, and is told of, again.
	LeftOut func(err *RecordError, outcome Outcome)
	// Recovering is told what a worker goes on from: a broken connection, a membership that was lost, a store that failed.
	Recovering func(worker int, err error)
	// Stalled is told when a worker is found stuck for longer than Config.TaskTimeout.
	Stalled func(Stall)
}

// Transaction is what became of one transaction, or, under AtLeastOnce, of what is in its place.
type Transaction struct {
	Worker int
	// ID is its transactional id, and Sequence its number among those of that id.
	ID       string
	Sequence uint64
	// Started is when its first record was produced, and Duration how long it then took until all was known and done.
	Started  time.Time
	Duration time.Duration
	// Tasks is of how many tasks it has something. Records and Bytes are what it wrote, changelogs included; bytes of keys, values and
	// headers, not compressed.
	Tasks   int
	Records int64
	Bytes   int64
	// Reason is why it did not commit, empty if it did.
	Reason AbortReason
	// Err is the cause, if there is an error to tell.
	Err error
}

// AbortReason says why a transaction did not commit.
type AbortReason string

// The reasons.
const (
	// AbortRebalance: the group changed while it was open.
	AbortRebalance AbortReason = "rebalance"
	// AbortRefused: a topic does not take an output for its own sake. What becomes of that record, its policy says.
	AbortRefused AbortReason = "refused"
	// AbortProduce: a record could not be written, for another reason.
	AbortProduce AbortReason = "produce"
	// AbortFenced: another process, or the transaction's timeout, took the transactional id away.
	AbortFenced AbortReason = "fenced"
	// AbortBroker: it was told to commit, and the broker did not.
	AbortBroker AbortReason = "broker"
	// AbortUnclear: it was told to commit, and no answer came. It may have committed; whoever makes its tasks next finds out.
	AbortUnclear AbortReason = "unclear"
)

// abortReasons are all, in the order in which they are counted.
var abortReasons = [...]AbortReason{AbortRebalance, AbortRefused, AbortProduce, AbortFenced, AbortBroker, AbortUnclear}

// TaskEvent is a change in the life of a task.
type TaskEvent struct {
	Worker int
	// Task is the task as Kafka Streams writes it.
	Task  string
	State TaskState
	// Restored is how many records went into its stores, for TaskRunning, and Took how long the making took.
	Restored int64
	Took     time.Duration
	// Err is why it has to be made anew, for TaskRestoring; nil if it is not the task's own fault.
	Err error
}

// TaskState is where a task is in its life.
type TaskState string

// The states of a task. One that runs may go back to TaskRestoring, after an abort or when a store has failed.
const (
	TaskRestoring TaskState = "restoring"
	TaskRunning   TaskState = "running"
	TaskClosed    TaskState = "closed"
)

// Rebalance is what the group has given a worker.
type Rebalance struct {
	Worker int
	// Tasks are all that it has now.
	Tasks []string
}

// begun remembers the transaction that begins.
func (w *worker) begun(b *batch, now time.Time) {
	w.txn = Transaction{Worker: w.id, ID: b.mark.transactionalID, Sequence: b.mark.sequence, Started: now}
	clear(w.sent)
	w.busy.at(committing, nil, now)
}

// produced takes in what the transaction has written. It has to be called before the writer's records are taken back.
func (w *worker) produced(b *batch) {
	w.txn.Tasks = len(b.tasks)
	var topic string // of the records and bytes that come next to each other
	var run flow
	for i := range w.writer.used {
		r := w.writer.recordAt(i)
		if r.Key == nil && r.Value == nil && len(r.Headers) == 1 {
			continue // a watermark report
		}
		bytes := int64(len(r.Key) + len(r.Value))
		for j := range r.Headers {
			bytes += int64(len(r.Headers[j].Key) + len(r.Headers[j].Value))
		}
		w.txn.Records++
		w.txn.Bytes += bytes
		if r.Topic != topic {
			w.sent.add(topic, run.records, run.bytes)
			topic, run = r.Topic, flow{}
		}
		run.records++
		run.bytes += bytes
	}
	w.sent.add(topic, run.records, run.bytes)
}

// committed counts the transaction, and tells of it, now that it is known to have committed and its stores have it.
func (w *worker) committed() {
	w.txn.Duration = time.Since(w.txn.Started)
	w.tally.commits.add(w.txn.Duration)
	w.trouble.first = time.Time{}
	for topic, f := range w.sent {
		w.tally.written.add(topic, f.records, f.bytes)
	}
	w.ended()
}

// aborted counts the transaction, and tells of it, now that it will not be committed.
func (w *worker) aborted(reason AbortReason, cause error) {
	w.txn.Duration, w.txn.Reason, w.txn.Err = time.Since(w.txn.Started), reason, cause
	w.tally.Aborts++
	for i := range abortReasons {
		if abortReasons[i] == reason {
			w.tally.aborts[i]++
		}
	}
	w.ended()
}

// ended tells of the transaction, once: under AtLeastOnce its reports may fail when it has committed.
func (w *worker) ended() {
	if w.txn.Started.IsZero() {
		return
	}
	defer func() { w.txn = Transaction{} }()
	for i := range w.app.set.Observers {
		if f := w.app.set.Observers[i].Transaction; f != nil {
			f(w.txn)
		}
	}
}

// produceReason is the reason for giving up a transaction that could not be written.
func produceReason(cause error) AbortReason {
	if classify(cause) == fenced {
		return AbortFenced
	}
	return AbortProduce
}

// refusedCommit is the reason for a transaction that was to be committed and was not, after cause, if there is one.
func (w *worker) refusedCommit(cause error) AbortReason {
	switch {
	case classify(cause) == fenced:
		return AbortFenced
	case w.session != nil && w.session.rebalanced.Load() != w.rebalanced, w.session != nil && w.session.owns.isJoining():
		return AbortRebalance
	}
	return AbortBroker
}

func (w *worker) sawTask(e TaskEvent) {
	e.Worker = w.id
	for i := range w.app.set.Observers {
		if f := w.app.set.Observers[i].Task; f != nil {
			f(e)
		}
	}
}

func (w *worker) sawRebalance() {
	w.tally.Rebalances++
	for i := range w.app.set.Observers {
		f := w.app.set.Observers[i].Rebalanced
		if f == nil {
			continue
		}
		r := Rebalance{Worker: w.id}
		for _, id := range w.ids() {
			r.Tasks = append(r.Tasks, id.String())
		}
		f(r)
	}
}

func (w *worker) sawLeftOut(e *engine.RecordError, deadLetter bool) {
	for i := range w.app.set.Observers {
		f := w.app.set.Observers[i].LeftOut
		switch {
		case f == nil:
		case deadLetter:
			f(recordError(e), DeadLettered)
		default:
			f(recordError(e), Dropped)
		}
	}
}

// sawTrouble keeps what the worker recovers from, and since when.
func (w *worker) sawTrouble(err error, now time.Time) {
	if w.trouble.first.IsZero() || now.Sub(w.trouble.last) > troubleEnds {
		w.trouble.first = now
	}
	w.trouble.last = now
	for i := range w.app.set.Observers {
		if f := w.app.set.Observers[i].Recovering; f != nil {
			f(w.id, err)
		}
	}
}

// trouble is a run of errors without a pause of troubleEnds.
type trouble struct{ first, last time.Time }

// troubleEnds is after how long without an error the next one is another matter.
const troubleEnds = 30 * time.Second

// observable makes ready for being watched, on the worker's own goroutine.
func (w *worker) observable() {
	w.busy.goroutine.Store(goroutineID())
	w.sent, w.tally.read, w.tally.written = flows{}, flows{}, flows{}
}

// sizeEvery is how often a task's state is asked for its size.
const sizeEvery = 10 * time.Second

// measure looks how much room the task's state takes, now and then.
func (t *task) measure(now time.Time) {
	if now.Sub(t.sized) < sizeEvery {
		return
	}
	t.sized, t.size = now, -1
	if t.claim == nil || t.claim.backend == nil {
		t.size = 0
	} else if s, ok := t.claim.backend.(state.Sized); ok {
		t.size = s.Size()
	}
}
