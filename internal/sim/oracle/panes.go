package oracle

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// pane is what a result says of itself: nothing if it is the first of its window, on time.
type pane struct {
	timing   string // early, late or nothing
	revision int
	back     bool // takes a result back
}

const (
	early = "early"
	late  = "late"
)

// told are headers with those of a pane behind them.
func told(h []Header, p pane) []Header {
	h = slices.Clone(h)
	if p.timing != "" {
		h = append(h, Header{"x-pane", p.timing})
	}
	if p.revision > 0 {
		h = append(h, Header{"x-rev", strconv.Itoa(p.revision)})
	}
	if p.back {
		h = append(h, Header{"x-retract", "true"})
	}
	return h
}

// heard is the pane of a record of a repartition topic, whose last headers tell it, and how many they are.
func heard(h []Header) (p pane, n int) {
	for _, x := range h {
		switch x.Key {
		case "x-pane":
			p.timing = x.Value
		case "x-rev":
			p.revision, _ = strconv.Atoi(x.Value)
		case "x-retract":
			p.back = true
		default:
			continue
		}
		n++
	}
	return p, n
}

// history is what a window has given.
type history struct {
	results int
	since   int // records since the last result
	// The result that is in force, if there is one.
	stands bool
	last   Entry
	timing string
}

// Closes says whether a windowed aggregate gives a result when a window closes, and not one for each record.
func (n *Node) Closes() bool { return n.OnClose || n.Final || n.Early > 0 || n.EarlyCount > 0 }

// TakesBack says whether each result but the first is preceded by a retraction.
func (n *Node) TakesBack() bool { return n.Retract || n.Retracting }

// closed says whether a window has closed at the node's watermark, and gone whether it is too late for corrections, too.
func (b *batch) closed(node int, start int64) bool {
	return b.w[node] != Unknown && b.w[node] >= plus(b.windows(node).end(start), b.node(node).Grace)
}

func (b *batch) gone(node int, start, w int64) bool {
	n := b.node(node)
	return w != Unknown && w >= plus(b.windows(node).end(start), n.Grace+n.Correct)
}

// aggregate adds a record to all windows that hold it and are not gone.
func (b *batch) aggregate(node int, r rec) error {
	n := b.node(node)
	if !n.Windowed() {
		return b.fold(node, r, r.key, false)
	}
	if n.Joins() {
		return b.join(node, r)
	}
	var missed []int64
	took, judge := false, b.judge(node)
	starts := b.windows(node).of(r.time)
	for _, start := range starts {
		if b.gone(node, start, judge) {
			missed = append(missed, start)
			continue
		}
		took = true
		key := WindowKey(start, r.key+r.starts)
		w := r
		w.starts += bytesOf(start)
		b.accept(node, key, r)
		b.sawWindow(node, r, start, b.closed(node, start))
		fold := b.fold
		if n.Closes() {
			fold = b.foldPane
		}
		if err := fold(node, w, key, b.closed(node, start)); err != nil {
			return err
		}
	}
	switch {
	case len(missed) > 0:
		b.saw(SawBeyond, n.Correct > 0)
		b.late(node, r, missed, took)
	case !took:
		b.count("no-window")
		b.saw(SawGap, true)
	}
	return nil
}

// step takes a record into an aggregate.
func (b *batch) step(node int, r rec, key string) (was, is Entry, had, has bool, err error) {
	n := b.node(node)
	was, had = b.res.Stores[n.Name][key]
	// Reduce does not call its function for the first value.
	if had || n.Kind != Reduce {
		if err := b.fails(node, r.value); err != nil {
			return was, is, had, has, err
		}
	}
	is.Time, has = r.time, true
	if had {
		is.Time = max(is.Time, was.Time)
	}
	switch {
	case n.Kind == Total && r.pane.back:
		is.Value = Minus(was.Value, r.value)
		b.saw(SawSubtracted, true)
	case n.Kind == Total:
		is.Value = Plus(was.Value, r.value)
	case n.Kind == OrDelete && Ends(r.value):
		has = false
	default:
		is.Value = Folded(was.Value, r.value)
	}
	if has {
		b.put(n.Name, key, is)
	} else {
		b.delete(n.Name, key)
	}
	return was, is, had, has, nil
}

// fold gives a result for each record.
func (b *batch) fold(node int, r rec, key string, closed bool) error {
	n := b.node(node)
	was, is, had, has, err := b.step(node, r, key)
	if err != nil {
		return err
	}
	r.pane = pane{}
	if closed {
		b.count("late-corrected")
		r.pane.timing = late
	}
	if !had && !has {
		return nil
	}
	if n.TakesBack() && had {
		b.saw(SawTakenBack, closed)
		b.saw(SawRetracting, !closed)
		back := r
		back.value, back.time, back.pane.back = was.Value, was.Time, true
		if err := b.next(node, back); err != nil || !has {
			return err
		}
	}
	r.value, r.time, r.null = is.Value, is.Time, !has
	return b.next(node, r)
}

