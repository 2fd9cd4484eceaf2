//go:build synctests

package framework_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/window"
)

// journal keeps what an app logs.
type journal struct {
	mu      *sync.Mutex
	records *[]slog.Record
}

func newJournal() journal { return journal{new(sync.Mutex), new([]slog.Record)} }

func (j journal) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }
func (j journal) WithAttrs([]slog.Attr) slog.Handler           { return j }
func (j journal) WithGroup(string) slog.Handler                { return j }

func (j journal) Handle(_ context.Context, r slog.Record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	*j.records = append(*j.records, r)
	return nil
}

// into makes the app log into the journal.
func (j journal) into(change func(*framework.Config)) func(*framework.Config) {
	return func(c *framework.Config) {
		c.Logger = slog.New(j)
		if change != nil {
			change(c)
		}
	}
}

// line is what was logged, with the attributes that are named.
type line struct {
	level slog.Level
	at    time.Time
	attrs map[string]string
}

// with returns the lines that begin with msg.
func (j journal) with(msg string) []line {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []line
	for _, r := range *j.records {
		if !strings.HasPrefix(r.Message, msg) {
			continue
		}
		l := line{r.Level, r.Time, make(map[string]string)}
		r.Attrs(func(a slog.Attr) bool {
			l.attrs[a.Key] = a.Value.String()
			return true
		})
		out = append(out, l)
	}
	return out
}

// Windows that cannot close, since one partition has had no record, say so: which windows, and for what they wait.
func TestWindowsThatWaitSayFor(t *testing.T) {
	bubble(t, func(w *world) {
		w.createTopics(2, "readings")
		b := topology.NewBuilder()
		readings := topology.From(b, topology.Topic("readings", serde.String(), serde.String()))
		byRoom := topology.GroupBy(readings, "by-room", func(_, room string) string { return room }, serde.String(), serde.String())
		topology.Count(topology.Windowed(byRoom, window.Tumbling(time.Minute), window.Drop()), "room-minutes", topology.EmitOnClose()).
			To(topology.Topic("out", window.KeySerde(serde.String()).Size(time.Minute), serde.Int64()))
		top, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		j := newJournal()
		m := w.start("a", j.into(func(c *framework.Config) { c.Topology, c.IdleAfter = top, -1 }))
		m.runs(4)
		reading := func(partition int32, minute int64) {
			w.c.Produce(t, &kgo.Record{
				Topic: "readings", Partition: partition, Key: []byte("k"), Value: []byte("hall"), Timestamp: time.UnixMilli(1_600_000_020_000 + 60_000*minute),
			})
		}
		const msg = "windows wait"
		time.Sleep(10 * time.Minute) // in a bubble
		if got := j.with(msg); len(got) > 0 {
			t.Errorf("before any record: %v", got)
		}
		reading(1, 0)
		reading(1, 5)
		began := time.Now()
		time.Sleep(9 * time.Minute) // in a bubble
		got := j.with(msg)
		if len(got) != 2 {
			t.Fatalf("in nine minutes it was said %d times, want 2: %v", len(got), got)
		}
		for i, l := range got {
			delete(l.attrs, "since")
			if diff := cmp.Diff(map[string]string{"operator": "room-minutes", "missing": "[readings[0]]"}, l.attrs); diff != "" || l.level != slog.LevelWarn {
				t.Errorf("%v (-want +got):\n%s", l.level, diff)
			}
			after := l.at.Sub(began)
			if want := 30*time.Second + time.Duration(i)*5*time.Minute; after < want || after > want+10*time.Second {
				t.Errorf("said after %v, want about %v", after, want)
			}
		}
		reading(0, 3)
		w.await("the window that has closed", func() bool { return w.outputs() == 1 })
		time.Sleep(10 * time.Minute) // in a bubble
		if got := j.with(msg); len(got) != 2 {
			t.Errorf("it was said again when all partitions had records: %v", got)
		}
		m.stop()
	})
}

