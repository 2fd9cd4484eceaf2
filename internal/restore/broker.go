package restore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type partition struct {
	topic string
	part  int32
}

func (p partition) String() string { return fmt.Sprintf("%s[%d]", p.topic, p.part) }

// place says where a partition is to be found.
type place struct {
	id     [16]byte // of the topic
	leader int32
	epoch  int32
}

// log says what there is to read. Offsets below end are what restoring means to read, whether their transactions are over or not.
type log struct {
	place
	start, end int64
}

// logs looks up the partitions.
func (r *Restorer) logs(ctx context.Context, parts []partition) (map[partition]log, error) {
	var logs map[partition]log
	err := r.retry(ctx, func() error {
		places, err := r.places(ctx, parts)
		if err != nil {
			return err
		}
		// The end first: a start taken after it may only be too far ahead, and then the log was trimmed anyhow.
		ends, err := r.offsets(ctx, parts, -1)
		if err != nil {
			return err
		}
		starts, err := r.offsets(ctx, parts, -2)
		if err != nil {
			return err
		}
		logs = make(map[partition]log, len(parts))
		for _, p := range parts {
			logs[p] = log{places[p], starts[p], max(starts[p], ends[p])}
		}
		return nil
	})
	return logs, err
}

// places asks for metadata. A topic or partition that is missing is an error that is worth a retry: it may be news to the broker
// that answers.
func (r *Restorer) places(ctx context.Context, parts []partition) (map[partition]place, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = false
	for i, p := range parts {
		if slices.ContainsFunc(parts[:i], func(q partition) bool { return q.topic == p.topic }) {
			continue
		}
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(p.topic)
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, r.client)
	if err != nil {
		return nil, fmt.Errorf("restore: look up topics: %w", err)
	}
	places := make(map[partition]place, len(parts))
	for _, p := range parts {
		at, err := find(resp, p)
		if err != nil {
			return nil, fmt.Errorf("restore: look up %s: %w", p, err)
		}
		places[p] = at
	}
	return places, nil
}

func find(resp *kmsg.MetadataResponse, want partition) (place, error) {
	for _, t := range resp.Topics {
		if t.Topic == nil || *t.Topic != want.topic {
			continue
		}
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return place{}, err
		}
		for _, p := range t.Partitions {
			if p.Partition == want.part && p.Leader >= 0 {
				return place{t.TopicID, p.Leader, p.LeaderEpoch}, nil
			}
			if p.Partition == want.part {
				return place{}, kerr.LeaderNotAvailable
			}
		}
	}
	return place{}, kerr.UnknownTopicOrPartition
}

// offsets asks the leaders for the start of each log, with -2, or for its end, with -1: the high watermark, beyond open
// transactions.
func (r *Restorer) offsets(ctx context.Context, parts []partition, at int64) (map[partition]int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	topics := map[string]int{}
	for _, p := range parts {
		i, ok := topics[p.topic]
		if !ok {
			i = len(req.Topics)
			topics[p.topic] = i
			t := kmsg.NewListOffsetsRequestTopic()
			t.Topic = p.topic
			req.Topics = append(req.Topics, t)
		}
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition, rp.Timestamp = p.part, at
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, rp)
	}
	resp, err := req.RequestWith(ctx, r.client)
	if err != nil {
		return nil, fmt.Errorf("restore: list offsets: %w", err)
	}
	offsets := make(map[partition]int64, len(parts))
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return nil, fmt.Errorf("restore: list offsets of %s[%d]: %w", t.Topic, p.Partition, err)
			}
			offsets[partition{t.Topic, p.Partition}] = p.Offset
		}
	}
	for _, p := range parts {
		if _, ok := offsets[p]; !ok {
			return nil, fmt.Errorf("restore: list offsets of %s: %w", p, kerr.UnknownTopicOrPartition)
		}
	}
	return offsets, nil
}

// fetched is what one fetch brought.
type fetched struct {
	records []*kgo.Record // committed ones and markers
	next    int64         // the offset to fetch next
	epoch   int32         // of the last batch below the bound, -1 if there was none
	stable  int64         // the last stable offset
	err     error         // what is wrong at next
}

