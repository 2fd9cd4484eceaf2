package restore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/headrace/headrace/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const topic = "app-counts-changelog"

var counts = state.Spec{Name: "counts", Kind: state.KeyValueKind}

// world is a broker with a topic, a transactional writer, a Restorer, and the backend of a task.
type world struct {
	*testing.T
	cluster  *kfake.Cluster
	writer   *kgo.Client
	restorer *Restorer
	backend  state.Backend
	task     Task
	now      time.Time
	progress func(Progress)
}

func newWorld(t *testing.T, brokers int, opts ...kfake.Opt) *world {
	t.Helper()
	cluster, err := kfake.NewCluster(append(opts, kfake.NumBrokers(brokers), kfake.SeedTopics(3, topic))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	w := &world{T: t, cluster: cluster, now: time.UnixMilli(1_000_000)}
	w.writer = w.client("writer")
	if w.restorer, err = New([]kgo.Opt{kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.MetadataMinAge(10 * time.Millisecond)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.restorer.Close)
	w.open(state.Memory(), []state.Spec{counts}, Store{Topic: topic})
	return w
}

func (w *world) client(id string) *kgo.Client {
	w.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...), kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(cl.Close)
	return cl
}

func (w *world) open(p state.Provider, specs []state.Spec, stores ...Store) {
	w.Helper()
	b, err := p.Open("0_0", specs)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if err := b.Close(); err != nil {
			w.Error(err)
		}
	})
	w.backend, w.task = b, Task{Backend: b, Specs: specs, Stores: stores}
}

func (w *world) begin(cl *kgo.Client) {
	w.Helper()
	if err := cl.BeginTransaction(); err != nil {
		w.Fatal(err)
	}
}

// write writes key=value pairs, or "key" for a tombstone, each record a batch of its own.
func (w *world) write(cl *kgo.Client, partition int32, pairs ...string) {
	w.Helper()
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		r := &kgo.Record{Topic: topic, Partition: partition, Key: []byte(key), Timestamp: time.UnixMilli(7)}
		if ok {
			r.Value = []byte(value)
		}
		w.produce(cl, r)
	}
}

func (w *world) produce(cl *kgo.Client, rs ...*kgo.Record) {
	w.Helper()
	if err := cl.ProduceSync(w.Context(), rs...).FirstErr(); err != nil {
		w.Fatal(err)
	}
}

func (w *world) end(cl *kgo.Client, commit kgo.TransactionEndTry) {
	w.Helper()
	if err := cl.EndTransaction(w.Context(), commit); err != nil {
		w.Fatal(err)
	}
}

// commit writes pairs in a transaction of their own: n records and a marker.
func (w *world) commit(pairs ...string) {
	w.Helper()
	w.begin(w.writer)
	w.write(w.writer, 0, pairs...)
	w.end(w.writer, kgo.TryCommit)
}

func (w *world) abort(pairs ...string) {
	w.Helper()
	w.begin(w.writer)
	w.write(w.writer, 0, pairs...)
	w.end(w.writer, kgo.TryAbort)
}

// run restores and leaves the errors to the caller; it fails when it takes unreasonably long.
func (w *world) run() (Result, error) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 30*time.Second)
	defer cancel()
	res, err := w.restorer.Restore(ctx, w.task, func() time.Time { return w.now }, w.progress)
	if errors.Is(err, context.DeadlineExceeded) {
		w.Fatalf("the restore does not end: %v", err)
	}
	return res, err
}

