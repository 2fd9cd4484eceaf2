package framework

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/changelog"
	"github.com/headrace/headrace/internal/wire"
)

// The clocks of a task are committed in the metadata of its offsets. Those of a partition that do not fit there go to a record of the meta
// topic, in the same transaction, and the metadata says where that is and which transaction wrote it. So the two cannot disagree: who reads
// the offset looks for exactly that record, and finding another one, or none, is an error and not a restart of time.

// meta is the topic, once it is known to be there.
type meta struct {
	topic      string
	partitions int32
}

// awaySource is a partition whose clocks are written to the meta topic.
type awaySource struct {
	in  *input
	at  int // in batch.offsets
	ref wire.Reference
}

// metaTopic returns the meta topic, and makes it if it is not there. Most apps never need it, so it is made for those whose clocks may
// become large by their topology, when they start, and else by the first commit that needs it, before its transaction begins.
func (a *App) metaTopic(ctx context.Context, lay *layout) (*meta, error) {
	if m := a.meta.Load(); m != nil {
		return m, nil
	}
	select {
	case a.metaBusy <- struct{}{}: // workers may need it at the same time
		defer func() { <-a.metaBusy }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if m := a.meta.Load(); m != nil {
		return m, nil
	}
	t := internalTopic{name: changelog.MetaTopic(a.set.AppID), store: metaRecords}
	for i := range lay.subs {
		t.partitions = max(t.partitions, lay.subs[i].tasks)
	}
	if err := a.createTopics(ctx, lay, []internalTopic{t}); err != nil {
		return nil, err
	}
	if err := a.checkInternal(ctx, lay, []internalTopic{t}); err != nil {
		return nil, err
	}
	details, err := a.adm.ListTopics(ctx, t.name)
	if err != nil {
		return nil, fmt.Errorf("framework: look up topic %s: %w", t.name, err)
	}
	if err := details.Error(); err != nil {
		return nil, fmt.Errorf("framework: look up topic %s: %w", t.name, err)
	}
	m := &meta{t.name, int32(len(details[t.name].Partitions))}
	a.meta.Store(m)
	return m, nil
}

// About what the clock of one operator, one producer of a repartition topic, and everything else take of metadata, in bytes. What generators of
// watermarks and processors keep is not known beforehand.
const (
	operatorBytes = 30
	producerBytes = 8
	commitBytes   = 200
)

// outgrows says whether the clocks of some task may be too large for the metadata of an offset, by the plan and the number of partitions.
func (l *layout) outgrows() bool {
	for i := range l.subs {
		sub := l.subs[i].sub
		size := commitBytes
		for j := range sub.Nodes {
			if len(sub.Nodes[j].Stores) > 0 {
				size += operatorBytes + len(sub.Nodes[j].Label)
			}
		}
		for j := range sub.Sources {
			if sub.Sources[j].Repartition {
				size += producerBytes * int(l.producers(l.subs[i].sources[j]))
			}
		}
		if size*4/3 > wire.MaxMetadata {
			return true
		}
	}
	return false
}

// producers is how many tasks write a topic.
func (l *layout) producers(topic string) int32 {
	n := int32(0)
	for i := range l.subs {
		for _, sink := range l.subs[i].sinks {
			if sink == topic {
				n = max(n, l.subs[i].tasks)
			}
		}
	}
	return n
}

// away writes the clocks of the batch's last offset to the meta topic.
func (w *writer) away(ctx context.Context, b *batch, bt *batchTask, source int, commit wire.Commit, now time.Time) error {
	m, err := w.meta(ctx)
	if err != nil {
		return fmt.Errorf("framework: task %s: keep clocks that do not fit into the metadata of an offset: %w", bt.task.id, err)
	}
	in := bt.task.input(source)
	away := &awaySource{in: in, at: len(b.offsets) - 1, ref: wire.Reference{
		TransactionalID: b.mark.transactionalID, Sequence: b.mark.sequence, Partition: in.partition % m.partitions, Offset: -1, Slot: 1 - in.slot,
	}}
	b.away = append(b.away, away)
	r := w.record()
	r.Topic, r.Partition, r.Timestamp = m.topic, away.ref.Partition, now
	r.Key = wire.MetaKey(in.topic, in.partition, away.ref.Slot)
	r.Value = wire.AppendMeta(nil, wire.Meta{Topic: in.topic, Partition: in.partition, Commit: commit})
	w.promise(b, func(r *kgo.Record, err error) {
		switch {
		case err == nil:
			b.mu.Lock()
			away.ref.Offset = r.Offset
			b.mu.Unlock()
		case ownFault(err):
			b.fail(r, fatal("task %s: event time at %s[%d] takes %d bytes: %w; %s, or let fewer tasks write that topic, or fewer operators keep event time in one sub-topology",
				bt.task.id, in.topic, in.partition, len(r.Value), err, wayOut(err, r.Timestamp.UnixMilli())))
		default:
			b.fail(r, err)
		}
	})
	return nil
}

// refer makes the offsets whose clocks are in the meta topic say where, once all records are written.
func (b *batch) refer() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range b.away {
		b.offsets[a.at].metadata = wire.EncodeReference(a.ref)
	}
}

