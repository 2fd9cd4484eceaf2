package framework

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/internal/engine"
)

// Some records a broker will never take: too large, a timestamp out of the topic's bounds, no key where the topic is compacted. They
// are the fault of the record that they were made of, and meet its policy. A broker refuses whole batches, though, and the client
// then fails all that it has buffered for the partition. So the transaction is aborted, and what was in doubt is produced apart the
// next time, in small transactions and in groups that get smaller: after a few rounds it is known which one it is.

// ownFault says that a record is refused for its own sake, or for where it is to go.
func ownFault(err error) bool {
	return isAny(err, kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidTimestamp, kerr.InvalidRecord, kerr.TopicAuthorizationFailed)
}

// refusedRecord is one that failed together with, or as, one that is refused for its own sake.
type refusedRecord struct {
	record *kgo.Record
	err    error
}

// refusals is what a task has learnt about its outputs. It outlives the engine's task, which is made anew after each abort.
type refusals struct {
	refused  map[engine.OutputID]error
	suspects map[engine.OutputID]bool
	closed   map[int]error // sinks
	// unmatched is how many of what time had made due were refused since one was made again and left out.
	unmatched int
}

// isolation keeps suspects apart from one another in an open transaction.
type isolation struct {
	suspects map[topicPartition]int // since the last flush
	others   map[topicPartition]bool
}

const (
	// largestGroup is how many suspects of a partition are produced together at first, and smaller how much fewer after a refusal.
	largestGroup = 32
	smaller      = 8
	// suspectBytes bounds a transaction with suspects: each group costs a round trip to the broker.
	suspectBytes = 64 << 10
)

// isolate prepares for a transaction. tasks are all of the worker: while those with suspects are made anew, the others' transactions say
// nothing of how small a group has to be.
func (w *writer) isolate(tasks iter.Seq[*task]) {
	if !suspicious(tasks) {
		w.apart, w.group = nil, largestGroup
		return
	}
	w.apart = &isolation{suspects: make(map[topicPartition]int), others: make(map[topicPartition]bool)}
}

func suspicious(tasks iter.Seq[*task]) bool {
	for t := range tasks {
		if len(t.outputs.suspects) > 0 {
			return true
		}
	}
	return false
}

// acquitted says that a batch, which has committed, brings suspects on, or that there are none.
func (w *worker) acquitted(b *batch) bool {
	for i := range b.tasks {
		if len(b.tasks[i].task.outputs.suspects) > 0 {
			return true
		}
	}
	return !suspicious(maps.Values(w.tasks))
}

// between has everything flushed before r, the last that record returned, if it may not share a batch with what comes before.
func (w *writer) between(b *batch, r *kgo.Record, suspect bool) {
	a := w.apart
	if a == nil {
		return
	}
	tp := topicPartition{r.Topic, r.Partition}
	if n := a.suspects[tp]; suspect && (a.others[tp] || n >= w.group) || !suspect && n > 0 {
		b.flushes = append(b.flushes, w.used-1)
		clear(a.suspects)
		clear(a.others)
	}
	if suspect {
		a.suspects[tp]++
	} else {
		a.others[tp] = true
	}
}

// blamed is an output that failed.
type blamed struct {
	task   *task
	output int // of the task's cut
	id     engine.OutputID
	sink   int
	err    error
	sure   bool // it failed alone
}

// blame finds out which outputs failed. It has to be called before reset.
func (w *writer) blame(b *batch) []blamed {
	errs := make(map[*kgo.Record]error, len(b.refused))
	for _, f := range b.refused {
		errs[f.record] = f.err
	}
	type place struct {
		topicPartition
		flushes int
	}
	at := func(i int) place {
		r := w.recordAt(i)
		before, _ := slices.BinarySearch(b.flushes, i+1)
		return place{topicPartition{r.Topic, r.Partition}, before}
	}
	failed := make(map[place]int)
	for i := range w.used {
		if errs[w.recordAt(i)] != nil {
			failed[at(i)]++
		}
	}
	var out []blamed
	for _, bt := range b.tasks {
		if bt.task.run != bt.run {
			continue // its store has failed meanwhile
		}
		sinks := bt.task.run.Cut().Outputs
		for i := range bt.outputs {
			n := bt.firstOutput + i
			err := errs[w.recordAt(n)]
			if err == nil {
				continue
			}
			out = append(out, blamed{
				task: bt.task, output: i, id: bt.task.run.OutputID(i), sink: sinks[i].Sink, err: err,
				sure: failed[at(n)] == 1 || errors.Is(err, kerr.TopicAuthorizationFailed),
			})
		}
	}
	return out
}

// maxRefusals is how many transactions in a row may be aborted for the sake of outputs that are refused, and maxUnmatched how many
// outputs of what time has made due may be refused that are not made again in the same way, such as those with the time of day.
const (
	maxRefusals  = 8
	maxUnmatched = 3
)

