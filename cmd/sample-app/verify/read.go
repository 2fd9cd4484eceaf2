package verify

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// How far readCommitted reads: to the last stable offset that it finds, or to the end of the log, for which it waits
// until no transaction is open below it.
const (
	stable  = false
	settled = true
)

// patience is how long a reader waits without any progress before it gives up.
const patience = 30 * time.Second

// readCommitted hands each committed record of the topic to each, in the order of its partition.
//
// A client tells only of fetches that have records or an error, so two facts need care. A partition may end in the marker of a
// transaction, or in aborted records before one: markers are kept here, so that the last offset is always seen. And an empty partition
// would be silence for ever: therefore a second client asks every partition for offset 1, which is out of range exactly if
// there are no offsets 0 and 1. A partition with one entry is silent there, but speaks to the first client.
func readCommitted(ctx context.Context, reach []kgo.Opt, topic string, wait bool, each func(*kgo.Record)) error {
	reader, err := newReader(reach, topic, kgo.NewOffset().AtStart())
	if err != nil {
		return err
	}
	defer reader.Close()
	probe, err := newReader(reach, topic, kgo.NewOffset().At(1), kgo.FetchMaxPartitionBytes(1))
	if err != nil {
		return err
	}
	defer probe.Close()

	ctx, cancel := context.WithCancel(ctx)
	var polls sync.WaitGroup
	defer polls.Wait()
	defer cancel()
	read, probed := make(chan kgo.Fetches), make(chan kgo.Fetches)
	polls.Go(func() { poll(ctx, reader, read) })
	polls.Go(func() { poll(ctx, probe, probed) })

	progress := progress{wait: wait, parts: map[int32]*part{}}
	idle := time.NewTimer(patience)
	defer idle.Stop()
	for {
		var from *kgo.Client
		var failed error
		select {
		case fs := <-read:
			from = reader
			fs.EachPartition(func(p kgo.FetchTopicPartition) {
				if p.Err != nil && failed == nil {
					failed = p.Err
				}
				progress.read(p)
				for _, r := range p.Records {
					if !r.Attrs.IsControl() {
						each(r)
					}
				}
			})
		case fs := <-probed:
			from = probe
			fs.EachPartition(func(p kgo.FetchTopicPartition) {
				// The probe has said what it had to say of this partition; do not read it all twice.
				probe.PauseFetchPartitions(map[string][]int32{topic: {p.Partition}})
				switch {
				case p.Err == nil:
				case strings.HasPrefix(p.Err.Error(), "OFFSET_OUT_OF_RANGE"): // kgo itself has no name for it
					progress.empty(p.Partition)
				case failed == nil:
					failed = p.Err
				}
			})
		case <-idle.C:
			return fmt.Errorf("topic %q: nothing came for %v, after %s: is a transaction still open, or the topic missing?", topic, patience, &progress)
		case <-ctx.Done():
			return fmt.Errorf("topic %q: stopped after %s: %w", topic, &progress, ctx.Err())
		}
		if failed != nil {
			return fmt.Errorf("topic %q: %w", topic, failed)
		}
		// Whoever brought something knows the topic, and so how many partitions must be done.
		n, err := partitionsOf(from, topic)
		if err != nil {
			return fmt.Errorf("topic %q: %w", topic, err)
		}
		if progress.done(n) {
			return nil
		}
		idle.Reset(patience)
	}
}

func newReader(reach []kgo.Opt, topic string, from kgo.Offset, more ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(slices.Concat(reach, []kgo.Opt{
		kgo.ConsumeTopics(topic),
		kgo.ConsumeStartOffset(from),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), // an error, rather than a silent jump
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(),
		kgo.FetchMaxWait(100 * time.Millisecond),
	}, more)...)
}

func poll(ctx context.Context, c *kgo.Client, to chan<- kgo.Fetches) {
	for {
		fs := c.PollFetches(ctx)
		if ctx.Err() != nil {
			return
		}
		select {
		case to <- fs:
		case <-ctx.Done():
			return
		}
	}
}

// partitionsOf counts the partitions of a topic that the client consumes and has metadata of.
func partitionsOf(c *kgo.Client, topic string) (int, error) {
	for n := int32(0); ; n++ {
		leader, _, err := c.PartitionLeader(topic, n)
		if err != nil {
			return 0, err
		}
		if leader < 0 {
			return int(n), nil
		}
	}
}

// progress knows how far a topic has been read.
type progress struct {
	wait  bool
	parts map[int32]*part
}

type part struct {
	next   int64 // the offset behind what was read
	target int64 // the offset to reach, as of the first look
}

func (s *progress) read(p kgo.FetchTopicPartition) {
	if p.Err != nil {
		return
	}
	have := s.parts[p.Partition]
	if have == nil {
		have = &part{target: p.HighWatermark}
		if !s.wait && p.LastStableOffset >= 0 {
			have.target = p.LastStableOffset
		}
		s.parts[p.Partition] = have
	}
	have.next = max(have.next, p.LogStartOffset)
	if n := len(p.Records); n > 0 {
		have.next = p.Records[n-1].Offset + 1
	}
}

func (s *progress) empty(partition int32) {
	if s.parts[partition] == nil {
		s.parts[partition] = &part{}
	}
}

func (s *progress) done(partitions int) bool {
	for _, p := range s.parts {
		if p.next < p.target {
			return false
		}
	}
	return partitions > 0 && len(s.parts) >= partitions
}

func (s *progress) String() string {
	var behind []string
	for n, p := range s.parts {
		if p.next < p.target {
			behind = append(behind, fmt.Sprintf("partition %d at %d of %d", n, p.next, p.target))
		}
	}
	if len(behind) == 0 {
		return fmt.Sprintf("answers from %d partitions", len(s.parts))
	}
	return strings.Join(behind, ", ")
}
