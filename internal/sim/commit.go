package sim

import (
	"maps"
	"slices"

	"github.com/headrace/headrace/changelog"
	"github.com/headrace/headrace/internal/engine"
	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/internal/sim/oracle"
	"github.com/headrace/headrace/internal/wire"
	"github.com/headrace/headrace/state"
)

// writing counts the records of a transaction, up to where the process ends.
type writing struct {
	w     *world
	txn   *transaction
	crash bool
	left  int
}

// put writes a record. It says whether the process has ended instead.
func (p *writing) put(at tp, e entry) (offset int64, ended bool) {
	if p.crash {
		if p.left == 0 {
			return 0, true
		}
		p.left--
	}
	e.txn = p.txn
	if tamper := p.w.c.tamper; tamper != nil {
		if e.Topic = at.topic; !tamper(&e) {
			return p.w.logs[at].end(), false
		}
	}
	return p.w.logs[at].append(e), false
}

// takeOff freezes what the tasks have made and writes it.
func (w *world) takeOff(wk *worker, op *Op) error {
	if wk.flight != nil {
		return nil
	}
	f := &flight{txn: w.begin()}
	p := &writing{w: w, txn: f.txn, crash: op.Crash, left: op.N}
	ended := false
	for _, t := range w.of(wk) {
		if t.run == nil || !t.run.Pending() && !w.last || ended {
			continue
		}
		fl, end, err := w.freeze(t, p)
		if err != nil {
			return err
		}
		ended = end
		f.tasks = append(f.tasks, fl)
	}
	if len(f.tasks) > 0 {
		wk.flight = f
	}
	if ended {
		return w.crash(wk)
	}
	return nil
}

// freeze writes what one task commits: changes of state, outputs, reports.
func (w *world) freeze(t *task, p *writing) (f flying, ended bool, err error) {
	f = flying{t: t, run: t.run, status: t.run.Status(), events: t.rec.events, positions: make([]*state.Position, len(t.part.Stores))}
	for _, o := range f.status.Operators {
		if o.Due {
			f.due = append(f.due, o.Name)
		}
	}
	t.rec.events = nil
	t.run.Freeze()
	f.cut = t.run.Cut()
	for i := range t.part.Stores {
		f.floors = append(f.floors, string(t.txn.Floor(i)))
	}
	for m := range t.run.Mutations() {
		m = cloneMutation(m)
		f.mutations = append(f.mutations, m)
		spec := t.part.Stores[m.Store]
		if spec.SourceTopic != "" {
			continue
		}
		r, _, err := changelog.Encode(nil, spec, m, w.now)
		if err != nil {
			return f, false, differ("task %s: %w", t.id, err)
		}
		o, end := p.put(tp{changelogOf(spec.Name), t.id.Partition}, entry{Raw: graph.Raw{Key: r.Key, Value: r.Value, Time: r.Time}, writer: t.id})
		if end {
			return f, true, nil
		}
		f.positions[m.Store] = &state.Position{TopicID: topicID(changelogOf(spec.Name)), Offset: o + 1, LeaderEpoch: -1, AppliedAt: w.now}
	}
	for _, o := range f.cut.Outputs {
		sink := t.part.Sinks[o.Sink]
		e := entry{Raw: graph.Raw{Key: clone(o.Key), Value: clone(o.Value), Headers: slices.Clone(o.Headers), Time: o.Time}, writer: t.id}
		if _, end := p.put(tp{sink.Topic, partitionOf(o.PartitionKey, w.parts[sink.Topic])}, e); end {
			return f, true, nil
		}
	}
	for _, r := range f.cut.Reports {
		topic := t.part.Sinks[r.Sink].Topic
		value := wire.AppendReport(nil, wire.Report{
			SubTopology: int32(t.part.ID), Producer: t.id.Partition, Producers: t.part.tasks, Watermark: r.Watermark, State: r.State,
		})
		for i := range w.parts[topic] {
			e := entry{Raw: graph.Raw{Headers: []graph.Header{{Key: wire.HeaderWatermark, Value: value}}, Time: max(r.Watermark, 0)}, writer: t.id}
			if _, end := p.put(tp{topic, i}, e); end {
				return f, true, nil
			}
		}
	}
	return f, false, nil
}

