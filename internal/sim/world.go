package sim

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/headrace/headrace/internal/engine"
	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/internal/restore"
	"github.com/headrace/headrace/internal/sim/oracle"
	"github.com/headrace/headrace/internal/wire"
	"github.com/headrace/headrace/state"
)

// world is the application, the brokers and the disks.
type world struct {
	c       *Case
	user    *user
	plan    *graph.Plan
	subs    []*part
	logs    map[tp]*log
	parts   map[string]int32 // of each topic
	offsets map[tp]offset
	workers []*worker
	tasks   []*task
	broker  *broker
	restore *restore.Restorer
	now     int64
	txns    int64
	last    bool // the last transactions, of all that there is
	seen    Seen
}

// offset is what the group has committed for a partition.
type offset struct {
	next     int64
	metadata string
}

// part is a sub-topology with the oracle's view of it.
type part struct {
	*graph.SubTopology
	sub oracle.Sub
	// index is, for each source of the plan, its place in sub.Sources.
	index []int
	tasks int32
}

// worker is a process.
type worker struct {
	disk   *disk
	flight *flight
}

// flight is a transaction that is being ended.
type flight struct {
	txn   *transaction
	tasks []flying
}

type flying struct {
	t         *task
	run       *engine.Task
	cut       engine.Cut
	events    []oracle.Event
	due       []string
	mutations []state.Mutation
	floors    []string // of the stores, as of the cut
	positions []*state.Position
	status    engine.Status
}

// task is a task with all that outlives it.
type task struct {
	id      engine.TaskID
	part    *part
	worker  *worker // nil: nobody's
	backend *backend
	run     *engine.Task
	rec     *recorder
	fed     []int64 // next offset to push, of each source
	counted engine.Counts
	made    bool  // this incarnation has committed
	taken   int64 // records that this incarnation has processed and committed

	// What has been committed.
	events  []oracle.Event
	cuts    []oracle.Cut
	counts  engine.Counts
	records int64
	stores  []map[string]string
	floors  []string // of the stores: what is below has expired, and a restore may bring it back
	txn     *state.Txn
}

// difference is something that is not as it should be.
type difference struct{ error }

func (d difference) Unwrap() error { return d.error }

func differ(format string, args ...any) error { return difference{fmt.Errorf(format, args...)} }

func newWorld(c *Case) (*world, error) {
	w := &world{
		c: c, user: &user{spec: &c.Spec, healed: map[string]bool{}}, logs: map[tp]*log{}, parts: map[string]int32{}, offsets: map[tp]offset{},
		now: 1_000_000,
	}
	top, err := w.user.build()
	if err != nil {
		return nil, err
	}
	w.plan = top.Plan().WithPolicy(policyOf(c.Spec.Policy).Compiled())
	if err := w.layout(); err != nil {
		return nil, err
	}
	w.broker = &broker{logs: w.logs, few: max(1, c.Fetch)}
	w.restore = restore.Over(w.broker.ask)
	for range c.Workers {
		w.workers = append(w.workers, &worker{disk: newDisk(c.Keep)})
	}
	return w, nil
}

// outsideParts is how many partitions the topics have that the topology only writes.
const outsideParts = 2

// layout makes the topics.
func (w *world) layout() error {
	have := map[string]int32{}
	for _, n := range w.c.Spec.Nodes {
		if n.Kind == oracle.Source || n.Kind == oracle.Table {
			have[n.Name] = n.Parts
		}
	}
	count, err := w.plan.Partitions(have, func(t graph.Topic) string { return t.Name })
	if err != nil {
		return err
	}
	topic := func(name string, parts int32) {
		if w.parts[name] == 0 {
			w.parts[name] = parts
			for p := range parts {
				w.logs[tp{name, p}] = &log{tp: tp{name, p}}
			}
		}
	}
	for t, n := range count {
		topic(t.Name, n)
	}
	split := w.c.Spec.Split()
	for _, sub := range w.plan.SubTopologies {
		p := &part{SubTopology: sub, tasks: sub.Tasks(count)}
		for i := range sub.Sources {
			for _, s := range split {
				for k, node := range s.Sources {
					if w.c.Spec.Nodes[node].Name == sub.Sources[i].Topic {
						p.sub, p.index = s, append(p.index, k)
					}
				}
			}
		}
		if len(p.index) != len(sub.Sources) || len(p.sub.Sources) != len(sub.Sources) {
			return fmt.Errorf("sub-topology %d does not have the sources that it should", sub.ID)
		}
		for i := range sub.Sinks {
			topic(sub.Sinks[i].Topic, outsideParts)
		}
		for _, s := range sub.Stores {
			if s.SourceTopic == "" {
				topic(changelogOf(s.Name), p.tasks)
			}
		}
		w.subs = append(w.subs, p)
		for i := range p.tasks {
			t := &task{id: engine.TaskID{SubTopology: sub.ID, Partition: i}, part: p}
			for range sub.Stores {
				t.stores = append(t.stores, map[string]string{})
				t.floors = append(t.floors, "")
			}
			w.tasks = append(w.tasks, t)
		}
	}
	return nil
}

