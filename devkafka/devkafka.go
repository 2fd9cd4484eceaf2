// Package devkafka runs brokers for developing, for demos and for tests, without a container: one in this process, and a real one.
//
// [Start] runs an embedded broker: the Kafka protocol over TCP on 127.0.0.1, in this process, up in milliseconds. Clients of every
// language can use it, with transactions and consumer groups. It is not a Kafka to trust with data, nor one to prove a service on:
//
//   - One node, no replication, no security. What was written lives in memory, or in Config.DataDir without fsync.
//   - A topic without a retention of its own keeps everything; a real broker's default deletes after seven days.
//   - Record timestamps have no bounds. A real broker refuses, by default, records stamped more than an hour ahead.
//   - Transactions end at once. A real broker takes a while and says CONCURRENT_TRANSACTIONS meanwhile, and it makes the first
//     write of the next transaction wait.
//   - Streams groups, tiered storage and quotas are missing. Nothing is known of its speed: measure on a real broker.
//
// [StartKafka] runs Apache Kafka itself, a single node in a Java process of its own, up in about five seconds. It is for integration
// tests, those of this library and those of the services that use it: compaction, retention, bounds of timestamps, the timing of
// transactions and what a broker's crash leaves behind are the real ones. What one node cannot show is replication. It needs Java,
// and Maven the first time; a test that uses it is well kept behind a build tag:
//
//	//go:build kafka
//
//	func TestOrders(t *testing.T) {
//		kafka, err := devkafka.StartKafka(devkafka.KafkaConfig{Topics: map[string]int32{"orders": 4}})
//		if err != nil {
//			t.Fatal(err)
//		}
//		t.Cleanup(kafka.Close)
//		// kafka.Addrs() are the brokers to use.
//	}
package devkafka

import (
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Config says what broker Start makes. The zero Config is a broker in memory, on a free port, without topics.
type Config struct {
	// Port is the TCP port on 127.0.0.1. 0, the default, takes a free one.
	Port int
	// Topics are created, with that many partitions, unless DataDir has them already.
	Topics map[string]int32
	// DataDir is a directory that keeps topics, records, groups and transactions from one Start to the next, as of Close or the last
	// write that the operating system saw. It is created if needed and may serve one broker at a time; nothing checks that.
	// Empty, the default, keeps everything in memory.
	DataDir string
}

// Broker is a running broker. It is safe for concurrent use.
type Broker struct {
	cluster *kfake.Cluster
	addrs   []string
}

// Start starts a broker. It accepts connections when Start returns; end it with Close.
//
// It fails if the port is taken, if DataDir cannot be read, or if a topic there has another number of partitions.
func Start(c Config) (*Broker, error) {
	for topic, partitions := range c.Topics {
		if partitions < 1 {
			return nil, fmt.Errorf("devkafka: topic %s: %d partitions; a topic has at least one", topic, partitions)
		}
	}
	opts := []kfake.Opt{kfake.Ports(c.Port), kfake.ClusterID("devkafka")}
	if c.DataDir != "" {
		opts = append(opts, kfake.DataDir(c.DataDir))
	}
	cluster, err := kfake.NewCluster(opts...)
	if err != nil {
		return nil, fmt.Errorf("devkafka: start on port %d, data directory %q: %w", c.Port, c.DataDir, err)
	}
	b := &Broker{cluster: cluster, addrs: cluster.ListenAddrs()}
	for _, topic := range slices.Sorted(maps.Keys(c.Topics)) {
		if err := b.create(topic, c.Topics[topic], c.DataDir); err != nil {
			b.Close()
			return nil, err
		}
	}
	return b, nil
}

func (b *Broker) create(topic string, partitions int32, dir string) error {
	if b.cluster.TopicInfo(topic) == nil {
		if err := b.cluster.CreateTopic(topic, partitions, nil); err != nil {
			return fmt.Errorf("devkafka: create topic %s with %d partitions: %w", topic, partitions, err)
		}
		return nil
	}
	if n := len(b.cluster.PartitionInfos(topic)); n != int(partitions) {
		return fmt.Errorf("devkafka: topic %s has %d partitions in %s, not %d; ask for as many, or remove the directory", topic, n, dir, partitions)
	}
	return nil
}

// Addrs returns the addresses to give to clients, as host:port.
func (b *Broker) Addrs() []string { return slices.Clone(b.addrs) }

// Close ends the broker and, with a DataDir, saves its state. Clients see their connections fail. Closing again does nothing.
func (b *Broker) Close() { b.cluster.Close() }
