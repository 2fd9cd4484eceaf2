package framework

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/internal/graph"
)

// distribute puts records into the queues of their tasks. Records of a task that is not running are dropped: when it runs, the
// client is told where to start. What a queue has had already is dropped, too: the client starts anew at the committed position
// whenever a transaction is aborted.
func (w *worker) distribute(fetches kgo.Fetches) {
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		in := w.routes[topicPartition{p.Topic, p.Partition}]
		if in == nil || in.task.run == nil {
			return
		}
		in.heard = time.Now()
		if len(p.Records) > 0 {
			in.brought = in.heard
		}
		if in.end < p.LastStableOffset {
			in.end = p.LastStableOffset
			in.task.run.SetEnd(in.source, in.end)
		}
		for _, r := range p.Records {
			if r.Offset < in.pushed {
				continue
			}
			in.pushed = r.Offset + 1
			in.idle = in.idle && r.Attrs.IsControl()
			in.task.run.Push(in.source, raw(r))
			w.idle = false
		}
	})
}

func raw(r *kgo.Record) graph.Raw {
	out := graph.Raw{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset,
		Key: r.Key, Value: r.Value, Time: r.Timestamp.UnixMilli(), Control: r.Attrs.IsControl(),
		Appended: r.Attrs.TimestampType() == 1,
	}
	if len(r.Headers) > 0 && !out.Control {
		out.Headers = make([]graph.Header, len(r.Headers))
		for i, h := range r.Headers {
			out.Headers[i] = graph.Header{Key: h.Key, Value: h.Value}
		}
	}
	return out
}

func (w *worker) queued() int {
	total := 0
	for _, t := range w.running {
		for _, in := range t.inputs {
			_, bytes := t.run.Queued(in.source)
			total += bytes
		}
	}
	return total
}

// full says that no more should be fetched. If all that is queued waits for a partition that has nothing queued, more must be.
func (w *worker) full() bool { return !w.stuck && w.queued() >= w.app.set.MaxQueuedBytes }

// flow pauses the partitions that have more than their share queued, when fetching has to go on for the sake of others. Pausing
// makes the client throw away what it has fetched, so otherwise it is simply not polled.
func (w *worker) flow() {
	if len(w.routes) == 0 {
		return
	}
	share := w.app.set.MaxQueuedBytes / len(w.routes)
	var pause, resume map[string][]int32
	for _, t := range w.running {
		for _, in := range t.inputs {
			_, bytes := t.run.Queued(in.source)
			switch {
			case !in.paused && w.stuck && bytes >= share:
				in.paused, pause = true, add(pause, in.topicPartition)
			case in.paused && bytes <= share/2:
				in.paused, resume = false, add(resume, in.topicPartition)
			}
		}
	}
	if pause != nil {
		w.session.Client().PauseFetchPartitions(pause)
	}
	if resume != nil {
		w.session.Client().ResumeFetchPartitions(resume)
		w.reposition()
	}
}

func add(m map[string][]int32, tp topicPartition) map[string][]int32 {
	if m == nil {
		m = make(map[string][]int32)
	}
	m[tp.topic] = append(m[tp.topic], tp.partition)
	return m
}
