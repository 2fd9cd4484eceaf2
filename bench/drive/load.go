package drive

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/bench/plan"
)

// loadChunk is how many records go into one piece of memory, and, for changelogs, into one transaction.
const loadChunk = 20_000

// load makes a topic and produces n records into it. record appends key and value number i, and returns the timestamp.
func (b *Broker) load(ctx context.Context, topic string, partitions int, compacted bool, n int, record func(i int, key, value []byte) (k, v []byte, at int64)) error {
	if err := b.create(ctx, topic, partitions, compacted); err != nil {
		return err
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(b.Addrs...), kgo.DisableClientMetrics(), kgo.DefaultProduceTopic(topic),
		kgo.ProducerLinger(5 * time.Millisecond), kgo.MaxBufferedRecords(4 * loadChunk), kgo.UnknownTopicRetries(20),
	}
	if compacted { // a changelog: with the markers of transactions, as it is in life
		opts = append(opts, kgo.TransactionalID("load-"+topic))
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer client.Close()
	var failed atomic.Pointer[error]
	promise := func(_ *kgo.Record, err error) {
		if err != nil {
			failed.CompareAndSwap(nil, &err)
		}
	}
	for from := 0; from < n; from += loadChunk {
		if compacted {
			if err := client.BeginTransaction(); err != nil {
				return fmt.Errorf("drive: load %s: %w", topic, err)
			}
		}
		records := make([]kgo.Record, min(loadChunk, n-from))
		room := make([]byte, 0, len(records)*(8+plan.ValueSize))
		for j := range records {
			start := len(room)
			k, v, at := record(from+j, room[start:start], nil)
			room = room[:start+len(k)]
			if v == nil {
				v = plan.AppendValue(room[len(room):], from+j)
				room = room[:len(room)+len(v)]
			}
			records[j] = kgo.Record{Key: k, Value: v, Timestamp: time.UnixMilli(at)}
			client.Produce(ctx, &records[j], promise)
		}
		if compacted {
			if err := client.Flush(ctx); err != nil {
				return fmt.Errorf("drive: load %s: %w", topic, err)
			}
			if err := client.EndTransaction(ctx, kgo.TryCommit); err != nil {
				return fmt.Errorf("drive: load %s: %w", topic, err)
			}
		}
	}
	if err := client.Flush(ctx); err != nil {
		return fmt.Errorf("drive: load %s: %w", topic, err)
	}
	if err := failed.Load(); err != nil {
		return fmt.Errorf("drive: load %s: %w", topic, *err)
	}
	if end, _, err := b.ends(ctx, topic); err != nil || (!compacted && end != int64(n)) {
		return fmt.Errorf("drive: load %s: it has %d records, want %d: %w", topic, end, n, err)
	}
	return nil
}

// loadInput produces a run's records.
func (b *Broker) loadInput(ctx context.Context, topic string, r plan.Run) error {
	return b.load(ctx, topic, r.Partitions, false, r.Records, func(i int, key, _ []byte) ([]byte, []byte, int64) {
		return plan.AppendKey(key, r.Key(i)), nil, r.At(i)
	})
}

// loadJump produces a record a day after the others into each partition.
func (b *Broker) loadJump(ctx context.Context, topic string, r plan.Run) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs...), kgo.DisableClientMetrics(), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer client.Close()
	records := make([]*kgo.Record, r.Partitions)
	for p := range records {
		records[p] = &kgo.Record{
			Partition: int32(p), Key: plan.AppendKey(nil, uint32(p)), Value: plan.AppendValue(nil, r.Records+p), Timestamp: time.UnixMilli(r.Base + plan.Day),
		}
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("drive: produce to %s: %w", topic, err)
	}
	return nil
}

// loadTable produces a row for each key, older than all records.
func (b *Broker) loadTable(ctx context.Context, topic string, r plan.Run) error {
	return b.load(ctx, topic, r.Partitions, true, r.Keys, func(i int, key, _ []byte) ([]byte, []byte, int64) {
		return plan.AppendKey(key, uint32(i)), plan.AppendRow(nil, uint32(i)), r.Base - int64(r.Keys) + int64(i)
	})
}

// loadCounts produces the changelog that the work count would write for the run's records.
func (b *Broker) loadCounts(ctx context.Context, topic string, r plan.Run) error {
	seen := make([]uint64, r.Keys)
	return b.load(ctx, topic, r.Partitions, true, r.Records, func(i int, key, _ []byte) ([]byte, []byte, int64) {
		k := r.Key(i)
		seen[k]++
		return plan.AppendKey(key, k), binary.BigEndian.AppendUint64(nil, seen[k]), r.Base + int64(i)
	})
}

// one produces one record for each key, whose values are their numbers.
func (b *Broker) one(ctx context.Context, topic string, r plan.Run) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs...), kgo.DisableClientMetrics(), kgo.DefaultProduceTopic(topic))
	if err != nil {
		return err
	}
	defer client.Close()
	records := make([]*kgo.Record, r.Keys)
	for i := range records {
		records[i] = &kgo.Record{
			Key: plan.AppendKey(nil, uint32(i)), Value: plan.AppendValue(nil, i), Timestamp: time.UnixMilli(r.Base + int64(r.Records)),
		}
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("drive: produce to %s: %w", topic, err)
	}
	return nil
}

// outputs gives every committed record of a topic to the checker, partition by partition in order.
func (b *Broker) outputs(ctx context.Context, topic string, check plan.Checker) error {
	ends, err := b.admin.ListCommittedOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("drive: read the end of %s: %w", topic, err)
	}
	left := make(map[int32]int64) // the last offset of partitions that are not yet read
	starts := make(map[int32]kgo.Offset)
	for p, o := range ends[topic] {
		if o.Offset > 0 {
			left[p] = o.Offset - 1
			starts[p] = kgo.NewOffset().At(0)
		}
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs...), kgo.DisableClientMetrics(), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // otherwise what ends with the end of a transaction never ends
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: starts}))
	if err != nil {
		return err
	}
	defer client.Close()
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("drive: read %s: %w", topic, err)
		}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			p.EachRecord(func(r *kgo.Record) {
				if !r.Attrs.IsControl() {
					check.Output(r.Key, r.Value)
				}
				if last, ok := left[p.Partition]; ok && r.Offset >= last {
					delete(left, p.Partition)
				}
			})
		})
	}
	return nil
}
