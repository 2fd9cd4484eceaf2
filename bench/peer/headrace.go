package peer

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/bench/plan"
	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/state/pebblestore"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/window"
)

// topologies are the works as this library's users would write them.
var topologies = map[string]func(b *topology.Builder, in topology.Stream[[]byte, []byte], s *plan.Spec){
	"map": func(_ *topology.Builder, in topology.Stream[[]byte, []byte], s *plan.Spec) {
		out := in.Filter(func(_, v []byte) bool { return plan.Keep(v) })
		for range s.Params.Operators - 1 {
			out = topology.MapValues(out, func(v []byte) []byte { return v })
		}
		topology.MapValues(out, marked).To(values(s.Output))
	},
	"count":      count,
	"count-zipf": count,
	"restore":    count,
	"tumbling": func(_ *topology.Builder, in topology.Stream[[]byte, []byte], s *plan.Spec) {
		w := topology.Windowed(in.GroupByKey(), window.Tumbling(plan.Window*time.Millisecond), window.Drop())
		topology.Count(w, "windows").To(topology.Topic(s.Output, window.KeySerde(serde.Bytes()), serde.Int64()))
	},
	"hopping": func(_ *topology.Builder, in topology.Stream[[]byte, []byte], s *plan.Spec) {
		w := topology.Windowed(in.GroupByKey(), window.Hopping(plan.Window*time.Millisecond, plan.Advance*time.Millisecond), window.Drop())
		topology.Count(w, "windows").To(topology.Topic(s.Output, window.KeySerde(serde.Bytes()), serde.Int64()))
	},
	"session": func(_ *topology.Builder, in topology.Stream[[]byte, []byte], s *plan.Spec) {
		in = in.Filter(func(_, v []byte) bool { return plan.KeepSession(v) })
		w := topology.Windowed(in.GroupByKey(), window.Session(plan.Gap*time.Millisecond), window.Drop())
		topology.Count(w, "windows").To(topology.Topic(s.Output, window.SessionKeySerde(serde.Bytes()), serde.Int64()))
	},
	"sliding": func(_ *topology.Builder, in topology.Stream[[]byte, []byte], s *plan.Spec) {
		w := topology.Windowed(in.GroupByKey(), window.Sliding(plan.Diff*time.Millisecond), window.Drop())
		topology.Count(w, "windows").To(topology.Topic(s.Output, window.KeySerde(serde.Bytes()), serde.Int64()))
	},
	"jump": func(_ *topology.Builder, in topology.Stream[[]byte, []byte], s *plan.Spec) {
		w := topology.Windowed(in.GroupByKey(), window.Tumbling(plan.Window*time.Millisecond), window.Drop())
		topology.Count(w, "windows", topology.EmitOnClose()).To(topology.Topic(s.Output, window.KeySerde(serde.Bytes()), serde.Int64()))
	},
	"join": func(b *topology.Builder, in topology.Stream[[]byte, []byte], s *plan.Spec) {
		table := topology.TableFrom(b, "table", values(s.Table))
		topology.JoinTable(in, table, joined).To(values(s.Output))
	},
	"latency": func(_ *topology.Builder, in topology.Stream[[]byte, []byte], s *plan.Spec) {
		topology.Reduce(in.GroupByKey(), "last", serde.Bytes(), func(_, v []byte) []byte { return v }).To(values(s.Output))
	},
}

func values(topic string) topology.TopicOf[[]byte, []byte] {
	return topology.Topic(topic, serde.Bytes(), serde.Bytes())
}

func count(_ *topology.Builder, in topology.Stream[[]byte, []byte], s *plan.Spec) {
	topology.Count(in.GroupByKey(), "counts").To(topology.Topic(s.Output, serde.Bytes(), serde.Int64()))
}

// marked is the map of the work map.
func marked(v []byte) []byte {
	c := make([]byte, len(v))
	copy(c, v)
	c[len(c)-1] = plan.Mark
	return c
}

// joined is the value, and the first eight bytes of the row.
func joined(v, row []byte) []byte {
	c := make([]byte, len(v)+8)
	copy(c, v)
	binary.BigEndian.PutUint64(c[len(v):], binary.BigEndian.Uint64(row))
	return c
}

// pebbleBudget is for a container of 256 MiB, as the settings of Go are that each peer runs with.
const pebbleBudget = 48 << 20

func headrace(ctx context.Context, s *plan.Spec, say *speaker) error {
	build, ok := topologies[s.Work]
	if !ok {
		return fmt.Errorf("peer: %s does not do the work %s", s.Peer, s.Work)
	}
	b := topology.NewBuilder()
	build(b, topology.From(b, values(s.Input)), s)
	t, err := b.Build()
	if err != nil {
		return err
	}
	var stores state.Provider = state.Memory()
	where := "stores in memory"
	if s.Peer == plan.Pebble {
		stores, where = pebblestore.New(pebblestore.Config{Dir: s.Dir, MemoryBudget: pebbleBudget}), "stores in Pebble with 48 MiB for its cache and what it has not flushed"
	}
	seen := &commits{last: make(map[int]time.Time)}
	defer func() { say.line(plan.Longest, seen.largest, seen.gap.Nanoseconds()) }()
	app, err := framework.New(framework.Config{
		AppID: s.App, Brokers: s.Brokers, Topology: t, State: stores, Workers: s.Params.Workers,
		Observers: []framework.Observer{ready(say, s.Params.Partitions), {Transaction: seen.transaction}},
		Kafka:     []kgo.Opt{kgo.WithHooks(say)},
	})
	if err != nil {
		return err
	}
	say.settings("the zero Config: exactly once, a commit when the input is drained, at the earliest 10 ms after the last one, "+
		"and at the latest after 100 ms; %d worker(s), %s", s.Params.Workers, where)
	return app.Run(ctx)
}

// ready tells when as many tasks run, and how many records they restored.
func ready(say *speaker, tasks int) framework.Observer {
	var mu sync.Mutex
	running := make(map[string]bool)
	var restored int64
	return framework.Observer{Task: func(e framework.TaskEvent) {
		mu.Lock()
		defer mu.Unlock()
		if e.State != framework.TaskRunning || running[e.Task] {
			return
		}
		running[e.Task] = true
		restored += e.Restored
		if len(running) == tasks {
			say.now(plan.Ready)
			say.now(plan.Restored, restored)
		}
	}}
}

// commits is what the transactions of an app were like.
type commits struct {
	mu      sync.Mutex
	largest int64
	gap     time.Duration
	last    map[int]time.Time // when a worker's last one ended
}

func (c *commits) transaction(t framework.Transaction) {
	c.mu.Lock()
	defer c.mu.Unlock()
	end := t.Started.Add(t.Duration)
	c.largest = max(c.largest, t.Bytes)
	if last, ok := c.last[t.Worker]; ok {
		c.gap = max(c.gap, end.Sub(last))
	}
	c.last[t.Worker] = end
}
