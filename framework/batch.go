package framework

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/changelog"
	"github.com/headrace/headrace/internal/engine"
	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/internal/wire"
	"github.com/headrace/headrace/state"
)

// batch is what one transaction commits: the cuts of tasks, the offsets that stand for them, and where the changelog records went.
// It is kept until it is known what became of the transaction.
type batch struct {
	mark    mark
	at      time.Time
	tasks   []batchTask
	offsets []offset
	away    []*awaySource // of offsets, those whose clocks are elsewhere
	records int
	reports int // those of them that are watermark reports

	flushes []int // how many records are produced before each flush but the last

	mu      sync.Mutex      // promises are called by the client
	err     error           // the first record that could not be produced
	refused []refusedRecord // outputs and reports that could not for their own sake, or another's in their batch
}

type batchTask struct {
	task        *task
	run         *engine.Task      // whose cut it is: the task may have been made anew since
	positions   []*state.Position // of each store, nil where it did not move
	latest      []int64           // of each store, the latest start of a window that got a value
	offsets     []offset          // of its inputs
	firstOutput int               // its number among the records of the writer
	outputs     int
	reports     []engine.SinkReport // to be written after the commit
	status      engine.Status       // as of the cut
}

// fail keeps the first failure.
func (b *batch) fail(r *kgo.Record, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = fmt.Errorf("framework: produce to %s[%d]: %w", r.Topic, r.Partition, err)
	}
}

func (b *batch) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// refusal is the first of what was refused, as an error.
func (b *batch) refusal() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.refused) == 0 {
		return nil
	}
	f := b.refused[0]
	return fmt.Errorf("framework: produce to %s[%d]: %w", f.record.Topic, f.record.Partition, f.err)
}

// produced is the promise of outputs and reports.
func (b *batch) produced(r *kgo.Record, err error) {
	switch {
	case err == nil:
	case ownFault(err):
		b.mu.Lock()
		b.refused = append(b.refused, refusedRecord{r, err})
		b.mu.Unlock()
	default:
		b.fail(r, err)
	}
}

// logged is the promise of changelog records: it moves the store's position.
func (b *batch) logged(pos *state.Position) func(*kgo.Record, error) {
	return func(r *kgo.Record, err error) {
		if err != nil {
			if ownFault(err) {
				err = fmt.Errorf("%w; %s", err, wayOut(err, r.Timestamp.UnixMilli()))
			}
			b.fail(r, err)
			return
		}
		b.mu.Lock()
		pos.Offset = max(pos.Offset, r.Offset+1)
		b.mu.Unlock()
	}
}

// errPartition is an output for a partition that its topic does not have.
var errPartition = errors.New("the topic has no such partition")

// writer turns cuts into records. It reuses the records from one transaction to the next: the client has let go of them when the
// transaction has ended.
type writer struct {
	layout *layout
	chunks [][]kgo.Record
	used   int
	// promises has that of each record.
	promises []func(*kgo.Record, error)
	next     int32  // the partition for keys that are null
	keys     []byte // built for changelog records
	// partitions is how many the topic of each sink has, of the task whose outputs are written.
	partitions []int32
	apart      *isolation
	group      int // how many suspects may share a batch
	// reportsLast: watermark reports are written after the commit, since what is written before is not taken back if it fails.
	reportsLast bool
	meta        func(context.Context) (*meta, error)
}

const recordChunk = 1024

func (w *writer) record() *kgo.Record {
	i, j := w.used/recordChunk, w.used%recordChunk
	if i == len(w.chunks) {
		w.chunks = append(w.chunks, make([]kgo.Record, recordChunk))
	}
	w.used++
	r := &w.chunks[i][j]
	*r = kgo.Record{}
	return r
}

// recordAt returns the ith record since reset.
func (w *writer) recordAt(i int) *kgo.Record { return &w.chunks[i/recordChunk][i%recordChunk] }

