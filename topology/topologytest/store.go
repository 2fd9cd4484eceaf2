package topologytest

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/headrace/headrace/changelog"
	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/state"
)

// changes is a partition of a changelog topic.
type changes struct{ records []changelog.Record }

// compact leaves the last record of each key, and no tombstones, as the broker may.
func (c *changes) compact() {
	last := map[string]int{}
	for i, r := range c.records {
		last[string(r.Key)] = i
	}
	kept := make([]changelog.Record, 0, len(last))
	for i, r := range c.records {
		if last[string(r.Key)] == i && r.Value != nil {
			kept = append(kept, r)
		}
	}
	c.records = kept
}

// changes writes the open transaction's changes to the changelogs, and returns how far they go.
func (t *task) changes(now int64) ([]*state.Position, error) {
	specs := t.sub.plan.Stores
	p := t.ID().Partition
	for m := range t.Mutations() {
		spec := specs[m.Store]
		if spec.SourceTopic != "" {
			continue // the topic that it is read from has the change
		}
		r, _, err := changelog.Encode(nil, spec, m, now)
		if err != nil {
			return nil, fmt.Errorf("topologytest: %w", err)
		}
		r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
		log := &t.sub.changelogs[m.Store][p]
		log.records = append(log.records, r)
	}
	positions := make([]*state.Position, len(specs))
	for i := range positions {
		positions[i] = &state.Position{Offset: int64(len(t.sub.changelogs[i][p].records)), AppliedAt: now}
	}
	return positions, nil
}

// restore fills an empty backend from the changelogs.
func (s *sub) restore(b state.Backend, partition int32) error {
	var all []state.Mutation
	positions := make([]*state.Position, len(s.plan.Stores))
	for i, spec := range s.plan.Stores {
		records := s.changelogs[i][partition].records
		if spec.SourceTopic != "" {
			records = s.sourceRecords(i, partition)
		}
		for _, r := range records {
			m, _, err := changelog.Decode(nil, i, spec, r)
			if errors.Is(err, changelog.ErrNullKey) && spec.SourceTopic != "" {
				continue
			}
			if err != nil {
				return err
			}
			all = append(all, m)
			if index, _, ok := spec.Kind.Index(nil, m); ok {
				all = append(all, index)
			}
		}
		positions[i] = &state.Position{Offset: int64(len(records))}
	}
	return b.Apply(slices.Values(all), positions)
}

// sourceRecords is what is committed of the topic that a table's store is restored from.
func (s *sub) sourceRecords(store int, partition int32) []changelog.Record {
	for i := range s.plan.Sources {
		src := &s.plan.Sources[i]
		if !src.Table || src.Store != store || int(partition) >= len(s.sources[i].partitions) {
			continue
		}
		p := &s.sources[i].partitions[partition]
		var records []changelog.Record
		for _, r := range p.records[:p.offset] {
			if r.Value != nil && src.Check(&r) != nil {
				r.Value = nil // as the application does
			}
			records = append(records, changelog.Record{Key: r.Key, Value: r.Value, Time: r.Time})
		}
		return records
	}
	return nil
}

