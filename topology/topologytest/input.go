package topologytest

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/topology"
)

// In pipes records into a topic. Input makes it.
type In[K, V any] struct {
	d     *Driver
	log   *topicLog
	key   serde.Serde[K]
	value serde.Serde[V]
}

// Input returns the way into a topic that the topology reads.
func Input[K, V any](d *Driver, t topology.TopicOf[K, V]) *In[K, V] {
	d.helper()
	l := d.topics[topicName{Name: t.Name()}]
	if l == nil || !l.read {
		d.fail(fmt.Errorf("topologytest: Input(%s): %w", t.Name(), d.unknown(func(l *topicLog) bool { return l.read && !l.name.Repartition })))
	}
	k, v := t.Serdes()
	return &In[K, V]{d: d, log: l, key: k, value: v}
}

// Pipe writes a record to the partition of its key. at becomes the broker's timestamp, to the millisecond, and so the event time
// of topics that have none of their own.
func (in *In[K, V]) Pipe(at time.Time, k K, v V, headers ...topology.Header) {
	in.d.helper()
	key := encode(in, in.key, k)
	in.pipe(in.log.partition(key), at, key, encode(in, in.value, v), headers)
}

// PipeTo is Pipe to a partition of your choice.
func (in *In[K, V]) PipeTo(partition int, at time.Time, k K, v V, headers ...topology.Header) {
	in.d.helper()
	in.PipeRaw(partition, at, encode(in, in.key, k), encode(in, in.value, v), headers...)
}

// PipeNull is Pipe with a null value.
func (in *In[K, V]) PipeNull(at time.Time, k K, headers ...topology.Header) {
	in.d.helper()
	key := encode(in, in.key, k)
	in.pipe(in.log.partition(key), at, key, nil, headers)
}

// PipeNullKey is Pipe with a null key; such records are spread over the partitions.
func (in *In[K, V]) PipeNullKey(at time.Time, v V, headers ...topology.Header) {
	in.d.helper()
	in.pipe(in.log.partition(nil), at, nil, encode(in, in.value, v), headers)
}

// PipeRaw writes bytes, whatever they mean; nil is null.
func (in *In[K, V]) PipeRaw(partition int, at time.Time, key, value []byte, headers ...topology.Header) {
	in.d.helper()
	if partition < 0 || partition >= len(in.log.partitions) {
		in.d.fail(fmt.Errorf("topologytest: %s has partitions 0 to %d, not %d", in.log.name, len(in.log.partitions)-1, partition))
	}
	in.pipe(int32(partition), at, bytes.Clone(key), bytes.Clone(value), headers)
}

func (in *In[K, V]) pipe(partition int32, at time.Time, key, value []byte, headers []topology.Header) {
	in.d.helper()
	in.log.appendData(partition, graph.Raw{Key: key, Value: value, Headers: slices.Clone(headers), Time: at.UnixMilli()})
	in.d.auto()
}

// encode never returns nil: that would be null.
func encode[T, K, V any](in *In[K, V], s serde.Serde[T], v T) []byte {
	in.d.helper()
	b, err := s.Append([]byte{}, v)
	if err != nil {
		in.d.fail(fmt.Errorf("topologytest: encode %v for %s: %w", v, in.log.name, err))
	}
	return b
}
