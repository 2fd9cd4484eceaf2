package peer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/bench/plan"
)

const (
	rawCommit = 100 * time.Millisecond
	rawPoll   = 10_000
)

// rawOptions are the client's settings. Sizes and linger are those of this project's own clients, so that a difference between the two
// is none of the client's settings.
func rawOptions(s *plan.Spec, say *speaker) []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(s.Brokers...), kgo.ClientID(s.App), kgo.DisableClientMetrics(), kgo.WithHooks(say),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.MetadataMinAge(250 * time.Millisecond), kgo.FetchMaxWait(250 * time.Millisecond), kgo.FetchMaxBytes(16 << 20), kgo.FetchMaxPartitionBytes(1 << 20),
		kgo.ProducerLinger(5 * time.Millisecond), kgo.MaxBufferedRecords(1 << 20),
		kgo.ProducerBatchCompression(kgo.SnappyCompression(), kgo.NoCompression()),
	}
}

// raw consumes and produces what a framework would, in transactions, and computes nothing.
func raw(ctx context.Context, s *plan.Spec, say *speaker) error {
	if s.Work == "restore" {
		say.settings("a plain read-committed consumer of the changelog")
		return rawRestore(ctx, s, say)
	}
	produce, err := rawProduces(s)
	if err != nil {
		return err
	}
	say.settings("GroupTransactSession, a commit every %v, linger 5 ms, snappy", rawCommit)
	session, err := kgo.NewGroupTransactSession(append(rawOptions(s, say),
		kgo.ConsumerGroup(s.App), kgo.ConsumeTopics(s.Input), kgo.TransactionalID(fmt.Sprintf("%s-%d", s.App, s.Instance)),
		kgo.HeartbeatInterval(500*time.Millisecond),
		kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) { say.now(plan.Ready) }),
	)...)
	if err != nil {
		return err
	}
	defer session.Close()
	var failed atomic.Pointer[error]
	promise := func(_ *kgo.Record, err error) {
		if err != nil {
			failed.CompareAndSwap(nil, &err)
		}
	}
	for ctx.Err() == nil {
		if err := session.Begin(); err != nil {
			return err
		}
		var deadline time.Time // after the first record
		for ctx.Err() == nil && (deadline.IsZero() || time.Now().Before(deadline)) {
			fetches := pollUntil(ctx, session, deadline)
			if err := fetches.Err0(); err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
				return err
			}
			if deadline.IsZero() && !fetches.Empty() {
				deadline = time.Now().Add(rawCommit)
			}
			fetches.EachRecord(func(r *kgo.Record) { produce(ctx, session, r, promise) })
		}
		if _, err := session.End(context.Background(), kgo.TryCommit); err != nil {
			return err
		}
		if err := failed.Load(); err != nil {
			return *err
		}
	}
	return ctx.Err()
}

func pollUntil(ctx context.Context, session *kgo.GroupTransactSession, deadline time.Time) kgo.Fetches {
	if !deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	return session.PollRecords(ctx, rawPoll)
}

type produceFunc func(context.Context, *kgo.GroupTransactSession, *kgo.Record, func(*kgo.Record, error))

// rawProduces are the records that the work's outputs and changelog consist of, of the same sizes.
func rawProduces(s *plan.Spec) (produceFunc, error) {
	out := func(key, value []byte, r *kgo.Record) *kgo.Record {
		return &kgo.Record{Topic: s.Output, Key: key, Value: value, Timestamp: r.Timestamp}
	}
	changelog := func(key, value []byte, r *kgo.Record) *kgo.Record {
		return &kgo.Record{Topic: s.Changelog, Key: key, Value: value, Timestamp: r.Timestamp}
	}
	switch s.Work {
	case "map":
		return func(ctx context.Context, c *kgo.GroupTransactSession, r *kgo.Record, promise func(*kgo.Record, error)) {
			if plan.Keep(r.Value) {
				c.Produce(ctx, out(r.Key, marked(r.Value), r), promise)
			}
		}, nil
	case "count", "count-zipf":
		return func(ctx context.Context, c *kgo.GroupTransactSession, r *kgo.Record, promise func(*kgo.Record, error)) {
			c.Produce(ctx, changelog(r.Key, r.Value[:8], r), promise)
			c.Produce(ctx, out(r.Key, r.Value[:8], r), promise)
		}, nil
	case "tumbling":
		return func(ctx context.Context, c *kgo.GroupTransactSession, r *kgo.Record, promise func(*kgo.Record, error)) {
			start := uint64(r.Timestamp.UnixMilli()) / plan.Window * plan.Window
			key := make([]byte, 20) // key, start and a sequence number, as in the changelog of a window store
			copy(key, r.Key)
			binary.BigEndian.PutUint64(key[8:], start)
			c.Produce(ctx, changelog(key, r.Value[:8], r), promise)
			c.Produce(ctx, out(key[:16], r.Value[:8], r), promise)
		}, nil
	case "join":
		row := make([]byte, 8)
		return func(ctx context.Context, c *kgo.GroupTransactSession, r *kgo.Record, promise func(*kgo.Record, error)) {
			c.Produce(ctx, out(r.Key, joined(r.Value, row), r), promise)
		}, nil
	case "latency":
		return func(ctx context.Context, c *kgo.GroupTransactSession, r *kgo.Record, promise func(*kgo.Record, error)) {
			c.Produce(ctx, changelog(r.Key, r.Value, r), promise)
			c.Produce(ctx, out(r.Key, r.Value, r), promise)
		}, nil
	default:
		return nil, fmt.Errorf("peer: %s does not do the work %s", s.Peer, s.Work)
	}
}

// rawRestore reads the changelog to its end, and keeps nothing.
func rawRestore(ctx context.Context, s *plan.Spec, say *speaker) error {
	client, err := kgo.NewClient(append(rawOptions(s, say), kgo.ConsumeTopics(s.Changelog))...)
	if err != nil {
		return err
	}
	defer client.Close()
	n, sum := 0, uint64(0)
	for {
		fetches := client.PollRecords(ctx, rawPoll)
		if err := fetches.Err0(); err != nil {
			return err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			n++
			sum += binary.BigEndian.Uint64(r.Value)
		})
		if n == s.Params.Records {
			say.now(plan.Restored, n, sum)
		}
	}
}
