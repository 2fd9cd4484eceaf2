package engine

import (
	"fmt"
	"math"
	"slices"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/internal/wire"
)

// source is one input partition of a task.
type source struct {
	index int32
	plan  *graph.Source
	cfg   SourceConfig
	entry graph.Entry
	gen   graph.Generator // nil where Watermarks of the plan generates

	q       queue
	head    graph.Raw // the record at the head, once decoded
	decoded bool
	time    int64 // its event time

	next      int64 // the next offset to process
	committed int64 // what the last commit said, -1 if it never did
	pushed    int64 // the next offset to push
	end       int64 // what is known of the partition's end, 0 if nothing is
	missed    int64 // since when other inputs wait for it although nothing is known to be in it

	records, bytes int64 // taken from the head, those that were left out too
	behind         int64 // records that are not behind their own partition's watermark, but behind what was told while it was idle

	maxTime int64
	w       int64 // a function of the log alone
	// told is what the operators were told: w, or more after the partition was idle. It never goes back.
	told int64
	// idle says that the partition has nothing, or, of a repartition topic, that no writer has: it holds nobody back.
	idle bool
	// leave is how far it may follow the others while it is idle: what they had come to when it was last seen to have nothing.
	leave int64
	// channels is what each producer of a repartition topic reported, in ascending order, and producers how many there are.
	channels  []wire.Channel
	producers int32
}

func (s *source) init(plan *graph.Source, cfg SourceConfig, entry graph.Entry) error {
	*s = source{
		plan: plan, cfg: cfg, entry: entry,
		next: cfg.Offset, committed: cfg.Offset, pushed: cfg.Offset, end: cfg.End, missed: never,
	}
	c := &s.cfg.Clock
	if c.MaxTime == 0 && c.Watermark == 0 && c.Ahead == 0 && len(c.Channels) == 0 && c.Producers == 0 {
		c.MaxTime, c.Watermark = graph.Unknown, graph.Unknown // the zero clock: nothing is known
	}
	if clockForgotten {
		c.MaxTime, c.Watermark, c.Ahead, c.Channels = graph.Unknown, graph.Unknown, 0, nil
	}
	s.maxTime, s.w, s.told = c.MaxTime, c.Watermark, c.Told()
	s.producers = c.Producers
	s.channels = slices.Clone(c.Channels)
	s.idle, s.leave = c.Idle && !cfg.Absent, math.MaxInt64
	if plan.Repartition {
		s.idle = s.allIdle()
	}
	if plan.Generates {
		gen, ok := entry.(graph.Generator)
		if !ok {
			return fmt.Errorf("source %s is to generate watermarks, and cannot", plan.Node)
		}
		s.gen = gen
		if err := gen.Load(c.Generator); err != nil {
			return fmt.Errorf("watermark generator of %s: %w", cfg.Topic, err)
		}
	}
	if cfg.Absent && !plan.Table {
		s.w, s.told = math.MaxInt64, math.MaxInt64 // nothing will ever come from it: it holds nobody back
	}
	if s.told != graph.Unknown {
		entry.Advance(s.told)
	}
	return nil
}

// push appends to the queue.
func (s *source) push(r graph.Raw) {
	s.pushed = max(s.pushed, r.Offset+1)
	s.missed = never
	s.q.push(r)
}

// taken moves on behind the record at the head.
func (s *source) taken() {
	r := &s.head
	s.next = r.Offset + 1
	s.records++
	s.bytes += int64(len(r.Key) + len(r.Value))
	for i := range r.Headers {
		s.bytes += int64(len(r.Headers[i].Key) + len(r.Headers[i].Value))
	}
}

// reading says whether a table still has to be read before the task's streams may start.
func (s *source) reading() bool {
	return s.plan.Table && !s.cfg.Absent && s.next < s.cfg.ReadTo
}

// generate is what the partition's watermark is after the record at the head. It may run user code.
func (s *source) generate() int64 {
	if s.plan.Repartition && !timeFromRecords || s.time == graph.NoTime {
		return graph.Unknown
	}
	s.maxTime = max(s.maxTime, s.time)
	if s.gen != nil {
		return s.gen.Observe()
	}
	return s.plan.Watermarks.After(s.maxTime)
}

// report takes what a producer of the repartition topic says. The watermark is the smallest over all producers, once each of them has
// spoken. When their number changes the old table says nothing of the new producers: hold until all have spoken. It says whether the
// watermark has moved, or whether it is idle.
//
// A producer that reports that it is idle comes along with those that are not, as far as they have reported before, and has to say so again
// before it comes along further. So one that has gone is not taken for idle, and one that wakes up with the others loses nothing.
func (s *source) report(r wire.Report) bool {
	if r.Producers != s.producers {
		s.producers = r.Producers
		s.channels = s.channels[:0]
	}
	i, ok := slices.BinarySearchFunc(s.channels, r.Producer, func(c wire.Channel, p int32) int { return int(c.Producer) - int(p) })
	if !ok {
		s.channels = slices.Insert(s.channels, i, wire.Channel{Producer: r.Producer, Watermark: graph.Unknown})
	}
	ch := &s.channels[i]
	ch.Watermark, ch.State = max(ch.Watermark, r.Watermark), r.State
	idle := s.idle
	s.idle = s.allIdle()
	if len(s.channels) < int(s.producers) || timeFromRecords {
		return idle != s.idle
	}
	all, active, known := int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64)
	for j := range s.channels {
		switch w := s.channels[j].Watermark; {
		case s.channels[j].State == wire.Active:
			active = min(active, w)
		case w != graph.Unknown:
			known = min(known, w)
		}
	}
	switch {
	case ch.State != wire.Idle:
	case active < math.MaxInt64:
		ch.Watermark = max(ch.Watermark, active)
	case ch.Watermark == graph.Unknown && known < math.MaxInt64:
		ch.Watermark = known // all are idle, and this one never had anything
	}
	for j := range s.channels {
		all = min(all, s.channels[j].Watermark)
	}
	return s.raise(all) || idle != s.idle
}

// allIdle says that all producers have spoken and that of those which go on none has anything to read.
func (s *source) allIdle() bool {
	idle := false
	for _, c := range s.channels {
		if c.State == wire.Active {
			return false
		}
		idle = idle || c.State == wire.Idle
	}
	return idle && len(s.channels) == int(s.producers)
}

// raise moves the partition's own watermark, and says whether the operators have heard of it.
func (s *source) raise(w int64) bool {
	if w <= s.w {
		return false
	}
	s.w = w
	return s.tell(w)
}

// tell moves what the operators know.
func (s *source) tell(w int64) bool {
	if w <= s.told {
		return false
	}
	s.told = w
	s.entry.Advance(w)
	return true
}

// streams says whether the source takes part in the task's time: tables and what is not there do not.
func (s *source) streams() bool { return !s.plan.Table && !s.cfg.Absent }

func (s *source) clock() wire.SourceClock {
	c := wire.SourceClock{
		MaxTime: s.maxTime, Watermark: s.w, Ahead: uint64(s.told) - uint64(s.w), Idle: s.idle, Producers: s.producers, Channels: slices.Clone(s.channels),
	}
	if s.gen != nil {
		c.Generator = s.gen.Save(nil)
	}
	return c
}