// foldPane takes a record into a window that gives results on closing, and perhaps earlier and later.
func (b *batch) foldPane(node int, r rec, key string, closed bool) error {
	n := b.node(node)
	was, is, had, has, err := b.step(node, r, key)
	if err != nil {
		return err
	}
	h := b.hist[node][key]
	h.since++
	result := is
	if !has {
		result = Entry{Time: max(r.time, was.Time)}
	}
	switch {
	case closed:
		b.count("late-corrected")
		if !had && !has {
			return nil
		}
		return b.result(node, r, key, h, late, result, has)
	case n.EarlyCount > 0 && h.since >= n.EarlyCount && has,
		// A window that is deleted says so at once, if it has given a result.
		had && !has && h.results > 0 && !n.Discard && (n.Early > 0 || n.EarlyCount > 0):
		return b.result(node, r, key, h, early, result, has)
	}
	b.setHistory(node, key, h)
	return nil
}

// result gives what a window has, and first takes back what it gave before.
func (b *batch) result(node int, r rec, key string, h history, timing string, e Entry, has bool) error {
	n := b.node(node)
	b.sawResult(n, h, timing, has)
	if n.TakesBack() && h.stands {
		back := r
		back.value, back.time, back.null, back.pane = h.last.Value, h.last.Time, false, pane{h.timing, h.results - 1, true}
		if err := b.next(node, back); err != nil {
			return err
		}
	}
	r.value, r.time, r.null, r.pane = e.Value, e.Time, !has, pane{timing, h.results, false}
	h = history{results: h.results + 1, stands: has, last: e, timing: timing}
	b.setHistory(node, key, h)
	if n.Discard && has {
		b.delete(n.Name, key)
	}
	if !has && n.TakesBack() {
		return nil
	}
	return b.next(node, r)
}

func (b *batch) setHistory(node int, key string, h history) {
	m := b.hist[node]
	old, had := m[key]
	m[key] = h
	b.undo = append(b.undo, func() {
		if had {
			m[key] = old
		} else {
			delete(m, key)
		}
	})
}

// split is the start, and what a record with it has for key and starts.
func (b *batch) split(node int, k string) (start int64, key, starts string) {
	hex, key, _ := strings.Cut(k, " ")
	u, _ := strconv.ParseUint(hex, 16, 64)
	start = int64(u)
	if b.node(b.node(node).In[0]).Windowed() { // the keys are those of windows
		key, starts = key[:len(key)-8], key[len(key)-8:]
	}
	return start, key, starts + bytesOf(start)
}

// close closes windows by start, then by key, gives early results of those that are open, and tells those behind that nothing older than the
// earliest open window will come on time.
func (b *batch) close(node int) {
	n, w := b.node(node), b.w[node]
	store := b.res.Stores[n.Name]
	for _, k := range sorted(store) {
		start, key, starts := b.split(node, k)
		ends := plus(b.windows(node).end(start), n.Grace)
		if ends > w {
			continue
		}
		if n.Closes() && (b.was[node] == Unknown || ends > b.was[node]) {
			e := store[k]
			b.time = e.Time
			if !b.unit(nil, 0, func() error { return b.result(node, rec{key: key, starts: starts}, k, b.hist[node][k], "", e, true) }) {
				delete(store, k)
			}
		}
	}
	b.was[node] = w
	for k := range store {
		if start, _, _ := b.split(node, k); b.gone(node, start, w) {
			delete(store, k)
		}
	}
	for k := range b.hist[node] {
		if start, _, _ := b.split(node, k); b.gone(node, start, w) {
			delete(b.hist[node], k)
		}
	}
	if n.Early > 0 {
		b.early(node)
	}
	if w == math.MaxInt64 {
		return
	}
	b.out[node] = min(w, b.windows(node).open(w-n.Grace))
}

// early gives results of what is open and has changed, when the watermark has passed a multiple of Early.
func (b *batch) early(node int) {
	n := b.node(node)
	if !b.passes(node) {
		return
	}
	for _, k := range sorted(b.hist[node]) {
		start, key, starts := b.split(node, k)
		h := b.hist[node][k]
		if b.closed(node, start) || h.since == 0 {
			continue
		}
		e, has := b.res.Stores[n.Name][k]
		if !has {
			h.since = 0
			b.hist[node][k] = h
			continue
		}
		b.time = e.Time
		b.saw(SawEarly, true)
		if !b.unit(nil, 0, func() error { return b.result(node, rec{key: key, starts: starts}, k, h, early, e, true) }) {
			h.since = 0 // as it is, it is not tried again
			b.hist[node][k] = h
		}
	}
}

// passes says whether the watermark has passed a multiple of Early since it was last asked.
func (b *batch) passes(node int) bool {
	n := b.node(node)
	passed := b.w[node] / n.Early * n.Early
	for passed > b.w[node] {
		passed -= n.Early
	}
	was := b.round[node]
	b.round[node] = passed
	return was != Unknown && was != passed
}

// judge is the watermark by which the record in hand is late.
func (b *batch) judge(node int) int64 {
	if b.node(node).ByChannel && b.raw != nil {
		b.saw(SawChannel, b.sources[b.source].w > b.w[node])
		return max(b.w[node], b.sources[b.source].w)
	}
	return b.w[node]
}

// accept keeps what has gone into a window, for the law that what goes in comes out.
func (b *batch) accept(node int, key string, r rec) {
	m := b.res.Accepted[node]
	if m == nil {
		m = map[string]string{}
		b.res.Accepted[node] = m
	}
	old, had := m[key]
	if r.pane.back {
		m[key] = Minus(old, r.value)
	} else {
		m[key] = Plus(old, r.value)
	}
	b.undo = append(b.undo, func() {
		if had {
			m[key] = old
		} else {
			delete(m, key)
		}
	})
}