// crash makes the tasks again from compacted changelogs, and holds what comes back against what was committed.
func (d *Driver) crash() error {
	before := d.tasks
	d.drop()
	for _, s := range d.subs {
		for i := range s.changelogs {
			for p := range s.changelogs[i] {
				s.changelogs[i][p].compact()
			}
		}
	}
	if before == nil {
		return nil
	}
	if err := d.make(); err != nil {
		return err
	}
	var errs []error
	for i, t := range before {
		for st, spec := range t.sub.plan.Stores {
			if err := errors.Join(same(t.backend, d.tasks[i].txn, st, spec.Kind), indexed(d.tasks[i].txn, st, spec.Kind)); err != nil {
				errs = append(errs, fmt.Errorf("topologytest: task %s: store %s came back from its changelog other than it was: %w", t.ID(), spec.Name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// same compares a store in a backend with what a task that has just been made sees of it. Windows that the watermark has passed are in
// the changelog, and perhaps in the backend, but not for a task.
func same(was state.Backend, is *state.Txn, store int, kind state.Kind) error {
	from, to := kind.Entries()
	next, stop := iter.Pull2(is.Scan(store, from, to))
	defer stop()
	if floor := is.Floor(store); bytes.Compare(floor, from) > 0 {
		from = floor
	}
	for want, err := range was.Scan(store, from, to) {
		if err != nil {
			return err
		}
		got, err, ok := next()
		if err != nil {
			return err
		}
		if !ok || !bytes.Equal(got.Key, want.Key) || !bytes.Equal(got.Value, want.Value) {
			return fmt.Errorf("key %x: %x was there, %x (key %x) came back", want.Key, want.Value, got.Value, got.Key)
		}
	}
	if got, _, ok := next(); ok {
		return fmt.Errorf("key %x was not there and came back", got.Key)
	}
	return nil
}

// indexed says whether the index of a store is that of its entries: it is not in the changelog, and was made again.
func indexed(is *state.Txn, store int, kind state.Kind) error {
	from, to := kind.Entries()
	if to == nil {
		return nil
	}
	want := map[string]bool{}
	for e, err := range is.Scan(store, from, to) {
		if err != nil {
			return err
		}
		if m, _, ok := kind.Index(nil, state.Mutation{Key: e.Key, Value: e.Value}); ok {
			want[string(m.Key)] = true
		}
	}
	for e, err := range is.Scan(store, to, nil) {
		switch {
		case err != nil:
			return err
		case !want[string(e.Key)]:
			return fmt.Errorf("the index has %x, which is not there", e.Key)
		}
		delete(want, string(e.Key))
	}
	for key := range want {
		return fmt.Errorf("the index lacks %x", key)
	}
	return nil
}

// Stores lends the stores of one partition to typed handles: seen.Open(d.Stores(0)). It shows them as the tasks see them: with
// what the open transaction wrote. Views stay good after a crash. Writes fail.
func (d *Driver) Stores(partition int) state.Host { return host{d, -1, int32(partition)} }

// Task is Stores for the task of one sub-topology, numbered as Describe does, where it matters which.
func (d *Driver) Task(subTopology, partition int) state.Host {
	return host{d, subTopology, int32(partition)}
}

type host struct {
	d         *Driver
	sub       int // -1 for any
	partition int32
}

func (h host) OpenStore(name string, kind state.Kind) (state.Store, error) {
	var names []string
	for _, s := range h.d.subs {
		if h.sub >= 0 && s.plan.ID != h.sub {
			continue
		}
		for i, spec := range s.plan.Stores {
			names = append(names, spec.Name)
			if spec.Name != name {
				continue
			}
			if spec.Kind != kind {
				return nil, fmt.Errorf("topologytest: store %s is a %s store, not a %s store", name, spec.Kind, kind)
			}
			if h.partition < 0 || h.partition >= s.tasks {
				return nil, fmt.Errorf("topologytest: store %s has partitions 0 to %d, not %d", name, s.tasks-1, h.partition)
			}
			return store{h.d, s, i, h.partition}, nil
		}
	}
	return nil, fmt.Errorf("topologytest: there is no store %s; there are %q", name, names)
}

// store is a task's store for reading. It looks the task up each time, since a crash makes new ones.
type store struct {
	d         *Driver
	sub       *sub
	store     int
	partition int32
}

var errReadOnly = errors.New("topologytest: a test reads stores only; write with records, as the application does")

func (s store) txn() *state.Txn {
	s.d.ready()
	for _, t := range s.d.tasks {
		if t.sub == s.sub && t.ID().Partition == s.partition {
			return t.txn
		}
	}
	return nil // not reached: OpenStore has checked
}

func (s store) Get(key []byte) ([]byte, bool, error) { return s.txn().Get(s.store, key) }

func (s store) Scan(from, to []byte) iter.Seq2[state.Entry, error] {
	return s.txn().Scan(s.store, from, to)
}
func (s store) Put(_, _ []byte) error { return errReadOnly }
func (s store) Delete([]byte) error   { return errReadOnly }
func (s store) Time() int64           { return graph.Unknown }
