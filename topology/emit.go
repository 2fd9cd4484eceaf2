package topology

import (
	"time"

	"github.com/headrace/headrace/state"
)

// AggregateOption says when an aggregate gives results, and which.
type AggregateOption struct{ set func(*emission) }

// emission is what the options of one aggregate say.
type emission struct {
	when       []string // the options that say when, as they are called
	onClose    bool
	final      bool
	onCommit   bool
	earlyEvery time.Duration
	earlyCount int
	every      bool // EmitEarlyEvery was said
	counted    bool // EmitEarlyCount was said
	discard    bool
	retract    bool
	accept     bool
	correct    bool // the windows' late policy corrects
}

func (e *emission) says(option string) *emission {
	e.when = append(e.when, option)
	return e
}

// opens says whether there are results of windows that are open.
func (e *emission) opens() bool { return e.every || e.counted }

// EmitOnUpdate makes an aggregate emit a result for each record: the default, and here to be said aloud. Kafka Streams:
// EmitStrategy.onWindowUpdate, with its cache off.
func EmitOnUpdate() AggregateOption {
	return AggregateOption{func(e *emission) { e.says("EmitOnUpdate") }}
}

// EmitOnClose makes a windowed aggregate emit one result for each window and key, when the window closes, instead of one for each
// record. Results of one watermark advance come by window start, then by the bytes of the key. Nothing comes before the watermark
// is known, which takes a record in every input partition that is not idle: see Windowed. With window.CorrectWithin corrections follow it.
// Kafka Streams: EmitStrategy.onWindowClose.
func EmitOnClose() AggregateOption {
	return AggregateOption{func(e *emission) { e.says("EmitOnClose").onClose = true }}
}

// EmitOnCommit makes an aggregate emit, when its transaction is about to be committed, one result for each key that has changed in it: its
// last. Nobody outside sees less, since nobody sees a transaction before it is committed, and what is behind the aggregate has less to do.
// How many results there are depends on where commits fall; the last one of each key and window does not. Results have no headers, and come
// in the order of the first change. What is behind hears of the watermark when they have gone out. A result that fails, and that the policy
// leaves out, is counted; the next one has its records, but where results are retracted: then the aggregate goes back to what it gave
// last. Kafka Streams: on update, with its cache on.
func EmitOnCommit() AggregateOption {
	return AggregateOption{func(e *emission) { e.says("EmitOnCommit").onCommit = true }}
}

// EmitFinal is EmitOnClose with the promise that there is exactly one result for each window and key: Build refuses it beside whatever
// makes more. Kafka Streams: Suppressed.untilWindowCloses.
func EmitFinal() AggregateOption {
	return AggregateOption{func(e *emission) {
		e.says("EmitFinal")
		e.onClose, e.final = true, true
	}}
}

// EmitEarlyEvery is EmitOnClose that also emits, each time the watermark passes a multiple of d since the epoch, the windows that are
// still open and have changed since their last result, by start and then by the bytes of the key. The clock is event time, so nothing
// comes of it while the watermark stands still. The result on closing comes in any case, and where a fold deletes what has been emitted, that is
// emitted at once. Beam: early firings. Flink: ContinuousEventTimeTrigger.
func EmitEarlyEvery(d time.Duration) AggregateOption {
	return AggregateOption{func(e *emission) {
		e.says("EmitEarlyEvery")
		e.onClose, e.every, e.earlyEvery = true, true, d
	}}
}

// EmitEarlyCount is EmitOnClose that also emits a window each time n records have gone into it since its last result.
// The result on closing comes in any case. Beam: early firings. Flink: CountTrigger.
func EmitEarlyCount(n int) AggregateOption {
	return AggregateOption{func(e *emission) {
		e.says("EmitEarlyCount")
		e.onClose, e.counted, e.earlyCount = true, true, n
	}}
}

