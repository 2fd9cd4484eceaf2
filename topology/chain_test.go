package topology_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/topology/topologytest"
	"github.com/headrace/headrace/window"
)

// A jump of time that closes many windows is worked off in bounded steps. Commits and crashes fall between them, each window comes
// out once and in order, and time goes on behind them only when the last one has.
func TestManyWindowsCloseInSteps(tt *testing.T) {
	tt.Parallel()
	const keys = 1000 // several times what one look into the store finds
	for seed := range uint64(3) {
		b := topology.NewBuilder()
		w := topology.Windowed(topology.From(b, s).GroupByKey(), tumbling10.Grace(100*ms), dropLate)
		closed := topology.Map(topology.Count(w, "count", topology.EmitOnClose()).Stream(),
			func(k window.Key[string], n int64) (string, string) { return k.Key, fmt.Sprint(k.Start, "=", n) })
		closed.To(outStrings)
		watch := topology.Topic("watermarks", str, i64)
		topology.Process(closed, "probe", func() probe { return probe{} }).To(watch)
		d := topologytest.New(tt, topologytest.Build(tt, b.Build), topologytest.Manual())
		in, out, times := topologytest.Input(d, s), topologytest.Output(d, outStrings), topologytest.Output(d, watch)
		var want []string
		for start := range int64(2) {
			for k := range keys {
				key := fmt.Sprintf("%04d", k)
				in.Pipe(at(start*10), key, "x")
				in.Pipe(at(start*10+1), key, "x")
				want = append(want, fmt.Sprint(key, ": ", start*10, "=2"))
			}
		}
		d.Settle()
		if n := len(out.All()); n != 0 {
			tt.Fatalf("%d windows closed too early", n)
		}
		times.All()
		in.Pipe(at(1_000_000), "0000", "x")
		rng := rand.New(rand.NewPCG(seed, 0))
		var got []string
		closing := 0
		for d.Step(1+rng.IntN(100)) > 0 {
			if rng.IntN(4) == 0 {
				d.Crash()
				continue
			}
			d.Commit()
			for _, r := range out.All() {
				got = append(got, fmt.Sprint(r.Key, ": ", r.Value))
			}
			if len(got) < len(want) {
				closing++
				if ws := times.All(); len(ws) > 0 {
					tt.Errorf("seed %d: after %d of %d windows the operator behind them was told %v", seed, len(got), len(want), ws)
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			tt.Errorf("seed %d: windows (-want +got):\n%s", seed, diff)
		}
		if ws := times.All(); len(ws) == 0 || ws[len(ws)-1].Value != 999_900 {
			tt.Errorf("seed %d: at last the operator behind them was told %v, want 999900, the earliest window that is open", seed, ws)
		}
		if closing < 5 {
			tt.Errorf("seed %d: %d commits while windows closed, the test shows little", seed, closing)
		}
	}
}

// A stream and what comes back of it through a repartition topic meet in one sub-topology.
func TestAStreamMeetsItsRepartition(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, outWindows(10*ms), func(b *topology.Builder) {
		st := topology.From(b, s)
		back := topology.MapValues(topology.Repartition(st, "again", 0, str, str), func(v string) string { return v + " again" })
		w := topology.Windowed(st.Merge(back).GroupByKey(), tumbling10, dropLate)
		topology.Count(w, "count", topology.EmitOnClose()).To(outWindows(10 * ms))
	})
	sc.in("a:x@1")
	sc.in("a:x@5")
	sc.in("a:x@30", "a[0,10)=4@5")
	sc.counts(map[string]int64{})
}

// The table that an aggregate makes can be joined like one from a topic: it is as the stream finds it.
func TestJoinWithAnAggregate(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, outStrings, func(b *topology.Builder) {
		st := topology.From(b, s)
		longest := topology.Reduce(st.GroupByKey(), "longest", str, func(a, v string) string {
			if len(v) > len(a) {
				return v
			}
			return a
		})
		topology.JoinTable(st, longest, func(v, l string) string { return v + "/" + l }).To(outStrings)
	})
	sc.in("a:aa@1", "a:aa/aa@1")
	sc.in("a:b@2", "a:b/aa@2")
	sc.in("a:ccc@3", "a:ccc/ccc@3")
	sc.in("b:b@3", "b:b/b@3")
}

// sharing puts each value in a store that two processors share, and passes on what was there.
type sharing struct {
	view *state.KeyValueView[string, string]
}

var shared = state.KeyValueOf("shared", str, str)

func (p *sharing) Init(t *topology.Task, _ topology.Emitter[string, string]) (err error) {
	p.view, err = shared.Open(t)
	return err
}

func (p *sharing) Process(r topology.Record[string, string], out topology.Emitter[string, string]) error {
	before, _, err := p.view.Get(r.Key)
	if err != nil {
		return err
	}
	if err := p.view.Put(r.Key, r.Value); err != nil {
		return err
	}
	r.Value = before + ">" + r.Value
	return out(r)
}

// Processors on two topics share a store: they are one sub-topology, and their topics need the same number of partitions.
func TestProcessorsShareAStore(tt *testing.T) {
	tt.Parallel()
	build := func(b *topology.Builder) {
		one := topology.Process(topology.From(b, s), "one", func() *sharing { return &sharing{} }, shared)
		topology.Process(topology.From(b, t), "two", func() *sharing { return &sharing{} }, shared).Merge(one).To(outStrings)
	}
	sc := run(tt, outStrings, build, topologytest.Partitions(3))
	sc.in("s a:1@1", "a:>1@1")
	sc.in("t a:2@2", "a:1>2@2")
	sc.d.Crash()
	sc.in("s a:3@3", "a:2>3@3")
	sc.in("s b:1@3", "b:>1@3")

	b := topology.NewBuilder()
	build(b)
	if _, err := topologytest.Open(topologytest.Build(tt, b.Build), topologytest.TopicPartitions("s", 2)); err == nil {
		tt.Error("topics of 2 and 1 partitions share a store, and it is no error")
	}
}