// fetchClocks gets what the metadata of committed offsets refers to.
func (a *App) fetchClocks(ctx context.Context, position map[topicPartition]committed) error {
	for tp, c := range position {
		if c.away == nil || planted == clocksForgotten {
			continue
		}
		commit, err := a.clocks(ctx, tp, *c.away)
		if err != nil {
			return err
		}
		c.commit = commit
		position[tp] = c
	}
	return nil
}

// errNoClocks is the cause when the clocks of a committed offset are gone.
var errNoClocks = errors.New("what the app knew of event time is lost")

// clocks reads one record of the meta topic. It is looked for at its offset, and if something else is there, as in a topic that was copied, or
// nobody knew the offset, in the whole partition.
func (a *App) clocks(ctx context.Context, tp topicPartition, ref wire.Reference) (wire.Commit, error) {
	topic := changelog.MetaTopic(a.set.AppID)
	var exact, last *wire.Meta
	look := func(r *kgo.Record) {
		m, err := wire.DecodeMeta(r.Value)
		if err != nil || m.Topic != tp.topic || m.Partition != tp.partition {
			return // another partition's; or one that a newer program has written, which nothing refers to, or it is missed below
		}
		last = &m
		if m.Commit.TransactionalID == ref.TransactionalID && m.Commit.Sequence == ref.Sequence {
			exact = &m
		}
	}
	if ref.Offset >= 0 {
		// That the offset is committed says that the record is.
		r, err := a.restorer.At(ctx, topic, ref.Partition, ref.Offset)
		if err != nil {
			return wire.Commit{}, a.noClocks(tp, err)
		}
		if r != nil {
			look(r)
		}
	}
	if exact == nil {
		last = nil
		if err := a.restorer.Each(ctx, topic, ref.Partition, look); err != nil {
			return wire.Commit{}, a.noClocks(tp, err)
		}
	}
	switch {
	case exact != nil:
		return exact.Commit, nil
	case last != nil && a.set.Guarantee == AtLeastOnce:
		// Somebody who was taken for dead has written over it.
		a.log.Warn("event time goes on from what a former owner of the partition wrote", "topic", tp.topic, "partition", tp.partition)
		commit := last.Commit
		commit.TransactionalID, commit.Sequence = ref.TransactionalID, ref.Sequence
		return commit, nil
	}
	return wire.Commit{}, a.noClocks(tp, fatal("%w: the committed position of %s[%d] refers to a record that transaction %d of %s wrote to %s[%d]@%d, and it is not there: "+
		"the topic was deleted, emptied or made anew; bring it back, or reset the group's offsets to begin anew, with the app's internal topics deleted",
		errNoClocks, tp.topic, tp.partition, ref.Sequence, ref.TransactionalID, topic, ref.Partition, ref.Offset))
}

func (a *App) noClocks(tp topicPartition, err error) error {
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return fatal("%w: the committed position of %s[%d] refers to topic %s, which does not exist; bring it back, or reset the group's offsets to begin anew, "+
			"with the app's internal topics deleted: %w", errNoClocks, tp.topic, tp.partition, changelog.MetaTopic(a.set.AppID), err)
	}
	return err
}

// input is the task's input of a source.
func (t *task) input(source int) *input {
	for _, in := range t.inputs {
		if in.source == source {
			return in
		}
	}
	return nil
}

// slotOf is that of the record that a committed position refers to.
func slotOf(ref *wire.Reference) uint8 {
	if ref == nil {
		return 0
	}
	return ref.Slot & 1
}