// Discarding makes each result of a window that of the records since the result before it: whoever sums all results of a window has
// its total. The default is accumulating: each result is that of all records. It needs a window that gives several results, by
// EmitEarlyEvery, EmitEarlyCount or window.CorrectWithin. Where nothing has come since the last result there is none on closing.
// Beam: discardingFiredPanes.
func Discarding() AggregateOption {
	return AggregateOption{func(e *emission) { e.discard = true }}
}

// Retracting makes every result of a window but the first preceded by a retraction of the one before, as
// window.CorrectWithin(d).Retract() does; that implies this. Beam: accumulating and retracting.
func Retracting() AggregateOption {
	return AggregateOption{func(e *emission) { e.retract = true }}
}

// AcceptRevisions says that an aggregate behind windows that give early results, or correct what they gave, can take several results of one
// window, since they replace each other or because it does not matter, and loses those that come too late for it. Without it Build refuses to
// sum what would count double.
func AcceptRevisions() AggregateOption {
	return AggregateOption{func(e *emission) { e.accept = true }}
}

// emits reads the options of the aggregate into store, and finds what contradicts.
func (b *Builder) emits(store string, w *windowing, opts []AggregateOption) emission {
	var e emission
	for _, o := range opts {
		if o.set != nil {
			o.set(&e)
		}
	}
	fail := func(format string, args ...any) { b.fail("store %q: "+format, append([]any{store}, args...)...) }
	for _, option := range e.when[min(1, len(e.when)):] {
		// Those that say when beside the result on closing go with each other.
		if first := e.when[0]; first == "EmitOnUpdate" || first == "EmitOnCommit" || option == "EmitOnUpdate" || option == "EmitOnCommit" {
			fail("%s and %s say when results go out, and not the same; choose one", first, option)
			break
		}
	}
	if w == nil {
		switch {
		case e.onClose:
			b.fail("%s on store %q: there is no window that could close; use it behind Windowed", e.when[len(e.when)-1], store)
		case e.discard:
			fail("Discarding: there are no windows; use it behind Windowed")
		case e.retract:
			fail("Retracting: there are no windows; use it behind Windowed")
		}
		return e
	}
	if w.kind == state.SessionKind || w.kind == state.SlidingKind {
		switch {
		case e.discard:
			fail("Discarding: %v are made of those before them, which have to keep what they had; leave it out, or use windows of a fixed size", w.def)
		case e.onCommit:
			fail("EmitOnCommit: %v change their bounds with every record, so there is nothing that it would save; leave it out", w.def)
		}
	}
	e.correct = w.late.Corrects()
	e.retract = e.retract || w.late.Retracts()
	if e.every && (e.earlyEvery < time.Millisecond || e.earlyEvery%time.Millisecond != 0) {
		fail("EmitEarlyEvery(%v): give a positive number of milliseconds", e.earlyEvery)
	}
	if e.every && w.counts() {
		fail("EmitEarlyEvery: time is not what closes %v, and gives no results of them either; use EmitEarlyCount", w.def)
	}
	if e.counted && e.earlyCount < 1 {
		fail("EmitEarlyCount(%d): give 1 or more", e.earlyCount)
	}
	several := e.opens() || e.correct
	switch {
	case e.final && e.correct:
		fail("EmitFinal promises one result for each window, and window.CorrectWithin sends more; use EmitOnClose for results that are corrected")
	case e.final && several:
		fail("EmitFinal promises one result for each window, and early results are more; leave EmitFinal out")
	case e.discard && e.retract:
		fail("Discarding and Retracting: there is nothing to take back, since each result counts; choose one")
	case e.retract && e.onClose && !several:
		fail("Retracting: each window has one result only; add EmitEarlyEvery, EmitEarlyCount or window.CorrectWithin, or leave it out")
	case e.discard && !several:
		fail("Discarding: each window has one result only; add EmitEarlyEvery, EmitEarlyCount or window.CorrectWithin, or leave it out")
	case e.discard && !e.onClose:
		fail("Discarding: a result for each update would be that of one record; add EmitOnClose, or use the stream as it is")
	}
	return e
}

// keepsPanes says whether it must be remembered of each window which results it has given.
func (e *emission) keepsPanes() bool {
	return e.opens() || e.onClose && e.correct
}
