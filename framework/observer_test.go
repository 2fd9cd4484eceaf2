//go:build synctests

package framework_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/topology"
)

// heard is what an observer was told.
type heard struct {
	mu           sync.Mutex
	transactions []framework.Transaction
	tasks        []framework.TaskEvent
	rebalances   []framework.Rebalance
	leftOut      []string
	recovering   []error
}

func (h *heard) observer() framework.Observer {
	locked := func(f func()) {
		h.mu.Lock()
		defer h.mu.Unlock()
		f()
	}
	return framework.Observer{
		Transaction: func(x framework.Transaction) { locked(func() { h.transactions = append(h.transactions, x) }) },
		Task:        func(x framework.TaskEvent) { locked(func() { h.tasks = append(h.tasks, x) }) },
		Rebalanced:  func(x framework.Rebalance) { locked(func() { h.rebalances = append(h.rebalances, x) }) },
		LeftOut: func(err *framework.RecordError, o framework.Outcome) {
			locked(func() { h.leftOut = append(h.leftOut, fmt.Sprint(o, " ", err.Reason, " at ", err.Operator)) })
		},
		Recovering: func(_ int, err error) { locked(func() { h.recovering = append(h.recovering, err) }) },
	}
}

// What an observer hears and what a Snapshot counts is the same, and both are what happened: of what was written, of tasks, of the
// group, of records that are left out.
func TestObserver(t *testing.T) {
	bubble(t, func(w *world) {
		var h, second heard
		w.createTopics(partitions, "dead")
		m := w.start("a", func(c *framework.Config) {
			c.Observers = []framework.Observer{{}, h.observer(), second.observer()}
			c.OnRecordError = topology.DeadLetter("dead")
			c.Topology = countWords(t, func(word string) {
				if strings.HasPrefix(word, "<") {
					panic(word)
				}
			})
		})
		m.runs(2 * partitions)
		w.write(500)
		w.awaitOutputs()
		w.writeBad("<bad-1>", "<bad-2>")
		b := w.start("b", nil)
		b.runs(partitions)
		m.runs(partitions)
		w.write(500)
		w.awaitOutputs()
		b.stop()
		m.runs(2 * partitions)
		n := m.stop()
		s := m.Snapshot()
		w.check(false)

		h.mu.Lock()
		defer h.mu.Unlock()
		committed, aborted, records, bytes := int64(0), map[framework.AbortReason]int64{}, int64(0), int64(0)
		for _, x := range h.transactions {
			if x.ID == "" || x.Sequence == 0 || x.Started.IsZero() || x.Duration < 0 || x.Tasks == 0 {
				t.Errorf("transaction without all its marks: %+v", x)
			}
			if x.Reason != "" {
				aborted[x.Reason]++
				continue
			}
			committed++
			records += x.Records
			bytes += x.Bytes
		}
		if committed != n.Commits || n.Commits == 0 {
			t.Errorf("heard of %d commits, counted %d", committed, n.Commits)
		}
		if diff := cmp.Diff(s.Aborts, aborted); diff != "" {
			t.Errorf("aborts counted and heard of (-counted +heard):\n%s", diff)
		}
		written := int64(0)
		for _, f := range s.Written {
			written += f.Records
			bytes -= f.Bytes
		}
		if written != records || bytes != 0 {
			t.Errorf("the Snapshot has %d records written, heard of %d; %d bytes between them", written, records, bytes)
		}
		times := int64(0)
		for _, c := range s.CommitTimes.Counts {
			times += c
		}
		if times != n.Commits || len(s.CommitTimes.Counts) != len(s.CommitTimes.Bounds)+1 || s.CommitTimes.Sum < 0 {
			t.Errorf("the histogram has %d commits of %d: %+v", times, n.Commits, s.CommitTimes)
		}
		if want := []string{"dead-lettered failed at KSTREAM-PEEK-0000000001", "dead-lettered failed at KSTREAM-PEEK-0000000001"}; !slices.Equal(h.leftOut, want) {
			t.Errorf("left out %q, want %q", h.leftOut, want)
		}
		if int64(len(h.rebalances)) != n.Rebalances || len(h.rebalances[0].Tasks) != 2*partitions {
			t.Errorf("heard of %+v, counted %d rebalances", h.rebalances, n.Rebalances)
		}
		state, ran := map[string]framework.TaskState{}, int64(0)
		for _, e := range h.tasks {
			from, ok := state[e.Task]
			switch {
			case e.State == framework.TaskRestoring && (!ok || from != framework.TaskRestoring):
			case e.State == framework.TaskRunning && from == framework.TaskRestoring:
				ran++
			case e.State == framework.TaskClosed && ok && from != framework.TaskClosed:
			default:
				t.Errorf("task %s: %s after %q", e.Task, e.State, from)
			}
			state[e.Task] = e.State
		}
		if ran != n.TasksBuilt || len(state) != 2*partitions {
			t.Errorf("%d tasks were heard to run %d times, counted %d", len(state), ran, n.TasksBuilt)
		}
		for _, task := range slices.Sorted(maps.Keys(state)) {
			if state[task] != framework.TaskClosed {
				t.Errorf("task %s was last heard to be %s", task, state[task])
			}
		}
		if n.Aborts != 0 && aborted[framework.AbortRebalance] == 0 {
			t.Errorf("aborts %v, and nothing happened but rebalances", aborted)
		}
		if len(second.transactions) != len(h.transactions) {
			t.Errorf("the second observer heard of %d transactions, the first of %d", len(second.transactions), len(h.transactions))
		}
	})
}

