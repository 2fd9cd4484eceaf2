package framework

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/internal/engine"
)

const (
	// stepBudget is how many units a task does before the next one's turn.
	stepBudget = 256
	// stepSlice is how long tasks are stepped before the group gets a chance.
	stepSlice = 20 * time.Millisecond
	// tick is how often tasks are stepped when nothing comes in, for what wall-clock time makes due.
	tick = 100 * time.Millisecond
	// pollRecords bounds one poll.
	pollRecords = 10000
	// publishEvery is how old what Snapshot shows of a busy worker may be.
	publishEvery = 25 * time.Millisecond
	// readBackTimeout bounds reading back while the group waits for us. It is below the rebalance timeout.
	readBackTimeout = 10 * time.Second
	// leaveTimeout is how long a client that is to be replaced may take to leave the group.
	leaveTimeout = 2 * time.Second
	// maxFenced is how often within fencedWithin a worker may lose its transactional id before it stops.
	maxFenced    = 3
	fencedWithin = time.Minute
)

// worker runs tasks. Everything in it belongs to the goroutine of run, but for inbox and what wake takes.
//
// It works between a poll, which takes the gate, and AllowRebalance, which opens it: while the gate is shut the group cannot take
// a partition away.
type worker struct {
	app *App
	id  int
	log *slog.Logger
	ctx context.Context // of run: tasks are made under it

	session  *session
	memberID string // of the last session that was closed
	commits  committer
	sequence uint64 // of the transactional id
	writer   writer
	fenced   []time.Time

	tasks   map[engine.TaskID]*task
	running []*task // those that have an engine, in order
	routes  map[topicPartition]*input

	version    uint64 // of the ownership that tasks are made by
	rebalanced uint64 // callbacks that have been dealt with

	outside []topicPartition // whose position the broker does not have

	flight    *flight // the transaction that is being ended, if any
	undecided *batch  // the transaction of which it is not known what became

	lastEnd      time.Time // when the last transaction ended
	pendingSince time.Time // zero if there was nothing to commit
	idle         bool      // no task has anything to do
	stuck        bool      // all that is queued waits for something that is not
	failures     int       // transactions that failed, without one that did not
	givenUp      int       // sessions that were replaced, without a transaction that committed
	restUntil    time.Time // no commit before, since the last ones failed
	refusals     int       // transactions given up for the sake of outputs, without one that committed

	busy    busy        // what the watchdog sees
	txn     Transaction // the one that is open, or was last
	sent    flows       // what it has written
	trouble trouble

	state     WorkerState
	since     time.Time
	lastErr   error
	remarks   remarks
	tally     tally
	published time.Time
	swept     time.Time
	trimmed   time.Time
	trimming  atomic.Bool // a goroutine is at it
	looking   atomic.Bool // a goroutine looks for open transactions

	idleLooked  time.Time
	idleLooking atomic.Bool // a goroutine looks for idle partitions

	aside   sync.WaitGroup // goroutines beside its own: none outlives it
	mu      sync.Mutex     // guards what follows
	inbox   []*built
	gaps    []gap
	hanging []hang // in inputs
	lulls   []lull
	wakeup  context.CancelFunc
	woken   bool
}

// task is a task as its worker has it: being made, or running.
type task struct {
	id     engine.TaskID
	sub    *subLayout
	inputs []*input
	claim  *claim
	build  *build       // while it is being made
	run    *engine.Task // once it runs
	// fresh: one of its partitions has no committed position yet. The first transaction commits it, whatever happens in it.
	fresh bool
	// counted is what of the engine's counters is in the tally: what was committed.
	counted engine.Status
	// failures counts stores that failed, without a commit between.
	failures int
	cause    error // of its being made anew, while that begins
	outputs  refusals
	size     int64     // of its state, -1 if unknown
	sized    time.Time // when that was looked up
}

// input is one partition that a task reads.
type input struct {
	topicPartition
	task    *task
	source  int
	stretch uint64 // of ownership
	pushed  int64  // the next offset that the client has to deliver
	// committed is the position that the group is known to have, 0 if none.
	committed int64
	mark      mark  // of the transaction that committed the position
	slot      uint8 // of the meta topic, where the committed clocks are if they are there
	paused    bool
	readTo    int64              // of a table: streams wait until it has been read up to there
	heard     time.Time          // when the client last delivered something, or somebody looked
	brought   time.Time          // when the client last delivered something
	loud      time.Time          // when it last was seen to have something queued, or to be paused
	end       int64              // of the partition, when the client last delivered something
	idle      bool               // the task was told so, and nothing has come since
	leave     int64              // how far the others had come when it was last seen to have nothing
	probe     context.CancelFunc // ends the look for what is left of it
}

