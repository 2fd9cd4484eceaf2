package restore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/changelog"
	"github.com/headrace/headrace/state"
)

// maxRestarts is how often one restore may find the log changed under it before it gives up.
const maxRestarts = 3

// shortTail is how many offsets a store of old position may be behind and still be looked at before it is wiped.
const shortTail = 1_000

// reader reads the log of one store. It belongs to its goroutine, but for applied, which is the applier's.
type reader struct {
	Store
	r    *Restorer
	spec state.Spec
	out  chan<- chunk

	place place
	next  int64 // next offset to read
	end   int64 // done when next is there
	epoch int32 // of the last batch read, -1 if unknown
	wipe  bool  // the store has to be wiped before anything is applied to it
	old   bool  // the position is over its age: what it missed must be nothing
	done  bool  // the applier knows that it is at the end
	fails int   // fetches in a row that failed
	tries int   // restarts

	applied int64
}

// readers looks up the logs and decides for each store where to start.
func (r *Restorer) readers(ctx context.Context, task Task, now time.Time) ([]*reader, error) {
	if len(task.Stores) == 0 {
		return nil, nil
	}
	var parts []partition
	for _, s := range task.Stores {
		parts = append(parts, partition{s.Topic, s.Partition})
	}
	logs, err := r.logs(ctx, parts)
	if err != nil {
		return nil, err
	}
	var readers []*reader
	for _, s := range task.Stores {
		rd := &reader{Store: s, r: r, spec: task.Specs[s.Store], epoch: -1}
		log := logs[partition{s.Topic, s.Partition}]
		if err := rd.begin(log); err != nil {
			return nil, err
		}
		pos := task.Backend.Position(s.Store)
		switch {
		case pos == (state.Position{}):
		case staleKept && pos.Offset < log.start:
		case pos.TopicID != log.id || pos.Offset > rd.end || pos.Offset < log.start:
			rd.wipe = true
		default:
			rd.next, rd.epoch = pos.Offset, pos.LeaderEpoch
			rd.old = !anyAge && s.MaxAge > 0 && pos.Offset < rd.end && now.Sub(time.UnixMilli(pos.AppliedAt)) > s.MaxAge
			if rd.old && rd.end-rd.next > shortTail {
				rd.fromStart(log)
			}
		}
		readers = append(readers, rd)
	}
	return readers, nil
}

// begin sets the reader to read the whole log.
func (rd *reader) begin(log log) error {
	rd.place, rd.end = log.place, log.end
	if rd.Bounded {
		if rd.UpTo > log.end {
			return fmt.Errorf("restore: store %q is to be restored up to offset %d of %s[%d], but the log ends at %d: since that offset was committed "+
				"the topic has been made anew or has lost records; reset the offsets of the application to offsets that exist",
				rd.spec.Name, rd.UpTo, rd.Topic, rd.Partition, log.end)
		}
		rd.end = rd.UpTo
		if oneShort {
			rd.end--
		}
	}
	rd.next = min(log.start, rd.end)
	return nil
}

func (rd *reader) fromStart(log log) {
	rd.next, rd.epoch, rd.wipe, rd.old = min(log.start, rd.end), -1, true, false
}

// run reads to the end, or until ctx is done.
func (rd *reader) run(ctx context.Context, out chan<- chunk) {
	rd.out = out
	if err := rd.read(ctx); err != nil && ctx.Err() == nil {
		rd.send(ctx, chunk{err: err})
	}
}

