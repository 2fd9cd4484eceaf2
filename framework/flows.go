package framework

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/headrace/headrace/internal/engine"
)

// Flow is what committed transactions have taken from a topic, or written to it.
type Flow struct {
	Topic string
	// Records are those with data: no markers of transactions, and no reports of watermarks. Records that a policy left out are among those
	// that were read. Bytes are of keys, values and headers, not compressed.
	Records, Bytes int64
}

// Histogram counts durations. Kafka Streams has averages and maxima in its place, which cannot be summed over instances.
type Histogram struct {
	// Bounds are the upper bounds of the buckets, ascending; a duration belongs to the first that is not below it. Counts has one
	// element more, for those above the last.
	Bounds []time.Duration
	Counts []int64
	Sum    time.Duration
}

// commitBounds are chosen around what a commit takes: some tens of milliseconds, and at most 25 s with the default timeout.
var commitBounds = [...]time.Duration{
	5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 30 * time.Millisecond, 50 * time.Millisecond, 75 * time.Millisecond,
	100 * time.Millisecond, 150 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond,
	5 * time.Second, 10 * time.Second, 30 * time.Second,
}

// times is a Histogram while it is counted.
type times struct {
	counts [len(commitBounds) + 1]int64
	sum    time.Duration
}

func (t *times) add(d time.Duration) {
	i, _ := slices.BinarySearch(commitBounds[:], d)
	t.counts[i]++
	t.sum += d
}

func (t *times) merge(o *times) {
	for i := range o.counts {
		t.counts[i] += o.counts[i]
	}
	t.sum += o.sum
}

func (t *times) histogram() Histogram {
	return Histogram{Bounds: slices.Clone(commitBounds[:]), Counts: slices.Clone(t.counts[:]), Sum: t.sum}
}

// flows are records and bytes by topic.
type flows map[string]flow

type flow struct{ records, bytes int64 }

func (f flows) add(topic string, records, bytes int64) {
	if records == 0 {
		return
	}
	was := f[topic]
	f[topic] = flow{was.records + records, was.bytes + bytes}
}

func (f flows) merge(o flows) {
	for topic, more := range o {
		f.add(topic, more.records, more.bytes)
	}
}

func (f flows) list() []Flow {
	out := make([]Flow, 0, len(f))
	for topic, of := range f {
		out = append(out, Flow{topic, of.records, of.bytes})
	}
	slices.SortFunc(out, func(x, y Flow) int { return cmp.Compare(x.Topic, y.Topic) })
	return out
}

// read takes in what a task has taken from its inputs more than before.
func (f flows) read(now, before *engine.Status) {
	for i := range now.Sources {
		s := &now.Sources[i]
		records, bytes := s.Records, s.Bytes
		if i < len(before.Sources) {
			records, bytes = records-before.Sources[i].Records, bytes-before.Sources[i].Bytes
		}
		f.add(s.Topic, records, bytes)
	}
}

// tally are counters of one worker. It belongs to the worker's goroutine.
type tally struct {
	Counters
	drops         drops
	read, written flows
	commits       times
	aborts        [len(abortReasons)]int64
}

// clone is what is published of it: nobody changes it then.
func (t *tally) clone() tally {
	c := *t
	c.drops, c.read, c.written = t.drops.clone(), maps.Clone(t.read), maps.Clone(t.written)
	return c
}

// took counts what a task has done in a transaction that has committed.
func (t *tally) took(l *layout, now, before engine.Status) {
	t.Records += now.Records - before.Records
	t.drops.add(l, now, before)
	t.read.read(&now, &before)
}
