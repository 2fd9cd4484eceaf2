package topology

import (
	"bytes"
	"slices"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/state"
)

// agenda is what an operator has to do and when: an index by time in a store, whose entries are the tag, the time, and a key. The
// operator has an entry for the key itself, too, and it decides whether one of the index still holds.
type agenda struct {
	store state.Store
	index timeIndex
	due   [][]byte // the first entries of the index, in order: all there are up to where index begins, and some that are gone

	buf, value []byte
}

// agendaBatch is how many entries one look into the index finds at most.
const agendaBatch = 256

// next is a time before which nothing is due; false if nothing is at all.
func (q *agenda) next() (int64, bool) {
	if len(q.due) > 0 {
		at, _ := splitIndex(q.due[0])
		return at, true
	}
	return q.index.low, !q.index.none
}

// pop takes the first entry that was found out of the list. The unit that does so has to be the last word on it.
func (q *agenda) pop() []byte {
	entry := q.due[0]
	q.due = q.due[1:]
	return entry
}

// look finds the next entries, due or not: one look for many.
func (q *agenda) look() error {
	q.index.none = true
	for e, err := range q.store.Scan(q.index.from, q.index.end()) {
		if err != nil {
			return err
		}
		if len(q.due) == agendaBatch {
			q.index.begin(e.Key)
			break
		}
		q.due = append(q.due, e.Key)
	}
	return nil
}

// enter takes a new entry of the index in. If the unit is rolled back the entry is not there, which whoever comes upon it finds out.
func (q *agenda) enter(entry []byte) {
	if len(q.due) == 0 || !q.index.none && bytes.Compare(entry, q.index.from) >= 0 {
		q.index.added(entry)
		return
	}
	i, there := slices.BinarySearchFunc(q.due, entry, bytes.Compare)
	if there {
		return
	}
	q.due = slices.Insert(q.due, i, bytes.Clone(entry))
	if len(q.due) == 2*agendaBatch {
		q.index.begin(q.due[agendaBatch])
		q.due = q.due[:agendaBatch]
	}
}

// put puts an entry into an index.
func (q *agenda) put(tag byte, at int64, key []byte) ([]byte, error) {
	entry := q.entry(tag, at, key)
	q.value = state.AppendValue(q.value[:0], q.store.Time(), nil)
	return entry, q.store.Put(entry, q.value)
}

// entry is an entry of an index, for the key with its tag. It is good until the next one.
func (q *agenda) entry(tag byte, at int64, key []byte) []byte {
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

// settle finds the first entry that there is.
func (x *timeIndex) settle(store state.Store) error {
	x.none, x.exact = true, true
	for e, err := range store.Scan(x.from, x.end()) {
		if err != nil {
			return err
		}
		x.begin(e.Key)
		break
	}
	return nil
}

// gone heeds that the entry at this time is, or one of several.
func (x *timeIndex) gone(at int64) {
	if x.low == at {
		x.exact = false
	}
}

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
