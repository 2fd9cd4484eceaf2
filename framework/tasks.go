package framework

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/internal/engine"
	"github.com/headrace/headrace/internal/restore"
	"github.com/headrace/headrace/internal/wire"
	"github.com/headrace/headrace/state"
)

// build is a task being made, by a goroutine of its own: reading positions may have to wait for the last owner's transaction, and
// restoring takes as long as the changelog is, while the group must not wait for either.
type build struct {
	cancel   context.CancelFunc
	progress *progress
}

// built is what came of it.
type built struct {
	task  *task
	build *build

	claim    *claim
	inputs   map[topicPartition]builtInput
	restored int64
	wiped    int
	err      error
}

type builtInput struct {
	offset int64
	none   bool // no position had been committed; offset is the start of the log
	commit wire.Commit
	slot   uint8
	readTo int64
	lost   int64 // offsets
}

func (b *built) drop() {
	if b.claim != nil {
		b.claim.release()
	}
}

// failed lets the claim go after a try that came to nothing. If it was the store that failed, it is closed.
func (b *built) failed(err error) error {
	c := b.claim
	b.claim = nil
	var store *restore.StoreError
	switch {
	case c == nil:
		return nil
	case errors.As(err, &store):
		return c.discard(err)
	}
	c.release()
	return nil
}

// reassign compares the tasks with what the worker owns, and closes and makes tasks accordingly. Then it makes the session usable
// again if a rebalance has spoilt it.
func (w *worker) reassign(ctx context.Context) error {
	s := w.session
	// The order matters: callbacks first. They wait for the gate, which is shut, so none comes now.
	callbacks := s.rebalanced.Load()
	owned, version := s.owns.owned()
	revoked := slices.ContainsFunc(w.running, func(t *task) bool { return t.claim.isRevoked() })
	if version != w.version || callbacks != w.rebalanced || revoked {
		if err := w.land(ctx); err != nil { // it may have come up since landIfDue
			return err
		}
	}
	if version != w.version {
		w.version = version
		if leaders, is := s.owns.stranger(); is {
			w.noteErr("group", fmt.Errorf("%w (fingerprint %s, this is %s)", ErrAnotherTopology, fingerprint(leaders), fingerprint(w.app.set.fingerprint)))
		}
		if w.follow(owned) {
			w.sawRebalance()
		}
	}
	for _, t := range w.running {
		if t.claim.isRevoked() {
			w.log.Info("another worker of this process has been given the task", "task", t.id)
			w.close(t)
		}
	}
	if callbacks == w.rebalanced {
		return nil
	}
	w.rebalanced = callbacks
	// The session aborts its next transaction, whatever is in it. Give it an empty one.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.app.set.endTimeout())
	defer cancel()
	if err := w.commits.begin(); err != nil {
		return err
	}
	if err := w.commits.abort(ctx); err != nil {
		return err
	}
	if planted == keepQueue {
		w.forgetPushed()
		return nil
	}
	w.reposition() // aborting has taken the client back to the committed positions
	return nil
}

