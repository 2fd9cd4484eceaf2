package topologytest

import (
	"fmt"
	"math"

	"github.com/headrace/headrace/internal/engine"
	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/internal/wire"
	"github.com/headrace/headrace/state"
)

// budget is how many units of work Run gives to a task at a time.
const budget = 1 << 10

// transactionalID is under which name the driver commits.
const transactionalID = "topologytest"

// task is an engine's task with what feeds it.
type task struct {
	*engine.Task
	sub     *sub
	backend state.Backend
	txn     *state.Txn
	fed     []int64                 // for each source, the next offset to push
	counted [graph.NumReasons]int64 // what the task had counted at its last commit
}

// ready makes the tasks, if there are none.
func (d *Driver) ready() {
	if d.tasks == nil {
		if err := d.make(); err != nil {
			d.fail(err)
		}
	}
}

// make makes every task from what is committed, as an application does that starts, takes a task over, or rebuilds one.
func (d *Driver) make() error {
	provider := state.Memory()
	for _, s := range d.subs {
		for p := range s.tasks {
			t, err := d.makeTask(provider, s, p)
			if err != nil {
				d.tasks = nil
				return err
			}
			d.tasks = append(d.tasks, t)
		}
	}
	return nil
}

func (d *Driver) makeTask(provider state.Provider, s *sub, partition int32) (*task, error) {
	id := engine.TaskID{SubTopology: s.plan.ID, Partition: partition}
	backend, err := provider.Open(id.String(), s.plan.Stores)
	if err != nil {
		return nil, fmt.Errorf("topologytest: %w", err)
	}
	if err := s.restore(backend, partition); err != nil {
		return nil, fmt.Errorf("topologytest: restore task %s: %w", id, err)
	}
	t := &task{sub: s, backend: backend, txn: state.NewTxn(backend, s.plan.Stores)}
	cfg := engine.Config{ID: id, Sub: s.plan, Txn: t.txn, Now: d.now}
	first := true
	for i := range s.plan.Sources {
		src := engine.SourceConfig{Topic: s.sources[i].name.Name}
		if int(partition) >= len(s.sources[i].partitions) {
			src.Absent = true
		} else {
			p := &s.sources[i].partitions[partition]
			c, err := p.commit()
			if err != nil {
				return nil, err
			}
			src.Offset, src.Clock = p.offset, c.Source
			if first {
				cfg.Operators, first = c.Operators, false
			}
			if s.plan.Sources[i].Table {
				src.ReadTo = int64(len(p.records))
			}
		}
		cfg.Sources = append(cfg.Sources, src)
		t.fed = append(t.fed, src.Offset)
	}
	t.Task, err = engine.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("topologytest: %w", err)
	}
	return t, nil
}

// drop throws the tasks away, with all that they did not commit.
func (d *Driver) drop() {
	for _, t := range d.tasks {
		for i, n := range t.counted {
			d.counts[i] += n
		}
	}
	d.tasks = nil
}

// feed pushes what is committed in the task's input topics.
func (t *task) feed() {
	for i, l := range t.sub.sources {
		n := int(t.ID().Partition)
		if n >= len(l.partitions) {
			continue
		}
		p := &l.partitions[n]
		if p.heldBack {
			t.SetEnd(i, int64(len(p.records)))
			continue
		}
		for _, r := range p.records[t.fed[i]:] {
			t.Push(i, r)
			t.fed[i]++
		}
		if p.idleAt == len(p.records)+1 {
			t.SetIdle(i, true)
		}
	}
}

// step gives every task up to n units of work and returns how many were done.
func (d *Driver) step(n int) int {
	d.ready()
	done := 0
	for _, t := range d.tasks {
		t.feed()
		p, err := t.Step(d.now, n)
		if err != nil {
			d.drop()
			d.fail(fmt.Errorf("topologytest: %w", err))
		}
		done += p.Units
	}
	return done
}

// Step gives every task up to n units of work: a record, a watermark report, a window to close, a punctuation or a timer to fire. It returns
// how many units were done, and commits nothing.
func (d *Driver) Step(n int) int {
	d.helper()
	return d.step(n)
}