// refuse gives up a transaction in which a broker would not take some outputs, and sees to it that the next one goes better.
func (w *worker) refuse(ctx context.Context, b *batch) error {
	found := w.writer.blame(b)
	if len(found) == 0 {
		return w.abort(ctx, b.refusal()) // no output failed: it is something of the app's own
	}
	// Nothing can be asked of the tasks once they are made anew.
	culprit := &found[0]
	sure := slices.IndexFunc(found, func(o blamed) bool { return o.sure })
	if sure >= 0 {
		culprit = &found[sure]
	}
	cause := w.refusal(culprit)
	final := recordError(culprit.task.run.Refused(culprit.output, cause))
	for i := range found {
		w.learn(&found[i])
	}

	w.aborted(AbortRefused, cause)
	err := w.commits.abort(ctx)
	w.writer.reset(false)
	if err != nil {
		return fmt.Errorf("%w, after: %w", err, cause)
	}
	w.refusals++
	if w.writer.apart != nil {
		w.writer.group = max(w.writer.group/smaller, 1)
	}
	switch {
	case sure >= 0 && sinkFails(culprit.task.sub.sub, culprit.sink):
		return final
	case w.refusals > maxRefusals, culprit.task.outputs.unmatched > maxUnmatched:
		final.Err = fmt.Errorf("%w (and it is not made again in the same way, so that it could be left out)", final.Err)
		return final
	}
	topic := culprit.task.sub.sinks[culprit.sink]
	w.log.Warn("outputs refused", "topic", topic, "doubtful", len(found), "err", culprit.err)
	if errors.Is(culprit.err, kerr.MessageTooLarge) && w.app.takesLess(ctx, topic) {
		return fmt.Errorf("topic %s takes smaller batches than before: %w", topic, cause) // the client keeps to what it knew
	}
	w.remake()
	return nil
}

// refusal is the error for an output.
func (w *worker) refusal(o *blamed) error {
	topic := o.task.sub.sinks[o.sink]
	at := o.task.run.Cut().Outputs[o.output].Time
	way := wayOut(o.err, at)
	if isDenied(o.err) {
		way = "grant it: " + w.app.set.grant(w.app.layout.topic(w.app.set, topic))
	}
	return fmt.Errorf("topic %s does not take what was made of it: %w; %s", topic, o.err, way)
}

func wayOut(err error, at int64) string {
	switch {
	case errors.Is(err, kerr.InvalidTimestamp):
		return fmt.Sprintf("its event time is %s: mend it, or set message.timestamp.before.max.ms and message.timestamp.after.max.ms of the topic",
			time.UnixMilli(at).UTC().Format(time.RFC3339))
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return "grant the app to write to the topic" // whoever has the settings says how
	case errors.Is(err, kerr.InvalidRecord):
		return "a compacted topic, for one, takes no null keys"
	}
	return "make it smaller, or raise max.message.bytes of the topic and kgo.ProducerBatchMaxBytes in Config.Kafka"
}

// learn keeps what the fate of an output says of the next attempt. A suspect that gets through stays one until it is committed: in
// other company it would fail again.
func (w *worker) learn(o *blamed) {
	known := &o.task.outputs
	if o.sure {
		delete(known.suspects, o.id)
	}
	switch {
	case !o.sure:
		if known.suspects == nil {
			known.suspects = make(map[engine.OutputID]bool)
		}
		known.suspects[o.id] = true
	case errors.Is(o.err, kerr.TopicAuthorizationFailed):
		if known.closed == nil {
			known.closed = make(map[int]error)
		}
		known.closed[o.sink] = w.refusal(o)
	default:
		if known.refused == nil {
			known.refused = make(map[engine.OutputID]error)
		}
		known.refused[o.id] = w.refusal(o)
		if o.id.Source < 0 {
			known.unmatched++
		}
	}
}

// passed forgets what the task will not make again, now that its transaction has committed. Refused outputs that no record made are
// kept, up to a point: nobody tells when they are behind us.
func (t *task) passed(st engine.Status) {
	known := &t.outputs
	if len(known.refused)+len(known.suspects) == 0 {
		return
	}
	next := make(map[int]int64, len(t.inputs))
	for i, in := range t.inputs {
		next[in.source] = st.Sources[i].Offset
	}
	maps.DeleteFunc(known.suspects, func(id engine.OutputID, _ bool) bool {
		return id.Source < 0 || id.Offset < next[id.Source]
	})
	maps.DeleteFunc(known.refused, func(id engine.OutputID, _ error) bool {
		return id.Source < 0 && len(known.refused) > maxKept || id.Source >= 0 && id.Offset < next[id.Source]
	})
}

// maxKept bounds the refused outputs that a task keeps in mind.
const maxKept = 10_000

// limits is what the engine has to know of a task's sinks.
func (w *worker) limits(t *task) []engine.SinkLimit {
	out := make([]engine.SinkLimit, len(t.sub.sinks))
	for i, topic := range t.sub.sinks {
		n := w.app.maxBatch(topic)
		out[i] = engine.SinkLimit{
			MaxBytes: int(n), Closed: t.outputs.closed[i],
			TooLarge: fmt.Errorf("topic %s takes %d: %w; %s", topic, n, kerr.MessageTooLarge, wayOut(kerr.MessageTooLarge, 0)),
		}
	}
	return out
}
