package oracle

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// rec is a record on its way.
type rec struct {
	key, value    string
	start         int64 // of a windowed key
	nullKey, null bool
	time          int64
	raw           *Record
}

// next gives a record to what is behind a node.
func (b *batch) next(node int, r rec) error {
	for _, d := range b.down[node] {
		if err := b.push(d, r); err != nil {
			return err
		}
	}
	return nil
}

// fails says what a node makes of a value that is bad for it. Under Fail the application ends and starts again until the node is healed.
func (b *batch) fails(node int, v string) error {
	n := b.node(node)
	if Has(v, n.Bad) && b.Spec.PolicyOf(node) != Fail {
		return &failure{node, n.Panic}
	}
	return nil
}

// push runs one node.
func (b *batch) push(node int, r rec) error {
	n := b.node(node)
	switch n.Kind {
	case Filter, MapValues, Map, FlatMap, GroupBy: // callbacks see no null values
		if r.null {
			b.count("null-value")
			return nil
		}
	case Aggregate, Reduce, OrDelete, Join, LeftJoin:
		switch {
		case r.nullKey:
			b.count("null-key")
			return nil
		case r.null:
			b.count("null-value")
			return nil
		}
	case Process:
		if n.Store != "" && r.nullKey {
			b.count("null-key")
			return nil
		}
	}
	switch n.Kind {
	case Merge:
		return b.next(node, r)
	case Filter:
		if err := b.fails(node, r.value); err != nil {
			return err
		}
		if !Keeps(r.value) {
			return nil
		}
		return b.next(node, r)
	case MapValues:
		if err := b.fails(node, r.value); err != nil {
			return err
		}
		r.value = Mapped(r.value)
		return b.next(node, r)
	case Map:
		if err := b.fails(node, r.value); err != nil {
			return err
		}
		r.key, r.nullKey = Rekeyed(r.value), false
		return b.next(node, r)
	case FlatMap:
		r.nullKey = false
		if err := b.next(node, r); err != nil {
			return err
		}
		if err := b.fails(node, r.value); err != nil {
			return err
		}
		if !Twice(r.value) {
			return nil
		}
		r.key += "2"
		return b.next(node, r)
	case Changes:
		if !b.node(n.In[0]).Windowed() {
			return b.next(node, r)
		}
		if r.null {
			b.count("null-value")
			return nil
		}
		r.key, r.start = fmt.Sprintf("%s@%d", r.key, r.start), 0
		return b.next(node, r)
	case GroupBy:
		r.key, r.nullKey = Rekeyed(r.value), false
		b.write(n.Name, r, []byte(r.key), []byte(r.key))
	case Repartition:
		if r.nullKey {
			b.count("null-key")
			return nil
		}
		b.write(n.Name, r, []byte(r.key), []byte(r.key))
	case To:
		var key []byte
		if !r.nullKey {
			key = []byte(r.key)
		}
		if up := b.node(n.In[0]); up.Windowed() {
			b.limit(node, r, len(r.key)+8)
			b.write(n.Name, r, windowedKey(r.key, r.start), key)
		} else {
			b.limit(node, r, len(key))
			b.write(n.Name, r, key, key)
		}
	case Aggregate, Reduce, OrDelete:
		return b.aggregate(node, r)
	case Join, LeftJoin:
		e, ok := b.res.Stores[b.node(n.In[1]).Store][r.key]
		if !ok && n.Kind == Join {
			b.count("no-match")
			return nil
		}
		if err := b.fails(node, r.value); err != nil {
			return err
		}
		r.value = Joined(r.value, e.Value, ok)
		return b.next(node, r)
	case Process:
		return b.process(node, r)
	}
	return nil
}

// limit notes an output that is too large for its topic.
func (b *batch) limit(node int, r rec, key int) {
	size := key + len(r.value)
	if r.null {
		size = key
	}
	if r.raw != nil {
		for _, h := range r.raw.Headers {
			size += len(h.Key) + len(h.Value)
		}
	}
	if n := b.node(node); n.Limit > 0 && size > n.Limit && b.refused < 0 {
		b.refused = node
	}
}

func (b *batch) write(topic string, r rec, key, partitionKey []byte) {
	o := Output{Topic: topic, PartitionKey: partitionKey, Record: Record{Key: key, Time: r.time}}
	if !r.null {
		o.Value = []byte(r.value)
	}
	if r.raw != nil {
		o.Headers = r.raw.Headers
	}
	b.res.Outputs = append(b.res.Outputs, o)
}

// aggregate adds a record to all windows [s, s+size) with s a multiple of advance that hold it and have not closed: W < s+size+grace.
func (b *batch) aggregate(node int, r rec) error {
	n := b.node(node)
	if !n.Windowed() {
		return b.fold(node, r, r.key)
	}
	var missed []int64
	took := false
	for start := max(0, (r.time-n.Size)/n.Advance*n.Advance); start <= r.time; start += n.Advance {
		if start+n.Size <= r.time {
			continue
		}
		if b.w[node] != Unknown && b.w[node] >= start+n.Size+n.Grace {
			missed = append(missed, start)
			continue
		}
		took = true
		w := r
		w.start = start
		if err := b.fold(node, w, WindowKey(start, r.key)); err != nil {
			return err
		}
	}
	if len(missed) > 0 {
		b.late(node, r, missed, took)
	}
	return nil
}