func newWorker(a *App, id int) *worker {
	w := &worker{
		app: a, id: id, log: a.log.With("worker", id),
		tasks: make(map[engine.TaskID]*task), routes: make(map[topicPartition]*input),
		writer: writer{layout: a.layout, reportsLast: a.set.Guarantee == AtLeastOnce, meta: func(ctx context.Context) (*meta, error) { return a.metaTopic(ctx, a.layout) }}, tally: tally{drops: newDrops(a.layout)},
	}
	w.setState(Starting)
	w.publish(time.Now())
	return w
}

func (w *worker) transactionalID() string {
	return fmt.Sprintf("%s-%s-%d", w.app.set.AppID, w.app.instance, w.id)
}

func (w *worker) committer(s *session) committer {
	if w.app.set.Guarantee == AtLeastOnce {
		return &atLeastOnce{session: s, id: w.transactionalID()}
	}
	return &exactlyOnce{session: s, id: w.transactionalID()}
}

// run works until ctx is done or something happens that the worker cannot mend.
func (w *worker) run(ctx context.Context) error {
	defer w.stop()
	w.ctx, w.trimmed = ctx, time.Now()
	w.observable()
	defer w.busy.rest()
	for ctx.Err() == nil {
		if w.session == nil {
			w.busy.rest() // there may be no broker, for long
			if err := w.open(ctx); err != nil {
				return err
			}
			continue
		}
		err := w.turn(ctx)
		switch {
		case err == nil:
		case isFatal(err):
			return err
		default:
			if err := w.giveUp(err); err != nil {
				return err
			}
		}
	}
	return w.drain()
}

// open makes the session, however often it takes, and then finds out what became of the last one's transaction.
func (w *worker) open(ctx context.Context) error {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		s, err := w.connect(ctx)
		if err == nil {
			w.session = s
			w.commits = w.committer(s)
			w.tally.Sessions++
			break
		}
		if ctx.Err() != nil {
			return nil
		}
		if classify(err) == refused {
			return w.app.set.explain(fmt.Sprintf("worker %d", w.id), err, w.app.set.transactionalIDs())
		}
		if isFatal(err) {
			return err
		}
		w.noteErr("connect", err)
		if err := w.noteFenced(err); err != nil {
			return err
		}
		if sleep(ctx, wait) != nil {
			return nil
		}
	}
	w.version, w.rebalanced = 0, 0
	w.setState(Joining)
	if w.undecided != nil {
		w.settle(ctx)
	}
	w.closeAll()
	w.publish(time.Now())
	return nil
}

// settle finds out what became of the transaction of a session that is gone. The new session has the same transactional id, so the
// broker has finished it one way or the other. The tasks are given up in any case; if it had committed, their stores have it and
// need not read it from the changelog again.
func (w *worker) settle(ctx context.Context) {
	b := w.undecided
	w.undecided = nil
	ctx, cancel := context.WithTimeout(ctx, w.app.set.TransactionTimeout+w.app.set.endTimeout())
	defer cancel()
	if _, err := w.readBack(ctx, b); err != nil {
		w.aborted(AbortUnclear, err)
		w.noteErr("read back", err)
	}
}

// giveUp replaces the session: the error says that nothing can be done with it any more.
//
// One alone costs no wait. Where each ends like that, the group is not to be made to balance all the time: the next transaction waits.
func (w *worker) giveUp(cause error) error {
	w.noteErr("replace the session", cause)
	if w.givenUp++; w.givenUp > 1 {
		w.restUntil = time.Now().Add(backoff(w.givenUp - 2))
	}
	if f := w.flight; f != nil {
		hurry := time.AfterFunc(leaveTimeout, f.cancel)
		err := w.land(w.ctx)
		hurry.Stop()
		if isFatal(err) {
			return err
		}
	}
	if err := w.noteFenced(cause); err != nil {
		return err
	}
	w.memberID, _ = w.session.Client().GroupMetadata()
	w.session.close(leaveTimeout)
	w.session, w.commits = nil, nil
	w.writer.reset(false)
	if w.undecided == nil {
		w.closeAll()
	}
	w.setState(Starting)
	w.publish(time.Now())
	return nil
}

func (w *worker) noteFenced(err error) error {
	if classify(err) != fenced {
		return nil
	}
	w.tally.Fenced++
	now := time.Now()
	w.fenced = slices.DeleteFunc(append(w.fenced, now), func(t time.Time) bool { return now.Sub(t) > fencedWithin })
	if len(w.fenced) >= maxFenced {
		return &appError{fmt.Errorf("%w (%s was taken away %d times within a minute): %w", ErrFenced, w.transactionalID(), len(w.fenced), err)}
	}
	return nil
}