func changelogOf(store string) string { return "app-" + store + "-changelog" }

func (w *world) task(id engine.TaskID) *task {
	for _, t := range w.tasks {
		if t.id == id {
			return t
		}
	}
	return nil
}

// do carries out an op.
func (w *world) do(op *Op) error {
	t := w.task(op.Task)
	wk := w.workers[op.Worker%len(w.workers)]
	switch op.Do {
	case Push:
		w.push(op)
	case Step:
		if t != nil && t.run != nil {
			return w.step(t, op.N, op.Budget)
		}
	case TakeOff:
		return w.takeOff(wk, op)
	case Land:
		return w.land(wk, op)
	case Abort:
		if wk.flight == nil {
			return nil
		}
		w.seen.Aborts++
		wk.flight.txn.finish(aborted, w.now)
		wk.flight = nil
		for _, t := range w.of(wk) {
			if err := w.make(t); err != nil {
				return err
			}
		}
	case Crash:
		w.seen.Crashes++
		return w.crash(wk)
	case Move:
		if t != nil {
			return w.move(t, wk, op)
		}
	case Assign:
		next := op.Worker
		for _, t := range w.tasks {
			if t.worker == nil {
				if err := w.move(t, w.workers[next%len(w.workers)], &Op{}); err != nil {
					return err
				}
				next++
			}
		}
	case Flush:
		if t != nil && t.worker != nil {
			return t.worker.disk.flush(t.id.String())
		}
	case Compact:
		if t != nil {
			w.seen.Compacted = true
			w.compact(t)
		}
	case Trim:
		if t != nil {
			w.seen.Trimmed = true
			w.trim(t)
		}
	case Pass:
		w.now += int64(op.N)
	}
	return nil
}

func (w *world) begin() *transaction {
	w.txns++
	return &transaction{id: w.txns}
}

func (w *world) push(op *Op) {
	l := w.logs[tp{op.Topic, op.Part}]
	if l == nil {
		return
	}
	e := entry{Raw: graph.Raw{Key: op.Key, Value: op.Value, Time: op.At}}
	if op.How == Plain {
		l.append(e)
		return
	}
	e.txn = w.begin()
	l.append(e)
	e.txn.finish(map[string]fate{Committed: committed, Aborted: aborted}[op.How], w.now)
}

// of are the tasks that a worker runs.
func (w *world) of(wk *worker) []*task {
	var all []*task
	for _, t := range w.tasks {
		if t.worker == wk {
			all = append(all, t)
		}
	}
	return all
}

// step lets a task read and work.
func (w *world) step(t *task, read, budget int) error {
	for i := range t.part.Sources {
		w.feed(t, i, read)
	}
	if t.worker.flight != nil {
		w.seen.Frozen++
	}
	_, err := t.run.Step(w.now, max(1, budget))
	if err == nil {
		err = t.rec.err
	}
	if err == nil {
		return nil
	}
	var bad *engine.RecordError
	if !errors.As(err, &bad) || !w.user.failed {
		return differ("task %s: %w", t.id, err)
	}
	// The application ends: what flies lands, and all state is closed well.
	w.user.failed = false
	w.seen.Failures++
	wk := t.worker
	for _, o := range w.of(wk) {
		o.run = nil // what they have in hand is gone
	}
	if wk.flight != nil {
		if err := w.end(wk, &Op{}); err != nil {
			return err
		}
	}
	for _, o := range w.of(wk) {
		if err := w.leave(o); err != nil {
			return err
		}
	}
	return nil
}

// feed pushes up to n records of a source.
func (w *world) feed(t *task, source, n int) {
	l := w.logs[tp{t.part.Sources[source].Topic, t.id.Partition}]
	if l == nil {
		return
	}
	at := &t.fed[source]
	for end := l.stable(); n > 0 && *at < end; *at++ {
		e := &l.entries[*at]
		if e.gone || !e.Control && !e.committed() {
			if *at == end-1 && t.part.Sources[source].Table { // nothing is left there: whoever waits for it must not
				t.run.Push(source, graph.Raw{Offset: *at, Control: true})
			}
			continue
		}
		t.run.Push(source, e.Raw)
		if !e.Control {
			n--
		}
	}
}

