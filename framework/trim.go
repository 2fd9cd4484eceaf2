package framework

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

const (
	// trimInterval is how often a worker gives up what its tasks do not need any more of the internal topics. Kafka Streams:
	// repartition.purge.interval.ms.
	trimInterval = 30 * time.Second
	trimTimeout  = 10 * time.Second
)

// Nothing of ours is deleted by age, since timestamps are event time and may be of any year. So somebody has to delete:
//
//   - what has been read and committed of a repartition topic,
//   - what a windowed changelog has in front of the first value of a window, or session, that is still in the store.
//
// The owner of the task does, from what is known to be committed. Neither can be needed again: positions do not go back, and what is
// written of a window later is written behind. So it does no harm if a former owner, who does not know that it is one, deletes, too.

// trails makes the trails of a task's windowed stores follow what was restored.
func (t *task) trails() error {
	for i := range t.sub.sub.Stores {
		if !t.windowed(i) {
			continue
		}
		tr := t.claim.trails[i]
		if tr == nil {
			tr = new(trail)
			t.claim.trails[i] = tr
		}
		backend := t.claim.backend
		kind := t.sub.sub.Stores[i].Kind
		if err := tr.resume(backend.Position(i), func() (int64, error) { return latestStart(backend, i, kind) }); err != nil {
			return err
		}
	}
	return nil
}

// windowed says whether a store has windows, or sessions, and a changelog of its own.
func (t *task) windowed(store int) bool {
	return t.sub.sub.Stores[store].Kind.Timed() && t.sub.changelogs[store] != ""
}

// trailed makes the trails follow a transaction that has committed and been applied.
func (t *task) trailed(bt *batchTask) {
	for i, p := range bt.positions {
		if tr := t.claim.trails[i]; tr != nil && p != nil {
			tr.extend(p.Offset, bt.latest[i])
		}
	}
}

// trimIfDue deletes what is not needed any more, on a goroutine of its own: nobody waits for it, and what fails is tried the next time.
func (w *worker) trimIfDue() {
	now := time.Now()
	if now.Sub(w.trimmed) < trimInterval || !w.trimming.CompareAndSwap(false, true) {
		return
	}
	w.trimmed = now
	below := make(kadm.Offsets)
	for _, t := range w.running {
		for _, in := range t.inputs {
			if t.sub.sub.Sources[in.source].Repartition && in.committed > 0 {
				below.AddOffset(in.topic, in.partition, in.committed, -1)
			}
		}
		for i, tr := range t.claim.trails {
			earliest, err := earliestStart(t.claim.backend, i, t.sub.sub.Stores[i].Kind)
			if err != nil {
				continue // whoever needs the store finds out
			}
			if to := tr.trim(earliest); to > 0 {
				below.AddOffset(t.sub.changelogs[i], t.id.Partition, to, -1)
			}
		}
	}
	w.aside.Go(func() {
		defer w.trimming.Store(false)
		ctx, cancel := context.WithTimeout(w.ctx, trimTimeout)
		defer cancel()
		if err := w.app.deleteBelow(ctx, below); err != nil && w.ctx.Err() == nil {
			w.log.Warn("internal topics are not trimmed; it is tried again", "again_in", trimInterval, "err", err)
		}
	})
}

// deleteBelow deletes the records below the offsets, where there are any.
func (a *App) deleteBelow(ctx context.Context, below kadm.Offsets) error {
	topics := below.TopicsSet().Topics()
	if len(topics) == 0 {
		return nil
	}
	starts, err := a.adm.ListStartOffsets(ctx, topics...)
	if err != nil {
		return err
	}
	below.DeleteFunc(func(o kadm.Offset) bool {
		start, ok := starts.Lookup(o.Topic, o.Partition)
		return !ok || start.Err != nil || start.Offset >= o.At
	})
	deleted, err := a.adm.DeleteRecords(ctx, below)
	deleted.Each(func(d kadm.DeleteRecordsResponse) {
		if start, ok := starts.Lookup(d.Topic, d.Partition); ok && d.Err == nil {
			a.trimmed.Add(d.LowWatermark - start.Offset)
		}
	})
	if err != nil {
		return err
	}
	return deleted.Error()
}