// Windows that were deleted by their aggregate do not come out.
func TestDeletedWindowsStaySilent(tt *testing.T) {
	tt.Parallel()
	out := topology.Topic("out", window.KeySerde(str).Size(10*ms), str)
	sc := run(tt, out, func(b *topology.Builder) {
		w := topology.Windowed(topology.From(b, s).GroupByKey(), tumbling10, dropLate)
		topology.AggregateOrDelete(w, "agg", str, func(a, v string) (string, bool) { return a + v, v != "del" }, topology.EmitOnClose()).To(out)
	})
	for _, r := range []string{"a:1@1", "b:1@1", "a:del@2", "c:del@3", "d:del@3", "d:2@4"} {
		sc.in(r)
	}
	sc.in("z:x@10", "b[0,10)=1@1", "d[0,10)=2@4")
}

// All windows of a key go to the partition of the key itself.
func TestWindowedKeysArePartitionedByTheirKey(tt *testing.T) {
	tt.Parallel()
	b := topology.NewBuilder()
	windowedCount(window.Tumbling(10 * ms))(b)
	d := topologytest.New(tt, topologytest.Build(tt, b.Build), topologytest.Partitions(5))
	in, out := topologytest.Input(d, s), topologytest.Output(d, outWindows(10*ms))
	used := map[int]bool{}
	for i := range int64(100) {
		in.Pipe(at(i*7), fmt.Sprint("key", i%10), "x")
		r := out.Read()
		used[r.Partition] = true
		// The record went to the partition of its key, and the task has that number.
		counts, err := state.WindowsOf("count", str, i64, time.Minute).Open(d.Stores(r.Partition))
		if err != nil {
			tt.Fatal(err)
		}
		if _, ok, err := counts.Get(r.Key.Key, r.Key.Start); !ok || err != nil {
			tt.Errorf("%v was counted in another partition than the result is in: %v", r, err)
		}
	}
	if len(used) < 3 {
		tt.Errorf("%d partitions in use, the test shows little", len(used))
	}
}

// Records of several inputs are taken by event time, the first source first.
func TestInputsAreTakenByEventTime(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, outStrings, func(b *topology.Builder) {
		topology.From(b, s).Merge(topology.From(b, t)).To(outStrings)
	}, topologytest.Manual())
	for _, r := range []string{"t t:1@10", "t t:2@30", "t t:3@20", "s s:1@20", "s s:2@10", "s s:3@30"} {
		sc.pipe(r)
	}
	sc.d.Settle()
	sc.wants("all", "t:1@10", "s:1@20", "s:2@10", "s:3@30", "t:2@30", "t:3@20")
}

// The wall-clock time and the partition that a processor is told are those of its task.
type where struct{ t *topology.Task }

func (p *where) Init(t *topology.Task, _ topology.Emitter[string, string]) error {
	p.t = t
	return nil
}

func (p *where) Process(r topology.Record[string, string], out topology.Emitter[string, string]) error {
	w, known := p.t.Watermark()
	topic, partition, offset, ok := r.Origin()
	if _, err := shared.Open(p.t); err == nil {
		return errors.New("a store opened outside of Init")
	}
	if err := p.t.EveryStreamTime(ms, nil); err == nil {
		return errors.New("a punctuation was scheduled outside of Init")
	}
	n, _ := topologytest.Record[string, string]{Headers: r.Headers()}.Header("n")
	text := fmt.Sprint(n, " ", r.Null(), r.NullKey(), " ", p.t.Partition(), " ", p.t.Now().UnixMilli(), " ", known, " ", topic, partition, offset, ok)
	if known {
		text += fmt.Sprint(" ", w.UnixMilli())
	}
	return out(topology.With(r, "told", text))
}

func TestTaskTellsWhereItIs(tt *testing.T) {
	tt.Parallel()
	b := topology.NewBuilder()
	topology.Process(topology.From(b, s.KeepNulls()), "where", func() *where { return &where{} }).To(outStrings)
	d := topologytest.New(tt, topologytest.Build(tt, b.Build), topologytest.Partitions(2), topologytest.StartAt(at(7)))
	in, out := topologytest.Input(d, s), topologytest.Output(d, outStrings)
	in.PipeTo(1, at(100), "a", "", topology.Header{Key: "n", Value: []byte("first")})
	d.Advance(5 * ms)
	in.PipeRaw(1, at(200), nil, nil)
	var got []string
	for _, r := range out.All() {
		n, _ := r.Header("n")
		got = append(got, fmt.Sprint(show(r), " ", n))
	}
	want := []string{"told:first false false 1 7 false s1 0 true@100 first", "told: true true 1 12 true s1 1 true 100@200 "}
	if diff := cmp.Diff(want, got); diff != "" {
		tt.Errorf("(-want +got):\n%s", diff)
	}
}

// graves lets a processor make a tombstone, and a value of one.
type graves struct{ echo }

func (graves) Process(r topology.Record[string, string], out topology.Emitter[string, string]) error {
	if r.Null() {
		return out(topology.With(r, r.Key, "none"))
	}
	return out(r.Tombstone())
}

func TestTombstonesComeAndGo(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, outStrings, func(b *topology.Builder) {
		topology.Process(topology.From(b, s.KeepNulls()), "graves", func() graves { return graves{} }).To(outStrings)
	})
	sc.in("a:x@1", "a:null@1")
	sc.in("a:null@2", "a:none@2")
}