// errDiverged says that the log was cut at a change of leaders and written anew from there: what was read is not in it any more.
var errDiverged = errors.New("the log was truncated below the position")

// fetch reads committed records from offset on. epoch is that of the record before it, -1 if unknown; batches from bound on do
// not count for the epoch.
func (r *Restorer) fetch(ctx context.Context, p partition, at place, offset int64, epoch int32, bound int64) (fetched, error) {
	return r.fetchAt(ctx, isolation, isolationLevel(), p, at, offset, epoch, bound)
}

// fetchAt is fetch at an isolation level, which Kafka and the client each have an own name for.
func (r *Restorer) fetchAt(ctx context.Context, isolation int8, level kgo.IsolationLevel, p partition, at place, offset int64, epoch int32, bound int64) (fetched, error) {
	req := kmsg.NewPtrFetchRequest()
	req.IsolationLevel = isolation
	req.MaxBytes = r.fetchBytes
	// No long poll: whatever we want to read is there already, or waits for a transaction to end. Fetches of all partitions share
	// a connection on which one that waits keeps the others waiting.
	req.MaxWaitMillis, req.MinBytes = 0, 0
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = p.part, offset, r.fetchBytes
	rp.CurrentLeaderEpoch, rp.LastFetchedEpoch = at.epoch, epoch
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = p.topic, at.id
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)

	kresp, err := r.client.askLeader(ctx, at.leader, req)
	if err != nil {
		return fetched{}, err
	}
	resp := kresp.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return fetched{}, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return fetched{}, errThrottled
	}
	got := &resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(got.ErrorCode); err != nil {
		return fetched{}, err
	}
	if got.DivergingEpoch.EndOffset >= 0 {
		return fetched{}, errDiverged
	}
	opts := kgo.ProcessFetchPartitionOpts{
		KeepControlRecords: true, Offset: offset, IsolationLevel: level, Topic: p.topic, Partition: p.part,
	}
	fp, next := kgo.ProcessFetchPartition(opts, got, r.decompressor, nil)
	f := fetched{records: fp.Records, next: next, epoch: lastEpoch(got.RecordBatches, min(next, bound)), stable: got.LastStableOffset, err: fp.Err}
	if f.err == nil && next == offset && len(got.RecordBatches) > 0 {
		f.err = fmt.Errorf("%d bytes of record batches hold nothing that can be read", len(got.RecordBatches))
	}
	return f, nil
}

// errThrottled is an answer without the partition: over its quota, a client is answered nothing.
var errThrottled = errors.New("the broker has answered without the partition")

// lastEpoch returns the leader epoch of the last batch that starts below offset, from the heads of the batches: a batch that was
// aborted leaves no record to ask.
func lastEpoch(batches []byte, offset int64) int32 {
	epoch := int32(-1)
	for len(batches) > 17 {
		base, length := int64(binary.BigEndian.Uint64(batches)), int64(int32(binary.BigEndian.Uint32(batches[8:])))+12
		if base >= offset || batches[16] != 2 || length <= 12 {
			break
		}
		epoch = int32(binary.BigEndian.Uint32(batches[12:]))
		if length > int64(len(batches)) {
			break
		}
		batches = batches[length:]
	}
	return epoch
}

// retry tries again as long as an error may pass.
func (r *Restorer) retry(ctx context.Context, fn func() error) error {
	for n := 1; ; n++ {
		err := fn()
		if err == nil || !retriable(ctx, err) || n >= r.attempts {
			return err
		}
		if err := pause(ctx, n); err != nil {
			return err
		}
	}
}

// retriable says whether an error may pass: the broker's own judgement, and every failure to reach a broker.
func retriable(ctx context.Context, err error) bool {
	if ctx.Err() != nil || errors.Is(err, kgo.ErrClientClosed) {
		return false
	}
	if ke, ok := errors.AsType[*kerr.Error](err); ok {
		return ke.Retriable
	}
	return true
}
