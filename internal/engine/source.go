package engine

import (
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

	q       queue
	head    graph.Raw // the record at the head, once decoded
	decoded bool
	time    int64 // its event time

	next      int64 // the next offset to process
	committed int64 // what the last commit said, -1 if it never did

	records, bytes int64 // taken from the head, those that were left out too

	maxTime int64
	w       int64
	// channels is what each producer of a repartition topic reported, in ascending order, and producers how many there are.
	channels  []wire.Channel
	producers int32
}

func (s *source) init(plan *graph.Source, cfg SourceConfig, entry graph.Entry) {
	*s = source{plan: plan, cfg: cfg, entry: entry, next: cfg.Offset, committed: cfg.Offset}
	s.maxTime, s.w = cfg.Clock.MaxTime, cfg.Clock.Watermark
	if s.maxTime == 0 && s.w == 0 && len(cfg.Clock.Channels) == 0 && cfg.Clock.Producers == 0 {
		s.maxTime, s.w = graph.Unknown, graph.Unknown // the zero clock: nothing is known
	}
	if clockForgotten {
		s.maxTime, s.w, cfg.Clock.Channels = graph.Unknown, graph.Unknown, nil
	}
	s.producers = cfg.Clock.Producers
	s.channels = slices.Clone(cfg.Clock.Channels)
	if cfg.Absent && !plan.Table {
		s.w = math.MaxInt64 // nothing will ever come from it: it holds nobody back
	}
	if s.w != graph.Unknown {
		entry.Advance(s.w)
	}
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

// observe moves the watermark of an outside partition by one record. It says whether the watermark moved.
func (s *source) observe(eventTime int64) bool {
	if s.plan.Repartition && !timeFromRecords || eventTime == graph.NoTime {
		return false
	}
	s.maxTime = max(s.maxTime, eventTime)
	return s.raise(s.plan.Watermarks.After(s.maxTime))
}

// report takes what a producer of the repartition topic says. The watermark is the smallest over all producers, once each of
// them has spoken. When their number changes the old table says nothing of the new producers: hold until all have spoken.
func (s *source) report(r wire.Report) bool {
	if r.Producers != s.producers {
		s.producers = r.Producers
		s.channels = s.channels[:0]
	}
	i, ok := slices.BinarySearchFunc(s.channels, r.Producer, func(c wire.Channel, p int32) int { return int(c.Producer) - int(p) })
	if !ok {
		s.channels = slices.Insert(s.channels, i, wire.Channel{Producer: r.Producer, Watermark: graph.Unknown})
	}
	s.channels[i].Watermark = max(s.channels[i].Watermark, r.Watermark)
	if len(s.channels) < int(s.producers) || timeFromRecords {
		return false
	}
	w := s.channels[0].Watermark
	for _, c := range s.channels[1:] {
		w = min(w, c.Watermark)
	}
	return s.raise(w)
}

func (s *source) raise(w int64) bool {
	if w <= s.w {
		return false
	}
	s.w = w
	s.entry.Advance(w)
	return true
}

func (s *source) clock() wire.SourceClock {
	return wire.SourceClock{
		MaxTime: s.maxTime, Watermark: s.w, Producers: s.producers, Channels: slices.Clone(s.channels),
	}
}