// A store whose changelog is new while the group is not has lost what it knew: somebody renamed it, or deleted the topic.
func TestARenamedStoreIsToldOf(t *testing.T) {
	bubble(t, func(w *world) {
		const msg = "a store starts empty"
		count := func(store string) *topology.Topology {
			b := topology.NewBuilder()
			in := topology.From(b, topology.Topic("in", serde.String(), serde.String()))
			topology.Count(in.GroupByKey(), store).To(topology.Topic("out", serde.String(), serde.Int64()))
			top, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			return top
		}
		first := newJournal()
		m := w.start("a", first.into(func(c *framework.Config) { c.Topology = count("old") }))
		m.runs(partitions)
		w.write(20)
		w.awaitOutputs()
		m.stop()
		if got := first.with(msg); len(got) > 0 {
			t.Errorf("at the first start: %v", got)
		}
		again := newJournal()
		m = w.start("b", again.into(func(c *framework.Config) { c.Topology = count("old") }))
		m.runs(partitions)
		m.stop()
		if got := again.with(msg); len(got) > 0 {
			t.Errorf("with the same store: %v", got)
		}
		renamed := newJournal()
		m = w.start("c", renamed.into(func(c *framework.Config) { c.Topology = count("new") }))
		m.runs(partitions)
		m.stop()
		got := renamed.with(msg)
		want := map[string]string{"store": "new", "changelog": "words-new-changelog", "group": "words"}
		if len(got) != 1 || got[0].level != slog.LevelWarn || cmp.Diff(want, got[0].attrs) != "" {
			t.Errorf("after renaming the store: %v, want one warning with %v", got, want)
		}
	})
}

// A panic is logged with its stack, once for an operator, however many records it skips; and where the first one is.
func TestAPanicIsLoggedOnce(t *testing.T) {
	bubble(t, func(w *world) {
		j := newJournal()
		m := w.start("a", j.into(func(c *framework.Config) {
			c.Topology = poison(t, func() { panic("no such word") })
			c.OnRecordError = topology.Skip()
		}))
		for range 3 {
			w.c.Produce(t, &kgo.Record{Topic: "in", Partition: 2, Key: []byte("k"), Value: []byte("poison")})
		}
		w.write(20)
		w.awaitOutputs()
		m.stop()
		got := j.with("the topology's own code panicked")
		if len(got) != 1 || got[0].level != slog.LevelError {
			t.Fatalf("logged %v, want one error", got)
		}
		for attr, want := range map[string]string{
			"topic": "in", "partition": "2", "offset": "0", "operator": "KSTREAM-PEEK-0000000001", "place": "world_test.go:", "err": "no such word", "stack": "remarks_test.go:",
		} {
			if !strings.Contains(got[0].attrs[attr], want) {
				t.Errorf("%s is %q, want %q", attr, got[0].attrs[attr], want)
			}
		}
		if got := j.with("record skipped"); len(got) != 1 || got[0].attrs["offset"] != "0" {
			t.Errorf("said %v, want the first record that is skipped, and not again within 10 s", got)
		}
		want := []framework.Drops{{Operator: "KSTREAM-PEEK-0000000001", Reason: "failed", Outcome: framework.Dropped, Records: 3}}
		if diff := cmp.Diff(want, m.Snapshot().Drops); diff != "" {
			t.Errorf("drops (-want +got):\n%s", diff)
		}
	})
}

// Who waits for topics is told which, how long it will be waited for, and that the wait goes on.
func TestWaitingForTopicsIsSaid(t *testing.T) {
	empty(t, func(w *world) {
		j := newJournal()
		m := w.start("a", j.into(func(c *framework.Config) { c.TopicTimeout = 25 * time.Second }))
		says(t, m.ends(), "input topics in")
		got := j.with("waiting for topics")
		if len(got) != 3 { // at once, after 10 s and after 20 s
			t.Fatalf("said %d times in 25 s, want 3: %v", len(got), got)
		}
		for _, l := range got {
			if diff := cmp.Diff(map[string]string{"inputs": "[in]", "outputs": "[out]", "timeout": "25s"}, l.attrs); diff != "" || l.level != slog.LevelWarn {
				t.Errorf("%v (-want +got):\n%s", l.level, diff)
			}
		}
	})
}

