package framework

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/internal/engine"
	"github.com/headrace/headrace/internal/restore"
	"github.com/headrace/headrace/state"
)

// maxStateAge is how old the position of a store may be. Changelogs keep tombstones for seven days; a store that was away for
// longer may have missed one.
const maxStateAge = 6 * 24 * time.Hour

// restore brings the stores of a task up: those with a changelog to its end, which holds exactly what has been committed, since
// the task's last owner has no transaction open; tables that are read from a topic up to the committed position in it.
func (a *App) restore(ctx context.Context, backend state.Backend, id engine.TaskID, sub *subLayout, inputs map[topicPartition]builtInput) (int64, error) {
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
		st := restore.Store{Store: src.Store, Topic: tp.topic, Partition: tp.partition, Bounded: true, UpTo: in.offset}
		if check := src.Check; check != nil {
			st.Check = func(r *kgo.Record) error {
				rec := raw(r)
				return check(&rec)
			}
		}
		task.Stores = append(task.Stores, st)
	}
	result, err := a.restorer.Restore(ctx, task, time.Now, nil)
	return result.Records, err
}
