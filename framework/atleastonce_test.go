//go:build synctests

package framework_test

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/internal/kafkatest"
	"github.com/headrace/headrace/internal/wiretap"
)

const offsetCommit = int16(kmsg.OffsetCommit)

func atLeastOnce(wire *wiretap.Wire) func(w *world) func(*framework.Config) {
	return func(w *world) func(*framework.Config) {
		return func(c *framework.Config) {
			c.Guarantee = framework.AtLeastOnce
			if wire != nil {
				c.Kafka = w.c.Through(wire)
			}
		}
	}
}

// checkRepeats allows outputs and counts to repeat, and nothing to be missing: each word is counted at least as often as it was
// written, in steps of one from one, and stores, changelog and outputs agree in the end.
func (w *world) checkRepeats() (repeated int64) {
	w.t.Helper()
	last := make(map[string]int64)
	for _, r := range w.c.ReadCommitted(w.t, "out") {
		word, got := string(r.Key), int64(binary.BigEndian.Uint64(r.Value))
		if got > last[word]+1 {
			w.t.Fatalf("output %s[%d]@%d: %s = %d behind %d: a record was lost", r.Topic, r.Partition, r.Offset, word, got, last[word])
		}
		last[word] = got
	}
	logged := kafkatest.Fold(w.c.ReadCommitted(w.t, "words-counts-changelog"))
	stored := w.stores.counts(w.t)
	for word, n := range w.wrote {
		var in int64
		if v := logged[word]; v != "" {
			in = int64(binary.BigEndian.Uint64([]byte(v)))
		}
		if last[word] < n || in != last[word] || stored[word] != last[word] {
			w.t.Errorf("%s was written %d times; the last output is %d, the changelog has %d, the store %d", word, n, last[word], in, stored[word])
		}
		repeated += last[word] - n
	}
	return repeated
}

// requests counts the requests that pass through a wire, by their keys.
type requests struct {
	mu sync.Mutex
	n  map[int16]int
}

func (r *requests) add(f wiretap.Frame) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n == nil {
		r.n = make(map[int16]int)
	}
	r.n[f.Key]++
	return true
}

// Where nothing fails, nothing repeats, over joins and leaves neither: what a worker gives up it has committed. And nothing is asked of
// a transaction coordinator.
func TestAtLeastOnceRepeatsNothingWhereNothingFails(t *testing.T) {
	bubble(t, func(w *world) {
		var asked requests
		with := atLeastOnce(&wiretap.Wire{Request: asked.add})(w)
		a := w.start("a", with)
		w.write(300)
		a.runs(2 * partitions)
		w.awaitOutputs()
		b := w.start("b", with)
		w.write(300)
		b.runs(1)
		w.awaitOutputs()
		w.write(100)
		b.stop()
		w.write(100)
		w.awaitOutputs()
		n := a.stop()
		w.check(true)
		if n.Aborts != 0 || n.Commits == 0 {
			t.Errorf("%d aborts, %d commits, want none and some", n.Aborts, n.Commits)
		}
		for _, key := range []kmsg.Key{kmsg.EndTxn, kmsg.TxnOffsetCommit, kmsg.AddPartitionsToTxn, kmsg.AddOffsetsToTxn} {
			if asked.n[int16(key)] != 0 {
				t.Errorf("%d requests of kind %s", asked.n[int16(key)], key.Name())
			}
		}
		if asked.n[offsetCommit] == 0 {
			t.Error("no offset was committed")
		}
	})
}

// Offsets are committed when everything before them is written, and reports of the watermark when they are committed.
func TestAtLeastOnceOrder(t *testing.T) {
	bubble(t, func(w *world) {
		const topic = "words-by-word-repartition"
		var lost atomic.Int64
		var open atomic.Bool
		wire := &wiretap.Wire{Request: func(f wiretap.Frame) bool {
			if f.Key == offsetCommit && !open.Load() {
				lost.Add(1)
				return false
			}
			return true
		}}
		look := func() (data, reports int) {
			for _, r := range w.c.ReadCommitted(t, topic) {
				if len(r.Headers) > 0 && r.Headers[0].Key == "x-wm" {
					reports++
				} else {
					data++
				}
			}
			return data, reports
		}
		open.Store(true)
		with := atLeastOnce(wire)(w)
		m := w.start("a", func(c *framework.Config) {
			with(c)
			c.Topology = countWordsInTime(t)
		})
		w.write(100)
		m.runs(2 * partitions)
		w.awaitCommitted()
		dataBefore, reportsBefore := look()
		open.Store(false)
		w.write(100)
		w.await("commits that get lost", func() bool { return lost.Load() > 3 })
		if data, reports := look(); data == dataBefore || reports != reportsBefore {
			t.Errorf("while no offset is committed, %d records and %d reports are written, want some and none", data-dataBefore, reports-reportsBefore)
		}
		open.Store(true)
		w.awaitCommitted()
		m.runs(2 * partitions)
		m.stop()
		if _, reports := look(); reportsBefore == 0 || reports == reportsBefore {
			t.Errorf("%d reports were written, and %d before: there is none of what was committed late", reports, reportsBefore)
		}
		w.checkRepeats()
	})
}