// reset takes the records back. After a failure the client may still hold some: then they are left to it.
func (w *writer) reset(clean bool) {
	if !clean {
		w.chunks, w.keys, w.promises = nil, nil, nil
	}
	clear(w.promises)
	w.used, w.keys, w.promises = 0, w.keys[:0], w.promises[:0]
}

// promise says who is to be told what becomes of the last record.
func (w *writer) promise(b *batch, f func(*kgo.Record, error)) {
	b.records++
	w.promises = append(w.promises, f)
}

// send produces all records, in order.
func (w *writer) send(ctx context.Context, c committer, b *batch) error {
	flushes := b.flushes
	for i := range w.used {
		if len(flushes) > 0 && flushes[0] == i {
			flushes = flushes[1:]
			if err := c.flush(ctx); err != nil {
				return err
			}
		}
		c.produce(ctx, w.recordAt(i), w.promises[i])
	}
	return nil
}

// write makes records of everything that a task's cut holds: changes of state, outputs, and behind them the watermark reports. The task
// is frozen, and may be stepped meanwhile.
func (w *writer) write(ctx context.Context, b *batch, bt *batchTask, now time.Time) error {
	t, cut := bt.task, bt.run.Cut()
	bt.positions, bt.latest = make([]*state.Position, len(t.sub.sub.Stores)), make([]int64, len(t.sub.sub.Stores))
	if err := w.mutations(b, bt, &cut, now); err != nil {
		return err
	}
	cut.Outputs = handOver(t, cut.Outputs)
	bt.firstOutput, bt.outputs = w.used, len(cut.Outputs)
	if err := w.outputs(b, bt, cut.Outputs, now); err != nil {
		return err
	}
	w.laterReports(bt, &cut)
	w.reports(b, t, cut.Reports, now)
	return w.offsets(ctx, b, bt, &cut, now)
}

func (w *writer) mutations(b *batch, bt *batchTask, cut *engine.Cut, now time.Time) error {
	t := bt.task
	deleted := streamTime(cut, now)
	promises := make([]func(*kgo.Record, error), len(t.sub.sub.Stores))
	for m := range bt.run.Mutations() {
		topic := t.sub.changelogs[m.Store]
		if topic == "" {
			continue // the source topic has it already
		}
		if promises[m.Store] == nil {
			bt.latest[m.Store] = noWindow
			pos := &state.Position{TopicID: w.layout.topics[topic].id, LeaderEpoch: -1, AppliedAt: now.UnixMilli()}
			bt.positions[m.Store], promises[m.Store] = pos, b.logged(pos)
		}
		if m.Value != nil {
			if at, ok := t.sub.sub.Stores[m.Store].Kind.TimeOf(m.Key); ok { // a key that is too short is refused below
				bt.latest[m.Store] = max(bt.latest[m.Store], at)
			}
		}
		cr, keys, err := changelog.Encode(w.keys, t.sub.sub.Stores[m.Store], m, deleted)
		if err != nil {
			return fatal("task %s: %w", t.id, err)
		}
		w.keys = keys
		r := w.record()
		r.Topic, r.Partition, r.Key, r.Value, r.Timestamp = topic, t.id.Partition, cr.Key, cr.Value, time.UnixMilli(cr.Time)
		w.promise(b, promises[m.Store])
	}
	return nil
}

// streamTime is the timestamp of deletions: the largest event time that the task has seen.
func streamTime(cut *engine.Cut, now time.Time) int64 {
	t := graph.Unknown
	for i := range cut.Sources {
		t = max(t, cut.Sources[i].Clock.MaxTime)
	}
	if t < 0 {
		return now.UnixMilli()
	}
	return t
}

