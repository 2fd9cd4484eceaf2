package topology

import (
	"fmt"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/window"
)

// Windowed divides a group by time: what is aggregated behind it is kept for each key and window. A window closes when the
// operator's watermark reaches its end plus the grace: on-close results go out, and a record for it is late from then on. late says what
// becomes of late records: window.Drop, window.Sideline, or window.CorrectWithin, which keeps the window for corrections. A record that
// is late for some of its windows only, which happens with hopping and sliding ones, goes into the others. Kafka Streams:
// KGroupedStream.windowedBy.
//
// def is window.Windows, as package window makes them or of one's own, window.Session, window.SessionBy, window.Sliding or window.Count.
// A session that grows has another key: a result on update is preceded by a null value for each session that the record has joined, and a
// correction or an early result by one for each key whose result does not count any more, or by its retraction.
//
// The watermark is the smallest of what feeds the operator. In front of a repartition topic that is the task's own input partitions,
// behind one it is every task that writes the topic, and so every partition that those read. A partition of which no record has
// come yet, or comes any more, holds it back until it is idle: when the broker has had nothing for framework's Config.IdleAfter. Then it
// comes along with the others, and what it gets later may be late.
//
// What is behind the windows gets a watermark that is held at the start of the earliest one that has not closed, so that no first result
// is late there. A correction comes later than that. So windows behind windows that correct must take records in for as long, by grace or
// corrections, and longer where they end before those in front do: Build checks that, as window.Behind reckons it.
//
// Behind a repartition topic the watermark moves once per commit of a writer, behind the records of that commit. So a record counts
// that is in the same commit as the one that would have made it late. Where a commit ends depends on how the application ran: two
// runs over the same input may judge such a record differently, and so may the same run after an abort that made it do a commit's
// work again. What has been committed is never decided again.
func Windowed[K, V any](g Grouped[K, V], def window.Definition, late window.Late) Grouped[window.Key[K], V] {
	b := g.b.must()
	if g.window != nil {
		b.fail("Windowed: the group is windowed already; aggregate it, and window the result")
	}
	b.check(late.Validate())
	if isNil(def) {
		b.fail("Windowed: the windows are nil; use some that package window makes, or a window.Windows of your own")
		def = window.Global()
	}
	how := &windowing{b: b, def: def, late: late, kind: state.WindowKind}
	out := Grouped[window.Key[K], V]{b: b, m: g.m, window: how}
	if n, ok := def.(window.CountWindows); ok {
		b.check(n.Validate())
		how.oneToOne = true
		out.key = window.KeySerde(g.key).For(n)
		windowedByCount(g, &out, n)
		return out
	}
	if g.n != nil {
		how.oneToOne = g.n.oneToOne
	}
	switch s := def.(type) {
	case window.Sessions:
		b.check(s.Validate())
		windowedBySession(g, &out, s, nil)
		return out
	case window.SessionsBy[V]:
		b.check(s.Validate())
		windowedBySession(g, &out, s.Sessions, s.GapOf)
		return out
	case window.SlidingWindows:
		b.check(s.Validate())
		windowedBySliding(g, &out, s)
		return out
	}
	w, ok := def.(window.Windows)
	if _, of := def.(interface{ GapMillis() int64 }); of && !ok {
		b.fail("Windowed: the gap of %v is made of a %T, which is not what the group has for values; give SessionBy a function of those", def, def)
		w, ok, how.def = window.Global(), true, window.Global()
	}
	if !ok {
		b.fail("Windowed: %v is no window.Windows; use one that package window makes, or implement that", def)
		w, how.def = window.Global(), window.Global()
	}
	b.check(w.Validate())
	how.windows, out.key = w, window.KeySerde(g.key).For(w)
	out.input = divided(g, how, func(in *instance, m *meta, f fold[window.Key[K], V]) divider[K, V] {
		op := &windowOp[K, V]{
			at: in.rt.At(), windows: w, key: g.key, fold: f, guard: keyed[K, V](in, m, g.key),
			lifecycle: lifecycle{bounds: windowBounds{w}, pass: f.advance, kept: f.kept},
		}
		gives(&op.lifecycle, f, op.windowKey)
		return op
	})
	return out
}

// divider is what divides a group by time, in one task.
type divider[K, V any] interface {
	graph.Clock
	push(Record[K, V]) error
	advance(w int64)
	open(in *instance, def *windowing, st *storeDef, emit emission, store graph.Expirer) error
}

// divided is the input of an aggregate behind what divides its group by time: mk makes that of one task, in front of the aggregate.
func divided[K, V any](g Grouped[K, V], how *windowing, mk func(*instance, *meta, fold[window.Key[K], V]) divider[K, V]) groupInput[window.Key[K], V] {
	return func(st *storeDef, emit emission, aggregate func(*instance, state.Store) (fold[window.Key[K], V], error)) {
		if g.n == nil {
			return // it is windowed twice, which has been said
		}
		g.n.edges = append(g.n.edges, func(in *instance) (consumer[K, V], error) {
			store, err := openExpirer(in, st.spec.Name, how.kind)
			if err != nil {
				return consumer[K, V]{}, err
			}
			f, err := aggregate(in, store)
			if err != nil {
				return consumer[K, V]{}, err
			}
			op := mk(in, st.owner, f)
			if err := op.open(in, how, st, emit, store); err != nil {
				return consumer[K, V]{}, err
			}
			in.clocks = append(in.clocks, op)
			return consumer[K, V]{push: op.push, advance: op.advance}, nil
		})
	}
}