// restored runs a restore that has to apply so many records, wipe so many stores, and leave the first store at offset with these
// entries.
func (w *world) restored(records int64, wiped int, offset int64, want ...string) {
	w.Helper()
	res, err := w.run()
	if err != nil {
		w.Fatal(err)
	}
	if res.Records != records || res.Wiped != wiped {
		w.Errorf("%d records applied and %d stores wiped, want %d and %d", res.Records, res.Wiped, records, wiped)
	}
	w.holds(0, want...)
	pos := w.backend.Position(0)
	if at := w.cluster.TopicInfo(w.task.Stores[0].Topic).TopicID; pos.Offset != offset || pos.TopicID != at || pos.AppliedAt != w.now.UnixMilli() {
		w.Errorf("position %+v, want offset %d of topic %x, applied at %d", pos, offset, at, w.now.UnixMilli())
	}
}

func (w *world) holds(store int, want ...string) {
	w.Helper()
	var got []string
	for e, err := range w.backend.Scan(store, nil, nil) {
		if err != nil {
			w.Fatal(err)
		}
		at, value, err := state.SplitValue(e.Value)
		if err != nil || at != 7 {
			w.Errorf("%q has time %d (%v), want that of its record, 7", e.Key, at, err)
		}
		got = append(got, fmt.Sprintf("%s=%s", e.Key, value))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("store %d (-want +got):\n%s", store, diff)
	}
}

// at puts the first store at offset, applied at the time of w.now.
func (w *world) at(offset int64, epoch int32) {
	w.Helper()
	id := w.cluster.TopicInfo(topic).TopicID
	pos := []*state.Position{{TopicID: id, Offset: offset, LeaderEpoch: epoch, AppliedAt: w.now.UnixMilli()}}
	old := func(yield func(state.Mutation) bool) {
		yield(state.Mutation{Key: []byte("old"), Value: state.AppendValue(nil, 7, []byte("0"))})
	}
	if err := w.backend.Apply(old, pos); err != nil {
		w.Fatal(err)
	}
}

func TestOnlyWhatWasCommittedIsRestored(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.commit("a=1", "b=1", "c=1") // 0-2, marker 3
	w.abort("a=2", "d=2")         // 4-5, marker 6
	w.commit("b=3", "c")          // 7-8, marker 9
	w.abort("e=4")                // 10, marker 11: the last offset is a marker behind an aborted record
	w.restored(5, 0, 12, "a=1", "b=3")
}

func TestAnEmptyLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.restored(0, 0, 0)

	w.commit("a=1", "b=1")
	if err := w.cluster.DeleteRecords(topic, 0, -1); err != nil {
		t.Fatal(err)
	}
	// A new task of this partition finds a log that starts where it ends.
	w.open(state.Memory(), []state.Spec{counts}, Store{Topic: topic})
	w.restored(0, 0, 3)
}

func TestOnlyTheTailIsRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.commit("a=1", "b=1")
	w.restored(2, 0, 3, "a=1", "b=1")

	w.now = w.now.Add(time.Hour)
	w.restored(0, 0, 3, "a=1", "b=1") // nothing to read, and known to be up to date as of now

	w.commit("b=2", "c=2", "a")
	w.restored(3, 0, 7, "b=2", "c=2")
}

func TestAPositionThatTheLogDoesNotHaveStartsAnew(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  func(*world)
		records int64
		offset  int64
		want    []string
	}{
		"trimmed beyond it": {func(w *world) {
			w.at(1, -1)
			if err := w.cluster.DeleteRecords(topic, 0, 2); err != nil {
				w.Fatal(err)
			}
		}, 1, 4, []string{"c=1"}},
		"trimmed up to it": {func(w *world) {
			w.at(2, -1)
			if err := w.cluster.DeleteRecords(topic, 0, 2); err != nil {
				w.Fatal(err)
			}
		}, 1, 4, []string{"c=1", "old=0"}},
		"beyond the end": {func(w *world) { w.at(5, -1) }, 3, 4, []string{"a=1", "b=1", "c=1"}},
		"topic made anew": {func(w *world) {
			w.at(1, -1)
			if err := errors.Join(w.cluster.DeleteTopic(topic), w.cluster.CreateTopic(topic, 3, nil)); err != nil {
				w.Fatal(err)
			}
			w.writer = w.client("another writer")
			w.commit("d=1", "e=1")
		}, 2, 3, []string{"d=1", "e=1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			w.commit("a=1", "b=1", "c=1")
			c.change(w)
			wiped := 1
			if name == "trimmed up to it" {
				wiped = 0
			}
			w.restored(c.records, wiped, c.offset, c.want...)
		})
	}
}

