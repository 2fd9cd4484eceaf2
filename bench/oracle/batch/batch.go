// Package batch says what has to come of a case, from definitions alone: it keeps every record, and makes each result anew of those
// that belong to it. It shares nothing with the library, nor with Kafka Streams. Quirks are where Kafka Streams differs.
package batch

import (
	"cmp"
	"math"
	"slices"
)

// unknown is the watermark before the first record.
const unknown = math.MinInt64

// Quirks are ways in which Kafka Streams' answers differ from what is right. None is right.
type Quirks struct {
	// Nulls: in tumbling and hopping windows and sessions a null value is an event like any other. Right: it is dropped.
	Nulls bool
	// Blind: a record that is dropped for a null does not move time. Right: it does, since time is that of the partition.
	Blind bool
	// Lost: on close, a window that starts before the latest window's start less the retention has no result. Right: every window has.
	Lost bool
	// Early: a session is over at last + gap + grace, though a record that is not late yet may still prolong it; a suppressed sliding
	// window at its end + grace, though a record at its end is not late then. So there may be a second final result. Right: nothing
	// that is final changes.
	Early bool
	// Merged: whether a record is late for a session is judged by the end of the session that it would make. Right: by its own time,
	// so that it does not depend on what came before it.
	Merged bool
	// Hidden: a session that ended before the latest one's end less the retention is no longer found, and does not merge. Right: it
	// merges until it is over.
	Hidden bool
	// Twice: a sliding window that begins just behind a record and ends at the next one has two results at that one. Right: one.
	Twice bool
	// Forgets: a record that is late for the sliding window that ends at it goes into those windows that are there and open, and is
	// forgotten for those that are made later. Right: it is in each window that is open when it comes and within whose bounds it is.
	Forgets bool
	// Upwards: the results of a record less than diff after the epoch come in another order. Right: in the order of all others.
	Upwards bool
	// KeyFirst: final results leave by end, key, start, as what is suppressed does. Right: by end, start, key, as other results on close.
	KeyFirst bool
}

// All are the quirks that Kafka Streams has.
func All() Quirks {
	return Quirks{Nulls: true, Blind: true, Lost: true, Early: true, Merged: true, Hidden: true, Twice: true, Forgets: true, Upwards: true, KeyFirst: true}
}

// Run answers a case.
func Run(c *Case, q Quirks) Answer {
	b := &run{c: c, q: q, w: unknown}
	for _, r := range c.In {
		b.out = nil
		b.record(r)
		b.answer.Out = append(b.answer.Out, b.out)
	}
	if c.Window == Sliding {
		b.answer.Dropped = 0 // which windows a record has missed is a matter of taste, where records make them
	}
	return b.answer
}

type run struct {
	c       *Case
	q       Quirks
	w       int64 // time: the largest timestamp
	newest  int64 // the latest window's start, or session's end, that was stored
	stored  bool
	windows []*win
	events  []Record // of sliding windows: those that were not late
	out     []Result
	answer  Answer
}

// win is a window of a key, with what is in it.
type win struct {
	key        string
	start, end int64
	in         []Record
	final      bool // its result on close has gone out
}

func (b *run) record(r Record) {
	sliding := b.c.Window == Sliding
	if r.NullKey || (r.Null && (sliding || !b.q.Nulls)) {
		b.answer.Dropped++
		if b.q.Blind && (r.NullKey || sliding) {
			return
		}
		b.w = max(b.w, r.Time)
		b.close()
		return
	}
	b.w = max(b.w, r.Time)
	switch b.c.Window {
	case Sliding:
		if b.q.Twice || b.q.Forgets {
			b.slideByWindows(r)
		} else {
			b.slide(r)
		}
	case Session:
		b.session(r)
	default:
		b.fixed(r)
	}
	b.close()
}

// fixed puts a record into its tumbling or hopping windows: those that start at a multiple of the advance, not below 0.
func (b *run) fixed(r Record) {
	c := b.c
	for start := r.Time - r.Time%c.Advance - c.Size/c.Advance*c.Advance; start <= r.Time; start += c.Advance {
		end := start + c.Size
		if start < 0 || end <= r.Time {
			continue
		}
		if end <= b.w-c.Grace {
			b.answer.Dropped++
			continue
		}
		w := b.window(r.Key, start, end)
		w.in = append(w.in, r)
		b.store(start)
		b.update(w, w.latest())
	}
}

func (b *run) window(key string, start, end int64) *win {
	for _, w := range b.windows {
		if w.key == key && w.start == start && w.end == end {
			return w
		}
	}
	w := &win{key: key, start: start, end: end}
	b.windows = append(b.windows, w)
	return w
}

// there is the window of a key with this start.
func (b *run) there(key string, start int64) *win {
	return b.windows[slices.IndexFunc(b.windows, func(w *win) bool { return w.key == key && w.start == start })]
}

func (b *run) store(at int64) {
	b.newest = max(at, b.newest)
	if !b.stored {
		b.newest, b.stored = at, true
	}
}

