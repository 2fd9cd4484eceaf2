//go:build synctests

package simrun_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/changelog"
	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/internal/eos"
	"github.com/headrace/headrace/internal/simrun"
	"github.com/headrace/headrace/serde"
)

func encode[T any](t *testing.T, s serde.Serde[T], v T) []byte {
	t.Helper()
	b, err := s.Append(nil, v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// weight is a record of the table.
func weight(t *testing.T, group int64) *kgo.Record {
	key := eos.Event{Source: group}.Group()
	// The group of a key decides its partition, as the default partitioner does for whoever writes a table.
	part := kgo.StickyKeyPartitioner(nil).ForTopic(eos.Groups).Partition(&kgo.Record{Key: []byte(key)}, eos.Partitions)
	return &kgo.Record{Topic: eos.Groups, Partition: int32(part), Key: []byte(key), Value: encode(t, serde.Int64(), eos.Weight(group)), Timestamp: time.UnixMilli(eventBase)}
}

// reader reads the outputs, read-committed, while things fail.
type reader struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu   sync.Mutex
	seen eos.Seen
}

func (w *world) read() *reader {
	ctx, cancel := context.WithCancel(context.Background())
	r := &reader{cancel: cancel, done: make(chan struct{}), seen: make(eos.Seen)}
	from := make(map[string]map[int32]kgo.Offset)
	for _, topic := range w.outputs() {
		from[topic] = make(map[int32]kgo.Offset)
		for p := range int32(eos.Partitions) {
			from[topic][p] = kgo.NewOffset().At(0)
		}
	}
	// Without a reset: a client that has one starts again when a leader moves.
	cl := w.c.Client(w.t, kgo.ConsumePartitions(from), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.FetchMaxWait(time.Second))
	go func() {
		defer close(r.done)
		for ctx.Err() == nil {
			fetches := cl.PollFetches(ctx)
			r.mu.Lock()
			fetches.EachError(func(topic string, p int32, err error) {
				if ctx.Err() == nil {
					w.say("the reader: %s[%d]: %v", topic, p, err)
				}
			})
			fetches.EachRecord(func(rec *kgo.Record) { r.seen.See(eos.FromKgo(rec)) })
			r.mu.Unlock()
		}
	}()
	return r
}

func (r *reader) count() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.seen {
		n += len(s)
	}
	return n
}

func (r *reader) stop() {
	r.cancel()
	<-r.done
}

// topicLog is what is committed in a topic.
type topicLog struct {
	parts  [][]eos.Record
	starts []int64
}

func (l topicLog) all() []eos.Record { return slices.Concat(l.parts...) }

// check reads everything and runs the checkers. Everybody has stopped.
func (w *world) check() {
	rep := &eos.Report{}
	repartition, changelogs := w.internal()
	logs := make(map[string]topicLog)
	ends := make(map[eos.Place]eos.Ends)
	topics := slices.Concat(w.topics(), repartition, changelogs)
	for _, topic := range topics {
		l := topicLog{parts: make([][]eos.Record, eos.Partitions)}
		for _, p := range w.c.PartitionInfos(topic) {
			l.starts = append(l.starts, p.LogStartOffset)
			ends[eos.Place{Topic: topic, Partition: p.Partition}] = eos.Ends{Stable: p.LastStableOffset, End: p.HighWatermark}
		}
		logs[topic] = l
	}
	eos.CheckOpen(rep, ends, nil)
	if !rep.OK() {
		w.report(rep)
		return // what is behind cannot be read
	}
	for _, r := range w.c.ReadCommitted(w.t, topics...) {
		logs[r.Topic].parts[r.Partition] = append(logs[r.Topic].parts[r.Partition], eos.FromKgo(r))
	}

	if meta := changelog.MetaTopic(w.appID()); w.c.TopicInfo(meta) != nil && len(w.c.ReadCommitted(w.t, meta)) > 0 {
		w.met.add(simrun.ClocksAway)
	}
	w.checkResults(rep, logs, repartition)
	w.checkOffsets(rep, logs, append(w.inputs(), repartition...))
	w.checkStores(rep, logs)
	w.checkReader(rep, logs)
	w.checkLetters(rep, logs)
	w.checkCounters(rep)
	w.report(rep)
}

func (w *world) report(rep *eos.Report) {
	if !rep.OK() {
		for line := range strings.Lines(rep.Describe()) {
			w.problem("%s", strings.TrimSpace(line))
		}
	}
}

// counted are the events that count, in the order of their partitions.
func (w *world) counted() []eos.Event {
	all := slices.Concat(w.feed.events[:]...)
	return slices.DeleteFunc(all, func(e eos.Event) bool { return e.End })
}

func (w *world) checkResults(rep *eos.Report, logs map[string]topicLog, repartition []string) {
	switch w.trace.App {
	case simrun.Fold:
		eos.CheckTotals(rep, w.counted(), logs[eos.Totals].all(), foldKey, true)
	case simrun.Windows:
		found := eos.CheckWindows(rep, w.feed.events[:], logs[eos.Windows].all(), logs[eos.Late].all(), true)
		eos.CheckCorrected(rep, w.feed.events[:], logs[eos.Revised].all(), logs[eos.Sums].all())
		if found.Sidelined > 0 {
			w.met.add(simrun.LateRecord)
		}
	case simrun.Ticks:
		eos.CheckTimers(rep, logs[eos.Ticks].all())
	}
	if len(repartition) > 0 {
		hop := logs[repartition[0]]
		eos.CheckHop(rep, w.counted(), hop.all(), slices.Max(hop.starts) > 0)
	}
}