func TestAnOldPositionStartsAnewIfItMissedAnything(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.task.Stores[0].MaxAge = time.Hour
	w.commit("a=1") // 0, marker 1
	w.at(1, -1)     // applied when the transaction committed: the marker comes behind
	w.now = w.now.Add(time.Hour + time.Millisecond)
	w.restored(0, 0, 2, "old=0") // a marker only

	w.commit("b=1") // 2, marker 3
	w.now = w.now.Add(time.Hour)
	w.restored(1, 0, 4, "b=1", "old=0") // not too old

	w.now = w.now.Add(2 * time.Hour)
	w.restored(0, 0, 4, "b=1", "old=0") // nothing was written since

	w.commit("c=1")
	w.now = w.now.Add(2 * time.Hour)
	w.restored(3, 1, 6, "a=1", "b=1", "c=1")

	w.abort("d=1") // a gap could be a tombstone that compaction removed
	w.now = w.now.Add(2 * time.Hour)
	w.restored(3, 1, 8, "a=1", "b=1", "c=1")

	w.begin(w.writer)
	var rs []*kgo.Record
	for range shortTail {
		rs = append(rs, &kgo.Record{Topic: topic, Key: []byte("e"), Value: []byte("1"), Timestamp: time.UnixMilli(7)})
	}
	w.produce(w.writer, rs...)
	w.end(w.writer, kgo.TryCommit)
	w.commit("e=2")
	w.now = w.now.Add(2 * time.Hour)
	w.restored(shortTail+4, 1, shortTail+11, "a=1", "b=1", "c=1", "e=2") // too far behind to look at
}

// A topic that is read as input, too, is restored to what was processed and not further.
func TestABoundIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	spec := state.Spec{Name: "airports", Kind: state.KeyValueKind, SourceTopic: topic}
	bound := func(upTo int64) { w.task.Stores[0] = Store{Topic: topic, Bounded: true, UpTo: upTo} }
	w.open(state.Memory(), []state.Spec{spec}, Store{})
	w.begin(w.writer)
	// All in one batch, which the bounds cut.
	w.produce(w.writer,
		&kgo.Record{Topic: topic, Key: []byte("a"), Value: []byte("1"), Timestamp: time.UnixMilli(7)},
		&kgo.Record{Topic: topic, Value: []byte("nobody's"), Timestamp: time.UnixMilli(7)},
		&kgo.Record{Topic: topic, Key: []byte("b"), Value: []byte("1"), Timestamp: time.UnixMilli(7)},
		&kgo.Record{Topic: topic, Key: []byte("a"), Value: []byte("2"), Timestamp: time.UnixMilli(7)},
	)
	w.end(w.writer, kgo.TryCommit)

	bound(0)
	w.restored(0, 0, 0)
	bound(2)
	w.restored(1, 0, 2, "a=1")
	bound(3)
	w.restored(1, 0, 3, "a=1", "b=1")
	bound(1) // the offsets of the application were set back
	w.restored(1, 1, 1, "a=1")
	bound(5)
	w.restored(2, 0, 5, "a=2", "b=1")

	bound(3)
	if res, err := w.run(); err != nil || res.Skipped != 1 {
		t.Errorf("skipped %d records with a null key, want 1: %v", res.Skipped, err)
	}
	bound(6)
	if _, err := w.run(); err == nil || !strings.Contains(err.Error(), `store "airports"`) || !strings.Contains(err.Error(), "offset 6 of "+topic+"[0], but the log ends at 5") {
		t.Errorf("a bound beyond the end: %v", err)
	}
}

