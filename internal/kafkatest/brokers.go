package kafkatest

import (
	"context"
	"testing"

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
	return readCommitted(t, []kgo.Opt{kgo.SeedBrokers(b...)}, topics)
}