// follow makes the tasks be those of the partitions owned. It says whether there was anything to do.
func (w *worker) follow(owned map[topicPartition]uint64) bool {
	changed := false
	for _, id := range w.ids() {
		t := w.tasks[id]
		lost := slices.ContainsFunc(t.inputs, func(in *input) bool { return owned[in.topicPartition] != in.stretch })
		if lost {
			w.log.Info("task lost", "task", id)
			w.tally.TasksLost++
			w.close(t)
			changed = true
		}
	}
	want := make(map[engine.TaskID]bool)
	for tp := range owned {
		if id, ok := w.app.layout.taskOf(tp); ok {
			want[id] = true
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(want), compareTasks) {
		if w.tasks[id] != nil {
			continue
		}
		reads := w.app.layout.inputs(id)
		if slices.ContainsFunc(reads, func(tp topicPartition) bool { return owned[tp] == 0 }) {
			continue // it comes whole in the round that follows
		}
		w.log.Info("task assigned", "task", id)
		t := &task{id: id, sub: w.app.layout.sub(id)}
		for i, topic := range t.sub.sources {
			tp := topicPartition{topic, id.Partition}
			if id.Partition < w.app.layout.topics[topic].partitions {
				t.inputs = append(t.inputs, &input{topicPartition: tp, task: t, source: i, stretch: owned[tp]})
			}
		}
		w.tasks[id] = t
		w.start(t, nil)
		changed = true
	}
	return changed
}

// rebuild throws a task's memory away and makes it anew from its store and its committed position. If the store has failed, with
// failure, it is closed and opened anew, too, after a while.
func (w *worker) rebuild(t *task, failure error) {
	w.unroute(t)
	claim := t.claim
	t.claim = nil
	if failure == nil {
		if claim != nil {
			claim.release()
		}
		w.start(t, nil)
		return
	}
	t.cause = failure
	wait := backoff(t.failures)
	t.failures++
	w.start(t, func(ctx context.Context) error {
		if claim != nil {
			if err := claim.discard(failure); err != nil {
				w.log.Warn("the task's state is not closed well", "task", t.id, "err", err)
			}
		}
		return sleep(ctx, wait)
	})
}

// rebuildAll makes all tasks anew, after a transaction that failed. One that fails alone costs no wait: most are those that a
// rebalance got into. Where each fails, the broker is not to be asked all the time.
func (w *worker) rebuildAll() {
	w.failures++
	if w.failures > 1 {
		w.restUntil = time.Now().Add(backoff(w.failures - 2))
	}
	w.remake()
}

// remake makes all tasks anew.
func (w *worker) remake() {
	for _, id := range w.ids() {
		if t := w.tasks[id]; t.build == nil {
			w.rebuild(t, nil)
		}
	}
}

func backoff(failures int) time.Duration {
	return min(100*time.Millisecond<<min(failures, 10), 5*time.Second)
}

// shareCache gives each of the tasks that run, and have a store, as much of the cache as the others.
func (w *worker) shareCache() {
	stores := 0
	for _, t := range w.running {
		stores += min(len(t.sub.sub.Stores), 1)
	}
	for _, t := range w.running {
		t.run.CacheBytes(max(w.app.set.CacheBytes, 0) / max(stores, 1))
	}
}

// unroute takes a task out of the work.
func (w *worker) unroute(t *task) {
	if t.run != nil {
		t.run = nil
		w.busy.task.Store(nil)
		w.running = slices.DeleteFunc(slices.Clone(w.running), func(o *task) bool { return o == t })
		w.shareCache()
	}
	for _, in := range t.inputs {
		delete(w.routes, in.topicPartition)
		if in.probe != nil {
			in.probe()
			in.probe = nil
		}
	}
	if w.undecided != nil || len(w.running) == 0 {
		w.pendingSince = time.Time{}
	}
	t.counted = engine.Status{}
}

// close forgets a task. What its open transaction had is gone; its state stays where it is, for the next to have it.
func (w *worker) close(t *task) {
	w.unroute(t)
	if t.build != nil {
		t.build.cancel()
		t.build = nil
	}
	if t.claim != nil {
		t.claim.release()
		t.claim = nil
	}
	w.resume(t)
	if len(t.outputs.suspects)+len(t.outputs.refused) > 0 {
		w.refusals = 0 // what it took to find them is forgotten with them, and has to be done again
	}
	delete(w.tasks, t.id)
	w.sawTask(TaskEvent{Task: t.id.String(), State: TaskClosed})
}

func (w *worker) closeAll() {
	for _, id := range w.ids() {
		w.close(w.tasks[id])
	}
	w.pendingSince = time.Time{}
}

// start begins to make a task, after first is done, if given. Its partitions are not fetched in the meantime.
func (w *worker) start(t *task, first func(context.Context) error) {
	ctx, cancel := context.WithCancel(w.ctx)
	b := &build{cancel: cancel, progress: newProgress(t.sub.sub.Stores)}
	t.build = b
	w.sawTask(TaskEvent{Task: t.id.String(), State: TaskRestoring, Err: t.cause})
	t.cause = nil
	parts := make([]topicPartition, len(t.inputs))
	for i, in := range t.inputs {
		parts[i] = in.topicPartition
	}
	w.pause(t)
	_, generation := w.session.Client().GroupMetadata()
	w.aside.Go(func() {
		defer cancel()
		out := &built{task: t, build: b}
		var err error
		if first != nil {
			err = first(ctx)
		}
		for n := 0; err == nil; n++ {
			b.progress.begin(n + 1)
			out.err = w.make(ctx, out, t.id, t.sub, parts, generation)
			if isDenied(out.err) {
				out.err = w.app.set.explain("make task "+t.id.String(), out.err, w.app.set.internalTopics())
			}
			if out.err == nil || isFatal(out.err) {
				break
			}
			b.progress.fail(out.err)
			if ctx.Err() == nil {
				w.notYet(t.id, n+1, out.err)
			}
			if err := out.failed(out.err); err != nil {
				w.log.Warn("the task's state is not closed well", "task", t.id, "err", err)
			}
			err = sleep(ctx, backoff(n))
		}
		if out.err == nil {
			out.err = err
		}
		w.mu.Lock()
		w.inbox = append(w.inbox, out)
		w.mu.Unlock()
		w.wake()
	})
}

// notYet logs that a task cannot be made. It may be tried for hours, as on a disk that is full.
func (w *worker) notYet(id engine.TaskID, attempt int, err error) {
	log, attrs := w.log.Debug, []any{"task", id, "err", err, "attempt", attempt}
	if ok, unsaid := w.app.quiet.say("not made "+id.String(), time.Now()); ok {
		log = w.log.Warn
		if unsaid > 0 {
			attrs = append(attrs, "unsaid", unsaid)
		}
	}
	log("task cannot be made yet", attrs...)
}

// make does what needs no gate: positions, store, restore. It runs on the goroutine of the build and touches nothing of the worker
// but what never changes.
func (w *worker) make(ctx context.Context, out *built, id engine.TaskID, sub *subLayout, parts []topicPartition, generation int32) error {
	a := w.app
	position, err := fetchCommitted(ctx, a.client, a.set.AppID, a.layout.topics, parts, out.build.progress.pend)
	if err != nil {
		return err
	}
	if planted == trustNo {
		believed(position)
	}
	if err := a.fetchClocks(ctx, position); err != nil {
		return err
	}
	starts, err := listOffset(ctx, a.adm, logStart, parts)
	if err != nil {
		return err
	}
	// The end is read after the positions are stable, so whatever the last owner committed is before it.
	ends, err := listOffset(ctx, a.adm, stableEnd, parts)
	if err != nil {
		return err
	}
	out.inputs = make(map[topicPartition]builtInput)
	for _, tp := range parts {
		in := builtInput{offset: position[tp].offset, commit: position[tp].commit, slot: slotOf(position[tp].away), readTo: ends[tp]}
		switch {
		case in.offset < 0:
			in.offset, in.none = starts[tp], true
		case in.offset > ends[tp]:
			return fatal("the committed position of %s[%d] is %d, behind the topic's end at %d: the topic was deleted and made again; reset the group's offsets for it, and delete the app's internal topics if state depends on it",
				tp.topic, tp.partition, in.offset, ends[tp])
		case in.offset < starts[tp]:
			if err := a.lost(tp, in.offset, starts[tp]); err != nil {
				return err
			}
			in.lost, in.offset = starts[tp]-in.offset, starts[tp]
		}
		out.inputs[tp] = in
	}
	out.claim, err = a.registry.acquire(ctx, id, sub.sub.Stores, w.id, generation, a.wake)
	if err != nil {
		return err
	}
	if len(sub.sub.Stores) == 0 {
		return nil
	}
	result, err := a.restore(ctx, out.claim.backend, id, sub, out.inputs, out.build.progress)
	out.restored += result.Records
	out.wiped += result.Wiped
	return err
}

// takeBuilt sets tasks that have been made to work.
func (w *worker) takeBuilt(ctx context.Context) error {
	w.mu.Lock()
	inbox := w.inbox
	w.inbox = nil
	w.mu.Unlock()
	if len(inbox) > 0 {
		if err := w.land(ctx); err != nil {
			for _, b := range inbox {
				b.drop()
			}
			return err
		}
	}
	for i, b := range inbox {
		t := b.task
		w.tally.RecordsRestored += b.restored // they are in the store, even if the task goes elsewhere now
		w.tally.StoresWiped += int64(b.wiped)
		if t.build != b.build || w.tasks[t.id] != t { // lost in the meantime
			b.drop()
			continue
		}
		t.build = nil
		if b.err != nil {
			b.drop()
			if isFatal(b.err) {
				for _, rest := range inbox[i+1:] {
					rest.drop()
				}
				return b.err
			}
			continue // only when the worker stops
		}
		if err := w.launch(t, b); err != nil {
			b.drop()
			for _, rest := range inbox[i+1:] {
				rest.drop()
			}
			return err
		}
	}
	return nil
}

// launch makes the engine's task and lets records flow to it.
func (w *worker) launch(t *task, b *built) error {
	backend := b.claim.backend
	if backend == nil { // no stores
		var err error
		if backend, err = state.Memory().Open(t.id.String(), nil); err != nil {
			return fatal("task %s: %w", t.id, err)
		}
	}
	cfg := engine.Config{
		ID: t.id, Sub: t.sub.sub, Txn: overlay(t.id, backend, t.sub.sub.Stores),
		Sources: make([]engine.SourceConfig, len(t.sub.sources)),
		LeftOut: w.leftOut, Now: time.Now().UnixMilli(),
		Limits: w.limits(t), Refused: t.outputs.refused,
		MaxDrift:       w.app.set.MaxDrift.Milliseconds(),
		ReportInterval: w.app.set.ReportInterval.Milliseconds(), ReportRepeat: reportRepeat.Milliseconds(),
		IdleRepeat:  w.app.layout.idleRepeat(t.sub).Milliseconds(),
		MaxTaskIdle: w.app.set.MaxTaskIdle.Milliseconds(), AdvanceWhenIdle: w.app.set.AdvanceWhenIdle.Milliseconds(),
	}
	inNew := func(in *input) bool { return b.inputs[in.topicPartition].none }
	grown := slices.ContainsFunc(t.inputs, inNew) && !all(t.inputs, inNew)
	for i, topic := range t.sub.sources {
		cfg.Sources[i] = engine.SourceConfig{Topic: topic, Absent: true}
	}
	t.fresh = false
	for i, in := range t.inputs {
		got := b.inputs[in.topicPartition]
		cfg.Sources[in.source] = engine.SourceConfig{Topic: in.topic, Offset: got.offset, Clock: got.commit.Source, ReadTo: got.readTo, End: got.readTo}
		clock := &cfg.Sources[in.source].Clock
		if got.none && grown {
			clock.Idle = true // new to a task that has been: it starts where the task is
		} else if got.offset < got.readTo {
			clock.Idle = false
		}
		in.idle, in.leave = clock.Idle, math.MinInt64
		in.pushed, in.heard, in.brought, in.readTo = got.offset, time.Now(), time.Now(), 0
		in.end = got.readTo
		if t.sub.sub.Sources[in.source].Table {
			in.readTo = got.readTo
		}
		w.tally.Lost += got.lost
		in.mark, in.slot = committed{commit: got.commit}.mark(), got.slot
		in.committed = 0
		if !got.none {
			in.committed = got.offset
		}
		t.fresh = t.fresh || got.none
		if in.mark.transactionalID == w.transactionalID() {
			// This id was used before, by an earlier process of the same name: never use a number twice.
			w.sequence = max(w.sequence, in.mark.sequence)
		}
		if i == 0 {
			cfg.Operators = got.commit.Operators
		}
	}
	w.busy.at(turning, t, time.Now()) // a processor's Init
	run, err := engine.New(cfg)
	if err != nil {
		if stack := engine.Stack(err); stack != nil {
			w.log.Error("the topology's own code panicked while a task was made", "task", t.id, "err", err, "stack", string(stack))
		}
		return fatal("%w", err)
	}
	t.run, t.claim = run, b.claim
	if err := t.trails(); err != nil {
		w.noteErr("task "+t.id.String(), err)
		w.rebuild(t, err)
		return nil
	}
	w.running = append(slices.Clone(w.running), t)
	slices.SortFunc(w.running, func(x, y *task) int { return compareTasks(x.id, y.id) })
	w.shareCache()
	for _, in := range t.inputs {
		w.routes[in.topicPartition] = in
	}
	w.tally.TasksBuilt++
	w.resume(t)
	w.position(t)
	w.idle = false
	t.sized = time.Time{}
	w.log.Info("task runs", "task", t.id, "restored", b.restored)
	w.sawTask(TaskEvent{Task: t.id.String(), State: TaskRunning, Restored: b.restored, Took: time.Since(b.build.progress.since)})
	return nil
}

func all[T any](s []T, is func(T) bool) bool {
	return !slices.ContainsFunc(s, func(v T) bool { return !is(v) })
}

// position tells the client what to deliver next of a task's partitions. Client and queue always join without a gap: what the
// client delivers again is dropped, and nothing else may be missing.
func (w *worker) position(tasks ...*task) {
	set := make(map[string]map[int32]kgo.EpochOffset)
	for _, t := range tasks {
		for _, in := range t.inputs {
			if set[in.topic] == nil {
				set[in.topic] = make(map[int32]kgo.EpochOffset)
			}
			set[in.topic][in.partition] = kgo.EpochOffset{Epoch: -1, Offset: in.pushed}
		}
	}
	w.session.Client().SetOffsets(set)
}

func (w *worker) reposition() { w.position(w.running...) }

func (w *worker) pause(t *task) {
	parts := make(map[string][]int32)
	for _, in := range t.inputs {
		in.paused = true
		add(parts, in.topicPartition)
	}
	w.session.Client().PauseFetchPartitions(parts)
}

// resume must come with every end of a task: the client keeps what is paused over rebalances.
func (w *worker) resume(t *task) {
	parts := make(map[string][]int32)
	for _, in := range t.inputs {
		in.paused = false
		add(parts, in.topicPartition)
	}
	if w.session != nil {
		w.session.Client().ResumeFetchPartitions(parts)
	}
}