// update is a result that goes out at once, unless results are due when windows close.
func (b *run) update(w *win, at int64) {
	switch {
	case b.c.Emit == Update:
		b.out = append(b.out, Result{Key: w.key, Start: w.start, End: w.end, Value: b.value(w.in), Time: at})
	case b.held() && b.q.Early:
		b.close() // each update has its own
	}
}

func (b *run) value(in []Record) int64 {
	if b.c.Fold == Count {
		return int64(len(in))
	}
	var sum int64
	for _, r := range in {
		sum += r.Value
	}
	return sum
}

func (w *win) latest() int64 { return latest(w.in) }

func latest(in []Record) int64 {
	at := int64(unknown)
	for _, r := range in {
		at = max(at, r.Time)
	}
	return at
}

// session puts a record into its session, which takes in those within the gap, at whose ends it counts.
func (b *run) session(r Record) {
	c := b.c
	made := &win{key: r.Key, start: r.Time, end: r.Time}
	var absorbed, rest []*win
	for _, w := range b.windows {
		near := w.key == r.Key && w.start <= r.Time+c.Gap && w.end >= r.Time-c.Gap
		if near && b.q.Hidden && !b.found(w.end) {
			near = false
		}
		if !near {
			rest = append(rest, w)
			continue
		}
		absorbed = append(absorbed, w)
		made.start, made.end = min(made.start, w.start), max(made.end, w.end)
		made.in = append(made.in, w.in...)
	}
	judged := r.Time
	if b.q.Merged {
		judged = made.end
	}
	if judged < b.w-c.Grace-c.Gap {
		b.answer.Dropped++
		return
	}
	slices.SortFunc(absorbed, func(a, b *win) int { return cmp.Compare(a.end, b.end) })
	if c.Emit == Update && made.start != made.end {
		for _, w := range absorbed {
			b.out = append(b.out, Result{Key: w.key, Start: w.start, End: w.end, Null: true, Time: w.end})
		}
	}
	made.in = append(made.in, r)
	// What is not found is written over, if it has the same bounds.
	rest = slices.DeleteFunc(rest, func(w *win) bool { return w.key == made.key && w.start == made.start && w.end == made.end })
	b.windows = append(rest, made)
	b.store(made.end)
	b.update(made, made.end)
}

// found says whether the store of Kafka Streams still shows to a record what is kept under a time.
func (b *run) found(at int64) bool {
	if !b.stored {
		return true
	}
	return at > b.newest-b.retention()
}

// lost says whether a scan of the store of Kafka Streams, which has the record in it already, no longer shows a window or session. For
// sessions it takes more: the whole segment has to be gone.
func (b *run) lost(w *win) bool {
	if b.c.Window != Session {
		return w.start < b.newest-b.retention()
	}
	segment := max(b.retention()/2, 60_000)
	return w.end/segment < (b.newest-b.retention())/segment
}

// retention is what Kafka Streams was told, or its default.
func (b *run) retention() int64 {
	if b.c.Retention > 0 {
		return b.c.Retention
	}
	switch b.c.Window {
	case Sliding:
		return 2*b.c.Diff + b.c.Grace
	case Session:
		return b.c.Gap + b.c.Grace
	default:
		return b.c.Size + b.c.Grace
	}
}

// close emits the results of windows that are over.
func (b *run) close() {
	if b.c.Emit == Update {
		return
	}
	var over []*win
	for _, w := range b.windows {
		if w.final || !b.over(w) {
			continue
		}
		w.final = true
		if b.q.Lost && b.c.Emit == Close && b.lost(w) {
			continue
		}
		over = append(over, w)
	}
	slices.SortFunc(over, func(x, y *win) int {
		key := cmp.Compare(x.key, y.key)
		if b.c.Emit == Suppress || (b.c.Emit == Final && b.q.KeyFirst) {
			return cmp.Or(cmp.Compare(x.end, y.end), key, cmp.Compare(x.start, y.start))
		}
		return cmp.Or(cmp.Compare(x.end, y.end), cmp.Compare(x.start, y.start), key)
	})
	for _, w := range over {
		at := w.latest()
		if b.c.Window == Session {
			at = w.end
		}
		b.out = append(b.out, Result{Key: w.key, Start: w.start, End: w.end, Value: b.value(w.in), Time: at})
	}
}

// held says whether Kafka Streams suppresses.
func (b *run) held() bool { return b.c.Emit == Suppress || b.c.Emit == Final }

func (b *run) over(w *win) bool {
	c := b.c
	switch c.Window {
	case Session:
		last := w.end + c.Gap + c.Grace
		if !b.q.Early {
			return last+c.Gap < b.w
		}
		return last < b.w || (last == b.w && b.held())
	case Sliding:
		last := w.end + c.Grace
		return last < b.w || (last == b.w && b.q.Early && b.held())
	default:
		return w.end+c.Grace <= b.w
	}
}
