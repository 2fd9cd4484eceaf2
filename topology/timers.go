package topology

import (
	"fmt"
	"time"

	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
)

// Timers is the handle of a processor's timers, one for each key: "call me for this key at that time". EventTimers and
// WallClockTimers make it. It holds no state, is safe for concurrent use and usually a package variable, as that of a store, which it
// is as well: the processor names it in Process, and opens it in Init with the function that a timer calls. A processor that needs
// several timers for one key has several handles, or a key that says which.
//
// A timer is state, restored and moved with the task: set and not yet fired, it is there after a crash, a restart or a move. Under
// exactly-once each firing counts once, since what it does commits with the timer's end, or neither does.
//
// Flink: KeyedProcessFunction's timers. Kafka Streams has none for each key.
type Timers[K any] struct {
	name string
	key  serde.Serde[K]
	wall bool
}

// EventTimers returns the handle of timers in event time, kept in the store of that name. A timer fires when the operator's watermark
// reaches its time: when no record that is older is expected any more, while one of exactly that time may still come. Timers fire in
// the order of their times, then of the bytes of their keys, and before the punctuations of the same watermark.
//
// What a firing emits with the timer's time, or a later one, is never late behind the processor, whatever the watermark has jumped
// over: it is passed on when no timer is due any more. See SetHolding for what is emitted with earlier times.
func EventTimers[K any](name string, key serde.Serde[K]) Timers[K] {
	return Timers[K]{name: name, key: key}
}

// WallClockTimers returns the handle of timers in processing time, kept in the store of that name: a timer fires when the task looks
// at the clock and its time has come, within about a tenth of a second while the task runs, and otherwise when it is back. They fire in
// the order of their times, then of the bytes of their keys. No watermark waits for them; see SetHolding.
//
// Whether one fires before or after a record is not the same again after an abort.
func WallClockTimers[K any](name string, key serde.Serde[K]) Timers[K] {
	return Timers[K]{name: name, key: key, wall: true}
}

// Spec returns what a topology needs to know of the store.
func (h Timers[K]) Spec() state.Spec { return state.Spec{Name: h.name, Kind: state.KeyValueKind} }

func (h Timers[K]) timers() error {
	if h.key == nil {
		return fmt.Errorf("timers %q: no serde for their keys", h.name)
	}
	return nil
}

// timersSpec is a StoreSpec that is one of timers. err is what is wrong with it.
type timersSpec interface{ timers() (err error) }

// Open returns the timers of a task. It works in Init, once, for those named in Process. A timer that is due calls fire, with its key
// and the time for which it was set; the timer is over by then, so fire may set the next one. What fire emits and writes is one unit
// with a savepoint, as a record is, and commits may fall between firings. An error is one of the firing: all is taken back, and the
// policy of the operator decides; skipped or a dead letter, the timer is over without it.
func (h Timers[K]) Open(t *Task, fire func(key K, at time.Time) error) (*TimersView[K], error) {
	if fire == nil {
		return nil, fmt.Errorf("topology: timers %q: the function is nil; give one", h.name)
	}
	store, err := t.open(h.name, state.KeyValueKind, true)
	if err != nil {
		return nil, err
	}
	for _, q := range t.timers {
		if q.name == h.name {
			return nil, fmt.Errorf("topology: timers %q: opened twice; a timer calls one function", h.name)
		}
	}
	q := &timerQueue{agenda: agenda{store: store, index: allOf(dueTag)}, t: t, name: h.name, wall: h.wall, holds: allOf(holdTag)}
	q.fire = func(key []byte, at int64) error {
		k, err := h.key.Decode(key)
		if err != nil {
			return fmt.Errorf("topology: timers %q: decode a key: %w; were they written with another serde?", h.name, err)
		}
		return fire(k, time.UnixMilli(at).UTC())
	}
	t.timers = append(t.timers, q)
	return &TimersView[K]{q: q, key: h.key}, nil
}

// TimersView sets the timers of a task. It belongs to the task's goroutine. What it does commits, or is taken back, with the record or
// the firing in hand. Times count in whole milliseconds; what is below is cut off.
type TimersView[K any] struct {
	q   *timerQueue
	key serde.Serde[K]
	buf []byte
}

// Set sets the timer of the key, in place of the one that it may have. A time that has come already is due at once, behind the record
// in hand. So is one that a firing sets again and again; it ends no sooner than time does, with watermarks that reach the end of it.
//
// To put a timer off costs one write, and to set a new one two.
func (v *TimersView[K]) Set(key K, at time.Time) error {
	return v.set(key, timer{at: at.UnixMilli()})
}

// SetHolding is Set for a timer that will emit with times before its own: the watermark that is passed on behind the processor stays
// at earliest, if it is not past it already, until the timer has fired or is cancelled. So what it emits from earliest on is not late
// there, and operators behind wait for it: windows stay open. A processor that keeps records back until a timer fires sets it so, with
// the smallest of their times. Beam: a timer with an output timestamp.
func (v *TimersView[K]) SetHolding(key K, at, earliest time.Time) error {
	return v.set(key, timer{at: at.UnixMilli(), holds: true, hold: earliest.UnixMilli()})
}

func (v *TimersView[K]) set(key K, want timer) error {
	if err := v.encode(key); err != nil {
		return err
	}
	return v.q.set(v.buf, want)
}

// Get returns the time of the key's timer, and whether it has one. In a firing its own is over.
func (v *TimersView[K]) Get(key K) (at time.Time, ok bool, err error) {
	if err := v.encode(key); err != nil {
		return time.Time{}, false, err
	}
	have, ok, err := v.q.get(v.buf)
	if err != nil || !ok {
		return time.Time{}, false, err
	}
	return time.UnixMilli(have.at).UTC(), true, nil
}

// Cancel ends the timer of the key, which may have none.
func (v *TimersView[K]) Cancel(key K) error {
	if err := v.encode(key); err != nil {
		return err
	}
	return v.q.cancel(v.buf)
}

func (v *TimersView[K]) encode(key K) error {
	b, err := v.key.Append(append(v.buf[:0], keyTag), key)
	if err != nil {
		return fmt.Errorf("topology: timers %q: encode a key: %w", v.q.name, err)
	}
	v.buf = b
	return nil
}
