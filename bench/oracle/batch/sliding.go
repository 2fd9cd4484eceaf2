package batch

import (
	"cmp"
	"slices"
)

// slide puts a record into its sliding windows. Those of a key end at each of its records and begin just behind each of them that
// another one follows within the window, both ends inclusive; none begins before 0. Of those that contain the record, and the one
// behind it, the ones that are not over give a result if they have changed or are new.
func (b *run) slide(r Record) {
	c := b.c
	open := b.w - c.Grace // what ends there or later is open
	if r.Time+c.Diff < open {
		return // late for all that could contain it
	}
	b.events = append(b.events, r)
	var times []int64 // of the key
	for _, e := range b.events {
		if e.Key == r.Key {
			times = append(times, e.Time)
		}
	}
	slices.Sort(times)
	times = slices.Compact(times)

	starts := map[int64]bool{}
	for i, t := range times {
		starts[max(0, t-c.Diff)] = true
		if i+1 < len(times) && times[i+1] <= t+1+c.Diff {
			starts[t+1] = true
		}
	}
	behind := r.Time + 1
	var found []*win
	for start := range starts {
		end := start + c.Diff
		if end < open || start > behind || end < r.Time {
			continue
		}
		w := b.window(r.Key, start, end)
		if start == behind && len(w.in) > 0 {
			continue // there already, and the record is not in it
		}
		found = append(found, w)
	}
	slices.SortFunc(found, func(x, y *win) int {
		return b.order(r, x.start, y.start, func(start int64) bool { return len(b.there(r.Key, start).in) > 0 })
	})
	for _, w := range found {
		w.in = nil
		for _, e := range b.events {
			if e.Key == w.key && w.start <= e.Time && e.Time <= w.end {
				w.in = append(w.in, e)
			}
		}
		b.update(w, w.latest())
	}
}

// order is that of the results of one record. It is a matter of taste; this is Kafka Streams': windows that are there already, the
// latest first; the one behind the record before; the one that the record ends; the one behind it. Before diff it has another one.
func (b *run) order(r Record, x, y int64, there func(start int64) bool) int {
	other := b.q.Upwards && r.Time < b.c.Diff
	rank := func(start int64) int {
		switch {
		case other && start == 0:
			return 5
		case there(start):
			return 0
		case start == r.Time+1 && other:
			return 1
		case start == r.Time+1:
			return 4
		case start == max(0, r.Time-b.c.Diff):
			return 3
		}
		return 2
	}
	starts := cmp.Compare(y, x)
	if other {
		starts = -starts
	}
	return cmp.Or(cmp.Compare(rank(x), rank(y)), starts)
}

// slideByWindows is how Kafka Streams does it: it keeps no records, and takes what belongs into a new window from those that are
// there. Without the quirks that is no difference.
func (b *run) slideByWindows(r Record) {
	c := b.c
	t, open := r.Time, b.w-c.Grace
	if t+1+c.Diff <= open {
		return
	}
	early := t < c.Diff
	if early && c.Emit == Update {
		was := map[int64]bool{}
		for _, w := range b.windows {
			was[w.start] = was[w.start] || w.key == r.Key
		}
		defer func() {
			slices.SortStableFunc(b.out, func(x, y Result) int {
				return b.order(r, x.Start, y.Start, func(start int64) bool { return was[start] })
			})
		}()
	}
	var there []*win
	for _, w := range b.windows {
		if w.key == r.Key && w.start >= t-2*c.Diff && w.start <= t+1 && (!b.q.Hidden || b.found(w.start)) {
			there = append(there, w)
		}
	}
	slices.SortFunc(there, func(x, y *win) int { return cmp.Compare(y.start, x.start) })
	if early {
		slices.Reverse(there)
	}
	var left, right []Record // what the record's own windows have from others
	var last int64 = unknown // the record before it
	var zero *win            // [0, diff]
	hasLeft, hasRight := false, false
	starts := map[int64]bool{}
scan:
	for _, w := range there {
		starts[w.start] = true
		newest := w.latest()
		switch {
		case w.start == t+1:
			hasRight = true
		case early && w.start == 0:
			zero = w
			if newest < t {
				last = newest
			}
		case early:
			right = w.in
			b.into(w, r, w.in)
		case w.end > t:
			if newest > t && !hasRight && right == nil {
				right = w.in
			}
			b.into(w, r, w.in)
		case w.end == t:
			hasLeft = true
			b.into(w, r, w.in)
			if newest >= t {
				return
			}
			last = newest
		default:
			left, last = w.in, newest
			break scan
		}
	}
	if early && right == nil && zero != nil && zero.latest() > t {
		right = zero.in
	}
	ownRight := func() {
		if !hasRight && latest(right) > t {
			w := b.window(r.Key, t+1, t+1+c.Diff)
			w.in, w.final = slices.Clone(right), false
			b.store(w.start)
			b.update(w, w.latest())
		}
	}
	if early {
		ownRight()
	}
	if last != unknown && !starts[last+1] && last+1+c.Diff >= t {
		// That may be the record's own left window, which is made again below.
		if b.q.Twice || last+1 != t-c.Diff {
			b.into(b.window(r.Key, last+1, last+1+c.Diff), r, nil)
		}
	}
	switch {
	case early && zero != nil:
		b.into(zero, r, zero.in)
	case early:
		b.into(b.window(r.Key, 0, c.Diff), r, nil)
	case !hasLeft:
		if last == unknown || last < t-c.Diff {
			left = nil
		}
		b.into(b.window(r.Key, t-c.Diff, t), r, left)
	}
	if !early {
		ownRight()
	}
}

// into makes the content of a window anew, if it is not over: of what is given, and the record.
func (b *run) into(w *win, r Record, of []Record) {
	over := w.end < b.w-b.c.Grace
	if over && b.q.Forgets {
		if len(w.in) == 0 {
			b.windows = slices.DeleteFunc(b.windows, func(x *win) bool { return x == w })
		}
		return
	}
	w.in = append(slices.Clone(of), r)
	b.store(w.start)
	if over {
		w.final = true // has had its result, and keeps what others are made of
		return
	}
	w.final = false
	b.update(w, w.latest())
}