// turn is one round: take the gate, look who owns what, take records in, work, commit, open the gate.
func (w *worker) turn(ctx context.Context) error {
	fetches := w.poll(ctx)
	defer w.openGate()
	if ctx.Err() != nil {
		return nil // drain knows how long it may take
	}
	w.busy.at(turning, nil, time.Now())
	if err := w.fetchErrors(fetches); err != nil {
		return err
	}
	if err := w.landIfDue(ctx); err != nil {
		return err
	}
	if err := w.reassign(ctx); err != nil {
		return err
	}
	if w.flight == nil { // no End overlaps a join
		if why := w.session.owns.wantsRebalance(time.Now()); why != "" {
			w.log.Info("joining the group anew", "why", why)
			w.session.Client().ForceRebalance()
		}
	}
	if err := w.lookOutside(ctx); err != nil {
		return err
	}
	w.distribute(fetches)
	if len(fetches) > 0 {
		w.failpoint("after-poll", nil)
	}
	if err := w.takeBuilt(ctx); err != nil {
		return err
	}
	if w.flight == nil { // these tell the client where to go on
		w.lookForGaps(time.Now())
		w.takeGaps()
		w.flow()
	}
	w.lookForIdle(time.Now())
	w.takeIdle(time.Now())
	if err := w.step(ctx); err != nil {
		return err
	}
	if err := w.commitIfDue(ctx); err != nil {
		return err
	}
	w.trimIfDue()
	w.publishIfDue()
	return nil
}

// openGate lets a rebalance through, but while a transaction flies: the group has to wait for that, though not for ever.
func (w *worker) openGate() {
	if f := w.flight; f != nil && !f.landed() && time.Since(f.since) < w.gatePatience() {
		return
	}
	if w.session != nil {
		w.session.blocked.Store(false)
		w.session.AllowRebalance()
	}
}

// poll takes the gate, and what has been fetched. It waits only if there is nothing else to do.
func (w *worker) poll(ctx context.Context) kgo.Fetches {
	w.mu.Lock()
	woken := w.woken
	w.woken = false
	wait := w.waitTime(time.Now())
	if woken || ctx.Err() != nil {
		wait = 0
	}
	pollCtx, cancel := context.WithTimeout(ctx, wait)
	w.wakeup = cancel
	w.mu.Unlock()
	defer cancel()

	if wait <= 0 {
		cancel()
		if !w.full() {
			var drain context.Context // a nil context takes what is there, and does not wait
			if fetches := w.session.PollRecords(drain, pollRecords); len(fetches) > 0 {
				return fetches
			}
		}
		return w.session.PollRecords(pollCtx, pollRecords) // with a context that is done: only the gate
	}
	return w.session.PollRecords(pollCtx, pollRecords)
}

// waitTime is how long a poll may wait for records.
func (w *worker) waitTime(now time.Time) time.Duration {
	if !w.idle && !w.stuck {
		return 0
	}
	wait := tick
	if w.session.owns.isMoving() {
		wait = tick / 5
	}
	if !w.pendingSince.IsZero() && w.flight == nil { // its landing wakes
		due := max(w.app.set.MinCommitInterval, w.app.set.TxnGap) - now.Sub(w.lastEnd)
		if !w.caughtUp() { // what is on its way ends the wait
			due = w.app.set.CommitInterval - now.Sub(w.pendingSince)
		}
		wait = min(wait, due)
		wait = max(wait, time.Millisecond)
		if !w.mayCommit(now) {
			wait = tick / 5 // nothing can be committed before that is over, and nobody tells when
		}
	}
	return wait
}

// wake ends a poll that waits. Anybody may call it.
func (w *worker) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.woken = true
	if w.wakeup != nil {
		w.wakeup()
	}
}

func (w *worker) fetchErrors(fetches kgo.Fetches) error {
	var end error
	fetches.EachError(func(topic string, partition int32, err error) {
		var group *kgo.ErrGroupSession
		switch {
		case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		case errors.As(err, &group):
			w.noteErr("group", err)
			switch class := classify(err); {
			case end != nil:
			case class == refused:
				end = w.app.set.explain(fmt.Sprintf("worker %d: join group %s", w.id, w.app.set.AppID), err, w.app.set.group())
			case class == fenced: // the client would join for ever under an id that is not its own any more
				end = fmt.Errorf("framework: worker %d: another process is member %s of the group: %w", w.id, w.memberName(), err)
			}
		case errors.Is(err, kerr.OffsetOutOfRange):
			w.outside = append(w.outside, topicPartition{topic, partition})
		case classify(err) == refused && end == nil:
			end = w.app.set.explain(fmt.Sprintf("read %s[%d]", topic, partition), err, w.app.layout.topic(w.app.set, topic))
		default:
			w.noteErr(fmt.Sprintf("read %s[%d]", topic, partition), err)
		}
	})
	return end
}

