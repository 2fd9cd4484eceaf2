package topology

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/window"
)

// windowedBySliding is Windowed for windows that slide with the records.
func windowedBySliding[K, V any](g Grouped[K, V], out *Grouped[window.Key[K], V], s window.SlidingWindows) {
	how := out.window
	how.kind = state.SlidingKind
	how.retains = 3*s.DiffMillis() + s.GraceMillis() + how.late.CorrectMillis()
	out.key = window.KeySerde(g.key).Size(millis(s.DiffMillis()))
	if past := g.m.past; past.retract {
		g.b.fail("Windowed: the windows made at %s take results back, and a sliding window that is there for one cannot go again; use windows of a fixed size", past.at)
	}
	out.input = divided(g, how, func(in *instance, m *meta, f fold[window.Key[K], V]) divider[K, V] {
		op := &slidingOp[K, V]{
			lifecycle: lifecycle{bounds: slidingBounds{s}, pass: f.advance, stays: true, sparse: true, grain: s.DiffMillis() / 4},
			at:        in.rt.At(), windows: s, lives: s.Grace(millis(s.GraceMillis() + how.late.CorrectMillis())),
			key: g.key, fold: f, guard: keyed[K, V](in, m, g.key),
		}
		gives(&op.lifecycle, f, op.windowKey)
		return op
	})
}

// slidingBounds are the bounds of sliding windows. They stay in the store for as long as a record may come that needs what they have.
type slidingBounds struct{ window.SlidingWindows }

func (b slidingBounds) hold(w int64) int64 { return b.ClosedBelow(w) }
func (b slidingBounds) open(w int64) int64 { return b.ClosedBelow(w) }

func (b slidingBounds) kept(w, horizon int64) int64 {
	return b.Grace(millis(b.GraceMillis() + horizon)).KeptFrom(w)
}

// slidingOp puts records into the windows that hold them, and makes those that a record brings into being. What is in a new window is what
// one that is there already has. So a record goes into closed windows, too, if it is in time for any: nobody is told, but what is
// made of them later is right.
type slidingOp[K, V any] struct {
	lifecycle
	at      *int
	windows window.SlidingWindows
	lives   window.SlidingWindows // by which what is not gone can still be corrected
	key     serde.Serde[K]
	fold    fold[window.Key[K], V]
	guard   func(Record[K, V]) (*Record[K, V], []byte, error)

	slides  []window.Slide // of the key, near the record
	stored  [][]byte       // and what they have
	kr      Record[window.Key[K], V]
	p       placed
	lo, hi  []byte
	missing []graph.Interval
}

func (op *slidingOp[K, V]) push(rec Record[K, V]) error {
	r, key, err := op.guard(rec)
	if r == nil || err != nil {
		return err
	}
	judge := op.judge()
	left := op.windows.Start(r.Time)
	if op.lives.Late(r.Time, judge) {
		op.missed(r.Time, judge, []graph.Interval{op.interval(left)}, false)
		return nil
	}
	if err := op.near(key, r.Time); err != nil {
		return err
	}
	p := op.windows.Place(op.slides, r.Time)
	op.missing = op.missing[:0]
	op.kr = Record[window.Key[K], V]{Key: window.Key[K]{Key: r.Key}, Value: r.Value, Time: r.Time, trace: r.trace}
	for i := p.To - 1; i >= p.From; i-- { // the latest first, as in Kafka Streams
		if err := op.place(op.slides[i].Start, key, judge, placed{adds: true}); err != nil {
			return err
		}
	}
	if p.NewBefore {
		if err := op.place(p.Before, key, judge, placed{fresh: true, adds: true}); err != nil {
			return err
		}
	}
	if p.NewLeft {
		made := placed{fresh: true, adds: true}
		if p.LeftOf >= 0 {
			made.seed = op.stored[p.LeftOf]
		}
		if err := op.place(p.Left, key, judge, made); err != nil {
			return err
		}
	}
	if p.NewRight {
		if err := op.place(p.Right, key, judge, placed{fresh: true, seed: op.stored[p.RightOf]}); err != nil {
			return err
		}
	}
	if len(op.missing) > 0 {
		slices.SortFunc(op.missing, func(a, b graph.Interval) int { return cmp.Compare(a.Start, b.Start) })
		op.missed(r.Time, judge, append([]graph.Interval(nil), op.missing...), true)
	}
	return nil
}

