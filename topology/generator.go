package topology

import (
	"fmt"
	"time"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/window"
)

// Generator makes the watermarks of one partition of a topic, for sources whose disorder no bound describes. Every task has its own, and
// calls it from one goroutine at a time.
//
// It must depend on the records alone, in their order: then a replay comes to the same watermarks, and a restart goes on where the last
// commit was. Kafka Streams has none; Flink: WatermarkGenerator, without periodic emission, which depends on the clock.
type Generator[K, V any] interface {
	// Observe is told of each record of the partition in offset order, before any filter, when it has been processed: by which
	// watermark a record is late is decided before it moves that. It returns the watermark now: no record with an earlier event time is
	// expected. The zero time, and one before the last, say nothing new. Records that cannot be decoded, that have no possible time, or
	// that FutureGuard sets aside do not get here. A panic is an error of the record.
	Observe(r Record[K, V]) time.Time
	// Save appends what Observe remembers to dst. It is committed with the position in the partition, in a few hundred bytes for all: a
	// dozen numbers are fine, and a map of keys is not.
	Save(dst []int64) []int64
	// Load sets what Save gave, in the program that ran before this one; state is empty where there was none.
	Load(state []int64) error
}

// Punctuated takes the watermark from records that say it: f returns it, or false for a record that says nothing. It must depend on the
// record alone. A watermark before the last one is ignored. The one of Watermarks, Punctuated and WatermarksBy that is said last holds.
func (t TopicOf[K, V]) Punctuated(f func(Record[K, V]) (watermark time.Time, ok bool)) TopicOf[K, V] {
	t.watermarks, t.generator, t.noGenerator = window.Watermarks{}, nil, ""
	if f == nil {
		t.noGenerator = "Punctuated: the function given at " + here() + " is nil; give one"
		return t
	}
	t.generator = func() Generator[K, V] { return punctuated[K, V]{f} }
	return t
}

type punctuated[K, V any] struct {
	f func(Record[K, V]) (time.Time, bool)
}

func (p punctuated[K, V]) Observe(r Record[K, V]) time.Time {
	if w, ok := p.f(r); ok {
		return w
	}
	return time.Time{}
}

func (punctuated[K, V]) Save(dst []int64) []int64 { return dst }
func (punctuated[K, V]) Load([]int64) error       { return nil }

// WatermarksBy makes watermarks with generators of one's own: newG is called for each partition whenever its task is made. The one of
// Watermarks, Punctuated and WatermarksBy that is said last holds. It matters where the topic is read.
func (t TopicOf[K, V]) WatermarksBy(newG func() Generator[K, V]) TopicOf[K, V] {
	t.watermarks, t.generator, t.noGenerator = window.Watermarks{}, newG, ""
	if newG == nil {
		t.noGenerator = "WatermarksBy: the function given at " + here() + " is nil; give one"
	}
	return t
}

// FutureGuard keeps single records with an event time far ahead from moving the watermark past all others, which would make every record
// after them late. A record that is more than ahead in the future reaches no operator, moves no watermark, is counted as future, and goes
// to late: window.Drop(), or window.Sideline(topic) with the headers that say so, and x-late-reason: future. The default is no guard.
//
// In the future of what: of the broker's timestamp, if EventTime takes another from the record; so a replay judges alike. Without EventTime
// the broker's timestamp is the event time. Where the broker made it (message.timestamp.type=LogAppendTime) it is never in the future;
// where the producer did, it is held against the wall clock, and what a replay sets aside may be less.
func (t TopicOf[K, V]) FutureGuard(ahead time.Duration, late window.Late) TopicOf[K, V] {
	t.future, t.futureLate, t.futureAt = ahead, late, here()
	return t
}

// guard is what a source needs of that, and says whether there is one.
func (t TopicOf[K, V]) guard(b *Builder, def *sourceDef) {
	if t.futureAt == "" {
		return
	}
	ms := t.future.Milliseconds()
	if t.future <= 0 || t.future%time.Millisecond != 0 {
		b.fail("topic %q: FutureGuard is given %v at %s; give a positive duration in whole milliseconds", t.name, t.future, t.futureAt)
	}
	b.check(t.futureLate.Validate())
	def.src.Future = &graph.Future{Max: ms, Sink: -1}
	if t.futureLate.Corrects() {
		b.fail("topic %q: FutureGuard is given %v at %s: a record that is too far ahead corrects nothing; give window.Drop() or window.Sideline(topic)", t.name, t.futureLate, t.futureAt)
		return
	}
	if topic, aside := t.futureLate.Topic(); aside {
		m := b.node(graph.SinkNode, t.name+"-future-sink", def.m)
		def.future = b.sink(m, graph.Sink{Topic: topic})
	}
}

// Observe, Save and Load make an entry a graph.Generator. The engine asks those whose source says so.
func (e *entry[K, V]) Observe() int64 {
	*e.at = e.node
	if w := e.gen.Observe(e.head); !w.IsZero() {
		return w.UnixMilli()
	}
	return graph.Unknown
}

func (e *entry[K, V]) Save(dst []int64) []int64 { return e.gen.Save(dst) }

func (e *entry[K, V]) Load(state []int64) (err error) {
	defer func() {
		if v := recover(); v != nil { // of the user's code
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return e.gen.Load(state)
}
