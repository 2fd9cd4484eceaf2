package engine

import (
	"slices"
	"strconv"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/internal/wire"
)

// Sideline emits the record in process as it was read, with headers behind its own that say what it was too late for.
func (r runtime) Sideline(l graph.Missed) {
	raw := r.t.record
	h := slices.Clone(raw.Headers)
	add := func(key, value string) { h = append(h, graph.Header{Key: key, Value: []byte(value)}) }
	num := func(key string, n int64) { add(key, strconv.FormatInt(n, 10)) }
	add(wire.HeaderLateReason, wire.ReasonWindowClosed)
	add(wire.HeaderLateOperator, l.Operator)
	num(wire.HeaderLateWatermark, l.Watermark)
	add(wire.HeaderLatePartial, strconv.FormatBool(l.Partial))
	for _, w := range l.Windows {
		num(wire.HeaderLateWindowStart, w.Start)
		num(wire.HeaderLateWindowEnd, w.End)
		num(wire.HeaderLateBy, l.Watermark-w.End-l.Grace)
	}
	add(wire.HeaderOriginTopic, raw.Topic)
	num(wire.HeaderOriginPartition, int64(raw.Partition))
	num(wire.HeaderOriginOffset, raw.Offset)
	num(wire.HeaderEventTime, l.EventTime)
	r.t.lent += size(raw) + 40*(len(h)-len(raw.Headers))
	r.Emit(graph.Output{
		Sink: l.Sink, Partition: -1, Key: raw.Key, Value: raw.Value, PartitionKey: raw.Key, Headers: h, Time: l.EventTime,
	})
}

// tooFarAhead says that the record at the head is in the future, by what its source allows. What it is held against is the broker's
// timestamp, where event time is another, so that a replay judges alike; a broker's own clock is never in the future; and else it is the
// wall clock.
func (t *Task) tooFarAhead(s *source) bool {
	if s.time == graph.NoTime {
		return false
	}
	now := s.head.Time
	if !s.plan.OwnTime {
		if s.head.Appended {
			return false
		}
		now = t.now
	}
	return s.time > now && s.time-max(now, 0) > s.plan.Future.Max
}

// setAside drops such a record, or writes it as it was read to the topic for those. It reaches no operator and moves no watermark.
func (t *Task) setAside(s *source) error {
	node, raw := t.sourceNode(s), &s.head
	t.begin(s.index, raw.Offset)
	if sink := s.plan.Future.Sink; sink >= 0 {
		h := slices.Clone(raw.Headers)
		add := func(key, value string) { h = append(h, graph.Header{Key: key, Value: []byte(value)}) }
		num := func(key string, n int64) { add(key, strconv.FormatInt(n, 10)) }
		add(wire.HeaderLateReason, wire.ReasonFuture)
		add(wire.HeaderLateOperator, t.cfg.Sub.Nodes[node].Name)
		if s.w != graph.Unknown {
			num(wire.HeaderLateWatermark, s.w)
		}
		add(wire.HeaderOriginTopic, raw.Topic)
		num(wire.HeaderOriginPartition, int64(raw.Partition))
		num(wire.HeaderOriginOffset, raw.Offset)
		num(wire.HeaderEventTime, s.time)
		t.lent += size(raw) + 40*(len(h)-len(raw.Headers))
		t.at = t.nodeNamed(t.cfg.Sub.Sinks[sink].Node)
		// At the broker's time: at its own its topic might not take it, or keep it for ever.
		t.emit(graph.Output{Sink: sink, Partition: -1, Key: raw.Key, Value: raw.Value, PartitionKey: raw.Key, Headers: h, Time: raw.Time}, 0)
		if bad := t.refusal; bad != nil {
			t.refusal = nil
			last := len(t.outs) - 1
			t.outs, t.origins = t.outs[:last], t.origins[:last]
			return t.reject(s, t.refusedAt, graph.Refused, bad)
		}
	}
	t.counts[node][graph.TooFarAhead]++
	s.taken()
	return nil
}
