package topology

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/state"
)

// session is one in the store, or one that is about to be.
type session struct {
	start, last int64 // of its records, inclusive
	closed      bool
	key, stored []byte
}

// joint is what a record does to the sessions of its key: it absorbs those that it touches, the earliest first, into one.
type joint[K any] struct {
	into  session
	parts []session
	alone bool                      // the session is the moment of the record, before and after it
	of    func(start, last int64) K // the key of results
}

// sessionPanes is the number of the encoding of sessionHistory. It shares a store with history's.
const sessionPanes = 2

// sessionHistory is what is remembered of a session's results.
//
// A result goes out under the key of a session, and the session may have grown since. So it is remembered which keys have one that
// counts: they are taken back when the next result goes out, and not before, so that there is one all the time.
type sessionHistory struct {
	results int32 // the revision of the next one
	since   int64 // records since the last one
	timing  Timing
	told    []told
	known   bool // it is in the store
}

// told is a result that counts.
type told struct {
	start, last int64
	revision    int32
	timing      Timing
	value       []byte // where it may have to be taken back; nil otherwise
}

// join takes a record into the session that it makes of those that it touches.
func (f *folding[K, V, A]) join(j *joint[K], r *Record[K, V]) error {
	var a A
	closed := j.into.closed
	for i := range j.parts {
		_, v, err := f.decode(j.parts[i].stored)
		if err != nil {
			return err
		}
		if i == 0 {
			a = v
		} else {
			a = f.steps.merge(a, v)
		}
		closed = closed || j.parts[i].closed
	}
	a, _ = f.steps.add(a, len(j.parts) > 0, r.Value)
	stays := false
	for i := range j.parts {
		if bytes.Equal(j.parts[i].key, j.into.key) {
			stays = true
		} else if err := f.forget(j.parts[i].key); err != nil {
			return err
		}
	}
	if !stays {
		index, buf, _ := state.SessionKind.Index(f.ibuf[:0], state.Mutation{Key: j.into.key})
		f.ibuf = buf
		if err := f.store.Put(index.Key, nil); err != nil {
			return err
		}
	}
	if err := f.put(j.into.key, j.into.last, a); err != nil {
		return err
	}
	if closed {
		f.count(f.node, graph.LateCorrected)
	}
	switch {
	case f.panes != nil:
		return f.joinPanes(j, a, r.updated(), closed)
	case f.how.onClose:
		return nil
	}
	p := sessionHistory{told: f.told[:0]}
	for i := range j.parts {
		p.told = append(p.told, f.toldOf(&j.parts[i], NoTiming))
	}
	f.told = p.told[:0]
	timing := NoTiming
	if closed {
		timing = Late
	}
	return f.tell(j, &p, a, r.updated(), timing)
}

// forget deletes a session with what the index has of it.
func (f *folding[K, V, A]) forget(key []byte) error {
	index, buf, _ := state.SessionKind.Index(f.ibuf[:0], state.Mutation{Key: key})
	f.ibuf = buf
	if err := f.store.Delete(index.Key); err != nil {
		return err
	}
	return f.store.Delete(key)
}

// toldOf is the result that a session has given if it is what the store has.
func (f *folding[K, V, A]) toldOf(s *session, timing Timing) told {
	t := told{start: s.start, last: s.last, timing: timing}
	if f.how.retract {
		_, t.value, _ = state.SplitValue(s.stored) // it was read before
	}
	return t
}

// joinPanes gives the result of a session that has just changed, if it is due, and remembers.
func (f *folding[K, V, A]) joinPanes(j *joint[K], a A, from trace, closed bool) error {
	var p sessionHistory
	for i := range j.parts {
		s := &j.parts[i]
		q, err := f.sessionPane(s.key)
		if err != nil {
			return err
		}
		if s.closed && len(q.told) == 0 { // that on closing, of which nothing is remembered
			q.results, q.timing, q.told = 1, OnTime, []told{f.toldOf(s, OnTime)}
		}
		p.results, p.since, p.timing = max(p.results, q.results), p.since+q.since, max(p.timing, q.timing)
		p.told = append(p.told, q.told...)
		if q.known && !bytes.Equal(s.key, j.into.key) {
			if err := f.panes.Delete(s.key[f.tag:]); err != nil {
				return err
			}
		}
	}
	switch {
	case closed || p.timing >= OnTime: // what has had its result is corrected at once
		if err := f.tell(j, &p, a, from, Late); err != nil {
			return err
		}
	case f.how.counted && p.since+1 >= int64(f.how.earlyCount):
		if err := f.tell(j, &p, a, from, Early); err != nil {
			return err
		}
	case f.how.opens():
		p.since++
	default:
		return nil // nothing to remember: the first result is that on closing
	}
	return f.keepSession(j.into.key, &p)
}

// tell gives a result of a session, and takes back those that do not count any more. On update it does so, as Kafka Streams, for a result
// under the same key, too, unless the session is of one moment.
func (f *folding[K, V, A]) tell(j *joint[K], p *sessionHistory, a A, from trace, timing Timing) error {
	for i := range p.told {
		if sessionPartLeft && i > 0 {
			break
		}
		t := &p.told[i]
		same := t.start == j.into.start && t.last == j.into.last
		out := Record[K, A]{Key: j.of(t.start, t.last), Time: t.last}
		switch {
		case f.how.retract:
			var err error
			if out.Value, err = f.serde.Decode(t.value); err != nil {
				return fmt.Errorf("decode a result in store %s-panes: %w", f.name, err)
			}
			out.trace = from.as(Pane{Revision: t.revision, Timing: t.timing, Retraction: true})
		case same && (j.alone || f.panes != nil):
			continue // replaced by the new one
		default:
			pane := Pane{Timing: timing}
			if f.panes != nil {
				pane.Revision = t.revision + 1
			}
			out.null, out.trace = true, from.as(pane)
		}
		if err := f.push(out); err != nil {
			return err
		}
	}
	out := Record[K, A]{Key: j.of(j.into.start, j.into.last), Value: a, Time: j.into.last, trace: from.as(Pane{Revision: p.results, Timing: timing})}
	if f.panes != nil {
		t := told{start: j.into.start, last: j.into.last, revision: p.results, timing: timing}
		if f.how.retract {
			var err error
			if t.value, err = f.serde.Append([]byte{}, a); err != nil {
				return fmt.Errorf("encode a result for store %s-panes: %w", f.name, err)
			}
		}
		p.told = append(p.told[:0], t)
		p.results, p.since, p.timing = p.results+1, 0, timing
	}
	return f.push(out)
}

