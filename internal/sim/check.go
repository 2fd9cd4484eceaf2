package sim

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/internal/sim/oracle"
	"github.com/headrace/headrace/internal/wire"
	"github.com/headrace/headrace/state"
)

// check holds what every task has written, kept and counted to the oracle.
func (w *world) check() error {
	results := map[*task]*oracle.Result{}
	for _, t := range w.tasks {
		res, err := w.checkTask(t)
		if err != nil {
			return err
		}
		results[t] = res
	}
	return w.laws(results)
}

func (w *world) checkTask(t *task) (*oracle.Result, error) {
	in := oracle.Input{Spec: &w.c.Spec, Sub: t.part.sub, Partition: t.id.Partition, Events: t.events, Cuts: t.cuts}
	in.Logs = make([][]oracle.Record, len(in.Sub.Sources))
	for i := range t.part.Sources {
		l := w.logs[tp{t.part.Sources[i].Topic, t.id.Partition}]
		if l == nil {
			continue
		}
		records, err := recordsOf(l)
		if err != nil {
			return nil, err
		}
		in.Logs[t.part.index[i]] = records
	}
	want, err := oracle.Run(in)
	if err != nil {
		return nil, differ("task %s: %w", t.id, err)
	}
	w.seen.add(want)
	if err := w.checkOutputs(t, want.Outputs); err != nil {
		return nil, err
	}
	if n := want.Taken - want.Counts["undecodable"] - want.Counts["bad-timestamp"] - want.Counts["future"]; t.records != n {
		return nil, differ("task %s has counted %d records, and there were %d", t.id, t.records, n)
	}
	for i, n := range t.counts {
		if reason := graph.Reason(i).String(); n != want.Counts[reason] {
			return nil, differ("task %s has counted %d %s, and there were %d", t.id, n, reason, want.Counts[reason])
		}
	}
	for i, s := range t.part.Stores {
		if of, panes := strings.CutSuffix(s.Name, "-panes"); panes { // what is in there shows in the results
			for k := range t.stores[i] {
				if start, end, key, ok := state.SplitSessionKey(append([]byte{0}, k...)); ok && want.Panes[of][oracle.SessionKey(start, end, string(key))] {
					continue
				}
				if start, key, _ := state.SplitWindowKey([]byte(k)); !want.Panes[of][oracle.WindowKey(start, string(key))] {
					return nil, differ("task %s: store %s: window %d of key %q has given no result, or is gone", t.id, s.Name, start, key)
				}
			}
			continue
		}
		got, err := entriesOf(s, t.stores[i])
		if err != nil {
			return nil, err
		}
		for k, e := range want.Gone[s.Name] {
			if _, open := want.Stores[s.Name][k]; !open && got[k] == e {
				delete(got, k)
			}
		}
		if d := diffMaps(want.Stores[s.Name], got); d != "" {
			return nil, differ("task %s: store %s: %s", t.id, s.Name, d)
		}
	}
	return want, nil
}

