package oracle

import (
	"fmt"
	"slices"
	"strconv"
)

// rec is a record on its way.
type rec struct {
	key, value    string
	starts        string // of a windowed key: that of each window, outermost last, as bytes
	nullKey, null bool
	pane          pane
	hidden        int // headers of raw, the last ones, that tell the pane
	time          int64
	raw           *Record
}

// headers are those that it is written with.
func (r *rec) headers() []Header {
	if r.raw == nil {
		return told(nil, r.pane)
	}
	return told(r.raw.Headers[:len(r.raw.Headers)-r.hidden], r.pane)
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
	case Aggregate, Reduce, OrDelete, Total, Join, LeftJoin:
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
		if b.node(n.In[0]).Joins() {
			r.key += fmt.Sprintf("@%d-%d", timeOf(r.starts[8:]), timeOf(r.starts[:8]))
			r.starts = ""
		}
		for ; r.starts != ""; r.starts = r.starts[8:] {
			r.key += fmt.Sprint("@", timeOf(r.starts))
		}
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
			whole, tail := r.key+r.starts, 8
			if up.Joins() {
				tail = 16
			}
			b.limit(node, r, len(whole))
			b.write(n.Name, r, []byte(whole), []byte(whole[:len(whole)-tail]))
		} else {
			b.limit(node, r, len(key))
			b.write(n.Name, r, key, key)
		}
	case Aggregate, Reduce, OrDelete, Total:
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
	for _, h := range r.headers() {
		size += len(h.Key) + len(h.Value)
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
	o.Headers = r.headers()
	b.res.Outputs = append(b.res.Outputs, o)
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
	w := b.judge(node)
	raw, num := b.raw, func(n int64) string { return strconv.FormatInt(n, 10) }
	h := append(slices.Clone(raw.Headers),
		Header{"x-late-reason", "window-closed"}, Header{"x-late-operator", n.Name},
		Header{"x-late-watermark", num(w)}, Header{"x-late-partial", strconv.FormatBool(took)})
	for _, s := range missed {
		end := s + n.Size
		if !n.Joins() {
			end = b.windows(node).end(s)
		}
		h = append(h, Header{"x-late-window-start", num(s)}, Header{"x-late-window-end", num(end)},
			Header{"x-late-by-ms", num(w - end - n.Grace)})
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
			case n.Joins():
				b.closeSessions(i)
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
