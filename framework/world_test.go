//go:build synctests

package framework_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/internal/kafkatest"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/topology"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	appID      = "words"
	partitions = 4
	words      = 13
)

// world is a cluster in a bubble, with an app that counts words: in → by word through a repartition topic → counts → out.
//
// What it asks of every test is always the same: for each word, out has 1, 2, 3, … up to how often the word was written, so that
// nothing is missing, doubled, or out of order; and stores, changelog and outputs agree.
type world struct {
	t      *testing.T
	c      *kafkatest.Cluster
	stores *dumps
	wrote  map[string]int64
	n      int
	// outputs counts what has come out.
	outputs func() int
}

// bubble runs a test in a synctest bubble: its time goes on only when everybody waits.
func bubble(t *testing.T, f func(w *world)) {
	t.Helper()
	t.Parallel()
	bubbleAlone(t, f)
}

// bubbleAlone is bubble for a test that has several.
func bubbleAlone(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, stores: newDumps(), wrote: make(map[string]int64)}
		w.c = kafkatest.Start(t, kfake.SeedTopics(partitions, "in", "out"))
		w.outputs = w.c.Count(t, "out")
		f(w)
	})
}

func countWords(t *testing.T, look func(word string)) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder()
	in := topology.From(b, topology.Topic("in", serde.String(), serde.String())).Peek(func(_, word string) {
		if look != nil {
			look(word)
		}
	})
	byWord := topology.GroupBy(in, "by-word", func(_, word string) string { return word }, serde.String(), serde.String())
	topology.Count(byWord, "counts").To(topology.Topic("out", serde.String(), serde.Int64()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// countWordsInTime is countWords with an operator behind the repartition topic that uses event time: reports are written for it.
func countWordsInTime(t *testing.T) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder()
	byWord := topology.GroupBy(topology.From(b, topology.Topic("in", serde.String(), serde.String())), "by-word",
		func(_, word string) string { return word }, serde.String(), serde.String())
	counts := topology.Count(byWord, "counts")
	counts.To(topology.Topic("out", serde.String(), serde.Int64()))
	topology.Process(counts.Stream(), "hours", func() hours { return hours{} })
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// hours looks at event time and does nothing.
type hours struct{}

func (hours) Init(t *topology.Task, _ topology.Emitter[string, int64]) error {
	return t.EveryStreamTime(time.Hour, func(time.Time) error { return nil })
}

func (hours) Process(topology.Record[string, int64], topology.Emitter[string, int64]) error {
	return nil
}

// wordOf is the nth word: every second is one of a few that come all the time, the others come back only after a long while, so
// that a store that missed a piece of its changelog shows it.
func wordOf(n int) string {
	if n%2 == 0 {
		return fmt.Sprintf("w%02d", n*7%words)
	}
	return fmt.Sprintf("rare%04d", n/2%1501)
}

// write writes n words, spread over partitions and words.
func (w *world) write(n int) {
	w.t.Helper()
	var records []*kgo.Record
	for range n {
		word := wordOf(w.n)
		records = append(records, &kgo.Record{
			Topic: "in", Partition: int32(w.n % partitions), Key: fmt.Appendf(nil, "k%d", w.n), Value: []byte(word),
			Timestamp: time.UnixMilli(1_600_000_000_000 + int64(w.n)),
		})
		w.wrote[word]++
		w.n++
	}
	w.c.Produce(w.t, records...)
}

func (w *world) createTopics(partitions int32, names ...string) {
	w.t.Helper()
	w.configureTopics(partitions, nil, names...)
}

func (w *world) configureTopics(partitions int32, configs map[string]*string, names ...string) {
	w.t.Helper()
	cl, err := kgo.NewClient(append(w.c.Options(), kgo.SeedBrokers(w.c.ListenAddrs()...), kgo.DisableClientMetrics())...)
	if err != nil {
		w.t.Fatal(err)
	}
	defer cl.Close()
	for _, name := range names {
		if _, err := kadm.NewClient(cl).CreateTopic(context.Background(), partitions, 1, configs, name); err != nil {
			w.t.Fatal(err)
		}
	}
}

// member is a running app.
type member struct {
	*framework.App
	w      *world
	name   string
	cancel context.CancelFunc
	done   chan error
}

func (w *world) config(change func(*framework.Config)) framework.Config {
	cfg := framework.Config{
		AppID: appID, Brokers: w.c.ListenAddrs(), Kafka: w.c.Options(), State: w.stores.provider(), Logger: logger(w.t),
	}
	if change != nil {
		change(&cfg)
	}
	if cfg.Topology == nil {
		cfg.Topology = countWords(w.t, nil)
	}
	return cfg
}

// start starts a member. It is stopped when the test ends, if not before.
func (w *world) start(name string, change func(*framework.Config)) *member {
	w.t.Helper()
	cfg := w.config(change)
	cfg.Logger = cfg.Logger.With("member", name)
	app, err := framework.New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &member{App: app, w: w, name: name, cancel: cancel, done: make(chan error, 1)}
	go func() { m.done <- app.Run(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		<-m.done
	})
	return m
}

// stop stops a member and wants it to end well.
func (m *member) stop() framework.Counters {
	m.w.t.Helper()
	m.cancel()
	err := <-m.done
	m.done <- nil
	if err != nil {
		m.w.t.Errorf("member %s: Run returned %v", m.name, err)
	}
	for _, ws := range m.Snapshot().Workers {
		if ws.State != framework.Stopped {
			m.w.t.Errorf("member %s: worker %d is %s after Run", m.name, ws.ID, ws.State)
		}
	}
	return m.Snapshot().Counters
}

// await waits until the condition holds.
func (w *world) await(what string, holds func() bool) {
	w.t.Helper()
	end := time.Now().Add(5 * time.Minute)
	for !holds() {
		if time.Now().After(end) {
			w.t.Fatalf("waited five minutes for %s", what)
		}
		time.Sleep(100 * time.Millisecond) // in a bubble: the clock stands still while anybody works
	}
}

// awaitOutputs waits until there are as many outputs as words were written.
func (w *world) awaitOutputs() {
	w.t.Helper()
	w.await("all outputs", func() bool { return w.outputs() >= w.n })
}

// runs waits until a member runs at least n tasks and is at rest.
func (m *member) runs(n int) {
	m.w.t.Helper()
	m.w.await(fmt.Sprintf("member %s to run %d tasks", m.name, n), func() bool {
		s := m.Snapshot()
		for _, ws := range s.Workers {
			if ws.State != framework.Running {
				return false
			}
		}
		return len(s.Tasks) >= n
	})
}

// check holds outputs, changelog and, if asked, the stores to what was written.
func (w *world) check(stores bool) {
	w.t.Helper()
	next := make(map[string]int64)
	for _, r := range w.c.ReadCommitted(w.t, "out") {
		got := int64(binary.BigEndian.Uint64(r.Value))
		next[string(r.Key)]++
		if got != next[string(r.Key)] {
			w.t.Fatalf("output %s[%d]@%d: %s = %d, want %d: a record was lost, doubled or overtaken", r.Topic, r.Partition, r.Offset, r.Key, got, next[string(r.Key)])
		}
	}
	if diff := cmp.Diff(w.wrote, next); diff != "" {
		w.t.Errorf("outputs are not what was written (-written +output):\n%s", diff)
	}
	changelog := w.c.ReadCommitted(w.t, "words-counts-changelog")
	logged := make(map[string]int64)
	for k, v := range kafkatest.Fold(changelog) {
		logged[k] = int64(binary.BigEndian.Uint64([]byte(v)))
	}
	if diff := cmp.Diff(w.wrote, logged); diff != "" {
		w.t.Errorf("the changelog is not what was written (-written +changelog):\n%s", diff)
	}
	if !stores {
		return
	}
	if diff := cmp.Diff(w.wrote, w.stores.counts(w.t)); diff != "" {
		w.t.Errorf("the stores are not what was written (-written +stores):\n%s", diff)
	}
}

// dumps keeps what the stores held when they were closed.
type dumps struct {
	mu    sync.Mutex
	tasks map[string]map[string][]byte // task → store layout, of the last to close it
}

func newDumps() *dumps { return &dumps{tasks: make(map[string]map[string][]byte)} }

func (d *dumps) provider() state.Provider { return dumping{state.Memory(), d} }

func (d *dumps) counts(t *testing.T) map[string]int64 {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make(map[string]int64)
	for _, task := range slices.Sorted(maps.Keys(d.tasks)) {
		for k, stored := range d.tasks[task] {
			_, v, err := state.SplitValue(stored)
			if err != nil {
				t.Fatal(err)
			}
			if _, twice := out[k]; twice {
				t.Errorf("word %s is in the stores of two tasks", k)
			}
			out[k] = int64(binary.BigEndian.Uint64(v))
		}
	}
	return out
}

type dumping struct {
	state.Provider
	to *dumps
}

func (d dumping) Open(task string, specs []state.Spec) (state.Backend, error) {
	b, err := d.Provider.Open(task, specs)
	if err != nil {
		return nil, err
	}
	return &dumpedBackend{Backend: b, task: task, to: d.to}, nil
}

type dumpedBackend struct {
	state.Backend
	task string
	to   *dumps
}

func (b *dumpedBackend) Close() error {
	content := make(map[string][]byte)
	for e, err := range b.Scan(0, nil, nil) {
		if err != nil {
			return err
		}
		content[string(e.Key)] = bytes.Clone(e.Value)
	}
	b.to.mu.Lock()
	b.to.tasks[b.task] = content
	b.to.mu.Unlock()
	return b.Backend.Close()
}

// logger shows the app's log with HEADRACE_LOG set: its order is half the explanation of a failure.
func logger(t *testing.T) *slog.Logger {
	to, level := io.Writer(t.Output()), slog.LevelInfo
	switch os.Getenv("HEADRACE_LOG") {
	case "":
		return slog.New(slog.DiscardHandler)
	case "debug":
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{Level: level}))
}
