package framework

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// pending says whether there is anything to commit.
func (w *worker) pending() bool {
	for _, t := range w.running {
		if t.fresh || t.run.Pending() {
			return true
		}
	}
	return false
}

// brimful says that no more can be taken in before a commit.
func (w *worker) brimful() bool { return w.pendingBytes() >= w.maxPending() }

// bytesDue says that the open transaction is large enough. That is less than brimful, so that there is room to work on while it is ended: then
// one transaction is in the air all the time under load.
func (w *worker) bytesDue() bool { return w.pendingBytes() >= w.maxPending()/4 }

func (w *worker) pendingBytes() int {
	bytes := 0
	for _, t := range w.running {
		bytes += t.run.PendingBytes()
	}
	return bytes
}

func (w *worker) maxPending() int {
	if suspicious(slices.Values(w.running)) {
		return min(w.app.set.MaxPendingBytes, suspectBytes)
	}
	return w.app.set.MaxPendingBytes
}

// mayCommit says whether a commit could go well. While a join is under way it would be sent under the old generation, and refused:
// the group is quick, or it takes the tasks away.
func (w *worker) mayCommit(now time.Time) bool {
	return !w.session.owns.isJoining() && !now.Before(w.restUntil)
}

// caughtUp says that nothing is known to be in the input that has not been taken in. A queue that is empty says less: the next records
// may be on their way, and a commit for each fetch would take its time from them.
func (w *worker) caughtUp() bool {
	for _, t := range w.running {
		for _, in := range t.inputs {
			if in.pushed < in.end {
				return false
			}
		}
	}
	return true
}

// commitIfDue commits when the worker has caught up with its input, though not too often; at the latest after CommitInterval; early
// when much has gathered or the group waits.
func (w *worker) commitIfDue(ctx context.Context) error {
	if !w.pending() {
		w.pendingSince = time.Time{}
		return nil
	}
	now := time.Now()
	if w.pendingSince.IsZero() {
		w.pendingSince = now
	}
	if w.flight != nil {
		if !w.brimful() {
			return nil
		}
		if err := w.land(ctx); err != nil { // what is pending has to wait for what flies, and is enough
			return err
		}
		if !w.pending() { // it has failed, and its tasks are made anew
			return nil
		}
		now = time.Now()
	}
	switch {
	case !w.mayCommit(now):
		return nil
	case w.idle && w.caughtUp() && now.Sub(w.lastEnd) >= w.app.set.MinCommitInterval:
	case now.Sub(w.pendingSince) >= w.app.set.CommitInterval:
	case w.session.blocked.Load():
	case w.bytesDue():
	default:
		return nil
	}
	if err := w.takeOff(ctx); err != nil {
		return err
	}
	if w.session.blocked.Load() { // the group waits for it
		return w.land(ctx)
	}
	return nil
}

// abort gives the transaction up because of cause, and makes all tasks anew.
func (w *worker) abort(ctx context.Context, cause error) error {
	w.aborted(produceReason(cause), cause)
	if err := w.commits.abort(ctx); err != nil {
		w.writer.reset(false)
		return fmt.Errorf("%w, after: %w", err, cause)
	}
	w.writer.reset(false)
	switch classify(cause) {
	case refused:
		if isDenied(cause) {
			return w.app.set.explain("commit", cause, w.app.set.internalTopics()) // those of outputs meet the policy of their records
		}
		return &appError{cause}
	case fenced, broken:
		return cause
	}
	if isFatal(cause) {
		return cause
	}
	w.noteErr("transaction", cause)
	if w.failures+1 >= maxFailures {
		return fatal("worker %d: %d transactions failed in a row: %w", w.id, w.failures+1, cause)
	}
	w.rebuildAll()
	return nil
}

// gatePatience is how long a transaction may take to end before the group need not wait for it any longer.
const gatePatience = time.Second

