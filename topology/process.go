package topology

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/state"
)

// Emitter passes a record on. Its headers and origin are those of the record that it is a copy of, or was made from by With; one
// made from nothing has none. An error of Emitter is one of the record in hand, whether it is returned or not: half of its effects must not stay.
type Emitter[K, V any] func(Record[K, V]) error

// Processor is an operator written by hand. Every task has its own, and calls it from one goroutine at a time.
//
// What a processor remembers belongs in stores: after an abort, a restart or a move a new one is made, and after an error the
// stores are taken back to what they were before the record. Kafka Streams: Processor.
type Processor[K, V, K2, V2 any] interface {
	// Init is called once, before anything else: it opens the stores and schedules punctuations. out is for those; Process gets
	// the same.
	Init(t *Task, out Emitter[K2, V2]) error
	// Process handles one record. An error is an error of the record: its writes and outputs are taken back and the policy decides.
	Process(r Record[K, V], out Emitter[K2, V2]) error
}

// StoreSpec is a typed store handle: state.KeyValueOf, state.WindowsOf, EventTimers and WallClockTimers make them.
type StoreSpec interface{ Spec() state.Spec }

// Process runs a processor of one's own. newP is called once for each task. The stores that it uses are named here, and opened in
// Init; a store belongs to the operator that names it first, and others may share it; that of a TableFrom they can only read, and timers are of one operator alone. With stores it needs the stream's key, as
// every keyed operator, and null keys are dropped and counted; without, any record passes. Null values arrive, if the stream keeps
// them. Behind it the stream has no key to work by: see GroupBy. Kafka Streams: KStream.process.
func Process[P Processor[K, V, K2, V2], K, V, K2, V2 any](s Stream[K, V], name string, newP func() P, stores ...StoreSpec) Stream[K2, V2] {
	b := builder(s.n)
	if err := checkName(name); err != nil {
		b.fail("Process %q: %w", name, err)
	}
	b.need(fmt.Sprintf("Process %q", name), newP == nil)
	b.clock("Process", name)
	if len(stores) > 0 && s.n.key == nil {
		b.fail("Process %q: the key may have been changed by %s, so records of one key may be on several partitions, and its stores too; use GroupBy(…).Stream() or Repartition first", name, s.n.changed)
	}
	m := b.node(graph.ProcessorNode, name, s.n.m)
	for i, st := range stores {
		if isNil(st) {
			b.fail("Process %q: store %d of %d is nil; give a handle, as state.KeyValueOf and state.WindowsOf make them", name, i+1, len(stores))
			continue
		}
		if timers, ok := st.(timersSpec); ok {
			b.check(timers.timers())
			b.store(m, st.Spec()).timers = true
			continue
		}
		b.share(m, st.Spec())
	}
	n := &node[K2, V2]{b: b, m: m, changed: "Process at " + here()}
	needKey := len(stores) > 0
	s.n.edges = append(s.n.edges, func(in *instance) (consumer[K, V], error) {
		out, err := n.build(in)
		if err != nil {
			return consumer[K, V]{}, err
		}
		rt, at := in.rt, in.rt.At()
		t := &Task{rt: rt, m: m, init: true, w: graph.Unknown, sent: graph.Unknown, advance: out.advance}
		emit := func(r Record[K2, V2]) error {
			if t.failed != nil {
				return t.failed
			}
			if t.init {
				t.failed = errInit
				return errInit
			}
			t.failed = errPanic // stays if one passes through here
			if t.failed = out.push(r); t.failed == nil {
				*at = m.local // otherwise the operator that failed is the one to name
			}
			return t.failed
		}
		p := newP()
		if err := t.whole(p.Init(t, emit)); err != nil {
			return consumer[K, V]{}, fmt.Errorf("processor %s: Init: %w", name, err)
		}
		if err := t.allOpened(); err != nil {
			return consumer[K, V]{}, fmt.Errorf("processor %s: Init: %w", name, err)
		}
		t.init = false
		in.clocks = append(in.clocks, &taskClock{t: t})
		return consumer[K, V]{advance: t.onAdvance, push: func(r Record[K, V]) error {
			*at = m.local
			if needKey && r.nullKey {
				rt.Count(m.local, graph.NullKey)
				return nil
			}
			t.failed = nil
			return t.whole(p.Process(r, emit))
		}}, nil
	})
	return Stream[K2, V2]{n}
}

// share lets m use a store, which it brings into being if nobody has.
func (b *Builder) share(m *meta, spec state.Spec) {
	for _, def := range b.stores {
		if def.spec.Name != spec.Name {
			continue
		}
		if def.timers {
			b.fail("store %q: it holds the timers of %s, and nobody else can use it", spec.Name, def.owner.name)
			return
		}
		if def.within != "" {
			b.fail("store %q: it is a part of store %q, and nobody else can use it; give yours another name", spec.Name, def.within)
			return
		}
		if def.spec.Kind != spec.Kind {
			b.fail("store %q: used as a %s store here, and as a %s store where it was named first", spec.Name, spec.Kind, def.spec.Kind)
			return
		}
		m.stores = append(m.stores, def)
		return
	}
	b.store(m, spec)
}

