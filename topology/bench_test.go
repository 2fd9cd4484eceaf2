package topology_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/headrace/headrace/internal/engine"
	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/topology/topologytest"
	"github.com/headrace/headrace/window"
)

// commitEvery is how many records a benchmark puts into a transaction.
const commitEvery = 1000

var (
	benchIn  = topology.Topic("in", serde.Bytes(), serde.Bytes())
	benchOut = topology.Topic("out", serde.Bytes(), serde.Bytes())
	benchN   = topology.Topic("out", serde.Bytes(), serde.Int64())
)

// worker is what a worker does around one task, without a broker: push, step, take what is to be written, commit.
type worker struct {
	tb        testing.TB
	task      *engine.Task
	positions []*state.Position
	records   []graph.Raw
	next      int
	written   int
}

// newWorker makes the one task of a topology, and records with so many keys.
func newWorker(b testing.TB, builder *topology.Builder, keys int) *worker {
	b.Helper()
	sub := topologytest.Build(b, builder.Build).Plan().SubTopologies[0]
	backend, err := state.Memory().Open("0_0", sub.Stores)
	if err != nil {
		b.Fatal(err)
	}
	task, err := engine.New(engine.Config{
		Sub: sub, Txn: state.NewTxn(backend, sub.Stores), Sources: []engine.SourceConfig{{Topic: "in"}},
	})
	if err != nil {
		b.Fatal(err)
	}
	w := &worker{tb: b, task: task, positions: make([]*state.Position, len(sub.Stores)), records: make([]graph.Raw, keys)}
	for i := range w.records {
		w.records[i] = graph.Raw{Topic: "in", Key: binary.BigEndian.AppendUint64(nil, uint64(i)), Value: make([]byte, 100)}
	}
	return w
}

// record pushes a record, and now and then processes and commits what was pushed.
func (w *worker) record() {
	r := w.records[w.next%len(w.records)]
	r.Offset, r.Time = int64(w.next), int64(w.next)
	w.task.Push(0, r)
	w.next++
	if w.next%commitEvery == 0 {
		w.commit()
	}
}

func (w *worker) commit() {
	for {
		p, err := w.task.Step(0, commitEvery)
		if err != nil {
			w.tb.Fatal(err)
		}
		if !p.More {
			break
		}
	}
	for range w.task.Mutations() {
		w.written++
	}
	w.written += len(w.task.Cut().Outputs)
	if err := w.task.Committed(w.positions); err != nil {
		w.tb.Fatal(err)
	}
}

// warm processes records until buffers have grown and every key has been seen.
func (w *worker) warm() {
	for range 2*len(w.records) + 5*commitEvery {
		w.record()
	}
	w.written = 0
}

// run measures one record at a time.
func (w *worker) run(b *testing.B) {
	w.warm()
	b.ReportAllocs()
	b.SetBytes(108)
	n := 0
	for b.Loop() {
		w.record()
		n++
	}
	if w.written == 0 && n > commitEvery {
		b.Fatalf("%d records led to nothing", n)
	}
}

// A chain without state costs no allocation for a record: nothing is boxed, outputs are encoded into memory that is used again.
func BenchmarkStatelessZeroAlloc(b *testing.B) { newWorker(b, stateless(), 1000).run(b) }

func stateless() *topology.Builder {
	builder := topology.NewBuilder()
	topology.MapValues(
		topology.From(builder, benchIn).Filter(func(k, _ []byte) bool { return k[7]%8 != 0 }),
		func(v []byte) []byte { return v[:50] },
	).To(benchOut)
	return builder
}

func BenchmarkCount(b *testing.B) {
	builder := topology.NewBuilder()
	topology.Count(topology.From(builder, benchIn).GroupByKey(), "count").To(benchN)
	newWorker(b, builder, 100_000).run(b)
}

func BenchmarkWindowedCount(b *testing.B) {
	builder := topology.NewBuilder()
	w := topology.Windowed(topology.From(builder, benchIn).GroupByKey(), window.Tumbling(time.Minute), window.Drop())
	topology.Count(w, "count").To(topology.Topic("out", window.KeySerde(serde.Bytes()), serde.Int64()))
	newWorker(b, builder, 100_000).run(b)
}

func BenchmarkWindowedCountOnClose(b *testing.B) {
	builder := topology.NewBuilder()
	w := topology.Windowed(topology.From(builder, benchIn).GroupByKey(), window.Tumbling(time.Minute), window.Drop())
	topology.Count(w, "count", topology.EmitOnClose()).To(topology.Topic("out", window.KeySerde(serde.Bytes()), serde.Int64()))
	newWorker(b, builder, 1000).run(b)
}

// Each key comes back within the gap: one session grows with every record of it.
func BenchmarkSessions(b *testing.B) {
	builder := topology.NewBuilder()
	w := topology.Windowed(topology.From(builder, benchIn).GroupByKey(), window.Session(time.Minute), window.Drop())
	topology.Count(w, "count").To(topology.Topic("out", window.SessionKeySerde(serde.Bytes()), serde.Int64()))
	newWorker(b, builder, 10_000).run(b)
}

// Ten records of a key are in a window, and each makes two.
func BenchmarkSliding(b *testing.B) {
	builder := topology.NewBuilder()
	w := topology.Windowed(topology.From(builder, benchIn).GroupByKey(), window.Sliding(10*time.Second), window.Drop())
	topology.Count(w, "count", topology.EmitOnClose()).To(topology.Topic("out", window.KeySerde(serde.Bytes()), serde.Int64()))
	newWorker(b, builder, 1000).run(b)
}

// What the benchmark shows is held here, since benchmarks do not run with the tests. Not parallel: it counts all allocations.
func TestStatelessAllocatesNothing(tt *testing.T) {
	w := newWorker(tt, stateless(), 1000)
	w.warm()
	const records = 20 * commitEvery
	if n := testing.AllocsPerRun(records, w.record); n != 0 {
		tt.Errorf("%v allocations for a record, want 0", n)
	}
	if w.written < records/2 {
		tt.Errorf("%d records led to %d outputs", records, w.written)
	}
}
