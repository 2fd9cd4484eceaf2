//go:build synctests

package framework_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/internal/wiretap"
)

const endTxn = int16(kmsg.EndTxn)

// through sends a member's connections through wire.
func (w *world) through(wire *wiretap.Wire) func(*framework.Config) {
	return func(c *framework.Config) { c.Kafka = w.c.Through(wire) }
}

// commits says whether a request is an EndTxn that commits.
func commits(f wiretap.Frame) bool {
	if f.Key != endTxn {
		return false
	}
	req := kmsg.NewPtrEndTxnRequest()
	return f.Request(req) && req.Commit
}

// nth counts commits and picks some of them by their number, from 1.
type nth struct{ n, hits atomic.Int64 }

func (c *nth) is(want ...int64) bool {
	n := c.n.Add(1)
	for _, x := range want {
		if n == x {
			c.hits.Add(1)
			return true
		}
	}
	return false
}

// The broker commits but answers UNKNOWN_SERVER_ERROR, which the client reports as "not committed": the offsets that were read back
// say otherwise, and nothing is done twice.
func TestCommittedButAnsweredWithUnknownServerError(t *testing.T) {
	bubble(t, func(w *world) {
		var count nth
		wire := &wiretap.Wire{Response: func(f wiretap.Frame) bool {
			if f.Key == endTxn && count.is(2, 3, 5) {
				f.SetError(kerr.UnknownServerError.Code)
			}
			return true
		}}
		m := w.start("a", w.through(wire))
		w.write(200)
		m.runs(2 * partitions)
		w.awaitOutputs()
		for range 5 {
			w.write(50)
			w.awaitOutputs()
		}
		n := m.stop()
		w.check(true)
		if count.hits.Load() != 3 || n.ReadBacks < 3 || n.ReadBacksCommitted < 3 {
			t.Errorf("forged %d answers, read back %d times and found %d committed, want at least 3 each", count.hits.Load(), n.ReadBacks, n.ReadBacksCommitted)
		}
		if n.TasksBuilt != 2*partitions || n.Aborts != 0 {
			t.Errorf("what had committed was thrown away: %+v", n)
		}
	})
}

// The same with transactions that hold nothing but results of windows: the offsets in them are those of the commit before, and only
// the number of the transaction that is kept with them tells that it was committed.
func TestResultsCommittedButAnsweredWithUnknownServerError(t *testing.T) {
	bubble(t, func(w *world) {
		const keys = 3000
		w.createTopics(1, "readings", "seconds")
		const base = 1_600_000_000_000
		var records []*kgo.Record
		for i := range keys {
			records = append(records, &kgo.Record{Topic: "readings", Key: fmt.Appendf(nil, "k%04d", i), Value: []byte("x"), Timestamp: time.UnixMilli(base)})
		}
		w.c.Produce(t, records...)

		// Its hooks are called in the order of requests: one client makes them, and an end follows its offsets' answer.
		var last, unmoved, forged atomic.Int64 // the offset in the last transaction, how many in a row had it, and answers
		wire := &wiretap.Wire{
			Request: func(f wiretap.Frame) bool {
				req := kmsg.NewPtrTxnOffsetCommitRequest()
				if f.Key == req.Key() && f.Request(req) {
					offset := req.Topics[0].Partitions[0].Offset
					if last.Swap(offset) == offset {
						unmoved.Add(1)
					} else {
						unmoved.Store(0)
					}
				}
				return true
			},
			Response: func(f wiretap.Frame) bool {
				// Not each: those that follow must build on what was found out.
				if f.Key == endTxn && unmoved.Load()%3 == 1 {
					f.SetError(kerr.UnknownServerError.Code)
					forged.Add(1)
				}
				return true
			},
		}
		m := w.start("a", func(c *framework.Config) {
			c.Topology = windowResults(t, func() {})
			c.Kafka = w.c.Through(wire)
			c.MaxPendingBytes = 10_000 // so that closing takes many transactions, which move no offset
		})
		m.runs(1)
		w.await("all readings to be in the store", func() bool { return w.c.Committed(t, appID)["readings[0]"] >= keys })
		// One record closes all windows.
		w.c.Produce(t, &kgo.Record{Topic: "readings", Key: []byte("last"), Value: []byte("x"), Timestamp: time.UnixMilli(base + 10_000)})
		w.await("all results", func() bool { return len(w.c.ReadCommitted(t, "seconds")) >= keys })
		n := m.stop()
		w.checkResults(keys)
		if forged.Load() < 3 || n.ReadBacks != forged.Load() || n.ReadBacksCommitted != forged.Load() {
			t.Errorf("forged %d answers to transactions that moved no offset, want at least 3; read back %d times and found %d committed, want each",
				forged.Load(), n.ReadBacks, n.ReadBacksCommitted)
		}
		if n.TasksBuilt != 1 || n.Aborts != 0 {
			t.Errorf("what had committed was thrown away: %+v", n)
		}
	})
}

