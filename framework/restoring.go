package framework

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/internal/engine"
	"github.com/headrace/headrace/internal/restore"
	"github.com/headrace/headrace/state"
)

// maxStateAge is how old the position of a store may be. Changelogs keep tombstones for seven days; a store that was away for
// longer may have missed one.
const maxStateAge = 6 * 24 * time.Hour

// Kafka's own delete.retention.ms, which tables have that nobody has said anything else of, and as much as is of interest.
const (
	usualTombstones = 24 * time.Hour
	maxTombstones   = 1000 * usualTombstones
	// allTombstones is for a topic that is not compacted: it loses its records from the start on only, which a position tells by itself.
	allTombstones = time.Duration(-1)
)

// tableAge is how old the position of a table's store may be, by the topic's own setting and with the same part of it to spare. Of one that
// is not compacted it is any age: nothing is missing behind the position, and reading it anew would lose the rows that retention has deleted.
func (a *App) tableAge(topic string) time.Duration {
	kept := usualTombstones
	if set, ok := a.tombstones.Load(topic); ok {
		kept = set.(time.Duration)
	}
	if kept == allTombstones {
		return 0
	}
	return max(kept/7*6, time.Millisecond) // 0 would be any age
}

// restore brings the stores of a task up: those with a changelog to its end, which holds exactly what has been committed, since
// the task's last owner has no transaction open; tables that are read from a topic up to the committed position in it.
func (a *App) restore(ctx context.Context, backend state.Backend, id engine.TaskID, sub *subLayout, inputs map[topicPartition]builtInput, p *progress) (restore.Result, error) {
	task := restore.Task{Backend: backend, Specs: sub.sub.Stores}
	for i, topic := range sub.changelogs {
		if topic != "" {
			task.Stores = append(task.Stores, restore.Store{Store: i, Topic: topic, Partition: id.Partition, MaxAge: maxStateAge})
		}
	}
	for i := range sub.sub.Sources {
		src := &sub.sub.Sources[i]
		if !src.Table || sub.changelogs[src.Store] != "" {
			continue
		}
		tp := topicPartition{sub.sources[i], id.Partition}
		in, ok := inputs[tp]
		if !ok {
			continue
		}
		st := restore.Store{Store: src.Store, Topic: tp.topic, Partition: tp.partition, Bounded: true, UpTo: in.offset, MaxAge: a.tableAge(tp.topic)}
		if check := src.Check; check != nil {
			st.Check = func(r *kgo.Record) error {
				rec := raw(r)
				return check(&rec)
			}
		}
		task.Stores = append(task.Stores, st)
	}
	return a.restorer.Restore(ctx, task, time.Now, func(r restore.Progress) {
		p.report(r)
		a.restoreFailpoint(r)
		now := time.Now()
		last := a.restoreLine.Load()
		if now.Sub(time.UnixMilli(last)) >= restoreLines && a.restoreLine.CompareAndSwap(last, now.UnixMilli()) {
			a.log.Info("restoring", "task", id, "store", sub.sub.Stores[r.Store].Name, "topic", r.Topic, "partition", r.Partition,
				"offset", r.Offset, "end", r.End, "records", r.Records, "waiting", r.Waiting)
		}
	})
}

// restoreLines is how often the progress of restores is logged, in the whole app.
const restoreLines = 5 * time.Second

// progress is where the making of a task stands. The goroutine that makes it writes, and the worker reads.
type progress struct {
	specs []state.Spec
	since time.Time

	mu      sync.Mutex
	attempt int
	err     error
	stores  []StoreProgress
	// positions and logs are what it waits for.
	positions, logs []hang
}

func newProgress(specs []state.Spec) *progress { return &progress{specs: specs, since: time.Now()} }

func (p *progress) begin(attempt int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.attempt, p.stores = attempt, nil
	p.positions, p.logs = nil, nil
}

func (p *progress) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
	p.positions, p.logs = nil, nil
}

func (p *progress) report(r restore.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := StoreProgress{
		Store: p.specs[r.Store].Name, Topic: r.Topic, Partition: r.Partition,
		Offset: r.Offset, End: r.End, Records: r.Records, Waiting: r.Waiting,
	}
	tp := topicPartition{r.Topic, r.Partition}
	if r.Waiting {
		p.logs = waits(p.logs, tp, r.Offset)
	} else {
		p.logs = without(p.logs, tp)
	}
	i := slices.IndexFunc(p.stores, func(o StoreProgress) bool { return o.Store == s.Store })
	if i < 0 {
		p.stores = append(p.stores, s)
		return
	}
	p.stores[i] = s
}

func (p *progress) status(id engine.TaskID, worker int) RestoreStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	return RestoreStatus{
		SubTopology: id.SubTopology, Partition: id.Partition, ID: id.String(), Worker: worker,
		Since: p.since, Attempt: p.attempt, Err: p.err, Stores: slices.Clone(p.stores),
	}
}