func (w *writer) outputs(b *batch, bt *batchTask, outs []graph.Output, now time.Time) error {
	t := bt.task
	w.next++ // so that null keys spread, a transaction's to one partition
	promise := b.produced
	w.partitions = w.partitions[:0] // by sink: no look-up for each record
	for _, topic := range t.sub.sinks {
		w.partitions = append(w.partitions, w.layout.topics[topic].partitions)
	}
	for i := range outs {
		o := &outs[i]
		r := w.record()
		r.Topic = t.sub.sinks[o.Sink]
		partitions := w.partitions[o.Sink]
		switch {
		case o.Partition >= partitions:
			return fatal("task %s: sink %s asks for partition %d of %s, which has %d: %w", t.id, t.sub.sub.Sinks[o.Sink].Node, o.Partition, r.Topic, partitions, errPartition)
		case o.Partition >= 0:
			r.Partition = o.Partition
		case o.PartitionKey != nil:
			r.Partition = graph.PartitionOf(o.PartitionKey, partitions)
		default:
			r.Partition = int32(uint32(w.next) % uint32(partitions))
		}
		r.Key, r.Value, r.Timestamp = o.Key, o.Value, time.UnixMilli(o.Time)
		if o.Time < 0 { // it has none
			r.Timestamp = now
		}
		if len(o.Headers) > 0 {
			r.Headers = make([]kgo.RecordHeader, len(o.Headers))
			for j, h := range o.Headers {
				r.Headers[j] = kgo.RecordHeader{Key: h.Key, Value: h.Value}
			}
		}
		suspect := len(t.outputs.suspects) > 0 && t.outputs.suspects[bt.run.OutputID(i)]
		w.between(b, r, suspect)
		w.promise(b, promise)
	}
	return nil
}

// reports go to every partition, behind the data that they cover.
func (w *writer) reports(b *batch, t *task, reports []engine.SinkReport, now time.Time) {
	for _, rep := range reports {
		topic := t.sub.sinks[rep.Sink]
		value := wire.AppendReport(nil, wire.Report{
			SubTopology: int32(t.id.SubTopology), Producer: t.id.Partition, Producers: t.sub.tasks,
			Watermark: rep.Watermark, State: rep.State,
		})
		for p := range w.layout.topics[topic].partitions {
			r := w.record()
			r.Topic, r.Partition, r.Timestamp = topic, p, now
			r.Headers = []kgo.RecordHeader{{Key: wire.HeaderWatermark, Value: value}}
			w.between(b, r, false)
			w.promise(b, b.produced)
			b.reports++
		}
	}
}

// offsets adds the positions of all the task's inputs, those that have not moved too: they carry the number of the transaction and
// the clocks, and the fence.
func (w *writer) offsets(ctx context.Context, b *batch, bt *batchTask, cut *engine.Cut, now time.Time) error {
	t := bt.task
	first := len(b.offsets)
	defer func() { bt.offsets = b.offsets[first:] }()
	for i, sc := range cut.Sources {
		commit := wire.Commit{TransactionalID: b.mark.transactionalID, Sequence: b.mark.sequence, Source: sc.Clock}
		if i == 0 {
			commit.Operators = cut.Operators
		}
		o := offset{topicPartition{t.sub.sources[sc.Source], t.id.Partition}, sc.Offset, wire.EncodeCommit(commit)}
		if planted == offsetByOne {
			o.offset = max(o.offset-1, 0)
		}
		if planted != movedOffsetsOnly || moved(w, o) {
			b.offsets = append(b.offsets, o)
			if len(o.metadata) > wire.MaxMetadata {
				if err := w.away(ctx, b, bt, sc.Source, commit, now); err != nil {
					return err
				}
			}
		}
		src := &t.sub.sub.Sources[sc.Source]
		if src.Table && t.sub.changelogs[src.Store] == "" {
			bt.positions[src.Store] = &state.Position{
				TopicID: w.layout.topics[o.topic].id, Offset: sc.Offset, LeaderEpoch: -1, AppliedAt: now.UnixMilli(),
			}
		}
	}
	return nil
}
