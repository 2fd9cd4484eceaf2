package sim

import (
	"context"
	"maps"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/internal/engine"
	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/internal/restore"
	"github.com/headrace/headrace/internal/sim/oracle"
	"github.com/headrace/headrace/state"
)

// make makes a task from what is committed: restores its stores, holds them to what was committed, and gives the engine the clocks.
func (w *world) make(t *task) error {
	t.run = nil
	if err := w.restoreStores(t); err != nil {
		return err
	}
	t.rec = &recorder{spec: &w.c.Spec}
	cfg, err := w.engineConfig(t)
	if err != nil {
		return differ("task %s: %w", t.id, err)
	}
	w.user.making = t.rec
	t.made = false
	t.counted, t.taken = engine.Counts{}, 0
	t.txn = cfg.Txn
	if t.run, err = engine.New(cfg); err != nil {
		return differ("task %s: %w", t.id, err)
	}
	for i := range t.part.Stores { // the operators have closed again what the restore brought back, and what was due then
		if err := t.checkStore(i, t.txn, "", string(t.txn.Floor(i)), "is seen"); err != nil {
			return err
		}
	}
	return nil
}

// checkStore holds what r has of a store, from one key on, to what was committed, from another one on.
func (t *task) checkStore(i int, r state.Reader, from, committedFrom, how string) error {
	got, committed := map[string]string{}, map[string]string{}
	kind, index := t.part.Stores[i].Kind, map[string]int{} // each key of it has to be there once from either side
	for e, err := range r.Scan(i, nil, nil) {
		if err != nil {
			return difference{err}
		}
		if kind.Local(e.Key) {
			index[string(e.Key)]++
			continue
		}
		if of, _, ok := kind.Index(nil, state.Mutation{Key: e.Key}); ok {
			index[string(of.Key)] += 2
		}
		if string(e.Key) >= from {
			got[string(e.Key)] = string(e.Value)
		}
	}
	for k, n := range index {
		if n != 3 {
			return differ("task %s: store %s %s with an index that does not agree with it: %q (1: of nothing, 2: missing)", t.id, t.part.Stores[i].Name, how, k)
		}
	}
	for k, v := range t.stores[i] {
		if k >= committedFrom {
			committed[k] = v
		}
	}
	if maps.Equal(committed, got) {
		return nil
	}
	s := t.part.Stores[i]
	want, err := entriesOf(s, committed)
	if err != nil {
		return err
	}
	is, err := entriesOf(s, got)
	if err != nil {
		return err
	}
	return differ("task %s: store %s %s other than it was committed: %s", t.id, s.Name, how, diffMaps(want, is))
}

// maxAge is what the framework takes for its changelogs. Tables get it here, too: a store that has missed a tombstone would keep the key.
const maxAge = 6 * 24 * time.Hour

func (w *world) restoreStores(t *task) error {
	task := restore.Task{Backend: t.backend, Specs: t.part.Stores}
	for i, s := range t.part.Stores {
		if s.SourceTopic == "" {
			task.Stores = append(task.Stores, restore.Store{Store: i, Topic: changelogOf(s.Name), Partition: t.id.Partition, MaxAge: maxAge})
		}
	}
	for i := range t.part.Sources {
		src := &t.part.Sources[i]
		at := tp{src.Topic, t.id.Partition}
		if !src.Table || w.logs[at] == nil {
			continue
		}
		o, _, err := w.position(at)
		if err != nil {
			return err
		}
		task.Stores = append(task.Stores, restore.Store{
			Store: src.Store, Topic: at.topic, Partition: at.part, Bounded: true, UpTo: o.next, MaxAge: maxAge,
			Check: func(r *kgo.Record) error {
				return src.Check(&graph.Raw{Key: r.Key, Value: r.Value, Time: r.Timestamp.UnixMilli()})
			},
		})
	}
	stale := false
	for _, s := range task.Stores {
		pos := t.backend.Position(s.Store)
		stale = stale || pos != (state.Position{}) && pos.Offset < w.logs[tp{s.Topic, s.Partition}].end()
	}
	calls := []restore.Task{task}
	if t.backend.bounded { // one after the other, so that it is certain where it ends
		calls = nil
		for i := range task.Stores {
			calls = append(calls, restore.Task{Backend: task.Backend, Specs: task.Specs, Stores: task.Stores[i : i+1]})
		}
	}
	for _, c := range calls {
		res, err := w.restore.Restore(context.Background(), c, func() time.Time { return time.UnixMilli(w.now) }, nil)
		if err != nil {
			return difference{err}
		}
		if stale && res.Records > 0 {
			w.seen.Stale++
		}
		w.seen.Wipes += res.Wiped
	}
	for i := range t.part.Stores {
		if err := t.checkStore(i, t.backend, t.floors[i], "", "was restored"); err != nil {
			return err
		}
	}
	return nil
}

