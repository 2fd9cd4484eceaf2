package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/internal/eos"
)

// reader reads the outputs, read-committed, while things fail.
type reader struct {
	client *kgo.Client
	cancel context.CancelFunc
	done   chan struct{}

	mu   sync.Mutex
	seen eos.Seen
	n    counts
}

// counts are what a reader has seen.
type counts struct {
	totals, results, late int
	counted               int // events in windows
}

func newReader(brokers []string, topics ...string) *reader {
	r := &reader{done: make(chan struct{}), seen: make(eos.Seen)}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	from := make(map[string]map[int32]kgo.Offset)
	for _, t := range topics {
		from[t] = make(map[int32]kgo.Offset)
		for p := range int32(eos.Partitions) {
			from[t][p] = kgo.NewOffset().AtStart()
		}
	}
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(brokers...), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumePartitions(from), kgo.FetchMaxWait(250*time.Millisecond))
	if err != nil { // its options are constants
		close(r.done)
		return r
	}
	r.client = cl
	go func() {
		defer close(r.done)
		for ctx.Err() == nil {
			r.take(cl.PollFetches(ctx))
		}
	}()
	return r
}

func (r *reader) take(fetches kgo.Fetches) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fetches.EachRecord(func(rec *kgo.Record) {
		e := eos.FromKgo(rec)
		r.seen.See(e)
		switch e.Topic {
		case eos.Totals:
			r.n.totals++
		case eos.Late:
			r.n.late++
		case eos.Windows:
			r.n.results++
			if v, err := eos.ResultSerde.Decode(e.Value); err == nil {
				r.n.counted += int(v.Count)
			}
		}
	})
}

func (r *reader) counts() counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

// saw ends the reading when it has reached the ends, or has had its time, and returns what was seen.
func (r *reader) saw(final eos.Seen) eos.Seen {
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		r.mu.Lock()
		behind := false
		for at, want := range final {
			behind = behind || len(r.seen[at]) < len(want)
		}
		r.mu.Unlock()
		if !behind {
			break
		}
	}
	r.close()
	return r.seen
}

func (r *reader) close() {
	r.cancel()
	<-r.done
	if r.client != nil {
		r.client.Close()
		r.client = nil
	}
}

// topicLog is what is in a topic: each partition in the order of offsets, and where it begins.
type topicLog struct {
	records [][]eos.Record
	starts  []int64
}

// readAll reads a topic, read-committed, to its end.
func readAll(ctx context.Context, brokers []string, topic string) (topicLog, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.FetchMaxWait(50*time.Millisecond))
	if err != nil {
		return topicLog{}, err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	starts, err := adm.ListStartOffsets(ctx, topic)
	if err != nil {
		return topicLog{}, err
	}
	ends, err := adm.ListCommittedOffsets(ctx, topic)
	if err != nil {
		return topicLog{}, err
	}
	out := topicLog{make([][]eos.Record, eos.Partitions), make([]int64, eos.Partitions)}
	left := make(map[int32]int64)
	from := make(map[int32]kgo.Offset)
	for p := range int32(eos.Partitions) {
		start, _ := starts.Lookup(topic, p)
		end, ok := ends.Lookup(topic, p)
		if !ok || end.Err != nil {
			return topicLog{}, fmt.Errorf("read %s[%d]: no end offset: %w", topic, p, end.Err)
		}
		out.starts[p] = start.Offset
		if start.Offset < end.Offset {
			left[p], from[p] = end.Offset, kgo.NewOffset().At(start.Offset)
		}
	}
	cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: from})
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return topicLog{}, fmt.Errorf("read %s: %w; still to read: %v", topic, err, left)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			end, open := left[r.Partition]
			if open && r.Offset < end && !r.Attrs.IsControl() {
				out.records[r.Partition] = append(out.records[r.Partition], eos.FromKgo(r))
			}
			if open && r.Offset+1 >= end {
				delete(left, r.Partition)
			}
		})
	}
	return out, nil
}