func TestSeveralStoresAndPartitions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	const other, keys = "app-windows-changelog", 2*batchRecords + 100
	if err := w.cluster.CreateTopic(other, 3, nil); err != nil {
		t.Fatal(err)
	}
	specs := []state.Spec{
		{Name: "spare", Kind: state.KeyValueKind},
		{Name: "windows", Kind: state.WindowKind, Retention: 1000},
		counts,
	}
	w.open(state.Memory(), specs, Store{Store: 2, Topic: topic, Partition: 2}, Store{Store: 1, Topic: other, Partition: 1})
	at := map[int]Progress{}
	w.progress = func(p Progress) {
		if old := at[p.Store]; p.Offset < old.Offset || p.Records < old.Records || p.Records-old.Records > batchRecords || p.Waiting {
			t.Errorf("progress goes from %+v to %+v", old, p)
		}
		at[p.Store] = p
	}
	var rs []*kgo.Record
	for i := range keys {
		key := fmt.Appendf(nil, "%06d", i)
		rs = append(rs,
			&kgo.Record{Topic: topic, Partition: 2, Key: key, Value: []byte("v"), Timestamp: time.UnixMilli(7)},
			&kgo.Record{Topic: other, Partition: 1, Key: append(binary.BigEndian.AppendUint64(key[:6:6], 60_000), 0, 0, 0, 0), Value: []byte("w"), Timestamp: time.UnixMilli(7)},
		)
	}
	w.begin(w.writer)
	w.produce(w.writer, rs...)
	w.end(w.writer, kgo.TryCommit)

	res, err := w.run()
	if err != nil {
		t.Fatal(err)
	}
	if want := (Result{Records: 2 * keys, Bytes: keys * (7 + 19)}); res != want {
		t.Errorf("result %+v, want %+v", res, want)
	}
	for store, want := range map[int]Progress{
		2: {Store: 2, Topic: topic, Partition: 2, Offset: keys + 1, End: keys + 1, Records: keys},
		1: {Store: 1, Topic: other, Partition: 1, Offset: keys + 1, End: keys + 1, Records: keys},
	} {
		if diff := cmp.Diff(want, at[store]); diff != "" {
			t.Errorf("last progress of store %d: %s", store, diff)
		}
	}
	if pos := w.backend.Position(0); pos != (state.Position{}) {
		t.Errorf("the store that was not asked for is at %+v", pos)
	}
	for store, want := range map[int]string{0: "", 1: "w", 2: "v"} {
		n := 0
		for e, err := range w.backend.Scan(store, nil, nil) {
			key := e.Key
			if store == 1 {
				if start, k, ok := state.SplitWindowKey(e.Key); ok && start == 60_000 {
					key = k
				}
			}
			if _, value, _ := state.SplitValue(e.Value); err != nil || string(value) != want || string(key) != fmt.Sprintf("%06d", n) {
				t.Fatalf("store %d, entry %d: %q=%q, %v", store, n, key, e.Value, err)
			}
			n++
		}
		if want != "" && n != keys {
			t.Errorf("store %d has %d entries, want %d", store, n, keys)
		}
	}
}

// The index of sessions is in no changelog. It comes back with the entries, goes with tombstones, and counts as no record.
func TestTheIndexIsMadeAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	visits := state.Spec{Name: "visits", Kind: state.SessionKind}
	w.open(state.Memory(), []state.Spec{visits}, Store{Topic: topic})
	session := func(key string, start, end int64) []byte {
		return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64([]byte(key), uint64(end)), uint64(start))
	}
	at := time.UnixMilli(7)
	w.begin(w.writer)
	w.produce(w.writer,
		&kgo.Record{Topic: topic, Key: session("a", 1, 2), Value: []byte("v"), Timestamp: at},
		&kgo.Record{Topic: topic, Key: session("b", 3, 4), Value: []byte("w"), Timestamp: at},
		&kgo.Record{Topic: topic, Key: session("a", 1, 2), Timestamp: at},
	)
	w.end(w.writer, kgo.TryCommit)
	res, err := w.run()
	if want := (Result{Records: 3, Bytes: 3*17 + 2}); err != nil || res != want {
		t.Errorf("result %+v, %v, want %+v", res, err, want)
	}
	var got []string
	for e, err := range w.backend.Scan(0, nil, nil) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(e.Key))
	}
	want := []string{string(state.AppendSessionKey(nil, 3, 4, []byte("b"))), string(state.AppendSessionIndex(nil, 3, 4, []byte("b")))}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

func TestAnOpenTransactionIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	other := w.client("other")
	w.begin(other)
	w.write(other, 0, "a=1")
	w.commit("b=1", "c=1") // behind the open one
	var waited sync.Once
	w.progress = func(p Progress) {
		if p.Waiting {
			if p.Offset != 0 || p.End != 4 {
				t.Errorf("waits at %+v, want offset 0 of 4", p)
			}
			waited.Do(func() { w.end(other, kgo.TryCommit) })
		}
	}
	// The end was taken while the transaction was open: its marker is behind it.
	w.restored(3, 0, 4, "a=1", "b=1", "c=1")
}

func TestCancelEndsARestore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	other := w.client("other")
	w.begin(other)
	w.write(other, 0, "a=1")
	ctx, cancel := context.WithCancel(t.Context())
	_, err := w.restorer.Restore(ctx, w.task, time.Now, func(Progress) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := w.restorer.Restore(ctx, w.task, time.Now, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that is done: %v", err)
	}
	w.end(other, kgo.TryCommit)
	w.restored(1, 0, 2, "a=1")
}

func TestARecordThatCannotBeReadIsNamed(t *testing.T) {
	t.Parallel()
	for name, key := range map[string][]byte{"null key": nil, "not a window's": []byte("x")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			w.open(state.Memory(), []state.Spec{{Name: "windows", Kind: state.WindowKind}}, Store{Topic: topic, Partition: 2})
			w.begin(w.writer)
			w.produce(w.writer, &kgo.Record{Topic: topic, Partition: 2, Key: make([]byte, 12), Value: []byte("v")})
			w.produce(w.writer, &kgo.Record{Topic: topic, Partition: 2, Key: key, Value: []byte("v")})
			w.end(w.writer, kgo.TryCommit)
			_, err := w.run()
			if err == nil || !strings.Contains(err.Error(), `store "windows": record `+topic+"[2]@1 ") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// Many tasks restore at once through one Restorer, each partition more than once.
func TestOneRestorerForAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.restorer.fetchBytes = 1
	w.begin(w.writer)
	for p := range int32(3) {
		for i := range 10 {
			w.write(w.writer, p, fmt.Sprintf("%d=%d", i, p))
		}
	}
	w.end(w.writer, kgo.TryCommit)
	memory := state.Memory()
	var all sync.WaitGroup
	for i := range 3 * maxFetches {
		all.Go(func() {
			b, err := memory.Open(fmt.Sprint(i), []state.Spec{counts})
			if err != nil {
				t.Error(err)
				return
			}
			defer b.Close()
			task := Task{Backend: b, Specs: []state.Spec{counts}, Stores: []Store{{Topic: topic, Partition: int32(i % 3)}}}
			res, err := w.restorer.Restore(t.Context(), task, time.Now, nil)
			if value, _, _ := b.Get(0, []byte("9")); err != nil || res.Records != 10 || string(value[8:]) != fmt.Sprint(i%3) {
				t.Errorf("restore %d: %+v, %q, %v", i, res, value, err)
			}
		})
	}
	all.Wait()
	if n := len(w.restorer.slots); n != 0 {
		t.Errorf("%d slots are still taken", n)
	}
}