func (w *world) checkOffsets(rep *eos.Report, logs map[string]topicLog, inputs []string) {
	committed, last := make(map[eos.Place]int64), make(map[eos.Place]int64)
	group := w.c.GroupInfo(w.appID())
	for _, topic := range inputs {
		for p, records := range logs[topic].parts {
			at := eos.Place{Topic: topic, Partition: int32(p)}
			if c, ok := group.Commits[topic][int32(p)]; ok {
				committed[at] = c.Offset
			}
			if n := len(records); n > 0 {
				last[at] = records[n-1].Offset
			}
		}
	}
	eos.CheckOffsets(rep, w.appID(), committed, last)
}

// checkStores holds what members kept to the changelogs, and those to the outputs.
func (w *world) checkStores(rep *eos.Report, logs map[string]topicLog) {
	if w.copies.err != nil {
		w.problem("read stores: %v", w.copies.err)
	}
	kept := func(store, topic string) map[string]eos.Entry {
		l, all := logs[topic], w.copies.of[store]
		if w.compacted { // what an old copy has may be gone from the log
			all = slices.DeleteFunc(slices.Clone(all), func(c eos.StoreCopy) bool {
				records := l.parts[c.Partition]
				return len(records) > 0 && c.Position <= records[len(records)-1].Offset
			})
		}
		if store == eos.WindowsStore || store == eos.RevisedStore {
			return eos.CheckWindowStore(rep, store, l.parts, l.starts, all)
		}
		return eos.CheckStore(rep, store, l.parts, l.starts, all)
	}
	changelog := func(store string) string { return w.appID() + "-" + store + "-changelog" }
	switch w.trace.App {
	case simrun.Fold:
		eos.CheckOutputs(rep, eos.TotalsStore, kept(eos.TotalsStore, changelog(eos.TotalsStore)), logs[eos.Totals].all())
	case simrun.Windows:
		eos.CheckEmpty(rep, eos.WindowsStore, kept(eos.WindowsStore, changelog(eos.WindowsStore)))
		eos.CheckEmpty(rep, eos.RevisedStore, kept(eos.RevisedStore, changelog(eos.RevisedStore)))
		eos.CheckOutputs(rep, eos.SumsStore, kept(eos.SumsStore, changelog(eos.SumsStore)), logs[eos.Sums].all())
		kept(eos.GroupsStore, eos.Groups)
	case simrun.Ticks:
		eos.CheckOutputs(rep, eos.TicksStore, kept(eos.TicksStore, changelog(eos.TicksStore)), logs[eos.Ticks].all())
	}
}

// checkReader waits until the reader has had the time to see everything.
func (w *world) checkReader(rep *eos.Report, logs map[string]topicLog) {
	final, n := make(eos.Seen), 0
	for _, topic := range w.outputs() {
		for _, r := range logs[topic].all() {
			final.See(r)
			n++
		}
	}
	for range 100 {
		if w.live.count() >= n {
			break
		}
		time.Sleep(100 * time.Millisecond) // in a bubble
	}
	w.live.stop()
	eos.CheckReader(rep, w.live.seen, final)
}

func (w *world) checkLetters(rep *eos.Report, logs map[string]topicLog) {
	want := w.feed.poison
	if w.trace.Skip {
		want = nil
	}
	eos.CheckLetters(rep, want, logs[deadLetters].all())
}

// checkCounters holds what apps say that they did to what was done. Nobody heard what a process that died had done last.
func (w *world) checkCounters(rep *eos.Report) {
	var sum framework.Counters
	unheard := false
	for _, l := range w.lives {
		s := l.Snapshot()
		c := s.Counters
		w.say("%s of %s says: %+v; aborts %v", l.m.name, s.Instance, c, s.Aborts)
		sum.Records += c.Records
		sum.Aborts += c.Aborts
		sum.ReadBacks += c.ReadBacks
		sum.Fenced += c.Fenced
		// Whoever lost its partitions while it waited for an answer cannot know any more either what became of the transaction.
		unheard = unheard || l.dead.Load() || l.asked.Load() || s.Aborts[framework.AbortUnclear] > 0 || c.ReadBacks > c.ReadBacksCommitted
	}
	for situation, n := range map[string]int64{simrun.Abort: sum.Aborts, simrun.Fence: sum.Fenced, simrun.ReadBack: sum.ReadBacks} {
		if n > 0 {
			w.met.add(situation)
		}
	}
	if w.trace.App != simrun.Fold {
		return
	}
	// What could be decoded of the input, and behind the repartition topic what counts.
	were := int64(len(slices.Concat(w.feed.events[:]...)) + len(w.counted()))
	switch {
	case sum.Records > were, !unheard && sum.Records != were:
		eos.CheckCounters(rep, w.appID(), sum.Records, were)
	}
}

// stacks writes down where all goroutines are.
func (w *world) stacks() {
	buf := make([]byte, 1<<22)
	fmt.Fprintf(w.log, "%s\n", buf[:runtime.Stack(buf, true)])
}
