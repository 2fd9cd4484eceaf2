package engine

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/internal/wire"
)

// leaveOut does with a unit that has failed and was rolled back what the policy of the node to blame says. raw is its record, nil if
// there is none. It returns the error if the unit cannot be left out: under Fail, and where the dead letter cannot be written either.
func (t *Task) leaveOut(err *RecordError, node int, raw *graph.Raw) error {
	p := graph.Policy{}
	if node >= 0 && node < len(t.cfg.Sub.Nodes) {
		p = t.cfg.Sub.Nodes[node].OnError
	} else {
		node = 0 // it has to be counted somewhere
	}
	switch p.Action {
	case graph.Skip:
	case graph.DeadLetter:
		if bad := t.deadLetter(err, p, raw); bad != nil {
			return bad
		}
	default:
		return err
	}
	t.counts[node][err.Reason]++
	if t.cfg.LeftOut != nil {
		t.cfg.LeftOut(err, p.Action == graph.DeadLetter)
	}
	return nil
}

// deadLetter emits the record as it was read, with headers behind its own that say what went wrong: those of KIP-1034. What time had
// made due has no record: its dead letter has headers alone.
func (t *Task) deadLetter(err *RecordError, p graph.Policy, raw *graph.Raw) error {
	o := graph.Output{Sink: t.cfg.Sub.DeadLetterSink(p.Topic), Partition: -1, Time: graph.NoTime}
	if raw != nil {
		o.Key, o.Value, o.PartitionKey, o.Time = raw.Key, raw.Value, raw.Key, raw.Time
		o.Headers = slices.Clone(raw.Headers)
		t.lent += size(raw)
	}
	add := func(key, value string) { o.Headers = append(o.Headers, graph.Header{Key: key, Value: []byte(value)}) }
	add(wire.HeaderErrorException, exception(err.Err))
	add(wire.HeaderErrorMessage, err.Error())
	if p.Stack && len(err.Stack) > 0 {
		add(wire.HeaderErrorStack, string(err.Stack))
		t.lent += len(err.Stack)
	}
	if raw != nil {
		add(wire.HeaderErrorTopic, err.Topic)
		add(wire.HeaderErrorPartition, strconv.FormatInt(int64(err.Partition), 10))
		add(wire.HeaderErrorOffset, strconv.FormatInt(err.Offset, 10))
	}
	t.lent += 400
	t.refusal = nil
	t.emit(o, deadLetterN)
	if bad := t.refusal; bad != nil {
		t.refusal = nil
		last := len(t.outs) - 1
		t.outs, t.origins = t.outs[:last], t.origins[:last]
		worse := *err
		worse.Err = fmt.Errorf("%w; and its dead letter cannot be written: %w", err.Err, bad)
		return &worse
	}
	return nil
}

// exception is the type of the innermost error.
func exception(err error) string {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			break
		}
		err = inner
	}
	var p *panicError
	if errors.As(err, &p) {
		return "panic"
	}
	return fmt.Sprintf("%T", err)
}