func (b *batch) fold(node int, r rec, key string) error {
	n := b.node(node)
	e, had := b.res.Stores[n.Name][key]
	// Reduce does not call its function for the first value.
	if had || n.Kind != Reduce {
		if err := b.fails(node, r.value); err != nil {
			return err
		}
	}
	at := r.time
	if had {
		at = max(at, e.Time)
	}
	if n.Kind == OrDelete && Ends(r.value) {
		if !had {
			return nil
		}
		b.delete(n.Name, key)
		r.value, r.null = "", true
	} else {
		r.value = Folded(e.Value, r.value)
		b.put(n.Name, key, Entry{at, r.value})
	}
	r.time = at
	if n.OnClose {
		return nil
	}
	return b.next(node, r)
}

func (b *batch) late(node int, r rec, missed []int64, took bool) {
	n := b.node(node)
	if n.Sideline == "" {
		for range missed {
			b.count("late-dropped")
		}
		return
	}
	if b.aside[node] {
		return // it came by two ways
	}
	b.aside[node] = true
	b.count("late-sidelined")
	raw, num := b.raw, func(n int64) string { return strconv.FormatInt(n, 10) }
	h := append(slices.Clone(raw.Headers),
		Header{"x-late-reason", "window-closed"}, Header{"x-late-operator", n.Name},
		Header{"x-late-watermark", num(b.w[node])}, Header{"x-late-partial", strconv.FormatBool(took)})
	for _, s := range missed {
		h = append(h, Header{"x-late-window-start", num(s)}, Header{"x-late-window-end", num(s + n.Size)},
			Header{"x-late-by-ms", num(b.w[node] - s - n.Size - n.Grace)})
	}
	h = append(h, Header{"x-origin-topic", b.node(b.Sub.Sources[b.source]).Name}, Header{"x-origin-partition", num(int64(b.Partition))},
		Header{"x-origin-offset", num(raw.Offset)}, Header{"x-event-time", num(r.time)})
	b.res.Outputs = append(b.res.Outputs, Output{
		Topic: n.Sideline, PartitionKey: raw.Key, Record: Record{Key: raw.Key, Value: raw.Value, Time: r.time, Headers: h},
	})
}

// process keeps the fold of each key, passes it on, and deletes at a null value.
func (b *batch) process(node int, r rec) error {
	n := b.node(node)
	if n.Store != "" {
		if r.null {
			b.delete(n.Store, r.key)
		} else {
			r.value = Folded(b.res.Stores[n.Store][r.key].Value, r.value)
			b.put(n.Store, r.key, Entry{b.time, r.value})
		}
	}
	if err := b.next(node, r); err != nil {
		return err
	}
	if !r.null {
		return b.fails(node, r.value)
	}
	return nil
}

// punctuate passes the entries on and deletes every other one.
func (b *batch) punctuate(node int, w int64) error {
	n := b.node(node)
	b.time = w
	for i, key := range sorted(b.res.Stores[n.Store]) {
		e := b.res.Stores[n.Store][key]
		if i%2 == 1 {
			b.delete(n.Store, key)
		}
		if err := b.next(node, rec{key: key, value: Punctuated(w, e.Value), time: max(w, 0)}); err != nil {
			return err
		}
	}
	if n.Bad != 0 && Breaks(w, n.Every) && b.Spec.PolicyOf(node) != Fail {
		return &failure{node, n.Panic}
	}
	return nil
}

func (b *batch) tick(e Event) error {
	n := b.node(e.Node)
	return b.next(e.Node, rec{key: "tick", value: Counted(len(b.res.Stores[n.Store])), time: e.Time})
}

// settle lets time do its work, upstream first: an operator tells those behind it only when it has nothing due.
func (b *batch) settle() {
	for i := range b.sources {
		b.out[b.sources[i].node] = b.sources[i].w
	}
	for _, i := range b.Sub.Nodes {
		n := b.node(i)
		if !n.Reads() {
			low := b.out[n.In[0]]
			if n.Kind == Merge {
				low = min(low, b.out[n.In[1]])
			}
			b.w[i], b.out[i] = low, low
			switch {
			case low == Unknown:
			case n.Windowed():
				b.close(i)
			case n.Every > 0:
				b.fire(i)
			}
		}
		for _, d := range b.down[i] {
			if b.node(d).Repartitions() {
				b.edges[d] = b.out[i]
			}
		}
	}
}

// close closes windows by start, then by key, and tells those behind that nothing older than the earliest open window will come.
func (b *batch) close(node int) {
	n, w := b.node(node), b.w[node]
	for _, k := range sorted(b.res.Stores[n.Name]) {
		hex, key, _ := strings.Cut(k, " ")
		u, _ := strconv.ParseUint(hex, 16, 64)
		start := int64(u)
		if start+n.Size+n.Grace > w {
			continue
		}
		e := b.res.Stores[n.Name][k]
		b.time = e.Time
		b.unit(nil, 0, func() error {
			if !n.OnClose {
				return nil
			}
			return b.next(node, rec{key: key, start: start, value: e.Value, time: e.Time})
		})
		delete(b.res.Stores[n.Name], k)
	}
	if w == math.MaxInt64 {
		return
	}
	behind := w - n.Size - n.Grace
	start := behind / n.Advance * n.Advance
	for start <= behind { // the first that is open
		start += n.Advance
	}
	for start-n.Advance > behind {
		start -= n.Advance
	}
	b.out[node] = start
}

// fire fires when the watermark first becomes known, and when it passes a multiple of Every.
func (b *batch) fire(node int) {
	n, w := b.node(node), b.w[node]
	if w < b.due[node] {
		return
	}
	b.unit(nil, 0, func() error { return b.punctuate(node, w) })
	next := w / n.Every * n.Every
	for next <= w {
		next += n.Every
	}
	for next-n.Every > w {
		next -= n.Every
	}
	b.due[node] = next
}
