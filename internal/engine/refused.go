package engine

import (
	"fmt"
	"hash/maphash"

	"github.com/headrace/headrace/internal/graph"
)

// OutputID finds an output again when what led to it is processed anew: by the record it comes from and its number among that
// record's outputs. Of what time has made due there is no such number, since it may be due between other records the next time: it
// goes by operator, sink, key and event time, and what carries the wall clock's time is not found again.
type OutputID struct {
	Source int   // -1 for what time has made due
	Offset int64 // of the record; a hash for what time has made due
	N      int
}

// SinkLimit says what a sink does not take.
type SinkLimit struct {
	// MaxBytes is the largest size of keys, values and headers together that can be written, 0 for any, and TooLarge the error for
	// what is larger.
	MaxBytes int
	TooLarge error
	// Closed, if not nil, is why it takes nothing at all.
	Closed error
}

// origin is where an output comes from.
type origin struct {
	offset int64
	source int32 // -1: the clock at offset
	n      int32
}

// refusal is an output that cannot be written.
type refusal struct{ cause error }

func (r *refusal) Error() string { return r.cause.Error() }
func (r *refusal) Unwrap() error { return r.cause }

// Emit adds an output. One that is known to be refused fails the unit that makes it.
func (r runtime) Emit(o graph.Output) {
	t := r.t
	t.emit(o, int32(len(t.outs)-t.unitAt))
}

// deadLetterN is the number of a dead letter among the outputs of a record. It is none of those that the record makes otherwise: one
// of them may be why it is a dead letter.
const deadLetterN = -1

func (t *Task) emit(o graph.Output, n int32) {
	from := t.from
	from.n = n
	t.outs = append(t.outs, o)
	t.origins = append(t.origins, from)
	if t.picky && t.refusal == nil {
		if err := t.refused(len(t.outs) - 1); err != nil {
			t.refusal, t.refusedAt = err, t.at
		}
	}
}

// begin says what the outputs that follow come from.
func (t *Task) begin(source int32, offset int64) {
	t.from = origin{offset: offset, source: source}
	t.unitAt = len(t.outs)
}

// refused says why an output cannot be written.
func (t *Task) refused(i int) error {
	o := &t.outs[i]
	if o.Sink < len(t.cfg.Limits) {
		l := &t.cfg.Limits[o.Sink]
		if l.Closed != nil {
			return &refusal{l.Closed}
		}
		if l.MaxBytes > 0 {
			n := len(o.Key) + len(o.Value)
			for _, h := range o.Headers {
				n += len(h.Key) + len(h.Value)
			}
			if n > l.MaxBytes {
				return &refusal{fmt.Errorf("%d bytes of key, value and headers: %w", n, l.TooLarge)}
			}
		}
	}
	if len(t.cfg.Refused) > 0 {
		if err := t.cfg.Refused[t.made.outputID(i)]; err != nil {
			return &refusal{err}
		}
	}
	return nil
}

var outputSeed = maphash.MakeSeed()

// OutputID returns the id of the ith output of Cut.
func (t *Task) OutputID(i int) OutputID { return t.cutMade().outputID(i) }

// cutMade is what Cut is of.
func (t *Task) cutMade() *made {
	if t.frozen {
		return &t.ice
	}
	return &t.made
}

func (m *made) outputID(i int) OutputID {
	from := m.origins[i]
	if from.source >= 0 {
		return OutputID{Source: int(from.source), Offset: from.offset, N: int(from.n)}
	}
	o := &m.outs[i]
	var h maphash.Hash
	h.SetSeed(outputSeed)
	maphash.WriteComparable(&h, [3]int64{from.offset, int64(o.Sink), o.Time})
	h.Write(o.Key)
	return OutputID{Source: -1, Offset: int64(h.Sum64())}
}

// Refused returns the error for the ith output of Cut, as Step would return it had the refusal been known.
func (t *Task) Refused(i int, cause error) *RecordError {
	e := &RecordError{Task: t.cfg.ID, Reason: graph.Refused, Err: cause}
	m := t.cutMade()
	e.Node = t.cfg.Sub.Sinks[m.outs[i].Sink].Node
	if node := t.nodeNamed(e.Node); node >= 0 {
		_, e.At = t.node(node)
	}
	if from := m.origins[i]; from.source >= 0 {
		e.Topic, e.Partition, e.Offset = t.sources[from.source].cfg.Topic, t.cfg.ID.Partition, from.offset
	}
	return e
}
