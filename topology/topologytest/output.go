package topologytest

import (
	"fmt"
	"strings"
	"time"

	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/topology"
)

// Record is a record that the topology has written.
type Record[K, V any] struct {
	Key   K
	Value V
	// Time is the event time, in UTC and whole milliseconds.
	Time      time.Time
	Headers   []topology.Header
	Partition int
	// Null says that the value is null: a tombstone. Value is the zero V then.
	Null bool
	// NullKey says that the key is null. Key is the zero K then.
	NullKey bool
}

// Header returns the value of the first header of that name, and whether there is one.
func (r Record[K, V]) Header(key string) (string, bool) {
	for _, h := range r.Headers {
		if h.Key == key {
			return string(h.Value), true
		}
	}
	return "", false
}

// String is the record in one line: "ann: 1 @ 2020-01-01T00:00:00Z".
func (r Record[K, V]) String() string {
	var b strings.Builder
	if r.NullKey {
		b.WriteString("null: ")
	} else {
		fmt.Fprintf(&b, "%v: ", r.Key)
	}
	if r.Null {
		b.WriteString("null")
	} else {
		fmt.Fprintf(&b, "%v", r.Value)
	}
	fmt.Fprintf(&b, " @ %s", r.Time.Format(time.RFC3339Nano))
	return b.String()
}

// Out reads what was committed to a topic. Output makes it.
type Out[K, V any] struct {
	d     *Driver
	log   *topicLog
	key   serde.Serde[K]
	value serde.Serde[V]
	next  int
}

// Output returns a reader from the start of a topic that the topology writes: an output, the topic of a sideline, or a repartition
// topic by the name that the topology gave it. Readers of one topic do not disturb each other.
func Output[K, V any](d *Driver, t topology.TopicOf[K, V]) *Out[K, V] {
	d.helper()
	l := d.topics[topicName{Name: t.Name()}]
	if l == nil {
		l = d.topics[topicName{Name: t.Name(), Repartition: true}]
	}
	if l == nil || !l.written {
		d.fail(fmt.Errorf("topologytest: Output(%s): %w", t.Name(), d.unknown(func(l *topicLog) bool { return l.written })))
	}
	k, v := t.Serdes()
	return &Out[K, V]{d: d, log: l, key: k, value: v}
}

// Read returns the next record. It fails the test if there is none; see Empty and All. Records of one partition come in the order
// of the partition, and all of them in the order in which they were committed.
func (o *Out[K, V]) Read() Record[K, V] {
	o.d.helper()
	if o.Empty() {
		o.d.fail(fmt.Errorf("topologytest: %s has no more records, %d were read", o.log.name, o.next))
	}
	at := o.log.order[o.next]
	raw := &o.log.partitions[at.partition].records[at.offset]
	r := Record[K, V]{
		Time: time.UnixMilli(raw.Time).UTC(), Headers: raw.Headers, Partition: int(at.partition), Null: raw.Value == nil, NullKey: raw.Key == nil,
	}
	var err error
	if !r.NullKey {
		if r.Key, err = o.key.Decode(raw.Key); err != nil {
			o.d.fail(fmt.Errorf("topologytest: decode a key of %s: %w", o.log.name, err))
		}
	}
	if !r.Null {
		if r.Value, err = o.value.Decode(raw.Value); err != nil {
			o.d.fail(fmt.Errorf("topologytest: decode a value of %s: %w", o.log.name, err))
		}
	}
	o.next++
	return r
}

// Empty says whether all records were read.
func (o *Out[K, V]) Empty() bool { return o.next == len(o.log.order) }

// All reads what is left, nil if nothing is.
func (o *Out[K, V]) All() []Record[K, V] {
	o.d.helper()
	var all []Record[K, V]
	for !o.Empty() {
		all = append(all, o.Read())
	}
	return all
}

// Latest reads what is left and returns the last value of each key; a tombstone takes the key away.
func Latest[K comparable, V any](o *Out[K, V]) map[K]V {
	o.d.helper()
	m := map[K]V{}
	for _, r := range o.All() {
		if r.Null {
			delete(m, r.Key)
		} else {
			m[r.Key] = r.Value
		}
	}
	return m
}