// land commits.
func (w *world) land(wk *worker, op *Op) error {
	if wk.flight == nil {
		if err := w.takeOff(wk, &Op{}); err != nil || wk.flight == nil {
			return err
		}
	}
	return w.end(wk, op)
}

// end commits what flies: offsets with their clocks, markers; then the tasks apply it.
func (w *world) end(wk *worker, op *Op) error {
	f := wk.flight
	wk.flight = nil
	f.txn.finish(committed, w.now)
	w.seen.Commits++
	for _, fl := range f.tasks {
		if err := w.commit(f.txn, fl); err != nil {
			return err
		}
	}
	for i, fl := range f.tasks {
		if op.Crash && i == op.N {
			break
		}
		if fl.t.run != fl.run { // it has failed since
			continue
		}
		if err := fl.run.Committed(fl.positions); err != nil {
			return differ("task %s: %w", fl.t.id, err)
		}
	}
	if op.Crash {
		w.seen.InCommit++
		return w.crash(wk)
	}
	return nil
}

// commit takes down what a task has committed.
func (w *world) commit(txn *transaction, f flying) error {
	t := f.t
	for i, s := range f.cut.Sources {
		c := wire.Commit{TransactionalID: "sim", Sequence: uint64(txn.id), Source: s.Clock}
		if i == 0 {
			c.Operators = f.cut.Operators
		}
		at := tp{t.part.Sources[s.Source].Topic, t.id.Partition}
		if was := w.offsets[at].next; s.Offset < was {
			return differ("task %s commits offset %d of %s, and had committed %d", t.id, s.Offset, at.topic, was)
		}
		w.offsets[at] = offset{s.Offset, wire.EncodeCommit(c)}
	}
	t.events = append(t.events, f.events...)
	cut := oracle.Cut{Events: len(t.events), Due: f.due, First: !t.made, Reports: map[string]int64{}}
	for _, r := range f.cut.Reports {
		cut.Reports[t.part.Sinks[r.Sink].Topic] = r.Watermark
	}
	t.cuts, t.made = append(t.cuts, cut), true
	for i, n := range f.status.Total() {
		t.counts[i] += n - t.counted[i]
		t.counted[i] = n
	}
	t.records += f.status.Records - t.taken
	t.taken = f.status.Records
	for i, floor := range f.floors {
		t.floors[i] = floor
		maps.DeleteFunc(t.stores[i], func(k, _ string) bool { return k < floor })
	}
	for _, m := range f.mutations {
		if m.Value == nil {
			delete(t.stores[m.Store], string(m.Key))
		} else {
			t.stores[m.Store][string(m.Key)] = string(m.Value)
		}
	}
	return nil
}

// engineConfig is what a task is made of: what is committed.
func (w *world) engineConfig(t *task) (engine.Config, error) {
	cfg := engine.Config{ID: t.id, Sub: t.rec.wrap(t.part), Txn: state.NewTxn(t.backend, t.part.Stores), Now: w.now}
	for _, s := range t.part.Sinks {
		limit := engine.SinkLimit{TooLarge: &failure{s.Topic}}
		for _, n := range w.c.Spec.Nodes {
			if n.Kind == oracle.To && n.Name == s.Topic {
				limit.MaxBytes = n.Limit
			}
		}
		cfg.Limits = append(cfg.Limits, limit)
	}
	first := true
	t.fed = t.fed[:0]
	for i := range t.part.Sources {
		at := tp{t.part.Sources[i].Topic, t.id.Partition}
		src := engine.SourceConfig{Topic: at.topic}
		if l := w.logs[at]; l == nil {
			src.Absent = true
		} else {
			o, c, err := w.position(at)
			if err != nil {
				return cfg, err
			}
			src.Offset, src.Clock = o.next, c.Source
			if first {
				cfg.Operators, first = c.Operators, false
			}
			if t.part.Sources[i].Table {
				src.ReadTo = l.end()
				t.rec.readTo(i, l, o.next)
			}
		}
		cfg.Sources = append(cfg.Sources, src)
		t.fed = append(t.fed, src.Offset)
	}
	return cfg, nil
}