// gatePatience: without transactions nothing makes a commit fail into which a rebalance gets, so the group waits for as long as it takes, or
// until it takes the worker for dead.
func (w *worker) gatePatience() time.Duration {
	if w.app.set.Guarantee == AtLeastOnce {
		return w.app.set.endTimeout()
	}
	return gatePatience
}

// maxFailures is how many transactions may fail in a row, each with a longer wait before the next.
const maxFailures = 20

// inquire finds out what became of a transaction to which the answer was no, or nothing that one can rely on: the client says no
// also when the broker has committed and then answered with an error.
func (w *worker) inquire(ctx context.Context, b *batch) error {
	ctx, cancel := context.WithTimeout(ctx, readBackTimeout)
	defer cancel()
	if planted == trustNo {
		believe(b)
		w.rebuildAll()
		return nil
	}
	committed, err := w.readBack(ctx, b)
	if err != nil {
		if isFatal(err) {
			return err
		}
		// Somebody else's open transaction has our partitions, or the broker does not answer. The tasks find out when they are made.
		w.noteErr("read back", err)
		w.aborted(AbortUnclear, err)
		w.rebuildAll()
		return nil
	}
	if committed {
		// The end of the transaction has taken the client back.
		w.failures = 0
		w.reposition()
		return w.reportLast(ctx, b)
	}
	w.rebuildAll()
	return nil
}

// readBack reads the group's positions of all partitions in the transaction. If it has committed, the tasks take that in; those
// whose partitions others have are made anew.
func (w *worker) readBack(ctx context.Context, b *batch) (bool, error) {
	parts := make([]topicPartition, len(b.offsets))
	for i := range b.offsets {
		parts[i] = b.offsets[i].topicPartition
	}
	w.tally.ReadBacks++
	got, err := fetchCommitted(ctx, w.app.client, w.app.set.AppID, w.app.layout.topics, parts, nil)
	if err != nil {
		return false, err
	}
	verdicts := make(map[topicPartition]verdict, len(parts))
	done := false
	for _, tp := range parts {
		v := others
		if in := w.routes[tp]; in != nil {
			v = judge(got[tp], b.mark, in.mark)
		}
		verdicts[tp] = v
		done = done || v == ours
	}
	w.log.Info("read back", "transaction", b.mark.sequence, "committed", done)
	if !done {
		w.aborted(w.refusedCommit(w.txn.Err), w.txn.Err)
		return false, nil
	}
	w.givenUp = 0
	w.tally.Commits++
	w.tally.ReadBacksCommitted++
	w.apply(b, verdicts)
	return true, nil
}

// apply takes in that a transaction has committed: what was an overlay is now state. With verdicts, a task whose partitions are
// not all ours any more is left out and made anew.
func (w *worker) apply(b *batch, verdicts map[topicPartition]verdict) {
	if planted == trustNo {
		remember(b)
	}
	if w.acquitted(b) { // before the tasks forget
		w.refusals = 0
	}
	for _, a := range b.away {
		a.in.slot = a.ref.Slot
	}
	w.tally.Reports += int64(b.reports)
	for i, bt := range b.tasks {
		t := bt.task
		if t.run != bt.run {
			continue
		}
		// Before anything can fail: it has happened, whatever the store makes of it.
		w.tally.took(w.app.layout, bt.status, t.counted)
		t.counted = bt.status
		lost := false
		for _, in := range t.inputs {
			lost = lost || verdicts[in.topicPartition] != ours
		}
		if lost {
			w.rebuild(t, nil)
			continue
		}
		if err := t.run.Committed(bt.positions); err != nil {
			w.noteErr("task "+t.id.String(), err)
			w.rebuild(t, err)
			continue
		}
		if i < len(b.tasks)-1 {
			w.failpoint("during-apply", b)
		}
		for _, in := range t.inputs {
			in.mark = b.mark
		}
		for _, o := range bt.offsets {
			w.routes[o.topicPartition].committed = o.offset
		}
		t.trailed(&bt)
		t.failures = 0
		t.passed(bt.status)
	}
	w.committed()
}