// A broker that cannot be reached does not fill the log.
func TestNoBrokerIsSaidNowAndThen(t *testing.T) {
	empty(t, func(w *world) {
		j := newJournal()
		m := w.start("a", j.into(func(c *framework.Config) {
			c.Brokers = []string{"localhost:1"}
			c.TopicTimeout = 45 * time.Second
		}))
		says(t, m.ends(), "no broker answered")
		if n := len(j.with("waiting for a broker")); n < 2 {
			t.Errorf("the wait was said %d times in 45 s", n)
		}
		j.rare(t)
	})
}

// rare wants no two equal warnings within ten seconds.
func (j journal) rare(t *testing.T) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	last := make(map[string]time.Time) // of warnings
	for _, r := range *j.records {
		key := r.Message
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "err" || a.Key == "doing" {
				key += fmt.Sprint(" ", a.Value)
			}
			return true
		})
		if r.Level != slog.LevelWarn {
			continue
		}
		if at, ok := last[key]; ok && r.Time.Sub(at) < 10*time.Second {
			t.Errorf("said again after %v: %s", r.Time.Sub(at), key)
		}
		last[key] = r.Time
	}
}

// A group that keeps a worker waiting is named, once for a wait.
func TestWaitingForTheGroupIsSaid(t *testing.T) {
	bubble(t, func(w *world) {
		quick := newJournal()
		m := w.start("a", quick.into(nil))
		m.runs(2 * partitions)
		if got := quick.with("started"); len(got) != 1 || got[0].attrs["tasks"] != "8" {
			t.Errorf("started: %v, want one line with 8 tasks", got)
		}
		m.stop()
		if got := quick.with("waiting for the group"); len(got) > 0 {
			t.Errorf("nobody was kept waiting, but: %v", got)
		}
		slow := newJournal()
		w.c.ControlKey(int16(kmsg.JoinGroup), func(kmsg.Request) (kmsg.Response, error, bool) {
			w.c.SleepControl(func() { time.Sleep(5 * time.Second) }) // in a bubble
			return nil, nil, false
		})
		m = w.start("b", slow.into(nil))
		m.runs(2 * partitions)
		m.stop()
		got := slow.with("waiting for the group")
		if len(got) != 1 || got[0].level != slog.LevelInfo || got[0].attrs["group"] != appID {
			t.Errorf("said %v, want one line for group %s", got, appID)
		}
	})
}

// Records without a key in front of something keyed are warned of, once, with operator and reason.
func TestDropsThatMayBeMistakesAreSaid(t *testing.T) {
	bubble(t, func(w *world) {
		j := newJournal()
		b := topology.NewBuilder()
		in := topology.From(b, topology.Topic("in", serde.String(), serde.String()))
		topology.Count(in.GroupByKey(), "counts").To(topology.Topic("out", serde.String(), serde.Int64()))
		top, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		m := w.start("a", j.into(func(c *framework.Config) { c.Topology = top }))
		m.runs(partitions)
		for range 3 {
			w.c.Produce(t, &kgo.Record{Topic: "in", Partition: 1, Value: []byte("no key")})
			time.Sleep(5 * time.Second) // in a bubble
		}
		m.stop()
		got := j.with("records are dropped")
		want := map[string]string{"reason": "null-key", "operator": "counts", "records": "1"}
		if len(got) != 1 || got[0].level != slog.LevelWarn || cmp.Diff(want, got[0].attrs) != "" {
			t.Errorf("logged %v, want one warning with %v", got, want)
		}
	})
}