// closeSession gives the result of a session that closes, unless a correction has: it absorbed one that had closed.
func (f *folding[K, V, A]) closeSession(j *joint[K]) error {
	at, a, err := f.decode(j.into.stored)
	if err != nil {
		return err
	}
	if f.panes == nil {
		return f.push(Record[K, A]{Key: j.of(j.into.start, j.into.last), Value: a, Time: at})
	}
	p, err := f.sessionPane(j.into.key)
	if err != nil || p.timing >= OnTime {
		return err
	}
	// That a session which has closed had a result follows from what the store has: only what it had before is remembered.
	keep := f.how.correct && p.known
	if err := f.tell(j, &p, a, trace{}, OnTime); err != nil || !keep {
		return err
	}
	return f.keepSession(j.into.key, &p)
}

// earlySession gives the result of a session that is open, if it has changed since its last one.
func (f *folding[K, V, A]) earlySession(j *joint[K]) error {
	p, err := f.sessionPane(j.into.key)
	if err != nil || p.since == 0 {
		return err
	}
	at, a, err := f.decode(j.into.stored)
	if err != nil {
		return err
	}
	f.setTime(at)
	if err := f.tell(j, &p, a, trace{}, Early); err != nil {
		return err
	}
	return f.keepSession(j.into.key, &p)
}

// unchangedSession is unchanged for a session.
func (f *folding[K, V, A]) unchangedSession(pane []byte) error {
	from, _ := state.SessionKind.Entries()
	key := append(from, pane...)
	p, err := f.sessionPane(key)
	if err != nil {
		return err
	}
	p.since = 0
	return f.keepSession(key, &p)
}

func (f *folding[K, V, A]) sessionPane(key []byte) (p sessionHistory, err error) {
	stored, ok, err := f.panes.Get(key[f.tag:])
	if err != nil || !ok {
		return p, err
	}
	_, b, err := state.SplitValue(stored)
	if err != nil {
		return p, fmt.Errorf("store %s-panes: %w", f.name, err)
	}
	if p, ok = decodeSessionHistory(b); !ok {
		return p, fmt.Errorf("store %s-panes: a value of %d bytes is not what this version writes there", f.name, len(b))
	}
	p.known = true
	return p, nil
}

func (f *folding[K, V, A]) keepSession(key []byte, p *sessionHistory) error {
	f.pbuf = appendSessionHistory(state.AppendValue(f.pbuf[:0], f.panes.Time(), nil), p)
	return f.panes.Put(key[f.tag:], f.pbuf)
}

func appendSessionHistory(dst []byte, p *sessionHistory) []byte {
	dst = append(dst, sessionPanes, byte(p.timing))
	dst = binary.AppendUvarint(dst, uint64(p.results))
	dst = binary.AppendUvarint(dst, uint64(p.since))
	for i := range p.told {
		t := &p.told[i]
		dst = binary.AppendVarint(dst, t.start)
		dst = binary.AppendVarint(dst, t.last)
		dst = binary.AppendUvarint(dst, uint64(t.revision))
		if t.value == nil {
			dst = append(dst, byte(t.timing), 0)
			continue
		}
		dst = append(dst, byte(t.timing), 1)
		dst = binary.AppendUvarint(dst, uint64(len(t.value)))
		dst = append(dst, t.value...)
	}
	return dst
}

func decodeSessionHistory(b []byte) (p sessionHistory, ok bool) {
	if len(b) < 2 || b[0] != sessionPanes || b[1] > byte(graph.Late) {
		return p, false
	}
	d := decoder{b: b[2:]}
	p.timing, p.results, p.since = Timing(b[1]), int32(d.uvarint(1<<31-1)), int64(d.uvarint(1<<63-1))
	for len(d.b) > 0 && !d.bad {
		t := told{start: d.varint(), last: d.varint(), revision: int32(d.uvarint(1<<31 - 1)), timing: Timing(d.byte(byte(graph.Late)))}
		if d.byte(1) == 1 {
			t.value = d.bytes(d.uvarint(uint64(len(d.b))))
		}
		p.told = append(p.told, t)
	}
	return p, !d.bad
}

// decoder takes numbers off a value, until one is not there.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) take(n int) {
	if d.bad = d.bad || n <= 0; d.bad {
		d.b = nil
		return
	}
	d.b = d.b[n:]
}

func (d *decoder) uvarint(most uint64) uint64 {
	v, n := binary.Uvarint(d.b)
	if d.take(n); v > most {
		d.bad = true
	}
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	d.take(n)
	return v
}

func (d *decoder) byte(most byte) (c byte) {
	if len(d.b) > 0 {
		c = d.b[0]
	}
	if d.take(min(1, len(d.b))); c > most {
		d.bad = true
	}
	return c
}

func (d *decoder) bytes(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.bad = true
		return nil
	}
	v := append([]byte{}, d.b[:n]...)
	d.b = d.b[n:]
	return v
}
