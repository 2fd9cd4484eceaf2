package topology

import (
	"encoding/binary"
	"fmt"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/state"
)

// paneFormat is the number of the encoding of history.
const paneFormat = 1

// history is what is remembered of a window's results.
type history struct {
	results int32 // so many it has given, retractions not counted
	since   int64 // records since the last of them
	// The last result, where it may have to be taken back and is not what the store had before the record.
	last   []byte
	lastAt int64
	timing Timing
}

// pane reads what is remembered of a window.
func (f *folding[K, V, A]) pane(storeKey []byte) (p history, err error) {
	stored, ok, err := f.panes.Get(storeKey[f.tag:])
	if err != nil || !ok {
		return p, err
	}
	_, b, err := state.SplitValue(stored)
	if err != nil {
		return p, fmt.Errorf("store %s-panes: %w", f.name, err)
	}
	if p, ok = decodeHistory(b); !ok {
		return p, fmt.Errorf("store %s-panes: a value of %d bytes is not what this version writes there", f.name, len(b))
	}
	return p, nil
}

func decodeHistory(b []byte) (p history, ok bool) {
	if len(b) < 2 || b[0] != paneFormat || b[1] > byte(graph.Late) {
		return p, false
	}
	p.timing = Timing(b[1])
	b = b[2:]
	results, n := binary.Uvarint(b)
	if n <= 0 || results > 1<<31-1 {
		return p, false
	}
	p.results, b = int32(results), b[n:]
	since, n := binary.Uvarint(b)
	if n <= 0 || since > 1<<63-1 {
		return p, false
	}
	p.since, b = int64(since), b[n:]
	if len(b) == 0 {
		return p, true
	}
	if p.lastAt, p.last, _ = state.SplitValue(b); p.last == nil {
		return p, false
	}
	return p, true
}

func appendHistory(dst []byte, p *history) []byte {
	dst = append(dst, paneFormat, byte(p.timing))
	dst = binary.AppendUvarint(dst, uint64(p.results))
	dst = binary.AppendUvarint(dst, uint64(p.since))
	if p.last != nil {
		dst = state.AppendValue(dst, p.lastAt, p.last)
	}
	return dst
}

func (f *folding[K, V, A]) keep(storeKey []byte, p *history) error {
	f.pbuf = appendHistory(state.AppendValue(f.pbuf[:0], f.panes.Time(), nil), p)
	return f.panes.Put(storeKey[f.tag:], f.pbuf)
}

// addToPanes is fold.add where a window may give several results.
func (f *folding[K, V, A]) addToPanes(k K, storeKey []byte, r *Record[K, V], closed bool) error {
	c, err := f.apply(storeKey, r)
	if err != nil {
		return err
	}
	return f.update(k, storeKey, c, r.updated(), closed)
}

// update gives the result of a change, if it is due, and remembers.
func (f *folding[K, V, A]) update(k K, storeKey []byte, c change[A], from trace, closed bool) error {
	if !closed && !f.how.opens() {
		return nil // nothing to remember: the first result is that on closing
	}
	p, err := f.pane(storeKey)
	if err != nil {
		return err
	}
	switch {
	case closed:
		f.count(f.node, graph.LateCorrected)
		if p.results == 0 && c.had {
			p.results, p.timing = 1, OnTime // that on closing
		}
		if !c.had && !c.has {
			return nil
		}
		if err := f.result(k, storeKey, &p, Late, c, from); err != nil {
			return err
		}
	case f.how.counted && p.since+1 >= int64(f.how.earlyCount) && c.has,
		// The result of a window that is deleted would stand for ever: on closing there is nothing left to give.
		c.had && !c.has && p.results > 0 && !f.how.discard:
		if err := f.result(k, storeKey, &p, Early, c, from); err != nil {
			return err
		}
	default:
		if p.since++; !f.how.counted && p.since > 1 {
			return nil // it is known to have changed
		}
	}
	return f.keep(storeKey, &p)
}

// early emits the result of an open window, if it has changed since its last one.
func (f *folding[K, V, A]) early(k K, storeKey []byte) error {
	p, err := f.pane(storeKey)
	if err != nil || p.since == 0 {
		return err
	}
	stored, ok, err := f.store.Get(storeKey)
	if err != nil {
		return err
	}
	if !ok { // deleted, which was told when it was
		return f.unchanged(storeKey)
	}
	c := change[A]{has: true}
	if c.nowAt, c.now, err = f.decode(stored); err != nil {
		return err
	}
	f.setTime(c.nowAt)
	if err := f.result(k, storeKey, &p, Early, c, trace{}); err != nil {
		return err
	}
	return f.keep(storeKey, &p)
}

// unchanged has an open window give no early result before it changes again.
func (f *folding[K, V, A]) unchanged(storeKey []byte) error {
	p, err := f.pane(storeKey)
	if err != nil {
		return err
	}
	p.since = 0
	return f.keep(storeKey, &p)
}

// result emits what the window has now, and remembers it in p. For a window that has been deleted that is a null value, or only the
// retraction.
func (f *folding[K, V, A]) result(k K, storeKey []byte, p *history, timing Timing, c change[A], from trace) error {
	if f.how.retract && p.results > 0 {
		back, at, ok, err := f.last(p, c)
		if err != nil {
			return err
		}
		if takeBackNew {
			back = c.now
		}
		if ok {
			pane := Pane{Revision: p.results - 1, Timing: p.timing, Retraction: true}
			if err := f.push(Record[K, A]{Key: k, Value: back, Time: at, trace: from.as(pane)}); err != nil {
				return err
			}
		}
	}
	out := Record[K, A]{Key: k, Value: c.now, Time: c.nowAt, trace: from.as(Pane{Revision: p.results, Timing: timing})}
	p.since, p.timing, p.last = 0, timing, nil
	if !c.has {
		if f.how.retract {
			p.results++
			return nil
		}
		var zero A
		out.Value, out.null = zero, true
	}
	if !revisionStuck || timing != Late {
		p.results++
	}
	if f.how.retract && c.has {
		var err error
		if p.last, err = f.serde.Append([]byte{}, c.now); err != nil {
			return fmt.Errorf("encode a result for store %s-panes: %w", f.name, err)
		}
		p.lastAt = c.nowAt
	}
	if f.how.discard && c.has && !(discardNothing && timing == Late) {
		if err := f.store.Delete(storeKey); err != nil {
			return err
		}
	}
	return f.push(out)
}

// last is the result to take back, if there is one: what is remembered, or, of that on closing, what the store had before the record.
func (f *folding[K, V, A]) last(p *history, c change[A]) (a A, at int64, ok bool, err error) {
	if p.last == nil {
		return c.old, c.oldAt, c.had && p.timing == OnTime, nil
	}
	if a, err = f.serde.Decode(p.last); err != nil {
		err = fmt.Errorf("decode a result in store %s-panes: %w", f.name, err)
	}
	return a, p.lastAt, true, err
}
