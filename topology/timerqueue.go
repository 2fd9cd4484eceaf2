package topology

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/headrace/headrace/state"
)

// timerQueue is the timers of one handle in one task.
//
// The store has an entry for each key, which says when its timer is due, and two indexes by time: of when timers are to be looked at,
// and of what they hold. The first may be too early, as a timer that is put off leaves it: whoever comes upon it puts it right.
type timerQueue struct {
	agenda
	t    *Task
	name string
	wall bool
	fire func(key []byte, at int64) error

	holds timeIndex

	firing []byte // the entry of the index whose timer is firing
	key    []byte
}

// do does one thing of what is ready: it looks what there is, or puts an entry right, or fires a timer.
func (q *timerQueue) do() error {
	if len(q.due) == 0 {
		return q.look()
	}
	entry := q.pop()
	at, key := splitIndex(entry)
	q.key = append(append(q.key[:0], keyTag), key...)
	have, ok, err := q.get(q.key)
	switch {
	case err != nil:
		return err
	case !ok || have.indexed != at:
		return nil // it was cancelled or brought forward
	case have.at > at:
		return q.set(q.key, timer{at: have.at, holds: have.holds, hold: have.hold, settle: true})
	}
	q.firing = entry
	if err := q.end(q.key, have); err != nil {
		return err
	}
	q.t.rt.SetTime(max(at, 0))
	q.t.failed = nil
	if err := q.t.whole(q.fire(key, at)); err != nil {
		return fmt.Errorf("timer %s of %s: %w", q.name, time.UnixMilli(at).UTC().Format(time.RFC3339Nano), err)
	}
	return nil
}

// fired gives a timer up that has failed: rolled back, it is there again.
func (q *timerQueue) fired(failed bool) error {
	entry := q.firing
	q.firing = nil
	if !failed || entry == nil {
		return nil
	}
	_, key := splitIndex(entry)
	q.key = append(append(q.key[:0], keyTag), key...)
	have, ok, err := q.get(q.key)
	if err != nil || !ok {
		return err
	}
	return q.end(q.key, have)
}

func (q *timerQueue) get(key []byte) (timer, bool, error) {
	stored, ok, err := q.store.Get(key)
	if err != nil || !ok {
		return timer{}, false, err
	}
	have, err := decodeTimer(stored)
	if err != nil {
		err = fmt.Errorf("topology: timers %q: %w", q.name, err)
	}
	return have, err == nil, err
}

// set sets the timer of a key, which has its tag in front.
func (q *timerQueue) set(key []byte, want timer) error {
	have, had, err := q.get(key)
	if err != nil {
		return err
	}
	want.indexed = want.at
	switch {
	case had && want.at > have.indexed && !want.settle:
		want.indexed = have.indexed // whoever comes upon it puts it right
	case had && want.at == have.indexed:
	default:
		if had {
			if err := q.store.Delete(q.entry(dueTag, have.indexed, key)); err != nil {
				return err
			}
		}
		entry, err := q.put(dueTag, want.at, key)
		if err != nil {
			return err
		}
		q.enter(entry)
	}
	if had && have.holds && (!want.holds || have.hold != want.hold) {
		if err := q.letGo(key, have); err != nil {
			return err
		}
	}
	if want.holds && (!had || !have.holds || have.hold != want.hold) {
		entry, err := q.put(holdTag, want.hold, key)
		if err != nil {
			return err
		}
		q.holds.added(entry)
	}
	q.value = want.append(state.AppendValue(q.value[:0], q.store.Time(), nil))
	if err := q.store.Put(key, q.value); err != nil {
		return err
	}
	if want.at <= q.t.time(q.wall) {
		q.t.rt.Look() // or records that wait would come before it
	}
	return nil
}

func (q *timerQueue) cancel(key []byte) error {
	have, ok, err := q.get(key)
	if err != nil || !ok {
		return err
	}
	return q.end(key, have)
}

// end takes all entries of a timer away.
func (q *timerQueue) end(key []byte, have timer) error {
	if err := q.store.Delete(q.entry(dueTag, have.indexed, key)); err != nil {
		return err
	}
	if have.holds {
		if err := q.letGo(key, have); err != nil {
			return err
		}
	}
	return q.store.Delete(key)
}

func (q *timerQueue) letGo(key []byte, have timer) error {
	entry := q.entry(holdTag, have.hold, key)
	q.holds.gone(have.hold)
	q.t.rt.Look()
	return q.store.Delete(entry)
}

// The tags of keys in the store of timers. The changelog has them, too.
const (
	dueTag  = 'd'
	holdTag = 'h'
	keyTag  = 'k'
)

// timer is what the store keeps for a key. Its format outlives the process: see TestTimerFormat.
type timer struct {
	at      int64 // when it is due
	indexed int64 // under which time it is in the index: at, or before
	holds   bool
	hold    int64 // what it holds the watermark at

	settle bool // not kept: the index is to be put right
}

const timerFormat = 1

// append appends the timer in format 1.
func (t timer) append(dst []byte) []byte {
	dst = append(dst, timerFormat)
	dst = binary.BigEndian.AppendUint64(dst, uint64(t.at))
	dst = binary.BigEndian.AppendUint64(dst, uint64(t.indexed))
	if t.holds {
		dst = binary.BigEndian.AppendUint64(dst, uint64(t.hold))
	}
	return dst
}

// decodeTimer takes a timer as it is stored.
func decodeTimer(stored []byte) (t timer, err error) {
	_, b, err := state.SplitValue(stored)
	switch {
	case err != nil:
		return t, err
	case len(b) == 0 || b[0] != timerFormat:
		return t, errors.New("an entry is in no format that this program knows; was the store another one's, or has a newer program written it?")
	case len(b) != 17 && len(b) != 25:
		return t, fmt.Errorf("an entry of %d bytes is malformed", len(b))
	}
	t.at, t.indexed = int64(binary.BigEndian.Uint64(b[1:])), int64(binary.BigEndian.Uint64(b[9:]))
	if len(b) == 25 {
		t.holds, t.hold = true, int64(binary.BigEndian.Uint64(b[17:]))
	}
	return t, nil
}
