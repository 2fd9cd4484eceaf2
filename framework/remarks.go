package framework

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/headrace/headrace/internal/engine"
	"github.com/headrace/headrace/internal/graph"
)

const (
	// remarkEvery is how often a worker looks for what it should remark on.
	remarkEvery = time.Second
	// joinPatience is how long joining the group may take before the log says that it takes long.
	joinPatience = time.Second
	// windowPatience is how long windows may wait for a partition without a record before the log says so, and windowRepeat how long
	// until it says so again.
	windowPatience = 30 * time.Second
	windowRepeat   = 5 * time.Minute
	// unhurried is how long looking for what only a remark is made of may take.
	unhurried = 10 * time.Second
)

// remarks is what a worker has said of things that are no errors and that nobody would see otherwise. It belongs to the worker's
// goroutine.
type remarks struct {
	looked   time.Time
	joining  bool                 // said, since the worker is joining
	waits    map[string]*waiting  // by operator
	panicked map[string]bool      // operators whose panic has been logged with its stack
	hangs    map[string]time.Time // when each warning of an open transaction was last said
	inputs   time.Time            // when inputs were last looked at
	dropped  map[string]bool      // operators and reasons of drops that were said
}

// waiting is an operator that does not know the time yet.
type waiting struct {
	since, said time.Time
}

// remark logs what takes long.
func (w *worker) remark(now time.Time) {
	if now.Sub(w.remarks.looked) < remarkEvery {
		return
	}
	w.remarks.looked = now
	switch {
	case w.state != Joining:
		w.remarks.joining = false
	case !w.remarks.joining && now.Sub(w.since) > joinPatience:
		w.remarks.joining = true
		w.log.Info("waiting for the group", "group", w.app.set.AppID, "since", w.since)
	}
	w.remarkWindows(now)
	w.remarkHangs(now)
	w.remarkDrops()
}

// remarkDrops warns, once for each operator, of records that went no further for a reason that is more often a mistake than meant: a key
// that is not in the table, and no key where one is needed. The counters have the rest.
func (w *worker) remarkDrops() {
	for _, d := range w.tally.drops.list(w.app.layout) {
		if d.Reason != graph.NoMatch.String() && d.Reason != graph.NullKey.String() || w.remarks.dropped[d.Operator+d.Reason] {
			continue
		}
		if w.remarks.dropped == nil {
			w.remarks.dropped = make(map[string]bool)
		}
		w.remarks.dropped[d.Operator+d.Reason] = true
		w.log.Warn("records are dropped", "operator", d.Operator, "reason", d.Reason, "records", d.Records)
	}
}

// remarkWindows warns of windows that cannot close because a partition that feeds them has had no record yet.
func (w *worker) remarkWindows(now time.Time) {
	missing := make(map[string]map[topicPartition]bool) // by operator
	for _, t := range w.running {
		for _, wait := range t.run.Waiting() {
			if missing[wait.Operator] == nil {
				missing[wait.Operator] = make(map[topicPartition]bool)
			}
			for _, s := range wait.Sources {
				for _, tp := range w.app.layout.silent(t, s) {
					missing[wait.Operator][tp] = true
				}
			}
		}
	}
	maps.DeleteFunc(w.remarks.waits, func(operator string, _ *waiting) bool { return missing[operator] == nil })
	for _, operator := range slices.Sorted(maps.Keys(missing)) {
		wait := w.remarks.waits[operator]
		if wait == nil {
			if w.remarks.waits == nil {
				w.remarks.waits = make(map[string]*waiting)
			}
			w.remarks.waits[operator] = &waiting{since: now}
			continue
		}
		if now.Sub(wait.since) < windowPatience || !wait.said.IsZero() && now.Sub(wait.said) < windowRepeat {
			continue
		}
		wait.said = now
		var names []string
		for _, tp := range slices.SortedFunc(maps.Keys(missing[operator]), func(x, y topicPartition) int {
			return cmp.Or(cmp.Compare(x.topic, y.topic), cmp.Compare(x.partition, y.partition))
		}) {
			names = append(names, fmt.Sprintf("%s[%d]", tp.topic, tp.partition))
		}
		w.log.Warn("windows wait for partitions without a record", "operator", operator, "missing", names, "since", wait.since)
	}
}

// silent returns the partitions of which a source without a watermark waits to hear: its own, or, behind a repartition topic, the
// inputs of the tasks that write it and have not reported.
func (l *layout) silent(t *task, s engine.SourceWait) []topicPartition {
	topic := t.sub.sources[s.Source]
	if !t.sub.sub.Sources[s.Source].Repartition {
		return []topicPartition{{topic, t.id.Partition}}
	}
	var out []topicPartition
	for i := range l.subs {
		writer := &l.subs[i]
		if !slices.Contains(writer.sinks, topic) {
			continue
		}
		for p := range writer.tasks {
			if _, heard := slices.BinarySearch(s.Heard, p); !heard {
				out = append(out, l.inputs(engine.TaskID{SubTopology: writer.sub.ID, Partition: p})...)
			}
		}
	}
	return out
}

// logPanic logs where user code panicked, once for each operator: under Skip the same may happen with every record.
func (w *worker) logPanic(e *engine.RecordError) {
	if len(e.Stack) == 0 || w.remarks.panicked[e.Node] {
		return
	}
	if w.remarks.panicked == nil {
		w.remarks.panicked = make(map[string]bool)
	}
	w.remarks.panicked[e.Node] = true
	attrs := []any{"task", e.Task}
	if e.Topic != "" {
		attrs = append(attrs, "topic", e.Topic, "partition", e.Partition, "offset", e.Offset)
	}
	w.log.Error("the topology's own code panicked", append(attrs, "operator", e.Node, "place", e.At, "err", e.Err, "stack", string(e.Stack))...)
}

// warnEmptyStores warns of changelogs that this instance has just made although the group has positions in what their tasks read:
// what those records did to the store is not in it.
func (a *App) warnEmptyStores(ctx context.Context, lay *layout) {
	ctx, cancel := context.WithTimeout(ctx, unhurried)
	defer cancel()
	for _, t := range a.made {
		if t.store < 0 {
			continue
		}
		sub := &lay.subs[t.sub]
		var parts []topicPartition
		for p := range sub.tasks {
			parts = append(parts, lay.inputs(engine.TaskID{SubTopology: sub.sub.ID, Partition: p})...)
		}
		at := make(map[topicPartition]committed)
		pending, err := fetchStable(ctx, a.client, a.set.AppID, lay.topics, parts, at)
		if err != nil {
			a.log.Debug("cannot tell whether a new store should have been empty", "store", sub.sub.Stores[t.store].Name, "err", err)
			continue
		}
		known := len(pending)
		for _, c := range at {
			if c.offset >= 0 {
				known++
			}
		}
		if known > 0 {
			a.log.Warn("a store starts empty: its changelog is new, but the group has committed positions in what its tasks read; was the store renamed?",
				"store", sub.sub.Stores[t.store].Name, "changelog", t.name, "group", a.set.AppID)
		}
	}
}
