package framework

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// committer makes what tasks did lasting. One goroutine at a time uses it: that of a flight, or else the worker. There are two:
// exactlyOnce and atLeastOnce.
type committer interface {
	// begin makes ready for produce.
	begin() error
	// produce hands a record to the client. The promise is called when its fate is known, before commit or abort returns.
	produce(ctx context.Context, r *kgo.Record, promise func(*kgo.Record, error))
	// flush waits until all records that were produced have met their fate.
	flush(ctx context.Context) error
	// commit makes all that was produced and the offsets lasting together. Only (true, nil) says that it did. After any other
	// answer only outcome knows; after an error the committer is of no use besides.
	commit(ctx context.Context, offsets []offset) (bool, error)
	// abort gives up what was produced. After an error the committer is of no use.
	abort(ctx context.Context) error
}

// offset is a position to commit.
type offset struct {
	topicPartition
	offset   int64
	metadata string
}

// verdict says what the group's position in one partition tells of a transaction.
type verdict uint8

const (
	// ours: the transaction has committed.
	ours verdict = iota
	// before: the position is still that of the transaction before.
	before
	// others: somebody else has committed since. The partition is lost.
	others
)

// judge compares what the group has with what was tried and with what was known before. The number of the transaction decides, not
// the offset: a transaction may commit an offset that has not moved.
func judge(got committed, tried, previous mark) verdict {
	switch got.mark() {
	case tried:
		return ours
	case previous:
		return before
	}
	return others
}

// exactlyOnce commits by Kafka's transactions.
type exactlyOnce struct {
	session  *session
	id       string
	produced bool // the open transaction has records
}

func (e *exactlyOnce) begin() error {
	if err := e.session.txn.Begin(); err != nil {
		return fmt.Errorf("framework: begin a transaction of %s: %w", e.id, err)
	}
	e.produced = false
	return nil
}

func (e *exactlyOnce) produce(ctx context.Context, r *kgo.Record, promise func(*kgo.Record, error)) {
	e.produced = true
	e.session.txn.Produce(ctx, r, promise)
}

func (e *exactlyOnce) flush(ctx context.Context) error {
	if err := e.session.Client().Flush(ctx); err != nil {
		return fmt.Errorf("framework: flush the transaction of %s: %w", e.id, err)
	}
	return nil
}

var errNoOffsets = errors.New("framework: the client ended a transaction without the offsets that were to be in it: it may not have been fenced")

func (e *exactlyOnce) commit(ctx context.Context, offsets []offset) (bool, error) {
	if !e.produced {
		e.settled(ctx)
	}
	given := false
	ctx = kgo.PreTxnCommitFnContext(ctx, func(req *kmsg.TxnOffsetCommitRequest) error {
		// What the client would commit is what was polled. It has to be what was processed, of every task that wrote: the broker
		// fences a transaction by its offsets.
		req.Topics = offsetTopics(offsets)
		given = true
		return nil
	})
	ok, err := e.session.txn.End(ctx, kgo.TryCommit)
	switch {
	case err != nil:
		return false, fmt.Errorf("framework: commit a transaction of %s: %w", e.id, err)
	case ok && !given:
		return false, errNoOffsets
	}
	return ok, nil
}

const (
	settlePoll     = 2 * time.Millisecond
	settlePatience = time.Second
)

// settled waits until the coordinator is done with the transaction before. It answers the end of a transaction when its outcome is
// decided, and writes the markers afterwards; what opens the next transaction until then is told CONCURRENT_TRANSACTIONS. A produce is
// tried again, by the broker and by the client, but offsets that open a transaction are not: the client aborts. Whatever goes wrong
// here is no more than that abort.
func (e *exactlyOnce) settled(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, settlePatience)
	defer cancel()
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = []string{e.id}
	for {
		resp, err := req.RequestWith(ctx, e.session.Client())
		if err != nil || len(resp.TransactionStates) != 1 || resp.TransactionStates[0].ErrorCode != 0 {
			return // an old broker, or one that may not tell
		}
		switch resp.TransactionStates[0].State {
		case "PrepareCommit", "PrepareAbort", "PrepareEpochFence":
		default:
			return
		}
		if sleep(ctx, settlePoll) != nil {
			return
		}
	}
}

func (e *exactlyOnce) abort(ctx context.Context) error {
	if _, err := e.session.txn.End(ctx, kgo.TryAbort); err != nil {
		return fmt.Errorf("framework: abort the transaction of %s: %w", e.id, err)
	}
	return nil
}

func offsetTopics(offsets []offset) []kmsg.TxnOffsetCommitRequestTopic {
	var topics []kmsg.TxnOffsetCommitRequestTopic
	at := make(map[string]int)
	for i := range offsets {
		o := &offsets[i]
		k, ok := at[o.topic]
		if !ok {
			t := kmsg.NewTxnOffsetCommitRequestTopic()
			t.Topic = o.topic
			topics = append(topics, t)
			k = len(topics) - 1
			at[o.topic] = k
		}
		p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = o.partition, o.offset, -1, &o.metadata
		topics[k].Partitions = append(topics[k].Partitions, p)
	}
	return topics
}
