package topology

import (
	"fmt"
	"time"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/window"
)

// Header is a header of a Kafka record. Headers pass through every operator that handles one record at a time, and through
// repartition topics; the result of a window that has closed has none.
type Header = graph.Header

// Record is one record as processors and event-time functions see it. It is valid during the call that it is passed to.
type Record[K, V any] struct {
	Key   K
	Value V
	// Time is the event time in Unix milliseconds.
	Time int64

	trace
	nullKey bool
	null    bool
}

// Timestamp returns the event time.
func (r Record[K, V]) Timestamp() time.Time { return time.UnixMilli(r.Time).UTC() }

// Null says whether the value is null: a tombstone. Value is then the zero V, and setting it does not make it another; see With.
// Only a stream that keeps nulls, or a table's, has such.
func (r Record[K, V]) Null() bool { return r.null }

// NullKey says whether the key is null. Key is then the zero K, and setting it does not make it another; see With.
func (r Record[K, V]) NullKey() bool { return r.nullKey }

// With returns a record with this key and value, neither of them null, and the event time, headers and origin of r. Kafka Streams:
// Record.withKey, withValue.
func With[K, V, K2, V2 any](r Record[K, V], k K2, v V2) Record[K2, V2] {
	return Record[K2, V2]{Key: k, Value: v, Time: r.Time, trace: r.trace}
}

// Tombstone returns r with a null value.
func (r Record[K, V]) Tombstone() Record[K, V] {
	var zero V
	r.Value, r.null = zero, true
	return r
}

// Headers returns the headers of the input record that led to this one, nil if none did. They must not be modified.
func (r Record[K, V]) Headers() []Header { return r.headers() }

// Pane says what the record is, or what it was made of, among the results of a window. Filter, the maps, JoinTable and repartition
// topics keep it.
func (r Record[K, V]) Pane() Pane { return r.pane() }

// Origin returns where the record that led to this one was read in this sub-topology: topic, partition and offset. Behind GroupBy
// and Repartition that is the repartition topic, by its full name, and not the topic from which its writer had the record. ok is
// false if no single record led to this one, or not at once: for the result of a closed window, behind Suppress, or in a punctuation.
func (r Record[K, V]) Origin() (topic string, partition int32, offset int64, ok bool) {
	if r.raw == nil || r.raw.Topic == "" {
		return "", 0, 0, false
	}
	return r.raw.Topic, r.raw.Partition, r.raw.Offset, true
}

// TopicOf is a topic with the types of its records. Topic makes one. It is a value and safe for concurrent use.
type TopicOf[K, V any] struct {
	name       string
	key        serde.Serde[K]
	value      serde.Serde[V]
	eventTime  func(Record[K, V]) time.Time
	watermarks window.Watermarks
	generator  func() Generator[K, V] // instead of watermarks
	// noGenerator is what is wrong with it.
	noGenerator string
	future      time.Duration
	futureLate  window.Late
	futureAt    string // where FutureGuard was called
	keepNulls   bool
	noTime      string // where EventTime was given nil
	onError     ErrorPolicy
	revisions   bool
}

// Topic names a topic and says how its keys and values are encoded.
func Topic[K, V any](name string, key serde.Serde[K], value serde.Serde[V]) TopicOf[K, V] {
	return TopicOf[K, V]{name: name, key: key, value: value}
}

// Name returns the topic's name.
func (t TopicOf[K, V]) Name() string { return t.name }

// Serdes returns what the topic's keys and values are encoded with.
func (t TopicOf[K, V]) Serdes() (key serde.Serde[K], value serde.Serde[V]) { return t.key, t.value }

// EventTime says when a record happened. The default is the broker's timestamp. A time before 1970 makes the record a bad one,
// which goes to the policy; it must depend on the record alone. It matters where the topic is read. Kafka Streams:
// TimestampExtractor.
func (t TopicOf[K, V]) EventTime(f func(Record[K, V]) time.Time) TopicOf[K, V] {
	if t.eventTime, t.noTime = f, ""; f == nil {
		t.noTime = here()
	}
	return t
}

// Watermarks says how far behind the largest event time seen in a partition records may still be expected. The default is
// window.Monotonic: not at all, as the stream time of Kafka Streams. It matters where the topic is read. See Punctuated and WatermarksBy
// for others.
func (t TopicOf[K, V]) Watermarks(w window.Watermarks) TopicOf[K, V] {
	t.watermarks, t.generator, t.noGenerator = w, nil, ""
	return t
}

// KeepNulls passes records with a null value on, to Process and To. Any other operator behind it drops and counts them. It
// matters where the topic is read as a stream.
func (t TopicOf[K, V]) KeepNulls() TopicOf[K, V] {
	t.keepNulls = true
	return t
}

// OnError says what becomes of a record of the topic that cannot be decoded or has no possible time, where the topic is read, and of a
// record for the topic that it does not take, where it is written. The default is what the application says.
func (t TopicOf[K, V]) OnError(p ErrorPolicy) TopicOf[K, V] {
	t.onError = p
	return t
}

// AcceptRevisions says that whoever reads the topic can take corrections of windows that had closed, which Build otherwise asks of
// topics whose key is not a window.Key: the window's revisions would look like results of their own. It matters where the topic is
// written.
func (t TopicOf[K, V]) AcceptRevisions() TopicOf[K, V] {
	t.revisions = true
	return t
}

func (t TopicOf[K, V]) check(b *Builder) {
	b.serdes(fmt.Sprintf("topic %q", t.name), "no serde for its keys or values; make it with Topic(name, keySerde, valueSerde)", t.key, t.value)
	if t.noTime != "" {
		b.fail("topic %q: EventTime: the function given at %s is nil; give one, or leave EventTime out for the broker's timestamp", t.name, t.noTime)
	}
	if t.noGenerator != "" {
		b.fail("topic %q: %s", t.name, t.noGenerator)
	}
	b.check(t.watermarks.Validate())
}