// recorder writes down what an incarnation of a task does, from between the engine and the closures.
type recorder struct {
	events  []oracle.Event
	sources []*watched
	tables  map[int]int64 // source: the offset of its last record that has to be taken before the streams start
	err     error
	spec    *oracle.Spec
}

// readTo says which record of a table is the last that streams wait for.
func (r *recorder) readTo(source int, l *log, from int64) {
	for o := l.end() - 1; o >= from; o-- {
		if e := &l.entries[o]; !e.gone && !e.Control && e.committed() {
			if r.tables == nil {
				r.tables = map[int]int64{}
			}
			r.tables[source] = o
			return
		}
	}
}

// wrap returns the sub-topology with entries that are watched.
func (r *recorder) wrap(p *part) *graph.SubTopology {
	sub := *p.SubTopology
	sub.New = func(rt graph.Runtime) (*graph.Instance, error) {
		in, err := p.New(rt)
		if err != nil {
			return nil, err
		}
		for i, e := range in.Entries {
			s := &watched{Entry: e, r: r, plan: i, source: p.index[i], taken: -1, table: p.Sources[i].Table}
			r.sources = append(r.sources, s)
			in.Entries[i] = s
			s.node = &r.spec.Nodes[p.sub.Sources[p.index[i]]]
			if k, ok := e.(graph.Keeper); ok {
				in.Entries[i] = keeper{s, k}
			}
			if g, ok := e.(graph.Generator); ok && p.Sources[i].Generates {
				in.Entries[i] = generator{s, g}
			}
		}
		return in, nil
	}
	return &sub
}

// watched is an entry that is written down.
type watched struct {
	graph.Entry
	r      *recorder
	plan   int // index in the plan
	source int // index in the oracle's sub
	node   *oracle.Node
	table  bool
	raw    *graph.Raw
	ready  bool // the head is decoded and waits
	at     int64
	taken  int64 // offset taken last
}

type keeper struct {
	*watched
	graph.Keeper
}

type generator struct {
	*watched
	graph.Generator
}

func (s *watched) Head(raw *graph.Raw) (int64, error) {
	at, err := s.Entry.Head(raw)
	s.raw, s.at, s.ready = raw, at, true
	if err != nil || at < 0 && at != graph.NoTime || s.node.TooFarAhead(at, raw.Time) {
		s.took() // it goes no further
	}
	return at, err
}

func (s *watched) took() {
	s.ready, s.taken = false, s.raw.Offset
	s.r.events = append(s.r.events, oracle.Event{What: oracle.Took, Source: s.source, Offset: s.raw.Offset})
}

// Record also checks the order in which the engine takes records: tables first, then the smallest event time, then the first source.
func (s *watched) Record() error {
	for _, o := range s.r.sources {
		if s.table || o == s || s.r.err != nil {
			continue
		}
		if last, ok := s.r.tables[o.plan]; ok && o.taken < last {
			s.r.err = differ("offset %d of %s is taken before the table %d has been read to offset %d", s.raw.Offset, s.raw.Topic, o.plan, last)
		}
		if o.ready && (o.at < s.at || o.at == s.at && o.plan < s.plan) {
			s.r.err = differ("offset %d of %s at %d is taken before offset %d of %s at %d", s.raw.Offset, s.raw.Topic, s.at, o.raw.Offset, o.raw.Topic, o.at)
		}
	}
	s.took()
	return s.Entry.Record()
}

func (s *watched) Advance(w int64) {
	s.r.events = append(s.r.events, oracle.Event{What: oracle.Moved, Source: s.source, Time: w})
	s.Entry.Advance(w)
}