// place does p to one window of the key.
func (op *slidingOp[K, V]) place(start int64, key []byte, judge int64, p placed) error {
	*op.at = op.m.local // the window before this one may have passed its result on
	p.quiet, p.closed = op.lives.Closed(start, judge), op.windows.Closed(start, op.w)
	if p.quiet && p.adds {
		op.missing = append(op.missing, op.interval(start))
	} else if p.closed && p.adds {
		op.late(op.w, op.interval(start).End)
	}
	op.low, op.first = min(op.low, start), min(op.first, start)
	op.p.key = state.AppendSlidingKey(op.p.key[:0], start, key)
	p.key = op.p.key
	op.p = p
	op.kr.Key.Start, op.kr.Key.End = start, op.windows.End(start)
	return op.fold.place(op.kr.Key, &op.p, &op.kr)
}

func (op *slidingOp[K, V]) interval(start int64) graph.Interval {
	return graph.Interval{Start: start, End: op.windows.End(start)}
}

// near reads the windows of key that a record at ts has to do with.
func (op *slidingOp[K, V]) near(key []byte, ts int64) error {
	op.slides, op.stored = op.slides[:0], op.stored[:0]
	behind := ts
	if behind < math.MaxInt64 {
		behind++
	}
	op.lo = state.AppendSlidingIndex(op.lo[:0], op.windows.From(ts), key)
	op.hi = append(state.AppendSlidingIndex(op.hi[:0], behind, key), 0)
	for e, err := range op.store.Scan(op.lo, op.hi) {
		if err != nil {
			return err
		}
		start, _, ok := state.SplitSlidingIndex(e.Key)
		if !ok {
			return fmt.Errorf("window store %s: a key of %d bytes is not of the index", op.name, len(e.Key))
		}
		op.p.key = state.AppendSlidingKey(op.p.key[:0], start, key)
		stored, ok, err := op.store.Get(op.p.key)
		if err == nil && !ok {
			err = fmt.Errorf("window store %s: the index has a window at %d that is not there", op.name, start)
		}
		if err != nil {
			return err
		}
		latest, _, err := state.SplitValue(stored)
		if err != nil {
			return fmt.Errorf("window store %s: %w", op.name, err)
		}
		op.slides, op.stored = append(op.slides, window.Slide{Start: start, Latest: latest}), append(op.stored, stored)
	}
	return nil
}

func (op *slidingOp[K, V]) windowKey(key []byte) (window.Key[K], error) {
	start, inner, ok := state.SplitSlidingKey(key)
	if !ok {
		return window.Key[K]{}, fmt.Errorf("window store %s: a key of %d bytes is not a sliding window's", op.name, len(key))
	}
	return windowKey(op.name, op.key, inner, start, op.windows.End(start))
}

// placed is what a record does to one window.
type placed struct {
	key    []byte // in the store
	fresh  bool   // it is made,
	seed   []byte // of what another one has, as the store has it; nil for nothing
	adds   bool   // the record goes into it
	closed bool
	quiet  bool // it has had its last result
}

// place does to one window what is said, and gives the results that are due.
func (f *folding[K, V, A]) place(k K, p *placed, r *Record[K, V]) (err error) {
	var c change[A]
	if p.fresh {
		if p.seed != nil {
			if c.nowAt, c.now, err = f.decode(p.seed); err != nil {
				return err
			}
		}
		if p.adds {
			c.now, _ = f.steps.add(c.now, p.seed != nil, r.Value)
			c.nowAt = r.Time // nothing in the seed is later
		}
		c.has = true
		index, buf, _ := state.SlidingKind.Index(f.ibuf[:0], state.Mutation{Key: p.key})
		f.ibuf = buf
		if err := f.store.Put(index.Key, nil); err != nil {
			return err
		}
		err = f.put(p.key, c.nowAt, c.now)
	} else {
		c, err = f.apply(p.key, r)
	}
	switch {
	case err != nil || p.quiet:
		return err
	case f.panes != nil:
		return f.update(k, p.key, c, r.updated(), p.closed)
	case f.how.onClose:
		return nil
	}
	return f.emit(k, c, r.updated(), p.closed)
}
