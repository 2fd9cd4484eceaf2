package topology

import (
	"fmt"
	"math"
	"slices"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/window"
)

// windowOp assigns records to windows. Their lifecycle closes them: what may still come is the start of the earliest window that is not
// closed, whether it holds anything or not, since a record may come for it.
type windowOp[K, V any] struct {
	lifecycle
	at      *int
	windows window.Windows
	key     serde.Serde[K]
	fold    fold[window.Key[K], V]
	guard   func(Record[K, V]) (*Record[K, V], []byte, error)

	kr      Record[window.Key[K], V] // the record in process, as keyed's
	missing []graph.Interval
}

func (op *windowOp[K, V]) push(rec Record[K, V]) error {
	r, key, err := op.guard(rec)
	if r == nil || err != nil {
		return err
	}
	op.missing = op.missing[:0]
	took := false
	judge := op.judge() // of what is gone
	for start := op.windows.First(r.Time); start <= r.Time; {
		closed := window.Closed(op.windows, start, op.w)
		switch {
		case (closed || op.byChannel) && (!reopenClosed || op.horizon > 0) && op.gone(start, judge):
			op.missing = append(op.missing, graph.Interval{Start: start, End: op.windows.End(start)})
		default:
			took = true
			if closed {
				op.late(op.w, op.windows.End(start))
			}
			*op.at = op.m.local // the window before this one may have passed its result on
			op.buf = state.AppendWindowKey(op.buf[:0], start, key)
			op.low = min(op.low, start)
			k := window.Key[K]{Key: r.Key, Start: start, End: op.windows.End(start)}
			op.kr = Record[window.Key[K], V]{Key: k, Value: r.Value, Time: r.Time, trace: r.trace}
			if err := op.fold.add(k, op.buf, &op.kr, closed && !reopenClosed); err != nil {
				return err
			}
		}
		next := op.windows.Next(start)
		if next <= start {
			break
		}
		start = next
	}
	if len(op.missing) > 0 {
		op.missed(r.Time, judge, slices.Clone(op.missing), took)
	} else if !took {
		op.rt.Count(op.m.local, graph.NoWindow)
	}
	return nil
}

// gone says whether a window is closed at watermark w, and too old to be corrected.
func (op *windowOp[K, V]) gone(start, w int64) bool {
	return window.Closed(op.windows, start, w) && (op.horizon == 0 || start < op.bounds.kept(w, op.horizon))
}

// windowBounds are the bounds of windows with fixed ends.
type windowBounds struct{ window.Windows }

func (b windowBounds) hold(w int64) int64 { return window.Hold(b.Windows, w) }
func (b windowBounds) open(w int64) int64 { return window.Hold(b.Windows, w) }

func (b windowBounds) kept(w, horizon int64) int64 {
	if horizon == 0 {
		return window.Hold(b.Windows, w)
	}
	grace := b.GraceMillis()
	if horizonNoGrace {
		grace = 0
	}
	return window.Open(b.Windows, w, sum(grace, horizon))
}

func (op *windowOp[K, V]) windowKey(key []byte) (window.Key[K], error) {
	start, inner, ok := state.SplitWindowKey(key)
	if !ok {
		return window.Key[K]{}, fmt.Errorf("window store %s: a key of %d bytes is too short for a window", op.name, len(key))
	}
	return windowKey(op.name, op.key, inner, start, op.windows.End(start))
}

// sum is a + b, neither of them negative, and at most the end of time: a grace of a user's own windows may be as long.
func sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
