package topology

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/state"
)

// timerQueue is the timers of one handle in one task.
//
// The store has an entry for each key, which says when its timer is due, and two indexes by time: of when timers are to be looked at,
// and of what they hold. The first may be too early, as a timer that is put off leaves it: whoever comes upon it puts it right.
type timerQueue struct {
	t     *Task
	name  string
	wall  bool
	store state.Store
	fire  func(key []byte, at int64) error

	index timeIndex
	due   [][]byte // entries of the index, in order: all there are from the first of them to where index begins, and some that are gone
	holds timeIndex

	firing   []byte // the entry of the index whose timer is firing
	key, buf []byte
	value    []byte
}

// timerBatch is how many entries one look into the index finds at most.
const timerBatch = 256

// next is a time before which nothing is due; false if nothing is at all.
func (q *timerQueue) next() (int64, bool) {
	if len(q.due) > 0 {
		at, _ := splitIndex(q.due[0])
		return at, true
	}
	return q.index.low, !q.index.none
}

// do does one thing of what is ready: it looks what is due, or puts an entry right, or fires a timer.
func (q *timerQueue) do(limit int64) error {
	if len(q.due) == 0 {
		return q.look(limit)
	}
	at, key := splitIndex(q.due[0])
	entry := q.due[0]
	q.due = q.due[1:]
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

// look finds the next entries that are due.
func (q *timerQueue) look(limit int64) error {
	q.index.none = true
	for e, err := range q.store.Scan(q.index.from, q.index.end()) {
		if err != nil {
			return err
		}
		at, _ := splitIndex(e.Key)
		if at > limit || len(q.due) == timerBatch {
			q.index.begin(e.Key)
			break
		}
		q.due = append(q.due, e.Key)
	}
	return nil
}

// lookHolds finds the smallest time that is held.
func (q *timerQueue) lookHolds() error {
	q.holds.none, q.holds.exact = true, true
	for e, err := range q.store.Scan(q.holds.from, q.holds.end()) {
		if err != nil {
			return err
		}
		q.holds.begin(e.Key)
		break
	}
	return nil
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
	if q.holds.low == have.hold {
		q.holds.exact = false
	}
	q.t.rt.Look()
	return q.store.Delete(entry)
}

// enter takes a new entry of the index in. If the unit is rolled back the entry is not there, which whoever comes upon it finds out.
func (q *timerQueue) enter(entry []byte) {
	if len(q.due) == 0 || !q.index.none && bytes.Compare(entry, q.index.from) >= 0 {
		q.index.added(entry)
		return
	}
	i, there := slices.BinarySearchFunc(q.due, entry, bytes.Compare)
	if there {
		return
	}
	q.due = slices.Insert(q.due, i, bytes.Clone(entry))
	if len(q.due) == 2*timerBatch {
		q.index.begin(q.due[timerBatch])
		q.due = q.due[:timerBatch]
	}
}

// put puts an entry into an index.
func (q *timerQueue) put(tag byte, at int64, key []byte) ([]byte, error) {
	entry := q.entry(tag, at, key)
	q.value = state.AppendValue(q.value[:0], q.store.Time(), nil)
	return entry, q.store.Put(entry, q.value)
}

// entry is an entry of an index, for the key with its tag. It is good until the next one.
func (q *timerQueue) entry(tag byte, at int64, key []byte) []byte {
	q.buf = append(state.AppendWindowStart(append(q.buf[:0], tag), at), key[1:]...)
	return q.buf
}

// timeIndex is where a scan of an index has to begin, so that it does not go over all that was deleted since the last commit.
//
// No entry of the index is before from, but for those that have been found and not been done. It may be too early, after a rollback
// above all, and never too late.
type timeIndex struct {
	tag   byte
	from  []byte
	low   int64 // the time in from
	none  bool  // there are no entries
	exact bool  // from is an entry
}

// allOf begins before the very first entry.
func allOf(tag byte) timeIndex { return timeIndex{tag: tag, from: []byte{tag}, low: graph.Unknown} }

// begin begins at an entry, whose bytes it keeps.
func (x *timeIndex) begin(entry []byte) {
	x.from, x.none = entry, false
	x.low, _ = splitIndex(entry)
}

// added heeds a new entry.
func (x *timeIndex) added(entry []byte) {
	if x.none || bytes.Compare(entry, x.from) < 0 {
		x.begin(bytes.Clone(entry))
		x.exact = false // the unit may be rolled back
	}
}

// end is behind all entries.
func (x *timeIndex) end() []byte { return []byte{x.tag + 1} }

// The tags of keys in the store of timers. The changelog has them, too.
const (
	dueTag  = 'd'
	holdTag = 'h'
	keyTag  = 'k'
)

func splitIndex(entry []byte) (at int64, key []byte) {
	if len(entry) == 0 {
		return graph.Unknown, nil
	}
	at, key, ok := state.SplitWindowKey(entry[1:])
	if !ok {
		return graph.Unknown, nil
	}
	return at, key
}

// timer is what the store keeps for a key. Its format outlives the process: see testdata/timers1.txt.
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