// step lets the tasks work, in turn, until there is nothing to do, a commit is due, the group wants something, or it took too long.
func (w *worker) step(ctx context.Context) error {
	start := time.Now()
	w.idle = true
	if w.brimful() && (w.flight != nil || !w.mayCommit(start)) {
		return nil // enough is pending, and it cannot be committed now
	}
	units := 0
	for now := start; ; now = time.Now() {
		more := false
		w.align()
		for _, t := range slices.Clone(w.running) {
			w.busy.at(stepping, t, now)
			p, err := t.run.Step(now.UnixMilli(), stepBudget)
			if err != nil {
				w.idle = false
				return w.taskFailed(ctx, t, err) // the landing may have taken others along
			}
			more = more || p.More
			units += p.Units
		}
		w.idle = !more
		if !more || now.Sub(start) >= stepSlice || w.session.blocked.Load() || w.enough() {
			break
		}
	}
	w.stuck = w.idle && units == 0 && w.queued() > 0
	return nil
}

// enough says that there is something to do about the commit: to begin it, or to take in how it ended.
func (w *worker) enough() bool {
	if w.flight != nil {
		return w.flight.landed() || w.brimful()
	}
	return w.bytesDue()
}

// taskFailed decides on an error of Step: a record that cannot be processed ends the app, a store that fails only its task.
func (w *worker) taskFailed(ctx context.Context, t *task, err error) error {
	var rec *engine.RecordError
	if errors.As(err, &rec) {
		w.logPanic(rec)
		return recordError(rec)
	}
	w.noteErr("task "+t.id.String(), err)
	run := t.run
	if err := w.land(ctx); err != nil { // or the position that it is made from may be passed by what flies
		return err
	}
	if t.run == run {
		w.rebuild(t, err)
	}
	return nil
}

func (w *worker) noteErr(what string, err error) {
	w.lastErr = err
	w.sawTrouble(err, time.Now())
	log, attrs := w.log.Debug, []any{"doing", what, "err", err}
	if ok, unsaid := w.app.quiet.say(fmt.Sprint(w.id, what, err), time.Now()); ok {
		log = w.log.Warn
		if unsaid > 0 {
			attrs = append(attrs, "unsaid", unsaid)
		}
	}
	log("recovering", attrs...)
}

func (w *worker) setState(s WorkerState) {
	if w.state != s {
		w.state, w.since = s, time.Now()
		w.log.Debug("worker state", "state", s)
	}
}

// drain commits what has been processed, and leaves. What had not been processed is whoever's comes next.
func (w *worker) drain() error {
	if w.session == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	done, stop := context.WithCancel(ctx)
	stop()
	w.session.PollRecords(done, 1) // the gate
	hurry := func() {
		if f := w.flight; f != nil {
			context.AfterFunc(ctx, f.cancel)
		}
	}
	hurry()
	if err := w.land(ctx); err != nil {
		if isFatal(err) {
			return err
		}
		w.noteErr("last commit", err)
		return nil
	}
	if err := w.reassign(done); err != nil {
		w.noteErr("last commit", err)
		return nil
	}
	if w.pending() && !w.session.owns.isJoining() {
		err := w.takeOff(ctx)
		if err == nil {
			hurry()
			err = w.land(ctx)
		}
		if isFatal(err) {
			return err
		}
		if err != nil {
			w.noteErr("last commit", err)
		}
	}
	return nil
}

// stop lets everything go, in any state.
func (w *worker) stop() {
	if err := w.land(context.WithoutCancel(w.ctx)); err != nil {
		w.noteErr("last commit", err)
	}
	w.closeAll()
	w.aside.Wait()
	w.mu.Lock()
	inbox := w.inbox
	w.inbox = nil
	w.mu.Unlock()
	for _, b := range inbox {
		b.drop()
	}
	w.leave()
	w.setState(Stopped)
	w.publish(time.Now())
}

// ids returns the tasks in order.
func (w *worker) ids() []engine.TaskID {
	return slices.SortedFunc(maps.Keys(w.tasks), compareTasks)
}
