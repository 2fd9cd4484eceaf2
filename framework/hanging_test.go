//go:build synctests

package framework_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headrace/headrace/framework"
)

const (
	pendingPositions = "tasks wait for a transaction in which the committed positions"
	openChangelog    = "tasks wait for a transaction that is open in what their stores"
	openInput        = "input cannot be read further"
)

// said wants a warning to have been said n times: at first after patience since began, then every so often, each with attrs, and with
// how long it has lasted.
func (j journal) said(t *testing.T, msg string, n int, began time.Time, patience, slack, every time.Duration, attrs map[string]string) {
	t.Helper()
	got := j.with(msg)
	if len(got) != n {
		t.Fatalf("said %d times, want %d: %v", len(got), n, got)
	}
	for i, l := range got {
		if l.level != slog.LevelWarn {
			t.Errorf("said as %v", l.level)
		}
		after := l.at.Sub(began)
		if want := patience + time.Duration(i)*every; after < want || after > want+slack {
			t.Errorf("said after %v, want %v and up to %v more", after, want, slack)
		}
		waited, err := time.ParseDuration(l.attrs["waited"])
		if err != nil || waited < patience || waited > after+time.Second {
			t.Errorf("it says that the wait has lasted %q after %v", l.attrs["waited"], after)
		}
		delete(l.attrs, "waited")
		delete(l.attrs, "since")
		if diff := cmp.Diff(attrs, l.attrs); diff != "" {
			t.Errorf("attributes (-want +got):\n%s", diff)
		}
	}
}

// others wants none of the warnings but one.
func (j journal) others(t *testing.T, but string) {
	t.Helper()
	for _, msg := range []string{pendingPositions, openChangelog, openInput} {
		if got := j.with(msg); msg != but && len(got) > 0 {
			t.Errorf("said, too: %v", got)
		}
	}
}

// tool is how the way out begins.
func (w *world) tool() string {
	return "kafka-transactions.sh --bootstrap-server " + strings.Join(w.c.ListenAddrs(), ",") + " "
}

// hang opens a transaction and leaves it so until what it returns is called, which aborts it.
func (w *world) hang(topic string, partition int32) (abort func()) {
	w.t.Helper()
	cl := w.c.Client(w.t, kgo.TransactionalID("somebody"), kgo.TransactionTimeout(15*time.Minute), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err := cl.BeginTransaction(); err != nil {
		w.t.Fatal(err)
	}
	if err := cl.ProduceSync(context.Background(), &kgo.Record{Topic: topic, Partition: partition, Key: []byte("never"), Value: []byte("seen")}).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
	return func() {
		w.t.Helper()
		if err := cl.EndTransaction(context.Background(), kgo.TryAbort); err != nil {
			w.t.Fatal(err)
		}
	}
}

// stableEnd is where what is committed ends in a partition.
func (w *world) stableEnd(topic string, partition int32) int64 {
	w.t.Helper()
	for _, p := range w.c.PartitionInfos(topic) {
		if p.Partition == partition {
			return p.LastStableOffset
		}
	}
	w.t.Fatalf("there is no %s[%d]", topic, partition)
	return 0
}

// Positions that an open transaction keeps pending keep tasks from running. Who waits for them is told, and goes on when it is over.
func TestPendingPositionsAreToldOf(t *testing.T) {
	bubble(t, func(w *world) {
		j := newJournal()
		m := w.start("a", j.into(nil))
		m.runs(2 * partitions)
		w.write(100)
		w.awaitOutputs()
		m.stop()
		j.others(t, "")

		pending := w.c.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.OffsetFetch}, TopicID: w.c.TopicInfo("in").TopicID, Partitions: []int32{1, 3}, Err: kerr.UnstableOffsetCommit, Count: -1,
		})
		began := time.Now()
		m = w.start("b", j.into(nil))
		w.await("the other tasks to run", func() bool { return len(m.Snapshot().Tasks) == 2*partitions-2 })
		time.Sleep(145 * time.Second) // in a bubble
		if pending.Hits() == 0 {
			t.Error("nobody asked for positions: nothing was tested")
		}
		j.said(t, pendingPositions, 3, began, 10*time.Second, 5*time.Second, time.Minute, map[string]string{
			"group": appID, "partitions": "[in[1] in[3]]",
			"find":  w.tool() + "find-hanging --max-transaction-timeout 1 --topic __consumer_offsets",
			"abort": w.tool() + "abort --topic __consumer_offsets --partition <found> --start-offset <found>",
		})
		pending.Remove()
		m.runs(2 * partitions)
		w.write(100)
		w.awaitOutputs()
		time.Sleep(5 * time.Minute) // in a bubble
		m.stop()
		w.check(true)
		if got := j.with(pendingPositions); len(got) != 3 {
			t.Errorf("it was said again when it was over: %v", got)
		}
		j.others(t, pendingPositions)
	})
}

