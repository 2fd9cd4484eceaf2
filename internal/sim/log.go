package sim

import (
	"github.com/headrace/headrace/internal/engine"
	"github.com/headrace/headrace/internal/graph"
)

// fate is how a transaction ended.
type fate uint8

const (
	open fate = iota
	committed
	aborted
)

type transaction struct {
	id   int64
	fate fate
	in   []*log // where it has written
}

// entry is a record in a log, or the marker of a transaction. Its offset is its index.
type entry struct {
	graph.Raw
	txn     *transaction // nil for what was written without one
	writer  engine.TaskID
	cleaned int64 // wall time of the first compaction that met it, 0 if there was none
	gone    bool  // compacted away
}

func (e *entry) committed() bool { return e.txn == nil || e.txn.fate == committed }

// log is a partition of a topic. What compaction and trimming take away is marked, and kept for the oracle.
type log struct {
	tp
	entries []entry
	start   int64
	below   int64 // all transactions that have written below it are over
}

// tp is a topic's partition.
type tp struct {
	topic string
	part  int32
}

func (l *log) end() int64 { return int64(len(l.entries)) }

// stable is the last stable offset: the first that an open transaction has written.
func (l *log) stable() int64 {
	for l.below < l.end() && (l.entries[l.below].txn == nil || l.entries[l.below].txn.fate != open) {
		l.below++
	}
	return l.below
}

func (l *log) append(e entry) int64 {
	e.Topic, e.Partition, e.Offset = l.topic, l.part, l.end()
	if t := e.txn; t != nil && !e.Control {
		known := false
		for _, in := range t.in {
			known = known || in == l
		}
		if !known {
			t.in = append(t.in, l)
		}
	}
	l.entries = append(l.entries, e)
	return e.Offset
}

// finish ends a transaction: with a marker in every log that it has written.
func (t *transaction) finish(f fate, now int64) {
	t.fate = f
	for _, l := range t.in {
		l.append(entry{Raw: graph.Raw{Control: true, Time: now}, txn: t})
	}
}

// compact leaves the last record of each key among those below an offset, and takes tombstones and markers that a compaction has met for
// the first time longer than keep ago.
func (l *log) compact(below, now, keep int64) {
	below = min(below, l.stable())
	last := map[string]int64{}
	for o := l.start; o < below; o++ {
		if e := &l.entries[o]; !e.Control && e.committed() && e.Key != nil {
			last[string(e.Key)] = o
		}
	}
	for o := l.start; o < below; o++ {
		e := &l.entries[o]
		if e.cleaned == 0 {
			e.cleaned = now
		}
		switch old := now-e.cleaned > keep; {
		case !e.committed() && !e.Control, e.Control && old:
			e.gone = true
		case e.Control:
		case e.Key != nil && last[string(e.Key)] != o, e.Value == nil && old:
			e.gone = true
		}
	}
}

// firstLive is the offset of the first record that holds a value which is still its key's.
func (l *log) firstLive() int64 {
	last := map[string]int64{}
	for o := l.start; o < l.stable(); o++ {
		if e := &l.entries[o]; !e.Control && e.committed() {
			last[string(e.Key)] = o
		}
	}
	first := l.stable()
	for _, o := range last {
		if l.entries[o].Value != nil {
			first = min(first, o)
		}
	}
	return first
}

func (l *log) trim(below int64) { l.start = max(l.start, below) }

// partitionOf puts a null key where the simulation wants it: onto the first.
func partitionOf(key []byte, n int32) int32 {
	if key == nil {
		return 0
	}
	return graph.PartitionOf(key, n)
}