// What became of a commit that got no plain answer is read back: if it was made, nothing is done again; if not, everything is.
func TestAtLeastOnceReadsBack(t *testing.T) {
	for name, c := range map[string]struct {
		made   bool
		answer *kerr.Error
	}{
		"made, answered with an error":     {true, kerr.UnknownServerError},
		"made, answered with a time-out":   {true, kerr.RequestTimedOut},
		"made, the answer is lost":         {true, nil},
		"not made, the request is lost":    {false, nil},
		"not made, answered with an error": {false, kerr.IllegalGeneration},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				var count nth
				forge := func(f wiretap.Frame) bool { return f.Key == offsetCommit && count.is(2, 3, 5, 8) }
				wire := &wiretap.Wire{}
				if c.made {
					wire.Response = func(f wiretap.Frame) bool {
						if !forge(f) {
							return true
						}
						if c.answer == nil {
							return false
						}
						setOffsetCommitError(t, f, c.answer)
						return true
					}
				} else if c.answer == nil {
					wire.Request = func(f wiretap.Frame) bool { return !forge(f) }
				} else {
					w.c.ControlKey(offsetCommit, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
						w.c.KeepControl()
						if !count.is(2, 3, 5, 8) {
							return nil, nil, false
						}
						req := kreq.(*kmsg.OffsetCommitRequest)
						resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
						for _, rt := range req.Topics {
							at := kmsg.NewOffsetCommitResponseTopic()
							at.Topic, at.TopicID = rt.Topic, rt.TopicID
							for _, rp := range rt.Partitions {
								p := kmsg.NewOffsetCommitResponseTopicPartition()
								p.Partition, p.ErrorCode = rp.Partition, c.answer.Code
								at.Partitions = append(at.Partitions, p)
							}
							resp.Topics = append(resp.Topics, at)
						}
						return resp, nil, true
					})
				}
				m := w.start("a", atLeastOnce(wire)(w))
				w.write(200)
				w.awaitCommitted()
				for range 6 {
					w.write(50)
					w.awaitCommitted()
				}
				n := m.stop()
				repeated := w.checkRepeats()
				if count.hits.Load() != 4 {
					t.Fatalf("%d commits were tampered with, want 4", count.hits.Load())
				}
				if c.made && (repeated != 0 || n.Aborts != 0) {
					t.Errorf("%d counts repeated with %d aborts, though all had been committed: %+v", repeated, n.Aborts, n)
				}
				if !c.made && c.answer != nil && (repeated == 0 || n.Aborts == 0) {
					t.Errorf("%d counts repeated with %d aborts, though commits had been refused: %+v", repeated, n.Aborts, n)
				}
			})
		})
	}
}

// A member that is cut off from the group is replaced; what it had written and not committed is done again, and nothing is missing.
func TestAtLeastOnceTakeOver(t *testing.T) {
	bubble(t, func(w *world) {
		var cut atomic.Bool
		wire := &wiretap.Wire{Request: func(f wiretap.Frame) bool {
			return !cut.Load() || f.Key == int16(kmsg.Produce) || f.Key == int16(kmsg.Metadata) || f.Key == int16(kmsg.Fetch)
		}}
		a := w.start("a", atLeastOnce(wire)(w))
		w.write(200)
		a.runs(2 * partitions)
		w.awaitOutputs()
		b := w.start("b", atLeastOnce(nil)(w))
		b.runs(1)
		cut.Store(true) // it can still write, and neither commit nor say that it lives
		w.write(1000)
		w.await("the other to have all tasks", func() bool { return len(b.Snapshot().Tasks) == 2*partitions })
		w.write(100)
		cut.Store(false)
		w.awaitCommitted()
		a.runs(1)
		w.write(100)
		w.awaitCommitted()
		a.stop()
		b.stop()
		w.checkRepeats()
	})
}

// awaitCommitted waits until the group has read all inputs to their ends.
func (w *world) awaitCommitted() {
	w.t.Helper()
	w.await("positions at the ends of all inputs", func() bool { return w.lag() == "" })
}

// lag names an input partition that the group has not read to its end.
func (w *world) lag() string {
	at := w.c.Committed(w.t, appID)
	ends := make(map[string]int64)
	for _, topic := range []string{"in", "words-by-word-repartition"} {
		for _, r := range w.c.ReadCommitted(w.t, topic) {
			ends[fmt.Sprintf("%s[%d]", topic, r.Partition)] = r.Offset + 1
		}
	}
	for p, end := range ends {
		if at[p] < end {
			return fmt.Sprintf("%s: %d of %d", p, at[p], end)
		}
	}
	return ""
}

// setOffsetCommitError makes each partition's answer an error.
func setOffsetCommitError(t *testing.T, f wiretap.Frame, err *kerr.Error) {
	t.Helper()
	resp := kmsg.NewPtrOffsetCommitResponse()
	if !f.Response(resp) {
		t.Error("an answer to OffsetCommit cannot be read")
		return
	}
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			resp.Topics[i].Partitions[j].ErrorCode = err.Code
		}
	}
	f.Forge(resp)
}