// gives has windows give the results of an aggregate; named is the key of those that a key in the store has.
func gives[K, V any](l *lifecycle, f fold[window.Key[K], V], named func(key []byte) (window.Key[K], error)) {
	l.one = func(key, stored []byte) error {
		k, err := named(key)
		if err != nil {
			return err
		}
		return f.close(k, key, stored)
	}
	l.early = func(pane []byte) error {
		key := l.entry(pane)
		k, err := named(key)
		if err != nil {
			return err
		}
		return f.early(k, key)
	}
	l.unchanged = func(pane []byte) error { return f.unchanged(l.entry(pane)) }
}

// windowKey is the key of results of a window, with the bytes that the store has of the key in it.
func windowKey[K any](store string, s serde.Serde[K], inner []byte, start, end int64) (window.Key[K], error) {
	k, err := s.Decode(inner)
	if err != nil {
		return window.Key[K]{}, fmt.Errorf("decode the key of a window in store %s: %w", store, err)
	}
	return window.Key[K]{Key: k, Start: start, End: end}, nil
}

func openExpirer(in *instance, name string, kind state.Kind) (graph.Expirer, error) {
	opened, err := in.rt.OpenStore(name, kind)
	if err != nil {
		return nil, err
	}
	store, ok := opened.(graph.Expirer)
	if !ok {
		return nil, fmt.Errorf("window store %s: the runtime's %T cannot expire windows", name, opened)
	}
	return store, nil
}

// open fills in what the store of a windowed group and its policies say.
func (l *lifecycle) open(in *instance, def *windowing, st *storeDef, emit emission, store graph.Expirer) (err error) {
	l.lateness = lateness{rt: in.rt, m: st.owner, def: def, name: st.spec.Name}
	l.horizon, l.byChannel = def.late.CorrectMillis(), def.late.Judge() == window.Channel
	l.how, l.kind, l.store = emit, def.kind, store
	if emit.keepsPanes() {
		if l.panes, err = openExpirer(in, st.spec.Name+"-panes", state.WindowKind); err != nil {
			return err
		}
	}
	l.begin()
	return nil
}

// windowing is the part of a windowed group that has no types.
type windowing struct {
	b        *Builder
	windows  window.Windows // nil for sessions and sliding windows
	def      window.Definition
	late     window.Late
	kind     state.Kind // of the store
	retains  int64      // how long the store needs them, in milliseconds, where windows does not say
	merges   bool       // windows grow together
	oneToOne bool
	sideline *sinkDef
}

// counts says whether windows are closed by the number of their records.
func (w *windowing) counts() bool {
	_, ok := w.def.(window.CountWindows)
	return ok
}

func (w *windowing) retention() int64 {
	if f, ok := w.windows.(window.Fixed); ok {
		return f.SizeMillis() + f.GraceMillis() + w.late.CorrectMillis()
	}
	return w.retains
}

// connect checks the late policy against what the operator can know, and adds the sideline's sink.
func (w *windowing) connect(def *storeDef) {
	if name := w.b.repartitionBefore(def.owner); w.late.Judge() == window.Channel && name != "" {
		w.b.fail("store %q: LateBy(window.Channel): the records come through repartition topic %q, and do not say which task wrote them; leave LateBy out, or window in front of the topic", def.spec.Name, name)
	}
	if store := windowsBefore(def.owner); w.late.Judge() == window.Channel && store != "" {
		w.b.fail("store %q: LateBy(window.Channel): in front of it are the windows of store %q, whose results are older than the input partition's watermark, and would be late by it; leave LateBy out, or say it there", def.spec.Name, store)
	}
	topic, ok := w.late.Topic()
	if !ok {
		return
	}
	if !w.oneToOne {
		w.b.fail("Sideline(%q): a record here is not the one that the task read, because FlatMap, Process, or an aggregate made it, so the input record cannot be set aside; put a Repartition in front of the window, or use Drop", topic)
	}
	m := w.b.node(graph.SinkNode, def.spec.Name+"-late-sink", def.owner)
	w.sideline = w.b.sink(m, graph.Sink{Topic: topic})
}

// windowsBefore names a store of windows in the same sub-topology that m's records come from, "" if there is none.
func windowsBefore(m *meta) string {
	for _, u := range m.up {
		if u.windows != "" {
			return u.windows
		}
		if name := windowsBefore(u); name != "" {
			return name
		}
	}
	return ""
}

// lateness applies the policy to records that come too late, in one task.
type lateness struct {
	rt    graph.Runtime
	m     *meta
	def   *windowing
	name  string
	aside graph.Raw // the input record set aside last: topic, partition and offset
}

// late notes that a record came at watermark w for something that ends at end and has closed.
func (l *lateness) late(w, end int64) {
	closed := end + l.def.def.GraceMillis()
	if by := w - closed; closed >= end && by >= 0 { // or one of them is beyond the end of time
		l.rt.Late(l.m.local, by)
	}
}

// missed is for a record, with event time at, that missed these windows at watermark w. took says that others took it.
func (l *lateness) missed(at, w int64, windows []graph.Interval, took bool) {
	for _, iv := range windows {
		l.late(w, iv.End)
	}
	if l.def.sideline == nil {
		for range windows {
			l.rt.Count(l.m.local, graph.LateDropped)
		}
		return
	}
	raw := l.rt.Record()
	if raw.Offset == l.aside.Offset && raw.Partition == l.aside.Partition && raw.Topic == l.aside.Topic {
		return // it came by two ways, and is set aside once
	}
	l.aside = graph.Raw{Topic: raw.Topic, Partition: raw.Partition, Offset: raw.Offset}
	l.rt.Count(l.m.local, graph.LateSidelined)
	l.rt.Sideline(graph.Missed{
		Sink: l.def.sideline.local, Operator: l.name, EventTime: at, Watermark: w, Grace: l.def.def.GraceMillis(),
		Partial: took, Windows: windows,
	})
}