// Aborts have their reason: outputs that are refused, a broker that says no.
func TestAbortReasons(t *testing.T) {
	t.Run("refused", func(t *testing.T) {
		bubble(t, func(w *world) {
			w.refuse("out", "<ahead", kerr.InvalidTimestamp)
			w.write(100)
			w.writeBad("<ahead-1>")
			m := w.start("a", func(c *framework.Config) { c.OnRecordError = topology.Skip() })
			w.awaitOutputs()
			n := m.stop()
			if got := m.Snapshot().Aborts; got[framework.AbortRefused] == 0 || got[framework.AbortRefused] != n.Aborts {
				t.Errorf("aborts %v of %d, want all refused", got, n.Aborts)
			}
		})
	})
	t.Run("broker", func(t *testing.T) {
		bubble(t, func(w *world) {
			var count nth
			var h heard
			w.c.ControlKey(int16(kmsg.TxnOffsetCommit), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
				w.c.KeepControl()
				req := kreq.(*kmsg.TxnOffsetCommitRequest)
				if !count.is(5) {
					return nil, nil, false
				}
				resp := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
				for _, rt := range req.Topics {
					pt := kmsg.NewTxnOffsetCommitResponseTopic()
					pt.Topic = rt.Topic
					for _, rp := range rt.Partitions {
						pp := kmsg.NewTxnOffsetCommitResponseTopicPartition()
						pp.Partition, pp.ErrorCode = rp.Partition, kerr.UnknownServerError.Code
						pt.Partitions = append(pt.Partitions, pp)
					}
					resp.Topics = append(resp.Topics, pt)
				}
				return resp, nil, true
			})
			m := w.start("a", func(c *framework.Config) { c.Observers = []framework.Observer{h.observer()} })
			m.runs(2 * partitions)
			for range 4 {
				w.write(100)
				w.awaitOutputs()
			}
			n := m.stop()
			w.check(true)
			s := m.Snapshot()
			if s.Aborts[framework.AbortBroker] != 1 || n.Aborts != 1 || count.hits.Load() != 1 {
				t.Errorf("aborts %v, %d in sum, for one answer", s.Aborts, n.Aborts)
			}
			if i := slices.IndexFunc(h.transactions, func(x framework.Transaction) bool { return x.Reason == framework.AbortBroker }); i < 0 || h.transactions[i].Records == 0 {
				t.Errorf("the observer was not told of the abort: %+v", h.transactions)
			}
		})
	})
}

// Lag falls to nothing as input is processed, over markers too, and what was read and written is counted by topic.
func TestFlows(t *testing.T) {
	bubble(t, func(w *world) {
		gate := make(chan struct{})
		m := w.start("a", func(c *framework.Config) {
			first := true
			c.Topology = countWords(t, func(string) {
				if first {
					first = false
					<-gate
				}
			})
		})
		m.runs(2 * partitions)
		w.write(400)
		time.Sleep(time.Second) // of the bubble: everybody waits for the gate
		close(gate)
		w.awaitOutputs()
		lag := func() (sum int64) {
			for _, task := range m.Snapshot().Tasks {
				for _, s := range task.Sources {
					sum += s.Lag()
				}
			}
			return sum
		}
		w.await("no lag", func() bool { return lag() == 0 })
		s := m.Snapshot()
		m.stop()
		flow := func(of []framework.Flow) map[string]int64 {
			out := map[string]int64{}
			for _, f := range of {
				out[f.Topic] = f.Records
				if f.Bytes < 3*f.Records {
					t.Errorf("%d bytes for %d records of %s", f.Bytes, f.Records, f.Topic)
				}
			}
			return out
		}
		if diff := cmp.Diff(map[string]int64{"in": 400, "words-by-word-repartition": 400}, flow(s.Read)); diff != "" {
			t.Errorf("read (-want +got):\n%s", diff)
		}
		got := flow(s.Written)
		if logged := got["words-counts-changelog"]; logged == 0 || logged > 400 {
			t.Errorf("%d changelog records for 400 updates", logged)
		}
		delete(got, "words-counts-changelog")
		if diff := cmp.Diff(map[string]int64{"out": 400, "words-by-word-repartition": 400}, got); diff != "" {
			t.Errorf("written (-want +got):\n%s", diff)
		}
		for _, task := range s.Tasks {
			for _, src := range task.Sources {
				if src.Topic == "in" && (src.End != 100 || src.Offset != 100) {
					t.Errorf("in[%d] is at %d of %d, want 100 of 100", src.Partition, src.Offset, src.End)
				}
			}
			if task.StateBytes != 0 && strings.HasPrefix(task.ID, "0_") {
				t.Errorf("task %s has no stores and %d bytes of state", task.ID, task.StateBytes)
			}
		}
	})
}

// Errors that keep coming show since when they do.
func TestFailingSince(t *testing.T) {
	bubble(t, func(w *world) {
		var h heard
		m := w.start("a", func(c *framework.Config) { c.Observers = []framework.Observer{h.observer()} })
		m.runs(2 * partitions)
		w.write(100)
		w.awaitOutputs()
		if ws := m.Snapshot().Workers[0]; !ws.FailingSince.IsZero() {
			t.Errorf("failing since %v, while nothing fails: %v", ws.FailingSince, ws.Err)
		}
		down := time.Now()
		w.c.Close()
		w.await("errors for a minute", func() bool {
			ws := m.Snapshot().Workers[0]
			return ws.Err != nil && ws.ErrAt.Sub(ws.FailingSince) > time.Minute && time.Since(ws.ErrAt) < 30*time.Second
		})
		if ws := m.Snapshot().Workers[0]; ws.FailingSince.Before(down) {
			t.Errorf("failing since %v, the broker is down since %v", ws.FailingSince, down)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(h.recovering) < 2 || errors.Join(h.recovering...) == nil {
			t.Errorf("the observer heard of %d errors", len(h.recovering))
		}
	})
}
