package sim

import (
	"encoding/binary"
	"slices"

	"github.com/headrace/headrace/internal/sim/oracle"
)

// The laws hold whatever the windows, the policy and the emission: what has gone into a window is what its results say, what came in went
// somewhere, and a sum behind retractions is right in the end. They are read from topics and stores, and know nothing of how it comes.
func (w *world) laws(results map[*task]*oracle.Result) error {
	nets := map[int]string{} // of each total of windows: what all its results say
	whole := map[int]bool{}  // nothing has failed in any of its tasks
	for i := range w.c.Spec.Nodes {
		whole[i] = true
	}
	for _, t := range w.tasks {
		res := results[t]
		fine := res.Counts["failed"] == 0 && res.Counts["refused"] == 0
		for _, i := range t.part.sub.Nodes {
			n := &w.c.Spec.Nodes[i]
			whole[i] = whole[i] && fine
			if !n.Windowed() || !fine {
				continue
			}
			if err := w.comeIn(t, i, res); err != nil {
				return err
			}
			topic := w.c.Spec.Written(i)
			if n.Kind != oracle.Total || topic == "" || n.Joins() && !n.TakesBack() {
				continue
			}
			net, err := w.net(t, n, topic)
			if err != nil {
				return err
			}
			for _, v := range net {
				nets[i] = oracle.Plus(nets[i], v)
			}
			if err := w.conserved(t, i, res, net); err != nil {
				return err
			}
		}
	}
	for i := range w.c.Spec.Nodes {
		n := &w.c.Spec.Nodes[i]
		if n.Kind != oracle.Total || n.Windowed() {
			continue
		}
		from, way := w.c.Spec.Totals(i)
		if from < 0 || slices.ContainsFunc(way, func(i int) bool { return !whole[i] }) || !w.c.Spec.Nodes[from].TakesBack() || w.c.Spec.Written(from) == "" {
			continue
		}
		sum := ""
		for _, res := range results {
			for _, e := range res.Stores[n.Name] {
				sum = oracle.Plus(sum, e.Value)
			}
		}
		w.seen.Sums++
		if sum != nets[from] && !(sum == "" && nets[from] == "0~0") {
			return differ("all of %s make %q, and the results that are in force of %s %q", n.Name, sum, w.c.Spec.Nodes[from].Name, nets[from])
		}
	}
	return nil
}

// net is what the results of each window say that a task has written: the last one, or what they come to.
func (w *world) net(t *task, n *oracle.Node, topic string) (map[string]string, error) {
	net := map[string]string{}
	for part := range w.parts[topic] {
		l := w.logs[tp{topic, part}]
		for i := range l.entries {
			e := &l.entries[i]
			if e.Control || !e.committed() || e.writer != t.id {
				continue
			}
			r, err := recordOf(e)
			if err != nil {
				return nil, err
			}
			inner := len(r.Key) - 8
			k := oracle.WindowKey(int64(binary.BigEndian.Uint64(r.Key[inner:])), string(r.Key[:inner]))
			switch back := slices.Contains(r.Headers, oracle.Header{Key: "x-retract", Value: "true"}); {
			case back:
				net[k] = oracle.Minus(net[k], string(r.Value))
			case n.TakesBack() || n.Discard:
				net[k] = oracle.Plus(net[k], string(r.Value))
			default:
				net[k] = string(r.Value)
			}
		}
	}
	return net, nil
}

// conserved says whether what has gone into the windows of a node has come out, or is still in them.
func (w *world) conserved(t *task, node int, res *oracle.Result, net map[string]string) error {
	n := &w.c.Spec.Nodes[node]
	w.seen.Laws++
	if n.Joins() { // they grow together: all of them say what went into all
		all := ""
		for _, v := range net {
			all = oracle.Plus(all, v)
		}
		if want := res.Accepted[node]["all"]; !n.Closes() && all != want {
			return differ("task %s: what has gone into %s is %q, and its results say %q", t.id, n.Name, want, all)
		}
		return nil
	}
	for k, want := range res.Accepted[node] {
		if n.Closes() && !n.ClosedAt(oracle.StartOf(k), res.Watermarks[node]) {
			continue // it has yet to say so
		}
		if got := net[k]; got != want {
			return differ("task %s: what has gone into window %q of %s is %q, and its results say %q", t.id, k, n.Name, want, got)
		}
	}
	return nil
}

// comeIn says whether every record that has come to the node is in a window, or was counted as late. Where there is but one window operator, of
// windows of which each record has one, all of this can be seen from outside.
func (w *world) comeIn(t *task, node int, res *oracle.Result) error {
	n := &w.c.Spec.Nodes[node]
	source := n.In[0]
	src := &w.c.Spec.Nodes[source]
	if src.Kind != oracle.Source || n.Advance != n.Size && !n.Joins() {
		return nil
	}
	for _, i := range t.part.sub.Nodes {
		if o := &w.c.Spec.Nodes[i]; i != node && o.Windowed() {
			return nil
		}
	}
	l, came := w.logs[tp{src.Name, t.id.Partition}], int64(0)
	if l == nil {
		return nil
	}
	for i := range l.entries {
		e := &l.entries[i]
		if e.Control || !e.committed() || e.Key == nil || e.Value == nil || oracle.Undecodable(string(e.Value)) {
			continue
		}
		at := e.Time
		if src.OwnTime {
			at = oracle.TimeOf(string(e.Value))
		}
		if at >= 0 && !src.TooFarAhead(at, e.Time) {
			came++
		}
	}
	in := int64(0)
	for _, v := range res.Accepted[node] {
		in += oracle.CountOf(v)
	}
	late := t.reason("late-dropped") + t.reason("late-sidelined")
	if in+late != came {
		return differ("task %s: %d records have come to %s, %d are in its windows and %d were late", t.id, came, n.Name, in, late)
	}
	w.seen.Input++
	return nil
}
