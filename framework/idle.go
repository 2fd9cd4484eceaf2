package framework

import (
	"context"
	"math"
	"time"

	"github.com/headrace/headrace/internal/engine"
)

const (
	// idleLooks is how often, within IdleAfter, ends are asked for, and idleLook and idleLookMax bound it.
	idleLooks   = 10
	idleLook    = tick
	idleLookMax = time.Second
	// idleTimeout bounds one look.
	idleTimeout = 10 * time.Second
	// reportRepeat is after how long a report that has not changed is written again.
	reportRepeat = 10 * time.Second
	// idleRepeat is how often a task says at most that it is still idle, where few tasks write few partitions, and idleReports how many
	// such reports all tasks in front of a repartition topic may write in a second.
	idleRepeat  = time.Second
	idleReports = 1000
)

// idleRepeat is how often a task of the sub-topology says that it is still idle.
func (l *layout) idleRepeat(sub *subLayout) time.Duration {
	least := idleRepeat
	for i, topic := range sub.sinks {
		if s := &sub.sub.Sinks[i]; s.Repartition && !s.NoReports {
			all := int64(sub.tasks) * int64(l.topics[topic].partitions)
			least = max(least, min(time.Duration(all)*time.Second/idleReports, reportRepeat))
		}
	}
	return least
}

// lull is a partition that brings nothing, and where it ended when that was asked for.
type lull struct {
	in   *input
	run  *engine.Task
	from int64 // its position when it was asked for
	at   int64 // how far the task's other inputs had come
	end  int64
}

// isQuiet says whether a partition may be idle: it has brought nothing for IdleAfter although nothing of ours keeps it from that, and for as
// long all that it ever brought has been dealt with. Whether there is anything in it only the broker knows.
//
// What waits in the queue, for an input that is behind or a table, may have come long ago. Its time has to get around before it is idle.
func (w *worker) isQuiet(t *task, in *input, now time.Time) bool {
	if t.sub.sub.Sources[in.source].Repartition {
		return false
	}
	if queued, _ := t.run.Queued(in.source); queued > 0 || in.paused {
		in.loud = now
		return false
	}
	lasts := now.Sub(in.brought) >= w.app.set.IdleAfter && now.Sub(in.loud) >= w.app.set.IdleAfter
	return (in.idle || lasts) && in.pushed >= in.end
}

// matters says whether it is of any use to know that an idle partition is idle still: others have gone on, or somebody reads behind the task.
func (t *task) matters(in *input) bool {
	at, active := t.run.TimeWithout(in.source)
	return !in.idle || active && at > in.leave || t.run.Reports()
}

// lookForIdle asks, on a goroutine of its own, for the ends of all partitions that are quiet. The client does not tell: it hands nothing
// out for a partition that has nothing.
//
// The end is behind open transactions: what is in those may yet come. It is asked for after the time in which nothing came, so a position
// that is at the end has been there all that time.
func (w *worker) lookForIdle(now time.Time) {
	after := w.app.set.IdleAfter
	if after < 0 || now.Sub(w.idleLooked) < min(max(after/idleLooks, idleLook), idleLookMax) || !w.idleLooking.CompareAndSwap(false, true) {
		return
	}
	w.idleLooked = now
	var ask []lull
	var parts []topicPartition
	for _, t := range w.running {
		if !t.run.UsesTime() {
			continue
		}
		for _, in := range t.inputs {
			if w.isQuiet(t, in, now) && t.matters(in) {
				at, active := t.run.TimeWithout(in.source)
				if !active {
					at = math.MinInt64
				}
				ask = append(ask, lull{in: in, run: t.run, from: in.pushed, at: at})
				parts = append(parts, in.topicPartition)
			}
		}
	}
	if len(ask) == 0 {
		w.idleLooking.Store(false)
		return
	}
	w.aside.Go(func() {
		defer w.idleLooking.Store(false)
		ctx, cancel := context.WithTimeout(w.ctx, idleTimeout)
		defer cancel()
		ends, err := listOffset(ctx, w.app.adm, logEnd, parts)
		if err != nil {
			w.log.Debug("look for idle partitions", "err", err)
			return
		}
		for i := range ask {
			ask[i].end = ends[ask[i].in.topicPartition]
		}
		w.mu.Lock()
		w.lulls = append(w.lulls, ask...)
		w.mu.Unlock()
		w.wake()
	})
}

// takeIdle lets those partitions be idle that had nothing when they were asked, and have brought nothing since.
func (w *worker) takeIdle(now time.Time) {
	w.mu.Lock()
	all := w.lulls
	w.lulls = nil
	w.mu.Unlock()
	for _, q := range all {
		t := q.in.task
		if t.run != q.run || q.in.pushed != q.from || !w.isQuiet(t, q.in, now) {
			continue
		}
		if q.in.pushed < q.end {
			q.in.idle = false
			q.run.SetIdle(q.in.source, false)
			w.probe(t, q.in, q.end) // it may be that compaction has left nothing there
			continue
		}
		if !q.in.idle {
			w.log.Debug("partition is idle", "task", t.id, "topic", q.in.topic, "partition", q.in.partition, "offset", q.in.pushed)
			q.in.idle, q.in.leave = true, math.MinInt64
		}
		q.in.leave = max(q.in.leave, q.at)
		q.run.Confirm(q.in.source, q.at)
		w.idle = false
	}
}
