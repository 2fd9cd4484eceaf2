package restore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// One record is found by its offset, whatever is open in the partition, and is not there where it has been trimmed or where something else is.
func TestAt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	at := func(offset int64) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		r, err := w.restorer.At(ctx, topic, 0, offset)
		if err != nil {
			t.Fatal(err)
		}
		if r == nil {
			return "nothing"
		}
		return fmt.Sprintf("%s=%s", r.Key, r.Value)
	}
	w.commit("a=1", "b=1") // 0, 1, marker 2
	w.begin(w.writer)
	w.write(w.writer, 0, "e=1") // 3
	other := w.client("other")
	w.begin(other)
	w.write(other, 0, "f=1") // 4, marker 5: behind the one that is open
	w.end(other, kgo.TryCommit)
	w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.NotLeaderForPartition, Count: 2})
	for offset, want := range map[int64]string{0: "a=1", 1: "b=1", 2: "nothing", 4: "f=1", 5: "nothing", 6: "nothing", 99: "nothing"} {
		if got := at(offset); got != want {
			t.Errorf("at %d: %s, want %s", offset, got, want)
		}
	}
	w.end(w.writer, kgo.TryCommit)
	if err := w.cluster.DeleteRecords(topic, 0, 1); err != nil {
		t.Fatal(err)
	}
	if got := at(0); got != "nothing" {
		t.Errorf("at an offset that was trimmed: %s, want nothing", got)
	}
	w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.TopicAuthorizationFailed, Count: 1})
	if _, err := w.restorer.At(t.Context(), topic, 0, 1); !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("got %v, want what the broker said", err)
	}
}

// Each sees what was committed and nothing else, and waits for what is open.
func TestEach(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.commit("a=1", "b=1")
	w.abort("c=1", "d=1")
	w.begin(w.writer)
	w.write(w.writer, 0, "e=1")
	var got []string
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	f := func(r *kgo.Record) { got = append(got, string(r.Key)) }
	if err := w.restorer.Each(ctx, topic, 0, f); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want that it waits for the open transaction", err)
	}
	w.end(w.writer, kgo.TryCommit)
	got = nil
	w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.NotLeaderForPartition, Count: 2})
	if err := w.restorer.Each(t.Context(), topic, 0, f); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b", "e"}, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	got = nil
	if err := w.restorer.Each(t.Context(), topic, 1, f); err != nil || got != nil {
		t.Errorf("of an empty partition: %v, %v", got, err)
	}
}