// Task is what a processor knows of the task that it runs in. It belongs to the task's goroutine.
type Task struct {
	rt      graph.Runtime
	m       *meta
	init    bool
	advance func(int64)

	w, sent int64
	stream  []punctuation // by event time
	wall    []punctuation // by wall time
	timers  []*timerQueue

	failed error // of an emit in the call in progress
}

// whole is the outcome of a call of user code that returned err: what it emitted has to have worked, too.
func (t *Task) whole(err error) error {
	if err == nil {
		err = t.failed
	}
	return err
}

var errPanic = errors.New("topology: an operator behind this one panicked while it emitted, and it recovered; let the panic pass")

var (
	errNotInit = errors.New("topology: punctuations are scheduled and stores are opened in Init only")
	errInit    = errors.New("nothing can be emitted in Init, which runs again whenever the task is made")
)

// OpenStore lets typed handles open on a task: seen.Open(t). It works in Init, for the stores named in Process.
func (t *Task) OpenStore(name string, kind state.Kind) (state.Store, error) {
	return t.open(name, kind, false)
}

func (t *Task) open(name string, kind state.Kind, timers bool) (state.Store, error) {
	if !t.init {
		return nil, errNotInit
	}
	for _, def := range t.m.stores {
		if def.spec.Name != name {
			continue
		}
		if def.timers != timers {
			return nil, fmt.Errorf("topology: store %q of processor %s: what is named in Process are timers, and what is opened is not, or the other way round; use one handle for both", name, t.m.name)
		}
		st, err := t.rt.OpenStore(name, kind)
		if topic := def.spec.SourceTopic; topic != "" && err == nil {
			st = tableStore{st, fmt.Errorf("topology: store %q is the table of topic %s and is restored from there, so only records of the topic change it", name, topic)}
		}
		return st, err
	}
	return nil, fmt.Errorf("topology: store %q is not among those of processor %s; name it in Process", name, t.m.name)
}

// tableStore is the store of a table as a processor sees it. What it wrote would be in no changelog.
type tableStore struct {
	state.Store
	readOnly error
}

func (s tableStore) Put(_, _ []byte) error { return s.readOnly }
func (s tableStore) Delete([]byte) error   { return s.readOnly }

// Partition returns the task's partition.
func (t *Task) Partition() int32 { return t.rt.Partition() }

// Watermark returns the operator's watermark: no record with an earlier event time is expected. ok is false while it is not known.
func (t *Task) Watermark() (w time.Time, ok bool) {
	return time.UnixMilli(t.w).UTC(), t.w != graph.Unknown
}

// Now returns the wall time of the step in process. Results that depend on it are not the same again after an abort.
func (t *Task) Now() time.Time { return time.UnixMilli(t.rt.Now()).UTC() }

// EveryStreamTime calls f when the watermark first becomes known and whenever it passes a multiple of every since the epoch, with
// the watermark; several multiples passed at once make one call. When it fires next is checkpointed. What f emits or writes is one
// unit with a savepoint, as a record is. Kafka Streams: PunctuationType.STREAM_TIME.
func (t *Task) EveryStreamTime(every time.Duration, f func(watermark time.Time) error) error {
	return t.schedule(&t.stream, every, graph.Unknown, f)
}

// EveryWallClock calls f about every so often by the wall clock, with the time; several periods passed at once make one call. It
// starts anew when the task does. Kafka Streams: PunctuationType.WALL_CLOCK_TIME.
func (t *Task) EveryWallClock(every time.Duration, f func(now time.Time) error) error {
	return t.schedule(&t.wall, every, t.rt.Now(), f)
}

func (t *Task) schedule(list *[]punctuation, every time.Duration, start int64, f func(time.Time) error) error {
	if !t.init {
		return errNotInit
	}
	if f == nil {
		return fmt.Errorf("topology: processor %s: the function of a punctuation is nil; give one", t.m.name)
	}
	step := every.Milliseconds()
	if step <= 0 {
		return fmt.Errorf("topology: processor %s: a punctuation every %v is not possible; use a millisecond or more", t.m.name, every)
	}
	p := punctuation{every: step, start: start, due: start + step, f: f}
	if start == graph.Unknown { // event time: at once, then on the grid of the epoch
		p.start, p.due = 0, graph.Unknown
	}
	*list = append(*list, p)
	return nil
}

// allOpened says which timers nobody has opened. Those that were set would never fire, and hold nothing.
func (t *Task) allOpened() error {
	for _, def := range t.m.stores {
		if def.timers && !slices.ContainsFunc(t.timers, func(q *timerQueue) bool { return q.name == def.spec.Name }) {
			return fmt.Errorf("topology: timers %q are named in Process, and not opened; open them, with the function that they call", def.spec.Name)
		}
	}
	return nil
}
