package restore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestNext(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	next := func(from, to int64) int64 {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		got, err := w.restorer.Next(ctx, topic, 0, from, to)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := next(0, 0); got != 0 {
		t.Errorf("of an empty log: %d, want 0", got)
	}
	if got := next(0, 7); got != 0 {
		t.Errorf("where the log does not reach: %d, want 0: something may come", got)
	}
	w.commit("a=1", "b=1") // 0, 1, marker 2
	w.abort("c=1", "d=1")  // 3, 4, marker 5
	for from, want := range []int64{0, 1, 2, 5, 5, 5, 6} {
		if got := next(int64(from), 6); got != want {
			t.Errorf("from %d: %d, want %d", from, got, want)
		}
	}
	if got := next(3, 5); got != 5 {
		t.Errorf("from 3 to 5: %d, want 5: what was aborted is nothing", got)
	}
	w.begin(w.writer)
	w.write(w.writer, 0, "e=1") // 6
	if got := next(6, 7); got != 6 {
		t.Errorf("in an open transaction: %d, want 6: something may come", got)
	}
	w.end(w.writer, kgo.TryCommit) // marker 7
	if err := w.cluster.DeleteRecords(topic, 0, 8); err != nil {
		t.Fatal(err)
	}
	if got := next(2, 8); got != 8 {
		t.Errorf("of a log that was trimmed to its end: %d, want 8", got)
	}
}

// What is behind the last record that compaction has left cannot be told from its offset.
func TestNextBehindTheLastRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.commit("a=1", "b=1")
	w.cluster.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		resp, p := answer(kreq.(*kmsg.FetchRequest))
		p.HighWatermark, p.LastStableOffset = 3, 3
		return resp, nil, true
	})
	if got, err := w.restorer.Next(t.Context(), topic, 0, 1, 3); got != 3 || err != nil {
		t.Errorf("got %d and %v, want 3", got, err)
	}
}

func TestNextTriesAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.commit("a=1")
	fault := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.NotLeaderForPartition, Count: 2})
	if got, err := w.restorer.Next(t.Context(), topic, 0, 0, 2); got != 0 || err != nil || fault.Hits() != 2 {
		t.Errorf("got %d and %v after %d faults, want 0 after 2", got, err, fault.Hits())
	}
	w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.TopicAuthorizationFailed, Count: 1})
	if _, err := w.restorer.Next(t.Context(), topic, 0, 0, 2); !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("got %v, want TOPIC_AUTHORIZATION_FAILED", err)
	}
}
