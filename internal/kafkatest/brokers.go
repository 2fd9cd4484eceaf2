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

// Brokers are the addresses of a cluster on the machine's own network, such as a real Kafka.
type Brokers []string

// Client makes a client. It is closed when the test ends.
func (b Brokers) Client(t testing.TB, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b...), kgo.DisableClientMetrics()}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// Produce writes records to the partitions that they name.
func (b Brokers) Produce(t testing.TB, records ...*kgo.Record) {
	t.Helper()
	cl := b.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer cl.Close()
	if err := cl.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// ReadCommitted returns all committed records of the topics, partition by partition in the order of offsets, up to where open
// transactions begin. A log whose last records were compacted away is not for it: it would wait for them in vain.
func (b Brokers) ReadCommitted(t testing.TB, topics ...string) []*kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cl := b.Client(t, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.FetchMaxWait(50*time.Millisecond))
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