// Run processes all that can be processed without a commit. What tasks send each other through repartition topics arrives with
// the commit.
func (d *Driver) Run() {
	d.helper()
	for d.step(budget) > 0 {
	}
}

// Commit commits what the tasks have done, in one transaction: outputs, then watermark reports, changelog records and offsets.
func (d *Driver) Commit() {
	d.helper()
	d.commit()
}

// Crash loses what was not committed, and all that was in memory. The tasks are made again from changelog records and committed
// offsets, and the input from those offsets on is processed again.
func (d *Driver) Crash() {
	d.helper()
	if err := d.crash(); err != nil {
		d.fail(err)
	}
	if !d.manual {
		d.settle()
	}
}

// auto does what follows from an input, unless the test does so itself.
func (d *Driver) auto() {
	if !d.manual {
		d.settle()
	}
}

// Settle processes and commits until nothing is left to do. Only a Manual driver needs it.
func (d *Driver) Settle() {
	d.helper()
	d.settle()
}

func (d *Driver) settle() {
	for looks := 0; ; looks++ {
		for {
			for d.step(budget) > 0 {
			}
			if !d.commit() {
				break
			}
		}
		// Those that are idle still are: readers behind repartition topics have to hear it after they have heard how far others have come.
		if looks > len(d.subs) || !d.confirm() {
			return
		}
	}
}

// confirm says whether anything is idle.
func (d *Driver) confirm() bool {
	any := false
	for _, t := range d.tasks {
		for i, l := range t.sub.sources {
			if n := int(t.ID().Partition); n < len(l.partitions) {
				if p := &l.partitions[n]; p.idleAt == len(p.records)+1 {
					t.Confirm(i, math.MaxInt64)
					any = true
				}
			}
		}
	}
	return any
}

// commit says whether there was anything to commit.
func (d *Driver) commit() bool {
	d.ready()
	pending := false
	for _, t := range d.tasks {
		pending = pending || t.Pending()
	}
	if !pending {
		return false
	}
	for _, t := range d.tasks {
		if err := t.Settle(d.now); err != nil {
			d.drop()
			d.fail(fmt.Errorf("topologytest: %w", err))
		}
	}
	d.sequence++
	cuts := make([]engine.Cut, len(d.tasks))
	for i, t := range d.tasks {
		cuts[i] = t.Cut()
		for j := range cuts[i].Outputs {
			o := &cuts[i].Outputs[j]
			t.sub.sinks[o.Sink].write(o)
		}
	}
	for i, t := range d.tasks {
		for _, r := range cuts[i].Reports {
			t.report(r)
		}
		positions, err := t.changes(d.now)
		if err != nil {
			d.fail(err)
		}
		t.offsets(cuts[i], d.sequence)
		if err := t.Committed(positions); err != nil {
			d.fail(fmt.Errorf("topologytest: %w", err))
		}
		st := t.Status()
		t.counted = st.Total()
	}
	return true
}

// report writes a watermark report to every partition of a repartition topic.
func (t *task) report(r engine.SinkReport) {
	l := t.sub.sinks[r.Sink]
	value := wire.AppendReport(nil, wire.Report{
		SubTopology: int32(t.sub.plan.ID), Producer: t.ID().Partition, Producers: t.sub.tasks, Watermark: r.Watermark, State: r.State,
	})
	for p := range l.partitions {
		l.append(int32(p), graph.Raw{Headers: []graph.Header{{Key: wire.HeaderWatermark, Value: value}}, Time: max(r.Watermark, 0)})
	}
}

// offsets commits where the task stands, with its clocks.
func (t *task) offsets(cut engine.Cut, sequence uint64) {
	for i, s := range cut.Sources {
		c := wire.Commit{TransactionalID: transactionalID, Sequence: sequence, Source: s.Clock}
		if i == 0 {
			c.Operators = cut.Operators
		}
		p := &t.sub.sources[s.Source].partitions[t.ID().Partition]
		p.offset, p.metadata = s.Offset, wire.EncodeCommit(c)
	}
}
