// Package drive runs the bench: a broker, topics with records in them, a process for each run of a peer, and a look at what came out.
package drive

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/devkafka"
)

// Broker is the one broker that all peers use.
type Broker struct {
	Addrs   []string
	Version string
	kafka   *devkafka.Kafka
	client  *kgo.Client
	admin   *kadm.Client
}

const brokerHeapMB = 1024

// BrokerSettings say, for people, in what the broker differs from Kafka's defaults.
const BrokerSettings = "one node, heap 1 GiB, serial collector, full compiler; topics are kept whatever their age"

// StartBroker starts a real Kafka with its data in a temporary directory.
func StartBroker() (*Broker, error) {
	// devkafka favours a quick start and stops Java at its simple compiler. Java takes options from this variable after all others.
	const options = "_JAVA_OPTIONS"
	before, was := os.LookupEnv(options)
	if err := os.Setenv(options, before+" -XX:TieredStopAtLevel=4"); err != nil {
		return nil, err
	}
	kafka, err := devkafka.StartKafka(devkafka.KafkaConfig{
		HeapMB: brokerHeapMB,
		Properties: map[string]string{
			"auto.create.topics.enable": "false",
			"log.retention.ms":          "-1",
			// On a machine that is fully busy the broker must not lose its own membership.
			"broker.session.timeout.ms":    "60000",
			"broker.heartbeat.interval.ms": "2000",
			// What a run has written is no load for the next one.
			"log.segment.delete.delay.ms": "1000",
		},
	})
	if was {
		err = errors.Join(err, os.Setenv(options, before))
	} else {
		err = errors.Join(err, os.Unsetenv(options))
	}
	if err != nil {
		return nil, err
	}
	b := &Broker{Addrs: kafka.Addrs(), Version: versionIn(kafka.LogPath()), kafka: kafka}
	if b.client, err = kgo.NewClient(kgo.SeedBrokers(b.Addrs...), kgo.DisableClientMetrics(), kgo.MetadataMinAge(50*time.Millisecond)); err != nil {
		kafka.Close()
		return nil, err
	}
	b.admin = kadm.NewClient(b.client)
	return b, nil
}

// Close ends the broker and removes its data.
func (b *Broker) Close() {
	b.client.Close()
	b.kafka.Close()
}

var versionLine = regexp.MustCompile(`Kafka version: (\S+)`)

func versionIn(log string) string {
	text, err := os.ReadFile(log)
	if err != nil {
		return "unknown"
	}
	if m := versionLine.FindSubmatch(text); m != nil {
		return string(m[1])
	}
	return "unknown"
}

// create makes a topic.
func (b *Broker) create(ctx context.Context, topic string, partitions int, compacted bool) error {
	policy, keep := "delete", "-1"
	configs := map[string]*string{"retention.ms": &keep}
	if compacted {
		policy = "compact"
		configs = map[string]*string{}
	}
	configs["cleanup.policy"] = &policy
	if _, err := b.admin.CreateTopic(ctx, int32(partitions), 1, configs, topic); err != nil {
		return fmt.Errorf("drive: create topic %s: %w", topic, err)
	}
	_, _, err := b.ends(ctx, topic) // it exists, but the broker may not know yet that it leads it
	return err
}

// clean removes the topics, those that an application made for itself, and its group.
func (b *Broker) clean(ctx context.Context, app string, topics ...string) error {
	listed, err := b.admin.ListTopics(ctx)
	if err != nil {
		return fmt.Errorf("drive: list topics: %w", err)
	}
	for _, t := range listed.Names() {
		if len(t) > len(app) && t[:len(app)+1] == app+"-" {
			topics = append(topics, t)
		}
	}
	if len(topics) > 0 {
		deleted, err := b.admin.DeleteTopics(ctx, topics...)
		if err != nil {
			return fmt.Errorf("drive: delete topics: %w", err)
		}
		for _, t := range deleted {
			if t.Err != nil && !errors.Is(t.Err, kerr.UnknownTopicOrPartition) {
				return fmt.Errorf("drive: delete topic %s: %w", t.Topic, t.Err)
			}
		}
	}
	_, _ = b.admin.DeleteGroups(ctx, app) // one that is still full of a member that was killed goes with the broker
	return nil
}

// committed returns how many records of a topic a group has committed, if it is a topic without transactions.
func (b *Broker) committed(ctx context.Context, group, topic string) (sum int64, err error) {
	err = patiently(ctx, func() error {
		offsets, err := b.admin.FetchOffsets(ctx, group)
		if err != nil {
			return fmt.Errorf("drive: read the offsets of %s: %w", group, err)
		}
		sum = 0
		for _, o := range offsets[topic] {
			if o.Err != nil {
				return fmt.Errorf("drive: read the offsets of %s: %w", group, o.Err)
			}
			sum += max(0, o.At)
		}
		return nil
	})
	return sum, err
}

// ends returns the sums of a topic's end offsets, of all records and of those that no open transaction holds back.
func (b *Broker) ends(ctx context.Context, topic string) (end, stable int64, err error) {
	err = patiently(ctx, func() error {
		// In this order, so that equal sums mean that nothing was open.
		high, err := b.admin.ListEndOffsets(ctx, topic)
		if err == nil {
			err = high.Error()
		}
		if err != nil {
			return fmt.Errorf("drive: read the end of %s: %w", topic, err)
		}
		low, err := b.admin.ListCommittedOffsets(ctx, topic)
		if err == nil {
			err = low.Error()
		}
		if err != nil {
			return fmt.Errorf("drive: read the stable end of %s: %w", topic, err)
		}
		end, stable = 0, 0
		high.Each(func(o kadm.ListedOffset) { end += o.Offset })
		low.Each(func(o kadm.ListedOffset) { stable += o.Offset })
		return nil
	})
	return end, stable, err
}

// patiently tries again for a while what fails with an error of the broker that passes.
func patiently(ctx context.Context, try func() error) error {
	for began := time.Now(); ; {
		err := try()
		var k *kerr.Error
		passes := errors.As(err, &k) && k.Retriable
		if err == nil || !passes || time.Since(began) > 20*time.Second {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(look):
		}
	}
}
