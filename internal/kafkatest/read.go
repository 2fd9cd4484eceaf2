package kafkatest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// readCommitted reads with a client of its own: reach says how to come to the brokers.
func readCommitted(t testing.TB, reach []kgo.Opt, topics []string) []*kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cl, err := kgo.NewClient(append(reach, kgo.DisableClientMetrics(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.FetchMaxWait(50*time.Millisecond))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	starts, err := adm.ListStartOffsets(ctx, topics...)
	if err != nil {
		t.Fatal(err)
	}
	ends, err := adm.ListCommittedOffsets(ctx, topics...)
	if err != nil {
		t.Fatal(err)
	}
	type place struct {
		topic     string
		partition int32
	}
	left := make(map[place]int64)
	from := make(map[string]map[int32]kgo.Offset)
	ends.Each(func(end kadm.ListedOffset) {
		if end.Err != nil {
			t.Fatalf("offsets of %s[%d]: %v", end.Topic, end.Partition, end.Err)
		}
		start, _ := starts.Lookup(end.Topic, end.Partition)
		if start.Offset >= end.Offset {
			return
		}
		if from[end.Topic] == nil {
			from[end.Topic] = make(map[int32]kgo.Offset)
		}
		left[place{end.Topic, end.Partition}] = end.Offset
		from[end.Topic][end.Partition] = kgo.NewOffset().At(start.Offset)
	})
	cl.AddConsumePartitions(from)
	var out []*kgo.Record
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatalf("read %v: %v; still to read: %v", topics, err, left)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			at := place{r.Topic, r.Partition}
			end, open := left[at]
			if !open {
				return
			}
			if r.Offset < end && !r.Attrs.IsControl() {
				out = append(out, r)
			}
			if r.Offset+1 >= end {
				delete(left, at)
			}
		})
	}
	slices.SortStableFunc(out, func(a, b *kgo.Record) int {
		if a.Topic != b.Topic {
			return strings.Compare(a.Topic, b.Topic)
		}
		if a.Partition != b.Partition {
			return int(a.Partition) - int(b.Partition)
		}
		return int(a.Offset - b.Offset)
	})
	return out
}