// A transaction that is open in a changelog keeps its task from running, and the restore must neither stop short of it nor be silent.
func TestAnOpenChangelogIsToldOf(t *testing.T) {
	bubble(t, func(w *world) {
		m := w.start("a", nil)
		m.runs(2 * partitions)
		w.write(400)
		w.awaitOutputs()
		m.stop()

		const log = "words-counts-changelog"
		abort := w.hang(log, 2)
		at := w.stableEnd(log, 2)
		j := newJournal()
		began := time.Now()
		m = w.start("b", j.into(nil))
		w.await("the other tasks to run", func() bool { return len(m.Snapshot().Tasks) == 2*partitions-1 })
		time.Sleep(145 * time.Second) // in a bubble
		if n := len(m.Snapshot().Tasks); n != 2*partitions-1 {
			t.Errorf("%d tasks run while a changelog cannot be read to its end", n)
		}
		j.said(t, openChangelog, 3, began, 10*time.Second, 5*time.Second, time.Minute, map[string]string{
			"group": appID, "partitions": "[words-counts-changelog[2]]",
			"find":  w.tool() + "describe-producers --topic words-counts-changelog --partition 2",
			"abort": w.tool() + fmt.Sprintf("abort --topic words-counts-changelog --partition 2 --start-offset %d", at),
		})
		abort()
		m.runs(2 * partitions)
		w.write(100)
		w.awaitOutputs()
		time.Sleep(5 * time.Minute) // in a bubble
		m.stop()
		w.check(true)
		j.others(t, openChangelog)
		if got := j.with(openChangelog); len(got) != 3 {
			t.Errorf("it was said again when it was over: %v", got)
		}
	})
}

// A transaction that is open in an input keeps what is behind it from being processed, as long as it is open. Transactions of other
// programs may be long, so only those that last are told of.
func TestAnOpenInputIsToldOf(t *testing.T) {
	bubble(t, func(w *world) {
		j := newJournal()
		m := w.start("a", j.into(func(c *framework.Config) { c.Workers = 2 }))
		m.runs(2 * partitions)
		w.write(100)
		w.awaitOutputs()
		for range 5 { // an open transaction, but none for long
			abort := w.hang("in", 1)
			time.Sleep(45 * time.Second) // in a bubble
			abort()
			time.Sleep(time.Second) // in a bubble
		}
		j.others(t, "")

		abort := w.hang("in", 1)
		at, began := w.stableEnd("in", 1), time.Now()
		w.write(100)
		w.await("what is not behind the transaction", func() bool { return w.outputs() == 175 })
		time.Sleep(10 * time.Minute) // in a bubble
		if got := w.outputs(); got != 175 {
			t.Errorf("%d outputs, want 175: a quarter of the last 100 records is behind an open transaction", got)
		}
		j.said(t, openInput, 2, began, time.Minute, 65*time.Second, 5*time.Minute, map[string]string{
			"group": appID, "partitions": "[in[1]]",
			"find":  w.tool() + "describe-producers --topic in --partition 1",
			"abort": w.tool() + fmt.Sprintf("abort --topic in --partition 1 --start-offset %d", at),
		})
		abort()
		w.awaitOutputs()
		time.Sleep(10 * time.Minute) // in a bubble
		m.stop()
		w.check(true)
		if got := j.with(openInput); len(got) != 2 {
			t.Errorf("it was said again when it was over: %v", got)
		}
		j.others(t, openInput)
	})
}
