package topologytest

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/internal/wire"
)

// topicName tells a repartition topic, which has the name that the topology gave it, from a topic of that name.
type topicName graph.Topic

func (n topicName) String() string {
	if n.Repartition {
		return "repartition topic " + n.Name
	}
	return "topic " + n.Name
}

// topicLog is a topic: all that was committed to it.
type topicLog struct {
	name       topicName
	read       bool // by the topology
	written    bool
	partitions []partitionLog
	order      []place // of all records but watermark reports, in the order in which they were committed
	next       int32   // partition for the next record without a key
}

type partitionLog struct {
	records []graph.Raw
	// offset and metadata are what the application committed.
	offset   int64
	metadata string
	// idleAt is one more than how many records there were when the test said that no more were coming, 0 if it has not.
	idleAt int
	// heldBack: what is piped has not been fetched yet.
	heldBack bool
}

type place struct {
	partition int32
	offset    int64
}

// append adds a record. Its bytes are kept.
func (l *topicLog) append(partition int32, r graph.Raw) {
	p := &l.partitions[partition]
	r.Topic, r.Partition, r.Offset = l.name.Name, partition, int64(len(p.records))
	p.records = append(p.records, r)
}

func (l *topicLog) appendData(partition int32, r graph.Raw) {
	l.order = append(l.order, place{partition, int64(len(l.partitions[partition].records))})
	l.append(partition, r)
}

// partition returns where a record with this key goes: the partitioner of Kafka's clients for keys, and round-robin without one.
func (l *topicLog) partition(key []byte) int32 {
	n := int32(len(l.partitions))
	if key == nil {
		p := l.next
		l.next = (l.next + 1) % n
		return p
	}
	return graph.PartitionOf(key, n)
}

// write commits an output.
func (l *topicLog) write(o *graph.Output) {
	p := o.Partition
	if p < 0 {
		p = l.partition(o.PartitionKey)
	}
	l.appendData(p, graph.Raw{Key: bytes.Clone(o.Key), Value: bytes.Clone(o.Value), Headers: slices.Clone(o.Headers), Time: o.Time})
}

// commit decodes what is committed for the partition.
func (p *partitionLog) commit() (wire.Commit, error) {
	c, ours, err := wire.DecodeCommit(p.metadata)
	if err != nil {
		return c, fmt.Errorf("topologytest: the metadata of a committed offset: %w", err)
	}
	if !ours {
		c.Source = wire.SourceClock{MaxTime: graph.Unknown, Watermark: graph.Unknown}
	}
	return c, nil
}
