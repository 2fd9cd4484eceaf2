package topology

import (
	"fmt"
	"math"
	"time"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/serde"
)

// To writes the stream to a topic, in the task's transaction. Headers and event time go with the record; the partition follows
// from the key by murmur2, from the inner key where it is windowed; records with a null key are spread.
//
// A topology does not write a topic that it reads: Build refuses such a loop, which Kafka Streams allows.
func (s Stream[K, V]) To(t TopicOf[K, V]) {
	t.check(builder(s.n))
	m := s.n.b.node(graph.SinkNode, "KSTREAM-SINK-", s.n.m)
	def := s.n.b.sink(m, graph.Sink{Topic: t.name})
	s.n.b.onError(m, t.onError)
	if is, says := windowSize(s.n.key), windowSize(t.key); is != says && is != math.MaxInt64 && says != math.MaxInt64 {
		s.n.b.fail("topic %q: its key serde is for windows of %v, and what is written are windows of %v: give KeySerde(…).Size the size of the windows",
			t.name, time.Duration(says)*time.Millisecond, time.Duration(is)*time.Millisecond)
	}
	if past := m.past; past.tells() && !t.revisions && !ofWindows(t.key) {
		s.n.b.fail("topic %q: the windows made at %s give several results for one window, early ones or corrections, and the topic's key is not a window.Key: a reader could not tell which of them one is; write it under the window's key, or say Topic(…).AcceptRevisions()", t.name, past.at)
	}
	s.n.edges = append(s.n.edges, func(in *instance) (consumer[K, V], error) {
		return consumer[K, V]{push: writer(in, def, t.key, t.value), advance: func(int64) {}}, nil
	})
}

// windowSize is the size of the windows that a key serde is for, in milliseconds, math.MaxInt64 if it says none.
func windowSize(key any) int64 {
	if k, ok := key.(interface{ SizeMillis() int64 }); ok {
		return k.SizeMillis()
	}
	return math.MaxInt64
}

// ofWindows says whether a key serde is that of windows.
func ofWindows(key any) bool {
	_, ok := key.(interface{ SizeMillis() int64 })
	return ok
}

// innerKey is a key serde whose records are partitioned by a part of the key.
type innerKey interface {
	PartitionKey(encoded []byte) ([]byte, error)
}

// writer encodes records into the task's arena and adds them to its outputs.
func writer[K, V any](in *instance, def *sinkDef, key serde.Serde[K], value serde.Serde[V]) func(Record[K, V]) error {
	rt, at, arena := in.rt, in.rt.At(), in.rt.Arena()
	node, sink, ours := def.m.local, def.local, def.sink.Repartition
	inner, _ := key.(innerKey)
	return func(r Record[K, V]) error {
		*at = node
		o := graph.Output{Sink: sink, Partition: -1, Time: r.Time}
		if !r.nullKey {
			b, err := key.Append(arena.Free(), r.Key)
			if err != nil {
				return fmt.Errorf("encode the key for topic %s: %w", def.sink.Topic, err)
			}
			o.Key = arena.Keep(b)
			o.PartitionKey = o.Key
			if inner != nil {
				if o.PartitionKey, err = inner.PartitionKey(o.Key); err != nil {
					return fmt.Errorf("partition key for topic %s: %w", def.sink.Topic, err)
				}
			}
		}
		if !r.null {
			b, err := value.Append(arena.Free(), r.Value)
			if err != nil {
				return fmt.Errorf("encode the value for topic %s: %w", def.sink.Topic, err)
			}
			o.Value = arena.Keep(b)
		}
		o.Headers = r.headers()
		if p := r.pane(); p != (Pane{}) || ours && len(o.Headers) > 0 {
			o.Headers = rt.Told(o.Headers, p, ours)
		}
		rt.Emit(o)
		return nil
	}
}