// The answer to a commit is lost. What the broker made of it is read back with a new client, under the same transactional id.
func TestAnswerToCommitIsCut(t *testing.T) {
	for name, cuts := range map[string][]int64{"once": {3}, "twice": {3, 4}, "ten times": {3, 4, 5, 6, 7, 8, 9, 10, 11, 12}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				var count nth
				wire := &wiretap.Wire{Response: func(f wiretap.Frame) bool {
					return f.Key != endTxn || !count.is(cuts...)
				}}
				m := w.start("a", w.through(wire))
				w.write(200)
				m.runs(2 * partitions)
				w.awaitOutputs()
				for range 5 {
					w.write(50)
					w.awaitOutputs()
				}
				w.await("all to run again", func() bool { return count.hits.Load() == int64(len(cuts)) })
				w.write(50)
				w.awaitOutputs()
				n := m.stop()
				w.check(true)
				if got := count.hits.Load(); got != int64(len(cuts)) {
					t.Fatalf("cut %d answers, want %d", got, len(cuts))
				}
				if len(cuts) > 1 && (n.ReadBacks == 0 || n.Sessions < 2 || n.TasksBuilt <= 2*partitions) {
					t.Errorf("the client gave up, so there must be a new one, a read-back and new tasks: %+v", n)
				}
			})
		})
	}
}

// The request itself never arrives, for a minute: each time the client gives up, its transaction is aborted by the next one, and
// done again.
func TestCommitIsCutBeforeTheBroker(t *testing.T) {
	bubble(t, func(w *world) {
		var count nth
		var until atomic.Int64
		wire := &wiretap.Wire{Request: func(f wiretap.Frame) bool {
			if !commits(f) {
				return true
			}
			if count.is(2) {
				until.Store(time.Now().Add(time.Minute).UnixNano())
			}
			return time.Now().UnixNano() >= until.Load()
		}}
		m := w.start("a", w.through(wire))
		w.write(200)
		m.runs(2 * partitions)
		w.awaitOutputs()
		w.write(300)
		w.awaitOutputs()
		n := m.stop()
		w.check(true)
		if count.hits.Load() != 1 || n.Sessions < 3 || n.ReadBacks < 2 || n.ReadBacksCommitted != 0 || n.Aborts != n.ReadBacks || n.TasksBuilt <= 2*partitions {
			t.Errorf("all commits of a minute were cut %d times: %+v", count.hits.Load(), n)
		}
	})
}

