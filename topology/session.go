package topology

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/window"
)

// windowedBySession is Windowed for sessions. gapOf gives the gap of a value, in milliseconds; it is nil where all have the same.
func windowedBySession[K, V any](g Grouped[K, V], out *Grouped[window.Key[K], V], s window.Sessions, gapOf func(V) (int64, error)) {
	how := out.window
	how.kind, how.merges = state.SessionKind, true
	how.retains = 2*s.GapMillis() + s.GraceMillis() + how.late.CorrectMillis()
	out.key = window.SessionKeySerde(g.key)
	if past := g.m.past; past.retract {
		g.b.fail("Windowed: the windows made at %s take results back, and a session that one has joined cannot be taken apart again; use windows of a fixed size", past.at)
	}
	out.input = divided(g, how, func(in *instance, m *meta, f fold[window.Key[K], V]) divider[K, V] {
		b := sessionBounds{Sessions: s, pad: s.GapMillis()}
		if gapOf != nil {
			b.pad = 0
		}
		op := &sessionOp[K, V]{
			lifecycle: lifecycle{bounds: b, pass: f.advance, unchanged: f.unchangedSession, sparse: true, grain: s.GapMillis() / 4},
			b:         b, lives: s.Grace(millis(s.GraceMillis() + how.late.CorrectMillis())),
			gapOf: gapOf, key: g.key, fold: f, guard: keyed[K, V](in, m, g.key),
		}
		op.j.of = func(start, last int64) window.Key[K] { return window.Key[K]{Key: op.k, Start: start, End: last} }
		op.one = func(key, stored []byte) error { return op.whole(key, stored, f.closeSession) }
		op.early = op.earlyOne
		return op
	})
}

// sessionBounds are the bounds of sessions. The store has them by their end, which is the last timestamp, and reach pad further; where each
// record has a gap of its own the end in the store is how far they reach.
type sessionBounds struct {
	window.Sessions
	pad int64
}

func (b sessionBounds) hold(w int64) int64 { return b.Hold(w) }
func (b sessionBounds) open(w int64) int64 { return less(b.ClosedBelow(w), b.pad) }

func (b sessionBounds) kept(w, horizon int64) int64 {
	return less(b.Grace(millis(b.GraceMillis()+horizon)).ClosedBelow(w), b.pad)
}

// less is t − d, but for the ends of time, which stay.
func less(t, d int64) int64 {
	if t == math.MaxInt64 || t < math.MinInt64+d {
		return max(t, math.MinInt64)
	}
	return t - d
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// sessionOp puts records into sessions. No record that is taken touches a session that has closed, unless it corrects it.
type sessionOp[K, V any] struct {
	lifecycle
	b     sessionBounds
	lives window.Sessions // by which what is not gone can still be corrected
	gapOf func(V) (int64, error)
	key   serde.Serde[K]
	fold  fold[window.Key[K], V]
	guard func(Record[K, V]) (*Record[K, V], []byte, error)

	j    joint[window.Key[K]] // in process, and
	k    K                    // its key
	kr   Record[window.Key[K], V]
	into []byte
	scan []byte
	end  []byte
}

func (op *sessionOp[K, V]) push(rec Record[K, V]) error {
	r, key, err := op.guard(rec)
	if r == nil || err != nil {
		return err
	}
	gap := op.b.GapMillis()
	if op.gapOf != nil {
		if gap, err = op.gapOf(r.Value); err != nil {
			return err
		}
	}
	if judge := op.judge(); op.lives.Late(r.Time, judge) {
		op.missed(r.Time, judge, []graph.Interval{{Start: r.Time, End: op.b.Reach(r.Time, op.b.GapMillis())}}, false)
		return nil
	}
	reach := op.b.Reach(r.Time, gap)
	end := less(reach, op.b.pad)
	if op.gapOf == nil {
		end = r.Time
	}
	j := &op.j
	j.into = session{start: r.Time, last: r.Time}
	j.parts = j.parts[:0]
	op.k = r.Key
	op.scan = state.AppendSessionsOf(op.scan[:0], key, less(r.Time, op.b.pad))
	op.end = append(state.AppendSessionIndex(op.end[:0], math.MaxInt64, math.MaxInt64, key), 0)
	for e, err := range op.store.Scan(op.scan, op.end) {
		if err != nil {
			return err
		}
		start, to, _, ok := state.SplitSessionIndex(e.Key)
		if !ok {
			return fmt.Errorf("session store %s: a key of %d bytes is not of the index", op.name, len(e.Key))
		}
		if start > reach {
			break // and so do all behind it
		}
		n := len(j.parts)
		j.parts = slices.Grow(j.parts, 1)[:n+1]
		part := &j.parts[n]
		if err := op.read(part, start, to, key); err != nil {
			return err
		}
		j.into.start, j.into.last, end = min(j.into.start, start), max(j.into.last, part.last), max(end, to)
	}
	op.into = state.AppendSessionKey(op.into[:0], j.into.start, end, key)
	if j.into.key, j.into.closed = op.into, op.closed(end); j.into.closed {
		op.late(op.w, reach)
	}
	j.alone = j.into.start == j.into.last
	op.low, op.first = min(op.low, end), min(op.first, end)
	op.kr = Record[window.Key[K], V]{Key: j.of(j.into.start, j.into.last), Value: r.Value, Time: r.Time, trace: r.trace}
	return op.fold.join(j, &op.kr)
}

func (op *sessionOp[K, V]) closed(end int64) bool {
	return op.b.Closed(op.b.Reach(end, op.b.pad), op.w)
}

// read makes s the session of key with these bounds. It uses the bytes that s had for its key.
func (op *sessionOp[K, V]) read(s *session, start, end int64, key []byte) error {
	*s = session{start: start, closed: op.closed(end), key: state.AppendSessionKey(s.key[:0], start, end, key)}
	stored, ok, err := op.store.Get(s.key)
	if err == nil && !ok {
		err = fmt.Errorf("session store %s: the index has a session from %d to %d that is not there", op.name, start, end)
	}
	if err != nil {
		return err
	}
	return op.fill(s, end, stored)
}

// fill gives a session its value, and its last timestamp.
func (op *sessionOp[K, V]) fill(s *session, end int64, stored []byte) error {
	s.stored, s.last = stored, end
	if op.gapOf != nil {
		at, _, err := state.SplitValue(stored)
		if err != nil {
			return fmt.Errorf("session store %s: %w", op.name, err)
		}
		s.last = at
	}
	return nil
}

// whole gives a result of one session as the store has it.
func (op *sessionOp[K, V]) whole(key, stored []byte, give func(*joint[window.Key[K]]) error) error {
	start, end, inner, ok := state.SplitSessionKey(key)
	if !ok {
		return fmt.Errorf("session store %s: a key of %d bytes is not a session's", op.name, len(key))
	}
	k, err := op.key.Decode(inner)
	if err != nil {
		return fmt.Errorf("decode the key of a session in store %s: %w", op.name, err)
	}
	op.k = k
	op.j.into, op.j.parts = session{start: start, key: key}, op.j.parts[:0]
	if err := op.fill(&op.j.into, end, stored); err != nil {
		return err
	}
	return give(&op.j)
}

// earlyOne gives the early result of a session, by its key among the panes.
func (op *sessionOp[K, V]) earlyOne(pane []byte) error {
	key := op.entry(pane)
	stored, ok, err := op.store.Get(key)
	if err == nil && !ok {
		err = fmt.Errorf("session store %s: the panes have a session that is not there", op.name)
	}
	if err != nil {
		return err
	}
	return op.whole(key, stored, op.fold.earlySession)
}
