package framework

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headrace/headrace/internal/engine"
)

// Guarantee says how often what a record does is there in the end.
type Guarantee uint8

const (
	// ExactlyOnce commits outputs, changes of state and positions in one transaction. It is the default.
	ExactlyOnce Guarantee = iota
	// AtLeastOnce writes outputs and changes of state first, and then commits the positions, without transactions. What was written
	// and not committed, because of a crash, a rebalance or a broker's error, is processed and written again: outputs repeat, and
	// aggregates count twice. Nothing is lost, but that a process that was taken for dead may write old state behind its successor's.
	AtLeastOnce
)

// String returns the name that Kafka Streams has for it.
func (g Guarantee) String() string {
	switch g {
	case ExactlyOnce:
		return "exactly_once"
	case AtLeastOnce:
		return "at_least_once"
	}
	return fmt.Sprintf("Guarantee(%d)", uint8(g))
}

// atLeastOnce commits positions when everything before them has been written.
//
// What it is asked to abort has been written, too: nothing takes that back. The tasks are made anew and do it again.
type atLeastOnce struct {
	session *session
	id      string
}

func (a *atLeastOnce) begin() error { return nil }

func (a *atLeastOnce) produce(ctx context.Context, r *kgo.Record, promise func(*kgo.Record, error)) {
	a.session.client.Produce(ctx, r, promise)
}

func (a *atLeastOnce) flush(ctx context.Context) error {
	if err := a.session.client.Flush(ctx); err != nil {
		return fmt.Errorf("framework: flush what %s wrote: %w", a.id, err)
	}
	return nil
}

// commit commits the offsets. A no leaves it open whether the broker has them: the positions carry the number of this commit, and
// reading them back tells.
func (a *atLeastOnce) commit(ctx context.Context, offsets []offset) (bool, error) {
	to := make(map[string]map[int32]kgo.EpochOffset)
	metadata := make(map[topicPartition]*string, len(offsets))
	for i := range offsets {
		o := &offsets[i]
		if to[o.topic] == nil {
			to[o.topic] = make(map[int32]kgo.EpochOffset)
		}
		to[o.topic][o.partition] = kgo.EpochOffset{Epoch: -1, Offset: o.offset}
		metadata[o.topicPartition] = &o.metadata
	}
	ctx = kgo.PreCommitFnContext(ctx, func(req *kmsg.OffsetCommitRequest) error {
		for i := range req.Topics {
			t := &req.Topics[i]
			for j := range t.Partitions {
				t.Partitions[j].Metadata = metadata[topicPartition{t.Topic, t.Partitions[j].Partition}]
			}
		}
		return nil
	})
	var err error
	a.session.client.CommitOffsetsSync(ctx, to, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, failed error) {
		if err = failed; err != nil {
			return
		}
		got := 0
		for i := range resp.Topics {
			for j := range resp.Topics[i].Partitions {
				got++
				if code := resp.Topics[i].Partitions[j].ErrorCode; err == nil && code != 0 {
					err = kerr.ErrorForCode(code)
				}
			}
		}
		if err == nil && got != len(offsets) {
			err = fmt.Errorf("the broker answers for %d partitions, %d were committed", got, len(offsets))
		}
	})
	if err == nil {
		return true, nil
	}
	switch classify(err) {
	case refused:
		return false, fatal("commit the positions of %s: %w", a.id, err)
	case fenced, broken:
		return false, fmt.Errorf("framework: commit the positions of %s: %w", a.id, err)
	}
	return false, nil
}

func (a *atLeastOnce) abort(context.Context) error { return nil }

// reportLast writes the watermark reports of a commit, now that its positions are known to be the group's: a report says how far
// event time is as of them. If it fails the tasks are made anew, and then report again.
func (w *worker) reportLast(ctx context.Context, b *batch) error {
	if w.app.set.Guarantee != AtLeastOnce {
		return nil
	}
	after := &batch{mark: b.mark}
	for i := range b.tasks {
		if t := b.tasks[i].task; t.run != nil {
			w.writer.reports(after, t, b.tasks[i].reports, b.at)
		}
	}
	if after.records == 0 {
		return nil
	}
	err := w.writer.send(ctx, w.commits, after)
	if err == nil {
		err = w.commits.flush(ctx)
	}
	w.writer.reset(err == nil)
	if err != nil {
		return err
	}
	w.tally.Reports += int64(after.reports)
	if err := after.failure(); err != nil {
		return w.abort(ctx, err)
	}
	if err := after.refusal(); err != nil {
		return w.abort(ctx, err)
	}
	return nil
}

// laterReports takes the reports out of a cut that are to be written after the commit.
func (w *writer) laterReports(bt *batchTask, cut *engine.Cut) {
	if w.reportsLast {
		bt.reports, cut.Reports = cut.Reports, nil
	}
}