// recordsOf is what is committed in a log, as it was before compaction and trimming.
func recordsOf(l *log) ([]oracle.Record, error) {
	records := []oracle.Record{}
	for i := range l.entries {
		e := &l.entries[i]
		if e.Control || !e.committed() {
			continue
		}
		r, err := recordOf(e)
		if err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	return records, nil
}

func recordOf(e *entry) (oracle.Record, error) {
	r := oracle.Record{Offset: e.Offset, Key: e.Key, Value: e.Value, Time: e.Time}
	for _, h := range e.Headers {
		if h.Key != wire.HeaderWatermark {
			r.Headers = append(r.Headers, oracle.Header{Key: h.Key, Value: string(h.Value)})
			continue
		}
		rep, err := wire.DecodeReport(h.Value)
		if err != nil {
			return r, differ("offset %d of %s: %w", e.Offset, e.Topic, err)
		}
		r.Report = &oracle.Report{Producer: rep.Producer, Producers: rep.Producers, Watermark: rep.Watermark}
	}
	return r, nil
}

// checkOutputs compares what a task has written, partition by partition and in order; of dead letters only which.
func (w *world) checkOutputs(t *task, want []oracle.Output) error {
	expected := map[tp][]string{}
	for _, o := range want {
		at := tp{o.Topic, partitionOf(o.PartitionKey, w.parts[o.Topic])}
		expected[at] = append(expected[at], line(o.Record))
	}
	sinks := map[string]bool{}
	for _, s := range t.part.Sinks {
		sinks[s.Topic] = true
	}
	for topic := range sinks {
		for part := range w.parts[topic] {
			at := tp{topic, part}
			var got []string
			l := w.logs[at]
			for i := range l.entries {
				e := &l.entries[i]
				if e.Control || !e.committed() || e.writer != t.id || e.txn == nil {
					continue
				}
				r, err := recordOf(e)
				if err != nil {
					return err
				}
				if r.Report == nil {
					got = append(got, line(r))
				}
			}
			if topic == oracle.DeadLetters {
				slices.Sort(got)
				slices.Sort(expected[at])
			}
			if d := diffLines(expected[at], got); d != "" {
				return differ("task %s, what it has written to %s[%d]: %s", t.id, topic, part, d)
			}
			delete(expected, at)
		}
	}
	for at, lines := range expected {
		return differ("task %s should have written %d records to %s[%d]: %s", t.id, len(lines), at.topic, at.part, lines[0])
	}
	return nil
}

// line is a record for comparing and for people. What of a dead letter is text for people is left out.
func line(r oracle.Record) string {
	var b strings.Builder
	text := func(v []byte) string {
		if v == nil {
			return "~"
		}
		return strconv.Quote(string(v))
	}
	fmt.Fprintf(&b, "%s=%s @%d", text(r.Key), text(r.Value), r.Time)
	for _, h := range r.Headers {
		if h.Key == wire.HeaderLateOperator && strings.HasPrefix(h.Value, "KSTREAM-SOURCE-") {
			continue // that of a source, which nobody has named
		}
		if h.Key == wire.HeaderErrorMessage || h.Key == wire.HeaderErrorException && !slices.Contains([]string{oracle.Panicked, oracle.Errored}, h.Value) {
			continue
		}
		fmt.Fprintf(&b, " %s=%s", h.Key, h.Value)
	}
	return b.String()
}

func diffLines(want, got []string) string {
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(want):
			return fmt.Sprintf("record %d of %d should not be there: %s", i, len(got), got[i])
		case i >= len(got):
			return fmt.Sprintf("record %d of %d is missing: %s", i, len(want), want[i])
		case want[i] != got[i]:
			return fmt.Sprintf("record %d is %s, and should be %s", i, got[i], want[i])
		}
	}
	return ""
}

// entriesOf reads a store as the oracle keeps it.
func entriesOf(s state.Spec, raw map[string]string) (map[string]oracle.Entry, error) {
	out := map[string]oracle.Entry{}
	for k, v := range raw {
		if s.Kind == state.SessionKind {
			start, end, key, ok := state.SplitSessionKey([]byte(k))
			if !ok {
				return nil, differ("store %s has a key that is no session's", s.Name)
			}
			k = oracle.SessionKey(start, end, string(key))
		}
		if s.Kind == state.WindowKind {
			start, key, ok := state.SplitWindowKey([]byte(k))
			if !ok {
				return nil, differ("store %s has a key that is no window's", s.Name)
			}
			k = oracle.WindowKey(start, string(key))
		}
		at, value, err := state.SplitValue([]byte(v))
		if err != nil {
			return nil, difference{err}
		}
		out[k] = oracle.Entry{Time: at, Value: string(value)}
	}
	return out, nil
}

// diffMaps says what the first difference is, nothing if there is none.
func diffMaps[V comparable](want, got map[string]V) string {
	keys := map[string]bool{}
	for k := range want {
		keys[k] = true
	}
	for k := range got {
		keys[k] = true
	}
	for _, k := range slices.SortedFunc(mapKeys(keys), func(a, b string) int { return bytes.Compare([]byte(a), []byte(b)) }) {
		g, is := got[k]
		v, should := want[k]
		switch {
		case !should:
			return fmt.Sprintf("key %q has %v, and should not be there", k, g)
		case !is:
			return fmt.Sprintf("key %q is not there, and should have %v", k, v)
		case g != v:
			return fmt.Sprintf("key %q has %v, and should have %v", k, g, v)
		}
	}
	return ""
}

func mapKeys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// reason is how often a task has counted it.
func (t *task) reason(name string) int64 {
	for i, n := range t.counts {
		if graph.Reason(i).String() == name {
			return n
		}
	}
	return 0
}
