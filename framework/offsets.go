package framework

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headrace/headrace/internal/wire"
)

// mark names the transaction that committed an offset. The zero mark is that of no transaction of ours.
type mark struct {
	transactionalID string
	sequence        uint64
}

// committed is the group's position in a partition, with what its metadata carries.
type committed struct {
	offset int64 // -1 if there is none
	commit wire.Commit
	away   *wire.Reference // where the rest of commit is, if it is not here
}

func (c committed) mark() mark {
	return mark{c.commit.TransactionalID, c.commit.Sequence}
}

func (c *committed) decode(metadata string) error {
	ref, away, err := wire.DecodeReference(metadata)
	if err != nil {
		return err
	}
	if away {
		c.away, c.commit = &ref, wire.Commit{TransactionalID: ref.TransactionalID, Sequence: ref.Sequence}
		return nil
	}
	commit, ours, err := wire.DecodeCommit(metadata)
	if ours {
		c.commit = commit
	}
	return err
}

// unstableWait is how long to wait for a transaction that has the offset pending.
const unstableWait = 20 * time.Millisecond

// fetchCommitted reads the group's positions. It waits for open transactions that have one pending to end, however long that
// takes: until then nobody can tell what the position is. pending, if not nil, is told which those are after each look, none at the
// last.
func fetchCommitted(ctx context.Context, cl *kgo.Client, group string, topics map[string]topicInfo, parts []topicPartition, pending func([]topicPartition)) (map[topicPartition]committed, error) {
	out := make(map[topicPartition]committed, len(parts))
	left := parts
	for wait := unstableWait; ; wait = min(2*wait, 500*time.Millisecond) {
		unstable, err := fetchStable(ctx, cl, group, topics, left, out)
		if err != nil {
			return nil, fmt.Errorf("framework: read the committed offsets of group %s: %w", group, err)
		}
		if pending != nil {
			pending(unstable)
		}
		if len(unstable) == 0 {
			return out, nil
		}
		left = unstable
		if err := sleep(ctx, wait); err != nil {
			return nil, fmt.Errorf("framework: group %s: partition %s[%d] is in an open transaction of its last owner: %w", group, left[0].topic, left[0].partition, err)
		}
	}
}

// fetchStable reads once, and returns the partitions whose position is pending.
func fetchStable(ctx context.Context, cl *kgo.Client, group string, topics map[string]topicInfo, parts []topicPartition, out map[topicPartition]committed) ([]topicPartition, error) {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable = true
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	byTopic := make(map[string][]int32)
	names := make(map[[16]byte]string)
	for _, tp := range parts {
		byTopic[tp.topic] = append(byTopic[tp.topic], tp.partition)
	}
	for topic, partitions := range byTopic {
		t := kmsg.NewOffsetFetchRequestGroupTopic()
		// From version 10 on, topics go by their ids.
		t.Topic, t.TopicID, t.Partitions = topic, topics[topic].id, partitions
		names[t.TopicID] = topic
		g.Topics = append(g.Topics, t)
	}
	req.Groups = append(req.Groups, g)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	if len(resp.Groups) != 1 {
		return nil, fmt.Errorf("the broker answers for %d groups", len(resp.Groups))
	}
	if err := errors.Join(kerr.ErrorForCode(resp.ErrorCode), kerr.ErrorForCode(resp.Groups[0].ErrorCode)); err != nil {
		return nil, err
	}
	var unstable []topicPartition
	asked := 0
	for i := range resp.Groups[0].Topics {
		t := &resp.Groups[0].Topics[i]
		if t.Topic == "" {
			t.Topic = names[t.TopicID]
		}
		for j := range t.Partitions {
			p := &t.Partitions[j]
			tp := topicPartition{t.Topic, p.Partition}
			asked++
			switch err := kerr.ErrorForCode(p.ErrorCode); {
			case errors.Is(err, kerr.UnstableOffsetCommit):
				unstable = append(unstable, tp)
				continue
			case err != nil:
				return nil, fmt.Errorf("%s[%d]: %w", tp.topic, tp.partition, err)
			}
			c := committed{offset: max(p.Offset, -1)}
			if p.Metadata != nil {
				if err := c.decode(*p.Metadata); err != nil {
					return nil, fatal("the metadata of the committed offset of %s[%d] cannot be read: %w", tp.topic, tp.partition, err)
				}
			}
			out[tp] = c
		}
	}
	if asked != len(parts) {
		return nil, fmt.Errorf("the broker answers for %d partitions, asked for %d", asked, len(parts))
	}
	return unstable, nil
}

// bound says which end of a partition is meant.
type bound uint8

const (
	logStart  bound = iota
	stableEnd       // the last stable offset: all that read-committed readers can see
	logEnd          // the high watermark, behind open transactions
)

// listOffset returns an end of each partition.
func listOffset(ctx context.Context, adm *kadm.Client, which bound, parts []topicPartition) (map[topicPartition]int64, error) {
	out := make(map[topicPartition]int64, len(parts))
	if len(parts) == 0 {
		return out, nil
	}
	topics := make(map[string]bool)
	var names []string
	for _, tp := range parts {
		if !topics[tp.topic] {
			topics[tp.topic] = true
			names = append(names, tp.topic)
		}
	}
	list := adm.ListStartOffsets
	switch which {
	case stableEnd:
		list = adm.ListCommittedOffsets
	case logEnd:
		list = adm.ListEndOffsets
	}
	listed, err := list(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("framework: list offsets of %v: %w", names, err)
	}
	for _, tp := range parts {
		o, ok := listed.Lookup(tp.topic, tp.partition)
		if !ok {
			return nil, fmt.Errorf("framework: list offsets: the broker does not know %s[%d]", tp.topic, tp.partition)
		}
		if o.Err != nil {
			return nil, fmt.Errorf("framework: list offsets of %s[%d]: %w", tp.topic, tp.partition, o.Err)
		}
		out[tp] = o.Offset
	}
	return out, nil
}

// sleep waits, or returns why not.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
