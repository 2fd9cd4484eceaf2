//go:build synctests

package framework_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/topology"
)

// values of a topic, sorted.
func (w *world) values(topic string) []string {
	w.t.Helper()
	var out []string
	for _, r := range w.c.ReadCommitted(w.t, topic) {
		out = append(out, string(r.Value))
	}
	slices.Sort(out)
	return out
}

// What the broker refuses meets the policy with the record that it was made of: the dead letters are exactly the bad ones, and all
// others come out once, however many transactions were aborted on the way.
func TestRefusedOutputsBecomeDeadLetters(t *testing.T) {
	bubble(t, func(w *world) {
		w.createTopics(partitions, "dead")
		hits := w.refuse("out", "<ahead", kerr.InvalidTimestamp)
		w.write(400)
		w.writeBad("<ahead-1>", "<ahead-2>", "<ahead-3>")
		w.write(400)
		m := w.start("a", func(c *framework.Config) { c.OnRecordError = topology.DeadLetter("dead") })
		w.awaitOutputs()
		n := m.stop()
		w.check(true)
		if got := fmt.Sprint(w.values("dead")); got != "[<ahead-1> <ahead-2> <ahead-3>]" {
			t.Errorf("dead letters %s", got)
		}
		if n.DeadLetters != 3 || len(n.Dropped) != 0 || hits() == 0 {
			t.Errorf("%d dead letters and %v dropped are counted, %d batches were refused", n.DeadLetters, n.Dropped, hits())
		}
		for _, r := range w.c.ReadCommitted(t, "dead") {
			i := slices.IndexFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == "__streams.errors.topic" })
			if i < 0 || string(r.Headers[i].Value) != "words-by-word-repartition" {
				t.Errorf("headers %v, want the topic in which the task had the record", r.Headers)
			}
		}
	})
}

// A dead letter that its topic refuses ends Run with both causes, whatever the policy: there is nowhere left for the record to go.
func TestADeadLetterThatIsRefusedEndsRun(t *testing.T) {
	bubble(t, func(w *world) {
		w.createTopics(partitions, "dead")
		w.refuse("dead", "poison", kerr.InvalidTimestamp)
		m := w.start("a", func(c *framework.Config) {
			c.Topology, c.OnRecordError = poison(t, func() { panic("no such word") }), topology.DeadLetter("dead")
		})
		w.write(20)
		w.c.Produce(t, &kgo.Record{Topic: "in", Partition: 2, Key: []byte("k"), Value: []byte("poison")})
		err := m.ends()
		var rec *framework.RecordError
		if !errors.As(err, &rec) || rec.Topic != "in" || rec.Partition != 2 || !errors.Is(err, kerr.InvalidTimestamp) {
			t.Fatalf("Run returned %v, want a *RecordError of in[2] for INVALID_TIMESTAMP", err)
		}
		says(t, err, "dead")
		if got := w.values("dead"); len(got) != 0 {
			t.Errorf("dead letters %v are committed", got)
		}
	})
}

// The topic for dead letters has to be there when the app starts, not when the first record fails.
func TestTheDeadLetterTopicHasToExist(t *testing.T) {
	bubble(t, func(w *world) {
		m := w.start("a", func(c *framework.Config) {
			c.Topology, c.OnRecordError = poison(t, func() {}), topology.DeadLetter("dead")
		})
		says(t, m.ends(), "dead", "output topic")
	})
}

func TestDeadLettersMayNotComeInAgain(t *testing.T) {
	_, err := framework.New(framework.Config{
		AppID: "a", Brokers: []string{"localhost:1"}, Topology: poison(t, func() {}), OnRecordError: topology.DeadLetter("in"),
	})
	if err == nil || !strings.Contains(err.Error(), "dead letters go to topic in") {
		t.Errorf("New returned %v, want that dead letters would come in again", err)
	}
}