// A broker that refuses to commit says so: the transaction has not happened, and everything is made anew and processed again, with
// as much queued behind it as there is.
func TestAbortWithADeepQueue(t *testing.T) {
	bubble(t, func(w *world) {
		w.write(4000)
		var count nth
		refuse := w.c.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Err: kerr.TransactionAbortable, Count: -1,
			When: func(kmsg.Request) bool { return count.is(3, 4, 7) },
		})
		m := w.start("a", func(c *framework.Config) {
			c.MaxPendingBytes = 20_000 // so that there is much left to do when a transaction is refused
		})
		m.runs(2 * partitions)
		w.awaitOutputs()
		w.write(100)
		w.awaitOutputs()
		n := m.stop()
		w.check(true)
		if refuse.Hits() < 3 || n.Aborts < 3 || n.ReadBacks < 3 || n.ReadBacksCommitted != 0 {
			t.Errorf("refused %d transactions: %+v", refuse.Hits(), n)
		}
		if n.TasksBuilt <= 2*partitions {
			t.Errorf("an abort must make all tasks anew: %+v", n)
		}
	})
}

// A broker that refuses for a long time is asked less and less often, and everything comes out once when it gives in.
func TestBrokerThatRefusesIsNotHammered(t *testing.T) {
	bubble(t, func(w *world) {
		const refusals = 12
		m := w.start("a", nil)
		w.write(100)
		m.runs(2 * partitions)
		w.awaitOutputs()
		before := m.Snapshot().Counters
		refuse := w.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Err: kerr.TransactionAbortable, Count: refusals})
		begin := time.Now()
		w.write(100)
		w.await("the first refusals", func() bool { return refuse.Hits() >= 2 })
		if took := time.Since(begin); took > time.Second {
			t.Errorf("it took %v to try again once: a single refusal is no reason to wait", took)
		}
		w.awaitOutputs()
		// 0, 0.1, 0.2, 0.4 … seconds, at most 5.
		if took := time.Since(begin); took < 30*time.Second || took > time.Minute {
			t.Errorf("it took %v until the broker had refused %d times", took, refusals)
		}
		begin = time.Now()
		w.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Err: kerr.TransactionAbortable, Count: 1})
		w.write(100)
		w.awaitOutputs()
		if took := time.Since(begin); took > time.Second {
			t.Errorf("it took %v after one more refusal: what was before is over", took)
		}
		n := m.stop()
		w.check(true)
		if refuse.Hits() != refusals || n.Aborts-before.Aborts != refusals+1 || n.ReadBacks-before.ReadBacks != refusals+1 {
			t.Errorf("refused %d transactions: %+v", refuse.Hits(), n)
		}
	})
}

// The same with answers after which the client is of no use: each time there is a new one, which joins the group anew.
func TestBrokerThatBreaksSessionsIsNotHammered(t *testing.T) {
	bubble(t, func(w *world) {
		const refusals = 12
		m := w.start("a", nil)
		w.write(100)
		m.runs(2 * partitions)
		w.awaitOutputs()
		before := m.Snapshot().Counters
		refuse := w.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Err: kerr.RequestTimedOut, Count: refusals})
		begin := time.Now()
		w.write(100)
		w.await("the first refusals", func() bool { return refuse.Hits() >= 2 })
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("it took %v to try again once: a single refusal is no reason to wait", took)
		}
		w.awaitOutputs()
		if took := time.Since(begin); took < 20*time.Second || took > 2*time.Minute {
			t.Errorf("it took %v until the broker had refused %d times", took, refuse.Hits())
		}
		n := m.stop()
		w.check(true)
		if made := n.Sessions - before.Sessions; refuse.Hits() != refusals || made == 0 || made > refusals {
			t.Errorf("refused %d transactions, and made %d sessions", refuse.Hits(), made)
		}
	})
}

// A record that cannot be produced: the client would commit the others. Nothing of the transaction may be.
func TestProduceFails(t *testing.T) {
	bubble(t, func(w *world) {
		m := w.start("a", nil)
		w.write(200)
		m.runs(2 * partitions)
		w.awaitOutputs()
		fault := w.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "out", Partitions: []int32{1}, Err: kerr.UnknownServerError, Count: 2})
		w.write(200)
		w.awaitOutputs()
		w.write(200)
		w.awaitOutputs()
		n := m.stop()
		w.check(true)
		if fault.Hits() != 2 || n.Aborts != 2 || n.TasksBuilt != 3*2*partitions {
			t.Errorf("%d produces failed: %+v", fault.Hits(), n)
		}
	})
}

