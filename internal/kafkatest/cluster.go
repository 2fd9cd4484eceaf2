// Package kafkatest helps tests that talk to an embedded broker: a cluster on a network in memory, as a synctest bubble needs it,
// and readers of what has been committed.
package kafkatest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/internal/wiretap"
)

// Cluster is a broker in memory.
type Cluster struct {
	*kfake.Cluster
	t        testing.TB // whose cleanup runs inside the bubble
	network  kfake.VirtualNetwork
	producer *kgo.Client

	connections connections
}

// Start starts a cluster of one broker. It is closed when the test ends, inside a bubble before the bubble does.
func Start(t testing.TB, opts ...kfake.Opt) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	k, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(c.listen)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	c.Cluster = k
	t.Cleanup(k.Close)
	return c
}

// Options are what a client needs to reach the cluster, but for the brokers.
func (c *Cluster) Options() []kgo.Opt { return []kgo.Opt{kgo.Dialer(c.network.DialContext)} }

// WithTLS are the options of a client that speaks TLS.
func (c *Cluster) WithTLS(conf *tls.Config) []kgo.Opt {
	return []kgo.Opt{kgo.Dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		plain, err := c.network.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		conn := tls.Client(plain, conf)
		if err := conn.HandshakeContext(ctx); err != nil {
			_ = plain.Close() // the handshake says what went wrong
			return nil, err
		}
		return conn, nil
	})}
}

// Through are the options of a client whose connections pass through wire.
func (c *Cluster) Through(wire *wiretap.Wire) []kgo.Opt {
	return []kgo.Opt{kgo.Dialer(wire.Dialer(c.network.DialContext))}
}

// Client makes a client. It is closed when the test ends.
func (c *Cluster) Client(t testing.TB, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(append(c.Options(), kgo.SeedBrokers(c.ListenAddrs()...), kgo.DisableClientMetrics()), opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// Produce writes records to the partitions that they name.
func (c *Cluster) Produce(t testing.TB, records ...*kgo.Record) {
	t.Helper()
	if c.producer == nil {
		c.producer = c.Client(c.t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	}
	if err := c.producer.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// Count counts the committed records of a topic as they come. The result may be called at any time until the test ends.
func (c *Cluster) Count(t testing.TB, topic string) func() int {
	t.Helper()
	cl := c.Client(t, kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	var n atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			n.Add(int64(cl.PollFetches(ctx).NumRecords()))
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return func() int { return int(n.Load()) }
}

// ReadCommitted returns all committed records of the topics, partition by partition in the order of offsets, up to where open
// transactions begin.
func (c *Cluster) ReadCommitted(t testing.TB, topics ...string) []*kgo.Record {
	t.Helper()
	return readCommitted(t, append(c.Options(), kgo.SeedBrokers(c.ListenAddrs()...)), topics)
}

// Fold returns the last value of each key, without the keys whose last value is null: what a store restored from a changelog holds.
func Fold(records []*kgo.Record) map[string]string {
	out := make(map[string]string)
	for _, r := range records {
		if r.Value == nil {
			delete(out, string(r.Key))
			continue
		}
		out[string(r.Key)] = string(r.Value)
	}
	return out
}

// Committed returns the group's committed offsets as topic[partition] → offset. It does not wait for open
// transactions. Of a group that does not exist yet it returns none.
func (c *Cluster) Committed(t testing.TB, group string) map[string]int64 {
	t.Helper()
	cl, err := kgo.NewClient(append(c.Options(), kgo.SeedBrokers(c.ListenAddrs()...), kgo.DisableClientMetrics())...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	offsets, err := kadm.NewClient(cl).FetchOffsets(context.Background(), group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		t.Fatal(err)
	}
	out := make(map[string]int64)
	for topic, partitions := range maps.All(offsets) {
		for p, o := range partitions {
			out[fmt.Sprintf("%s[%d]", topic, p)] = o.At
		}
	}
	return out
}
