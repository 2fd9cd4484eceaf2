package framework

import (
	"context"
	"time"

	"github.com/headrace/headrace/internal/graph"
)

// lookTimeout bounds a look at the ends of a partition while the group waits for us.
const lookTimeout = 5 * time.Second

// lost decides on input that retention has deleted before it was processed, from one offset up to another.
func (a *App) lost(tp topicPartition, from, to int64) error {
	if !a.set.SkipLostInput {
		return fatal("%d offsets of %s[%d], from %d up to %d, were deleted before they were processed: the topic's retention is shorter than the app was behind, "+
			"and what they would have done is missing for good; give the topic a longer retention.ms, or accept the loss with Config.SkipLostInput",
			to-from, tp.topic, tp.partition, from, to)
	}
	a.log.Error("input was deleted before it was processed: the topic's retention is too short",
		"topic", tp.topic, "partition", tp.partition, "from", from, "to", to, "offsets", to-from)
	return nil
}

// lookOutside deals with partitions of which the broker says that it does not have the position.
func (w *worker) lookOutside(ctx context.Context) error {
	outside := w.outside
	w.outside = nil
	for _, tp := range outside {
		in := w.routes[tp]
		if in == nil {
			continue // when its task runs, the client is told where to start
		}
		if err := w.outOfRange(ctx, in); err != nil {
			return err
		}
	}
	return nil
}

func (w *worker) outOfRange(ctx context.Context, in *input) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	tp := in.topicPartition
	parts := []topicPartition{tp}
	// Whoever has taken the partition over without our knowing may have had what we have not.
	position, err := fetchCommitted(ctx, w.app.client, w.app.set.AppID, w.app.layout.topics, parts, nil)
	if err == nil && position[tp].mark() != in.mark {
		return nil
	}
	var starts, ends map[topicPartition]int64
	if err == nil {
		starts, err = listOffset(ctx, w.app.adm, logStart, parts)
	}
	if err == nil {
		ends, err = listOffset(ctx, w.app.adm, stableEnd, parts)
	}
	switch {
	case err != nil:
		if isFatal(err) {
			return err
		}
		w.noteErr("look for the ends of an input", err)
	case in.pushed > ends[tp]:
		return fatal("the position in %s[%d] is %d, behind the topic's end at %d: the topic was deleted and made again, or its broker has lost records; "+
			"reset the group's offsets for it, and delete the app's internal topics if state depends on it", tp.topic, tp.partition, in.pushed, ends[tp])
	case in.pushed < starts[tp]:
		if err := w.app.lost(tp, in.pushed, starts[tp]); err != nil {
			return err
		}
		w.tally.Lost += starts[tp] - in.pushed
		w.pass(in, starts[tp])
	}
	w.position(in.task) // the client has given the partition up
	return nil
}

// pass moves an input on to an offset, before which there is nothing more.
func (w *worker) pass(in *input, to int64) {
	in.task.run.Push(in.source, graph.Raw{Topic: in.topic, Partition: in.partition, Offset: to - 1, Control: true})
	in.pushed = to
	w.idle = false
}