// crash ends a process.
func (w *world) crash(wk *worker) error {
	if wk.flight != nil {
		w.seen.InCommit++
		wk.flight.txn.finish(aborted, w.now)
		wk.flight = nil
	}
	for _, t := range w.of(wk) {
		t.worker, t.backend, t.run = nil, nil, nil
	}
	return wk.disk.crash()
}

// leave closes a task in an orderly way.
func (w *world) leave(t *task) error {
	wk := t.worker
	t.worker, t.backend, t.run = nil, nil, nil
	return wk.disk.closeTask(t.id.String())
}

func (w *world) move(t *task, to *worker, op *Op) error {
	if from := t.worker; from != nil {
		w.seen.Moves++
		if from.flight != nil {
			if err := w.end(from, &Op{}); err != nil {
				return err
			}
		}
		if err := w.leave(t); err != nil {
			return err
		}
	}
	b, err := to.disk.openTask(t.id.String(), t.part.Stores)
	if err != nil {
		return differ("open the state of task %s: %w", t.id, err)
	}
	t.worker, t.backend = to, b
	b.bounded, b.left = op.Crash, op.N
	err = w.make(t)
	b.bounded = false
	if errors.Is(err, errCrash) {
		w.seen.InRestore++
		return w.crash(to)
	}
	return err
}

// compact compacts what a task restores its stores from. Tables are compacted as far as they have been processed: what is compacted
// away before it was read is never seen, and nobody promised that it is.
func (w *world) compact(t *task) {
	for _, s := range t.part.Stores {
		if s.SourceTopic == "" {
			l := w.logs[tp{changelogOf(s.Name), t.id.Partition}]
			l.compact(l.end(), w.now, 7*day)
		}
	}
	for i := range t.part.Sources {
		at := tp{t.part.Sources[i].Topic, t.id.Partition}
		if l := w.logs[at]; l != nil && t.part.Sources[i].Table {
			l.compact(w.offsets[at].next, w.now, 7*day)
		}
	}
}

const day = 86_400_000

// trim deletes what was read of repartition topics, and what changelogs of windows have before the first that is open.
func (w *world) trim(t *task) {
	for i := range t.part.Sources {
		at := tp{t.part.Sources[i].Topic, t.id.Partition}
		if l := w.logs[at]; l != nil && t.part.Sources[i].Repartition {
			l.trim(w.offsets[at].next)
		}
	}
	for _, s := range t.part.Stores {
		if s.Kind.Timed() {
			l := w.logs[tp{changelogOf(s.Name), t.id.Partition}]
			l.trim(l.firstLive())
		}
	}
}

// drain finishes everything: all tasks run until nothing is left to do.
func (w *world) drain() error {
	for i := range w.workers {
		if err := w.land(w.workers[i], &Op{}); err != nil {
			return err
		}
	}
	for range 10_000 {
		if err := w.do(&Op{Do: Assign}); err != nil {
			return err
		}
		busy := false
		for _, t := range w.tasks {
			if t.run == nil {
				busy = true
				continue
			}
			if err := w.step(t, 1<<20, 1<<20); err != nil {
				return err
			}
			busy = busy || t.run == nil || t.run.Pending()
		}
		for _, wk := range w.workers {
			if err := w.land(wk, &Op{}); err != nil {
				return err
			}
		}
		if !busy && w.last {
			return nil
		}
		w.last = !busy // what was only counted is no reason for a commit, and yet is to be judged
	}
	return differ("the tasks do not come to rest")
}

// position is what is committed of a task's source.
func (w *world) position(at tp) (offset, wire.Commit, error) {
	o, ok := w.offsets[at]
	if !ok {
		return offset{next: w.logs[at].start}, wire.Commit{Source: wire.SourceClock{MaxTime: graph.Unknown, Watermark: graph.Unknown}}, nil
	}
	c, _, err := wire.DecodeCommit(o.metadata)
	return o, c, err
}

// clone keeps null and empty apart.
func clone(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append([]byte{}, b...)
}

func cloneMutation(m state.Mutation) state.Mutation {
	return state.Mutation{Store: m.Store, Key: bytes.Clone(m.Key), Value: clone(m.Value)}
}
