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