// send hands a chunk over. It returns an error when ctx is done.
func (rd *reader) send(ctx context.Context, c chunk) error {
	c.rd, c.topicID, c.end = rd, rd.place.id, rd.end
	if !c.waiting {
		c.wipe, rd.wipe = rd.wipe, false
	}
	select {
	case rd.out <- c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (rd *reader) read(ctx context.Context) error {
	blocked := 0
	for rd.next < rd.end {
		wait, err := rd.step(ctx)
		if err != nil {
			return err
		}
		if !wait {
			blocked = 0
			continue
		}
		if blocked++; blocked == 3 { // a commit under way takes a moment; only what lasts is news
			if err := rd.send(ctx, chunk{next: rd.next, epoch: rd.epoch, waiting: true}); err != nil {
				return err
			}
		}
		if err := pause(ctx, blocked); err != nil {
			return err
		}
	}
	if rd.done {
		return nil
	}
	return rd.send(ctx, chunk{next: rd.end, epoch: rd.epoch, done: true})
}

// step does one fetch. It says whether an open transaction is in the way.
//
// The slot is kept until the applier has taken everything, so that no more than maxFetches answers are in memory.
func (rd *reader) step(ctx context.Context) (wait bool, err error) {
	select {
	case rd.r.slots <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	got, failure := rd.r.fetch(ctx, rd.partition(), rd.place, rd.next, rd.epoch, rd.end)
	switch {
	case failure != nil:
	case rd.old && !rd.harmless(got):
		failure = errTooOld
	default:
		wait, err = rd.take(ctx, got)
		failure = got.err
	}
	<-rd.r.slots
	if failure != nil && err == nil {
		err = rd.failed(ctx, failure)
	}
	return wait, err
}

func (rd *reader) partition() partition { return partition{rd.Topic, rd.Partition} }

// take decodes what was fetched and hands it over in batches. It says whether there was nothing because of an open transaction.
func (rd *reader) take(ctx context.Context, got fetched) (wait bool, err error) {
	moved := got.next > rd.next
	switch {
	case moved:
		rd.fails = 0
	case got.err != nil:
		return false, nil
	case got.stable < rd.end:
		return true, nil
	default:
		// Nothing is left there: it was compacted away, and nobody knows of which epoch it was.
		rd.next, rd.epoch = rd.end, -1
		return false, nil
	}

	var c chunk
	var arena []byte
	for i, rec := range got.records {
		if rec.Offset >= rd.end {
			break
		}
		if rec.Attrs.IsControl() {
			continue
		}
		if c.mutations == nil {
			n, size := upTo(got.records[i:], rd.spec.Kind)
			c.mutations, arena = make([]state.Mutation, 0, n), make([]byte, 0, size)
		}
		value := rec.Value
		if rd.Check != nil && value != nil && rd.Check(rec) != nil {
			value = nil
			c.skipped++
		}
		var m state.Mutation
		m, arena, err = changelog.Decode(arena, rd.Store.Store, rd.spec, changelog.Record{Key: rec.Key, Value: value, Time: rec.Timestamp.UnixMilli()})
		switch {
		case err == nil:
		case errors.Is(err, changelog.ErrNullKey) && rd.spec.SourceTopic != "":
			c.skipped++
			continue
		default:
			return false, fmt.Errorf("restore: store %q: record %s[%d]@%d cannot be read; another program has written it, or the store is "+
				"declared in another way than before: %w", rd.spec.Name, rd.Topic, rd.Partition, rec.Offset, err)
		}
		if deletedStay && m.Value == nil {
			continue
		}
		c.mutations = append(c.mutations, m)
		c.records++
		var index state.Mutation
		var indexed bool
		if index, arena, indexed = rd.spec.Kind.Index(arena, m); indexed {
			c.mutations = append(c.mutations, index)
		}
		c.bytes += int64(len(rec.Key) + len(rec.Value))
		if len(c.mutations) == cap(c.mutations) || c.bytes >= batchBytes {
			c.next, c.epoch = rec.Offset+1, rec.LeaderEpoch
			if err := rd.send(ctx, c); err != nil {
				return false, err
			}
			c = chunk{}
		}
	}
	rd.next = min(got.next, rd.end)
	if got.epoch >= 0 {
		rd.epoch = got.epoch
	}
	rd.done = rd.next == rd.end
	c.next, c.epoch, c.done = rd.next, rd.epoch, rd.done
	return false, rd.send(ctx, c)
}

// upTo says how many mutations the next batch has at most, and how many bytes they take.
func upTo(records []*kgo.Record, kind state.Kind) (n, size int) {
	for ; n < min(len(records), batchRecords) && size < batchBytes; n++ {
		size += len(records[n].Key) + len(records[n].Value) + 8 // a timestamp is put before the value
	}
	if _, end := kind.Entries(); end != nil { // it has an index, with a mutation more for each, of about the key's length
		size += n
		for _, r := range records[:n] {
			size += len(r.Key) + 5
		}
		n *= 2
	}
	return n, size
}

// harmless says that what an old position missed, up to the end, was transaction markers and nothing else: no record, and no gap
// where compaction may have removed a tombstone. So each offset has to be one of a marker.
func (rd *reader) harmless(got fetched) bool {
	at := rd.next
	for _, rec := range got.records {
		if at >= rd.end || !rec.Attrs.IsControl() {
			break
		}
		at++
	}
	return at >= rd.end
}

// errTooOld says that tombstones may be missing in what is between the position and the end.
var errTooOld = errors.New("the position is older than tombstones are kept")

// failed decides what a failed fetch means: the store has to begin again, or it is worth another try, or it is over.
func (rd *reader) failed(ctx context.Context, failure error) error {
	if errors.Is(failure, kerr.OffsetOutOfRange) || errors.Is(failure, errDiverged) || errors.Is(failure, errTooOld) {
		return rd.restart(ctx, failure)
	}
	rd.fails++
	if !retriable(ctx, failure) || rd.fails >= rd.r.attempts {
		return fmt.Errorf("restore: store %q: read %s[%d]@%d: %w", rd.spec.Name, rd.Topic, rd.Partition, rd.next, failure)
	}
	if err := pause(ctx, rd.fails); err != nil {
		return err
	}
	var places map[partition]place
	err := rd.r.retry(ctx, func() (err error) {
		places, err = rd.r.places(ctx, []partition{rd.partition()})
		return err
	})
	if err != nil {
		return err
	}
	at := places[rd.partition()]
	if at.id != rd.place.id {
		return rd.restart(ctx, errNewTopic)
	}
	rd.place = at
	return nil
}

var errNewTopic = errors.New("the topic was deleted and made again")

// restart begins again with the whole log and an empty store.
func (rd *reader) restart(ctx context.Context, why error) error {
	if rd.tries++; rd.tries > maxRestarts {
		return fmt.Errorf("restore: store %q: %s[%d] changed %d times while it was read, the last time at offset %d: %w; is something deleting records "+
			"or the topic all the time?", rd.spec.Name, rd.Topic, rd.Partition, rd.tries, rd.next, why)
	}
	logs, err := rd.r.logs(ctx, []partition{rd.partition()})
	if err != nil {
		return err
	}
	log := logs[rd.partition()]
	if err := rd.begin(log); err != nil {
		return err
	}
	rd.fromStart(log)
	return nil
}

// pause waits before the nth try.
func pause(ctx context.Context, n int) error {
	t := time.NewTimer(min(10*time.Millisecond<<min(n-1, 10), 500*time.Millisecond))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