// A restart has nothing in memory: its state comes from the changelog's bytes, and counts go on.
func TestRestartRestoresFromTheChangelog(t *testing.T) {
	bubble(t, func(w *world) {
		m := w.start("a", nil)
		w.write(300)
		w.awaitOutputs()
		m.stop()
		w.check(true)
		w.write(300)
		m = w.start("b", nil)
		w.awaitOutputs()
		n := m.stop()
		w.check(true)
		if n.RecordsRestored < words || n.TasksBuilt != 2*partitions {
			t.Errorf("restored %d records for %d words in %d tasks", n.RecordsRestored, words, n.TasksBuilt)
		}
	})
}

// An EndTxn that hangs for longer than the transaction may take: the broker aborts, and this member and another go on.
func TestStallBeyondTheTransactionTimeout(t *testing.T) {
	bubble(t, func(w *world) {
		var count nth
		wire := &wiretap.Wire{Request: func(f wiretap.Frame) bool {
			if commits(f) && count.is(3) {
				f.Stall(2 * time.Minute)
			}
			return true
		}}
		a := w.start("a", w.through(wire))
		b := w.start("b", nil)
		a.runs(1) // or the other may have done all there was to do
		b.runs(1)
		for range 5 {
			w.write(100)
			w.awaitOutputs()
		}
		a.runs(1)
		b.runs(1)
		na, nb := a.Snapshot().Counters, b.Snapshot().Counters
		a.stop()
		w.write(100)
		w.awaitOutputs()
		b.stop()
		w.check(false)
		if count.hits.Load() != 1 || na.ReadBacks == 0 || na.Sessions < 2 || na.TasksBuilt+nb.TasksBuilt <= 2*partitions {
			t.Errorf("stalled %d times: a %+v, b %+v", count.hits.Load(), na, nb)
		}
	})
}

// Members come and go while transactions are open.
func TestJoinAndLeaveWhileWorking(t *testing.T) {
	bubble(t, func(w *world) {
		var stop atomic.Bool
		fed := make(chan struct{})
		go func() {
			defer close(fed)
			for !stop.Load() {
				w.write(50)
				time.Sleep(70 * time.Millisecond) // in a bubble
			}
		}()
		a := w.start("a", func(c *framework.Config) { c.Workers = 2 })
		a.runs(2 * partitions)
		var built, restored, rebalances, aborts int64
		for range 3 {
			b := w.start("b", nil)
			b.runs(1)
			time.Sleep(2 * time.Second) // in a bubble
			n := b.stop()
			built += n.TasksBuilt
			restored += n.RecordsRestored
			rebalances += n.Rebalances
			aborts += n.Aborts
			time.Sleep(2 * time.Second) // in a bubble
		}
		stop.Store(true)
		<-fed
		w.awaitOutputs()
		a.runs(2 * partitions)
		n := a.stop()
		w.check(true)
		if built == 0 || rebalances < 3 || restored == 0 {
			t.Errorf("the other member built %d tasks, restored %d records in %d rebalances", built, restored, rebalances)
		}
		if n.Aborts+aborts != 0 {
			t.Errorf("nothing failed, but %d transactions of a and %d of b were aborted", n.Aborts, aborts)
		}
		if n.RecordsRestored == 0 || n.TasksBuilt <= 2*partitions {
			t.Errorf("a got tasks back and had to catch up with what b had done: %+v", n)
		}
	})
}

// A second Run is refused, and an app that was told to stop before it began is content.
func TestRunsOnce(t *testing.T) {
	bubble(t, func(w *world) {
		m := w.start("a", nil)
		m.runs(2 * partitions)
		m.stop()
		if err := m.Run(t.Context()); !errors.Is(err, framework.ErrClosed) {
			t.Errorf("second Run returned %v, want ErrClosed", err)
		}
	})
}
