package framework

import (
	"context"
	"maps"
	"slices"
	"time"
)

// flight is a transaction that is written and ended by a goroutine of its own, while the worker goes on: nothing that the tasks do next
// depends on the broker. What they do belongs to the next transaction, which begins when this one has landed.
//
// The goroutine has the batch, the writer, what the tasks have frozen and the committer for itself. While it flies the worker does nothing
// that needs the session to be at rest: no task comes or goes, no rebalance gets through, no client is taken back to another position.
type flight struct {
	b      *batch
	since  time.Time
	cancel context.CancelFunc
	done   chan struct{}

	// Set when done is closed.
	written bool  // all records have met their fate
	asked   bool  // the commit was asked for
	ok      bool  // the answer was yes
	err     error // of the session, which is of no use then
}

// landed says that the goroutine is through.
func (f *flight) landed() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// takeOff begins to commit everything that is pending. Nothing may be flying.
func (w *worker) takeOff(ctx context.Context) error {
	now := time.Now()
	for _, t := range slices.Clone(w.running) {
		if err := t.run.Settle(now.UnixMilli()); err != nil {
			return w.taskFailed(ctx, t, err) // what is pending is for the next turn
		}
	}
	w.sequence++ // no two get the same, whatever becomes of them
	b := &batch{mark: mark{w.transactionalID(), w.sequence}, at: now}
	w.begun(b, now)
	w.pendingSince = time.Time{}
	w.writer.isolate(maps.Values(w.tasks))
	for _, t := range w.running {
		if !t.fresh && !t.run.Pending() {
			continue
		}
		t.run.Freeze()
		t.fresh = false // if this fails it is made anew
		b.tasks = append(b.tasks, batchTask{task: t, run: t.run, status: t.run.Status()})
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.app.set.endTimeout())
	f := &flight{b: b, since: now, cancel: cancel, done: make(chan struct{})}
	w.flight = f
	after := w.lastEnd
	w.aside.Go(func() {
		defer w.wake()
		defer close(f.done)
		w.fly(ctx, f, after)
	})
	return nil
}

// fly is what the goroutine does.
func (w *worker) fly(ctx context.Context, f *flight, after time.Time) {
	for i := range f.b.tasks {
		if f.err = w.writer.write(ctx, f.b, &f.b.tasks[i], f.b.at); f.err != nil {
			return
		}
	}
	if f.err = sleep(ctx, w.app.set.TxnGap-time.Since(after)); f.err != nil {
		return
	}
	if f.err = w.commits.begin(); f.err != nil {
		return
	}
	if f.err = w.writer.send(ctx, w.commits, f.b); f.err != nil {
		return
	}
	if f.err = w.commits.flush(ctx); f.err != nil {
		return
	}
	f.written = true
	w.failpoint("after-flush", f.b)
	if f.b.failure() != nil || f.b.refusal() != nil {
		return // the session would commit what did get through
	}
	f.b.refer()
	f.asked = true
	f.ok, f.err = w.commits.commit(ctx, f.b.offsets)
}

// land waits until nothing flies, and takes in what became of it. An error means that the session is of no use any more, or the app
// must end.
func (w *worker) land(ctx context.Context) error {
	f := w.flight
	if f == nil {
		return nil
	}
	if !f.landed() {
		w.busy.at(committing, nil, f.since)
		callOff := w.session.openGateAfter(w.gatePatience() - time.Since(f.since))
		<-f.done
		callOff()
	}
	f.cancel()
	w.flight, w.lastEnd = nil, time.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.app.set.endTimeout())
	defer cancel()
	b := f.b
	if f.written {
		w.produced(b)
	}
	switch {
	case f.err != nil:
		w.writer.reset(false)
		if f.asked {
			w.undecided, w.txn.Err = b, f.err
		} else {
			w.aborted(produceReason(f.err), f.err)
		}
		return f.err
	case b.failure() != nil:
		return w.abort(ctx, b.failure())
	case b.refusal() != nil:
		return w.refuse(ctx, b)
	}
	w.writer.reset(true)
	if !f.ok {
		return w.inquire(ctx, b)
	}
	w.tally.Commits++
	w.failures, w.givenUp = 0, 0
	w.failpoint("before-apply", b)
	w.apply(b, nil)
	return w.reportLast(ctx, b)
}

// landIfDue lets the worker's turn go on while a transaction flies, unless it has landed or something comes up that has to wait for it.
func (w *worker) landIfDue(ctx context.Context) error {
	f := w.flight
	if f == nil || !f.landed() && !w.upset() {
		return nil
	}
	return w.land(ctx)
}

// upset says that the turn is about to do what must not be done while a transaction flies.
func (w *worker) upset() bool {
	s := w.session
	if s.blocked.Load() || s.rebalanced.Load() != w.rebalanced || len(w.outside) > 0 || s.owns.wants(time.Now()) {
		return true
	}
	if _, version := s.owns.owned(); version != w.version {
		return true
	}
	for _, t := range w.running {
		if t.claim.isRevoked() {
			return true
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.inbox) > 0
}
