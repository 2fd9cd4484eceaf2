package topology_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/topology/topologytest"
	"github.com/headrace/headrace/window"
)

// payments are summed per minute, with 5 s of disorder: the same six payments in several orders of arrival.
type payment struct{ at, amount int64 }

var (
	paid    = topology.Topic("payments", str, i64).Watermarks(window.BoundedDisorder(5 * time.Second))
	minutes = topology.Topic("minutes", window.KeySerde(str).Size(time.Minute), i64)
)

func perMinute(late window.Late) func() (*topology.Topology, error) {
	return func() (*topology.Topology, error) {
		b := topology.NewBuilder()
		w := topology.Windowed(topology.From(b, paid).GroupByKey(), window.Tumbling(time.Minute), late)
		topology.Aggregate(w, "sums", i64, func(sum, v int64) int64 { return sum + v }, topology.EmitOnClose()).To(minutes)
		return b.Build()
	}
}

func TestOneRecordMovedOverTheBoundary(tt *testing.T) {
	tt.Parallel()
	minute := func(n int64) window.Key[string] {
		return window.Key[string]{Key: "acc", Start: n * 60_000, End: (n + 1) * 60_000}
	}
	for _, c := range []struct {
		name          string
		in            []payment
		first, second int64
		dropped       int64
	}{
		{"out of order, not late: W was 57", []payment{{10, 5}, {50, 7}, {62, 11}, {59, 3}, {70, 2}, {125, 1}}, 15, 13, 0},
		{"one second later it is in the next window", []payment{{10, 5}, {50, 7}, {62, 11}, {60, 3}, {70, 2}, {125, 1}}, 12, 16, 0},
		{"arrives behind 70: W is 65", []payment{{10, 5}, {50, 7}, {62, 11}, {70, 2}, {59, 3}, {125, 1}}, 12, 13, 1},
		{"arrives behind 125", []payment{{10, 5}, {50, 7}, {62, 11}, {70, 2}, {125, 1}, {59, 3}}, 12, 13, 1},
		{"W is exactly 60: the window has closed", []payment{{10, 5}, {50, 7}, {65, 11}, {59, 3}, {70, 2}, {125, 1}}, 12, 13, 1},
		{"W is one less: it has not", []payment{{10, 5}, {50, 7}, {64, 11}, {59, 3}, {70, 2}, {125, 1}}, 15, 13, 0},
	} {
		for _, late := range []window.Late{window.Drop(), window.Sideline("late")} {
			d := topologytest.New(tt, topologytest.Build(tt, perMinute(late)))
			in, out := topologytest.Input(d, paid), topologytest.Output(d, minutes)
			for _, p := range c.in {
				in.Pipe(at(p.at*1000), "acc", p.amount)
			}
			if diff := cmp.Diff(map[window.Key[string]]int64{minute(0): c.first, minute(1): c.second}, topologytest.Latest(out)); diff != "" {
				tt.Errorf("%s, %v: minutes (-want +got):\n%s", c.name, late, diff)
			}
			want := map[string]int64{}
			if _, sideline := late.Topic(); c.dropped > 0 && sideline {
				want["late-sidelined"] = c.dropped
			} else if c.dropped > 0 {
				want["late-dropped"] = c.dropped
			}
			if diff := cmp.Diff(want, d.Counts()); diff != "" {
				tt.Errorf("%s, %v: counts (-want +got):\n%s", c.name, late, diff)
			}
			d.End() // [120,180) with the last payment
			if r := out.Read(); r.Value != 1 || !out.Empty() {
				tt.Errorf("%s, %v: last minute: %v", c.name, late, r)
			}
		}
	}
}

// A sidelined record is the one that came in, with headers that say what it missed.
func TestSideline(tt *testing.T) {
	tt.Parallel()
	d := topologytest.New(tt, topologytest.Build(tt, perMinute(window.Sideline("late"))), topologytest.TopicPartitions("late", 5))
	in := topologytest.Input(d, paid)
	late := topologytest.Output(d, topology.Topic("late", str, i64))
	for _, p := range []payment{{10, 5}, {50, 7}, {62, 11}, {70, 2}} {
		in.Pipe(at(p.at*1000), "acc", p.amount)
	}
	in.Pipe(at(59_000), "acc", 3, topology.Header{Key: "trace", Value: []byte("t1")})
	r := late.Read()
	if r.Key != "acc" || r.Value != 3 || r.Time != at(59_000) {
		tt.Errorf("the record is another than came in: %v", r)
	}
	var got [][2]string
	for _, h := range r.Headers {
		got = append(got, [2]string{h.Key, string(h.Value)})
	}
	want := [][2]string{
		{"trace", "t1"},
		{"x-late-reason", "window-closed"},
		{"x-late-operator", "sums"},
		{"x-late-watermark", "65000"},
		{"x-late-partial", "false"},
		{"x-late-window-start", "0"},
		{"x-late-window-end", "60000"},
		{"x-late-by-ms", "5000"},
		{"x-origin-topic", "payments"},
		{"x-origin-partition", "0"},
		{"x-origin-offset", "4"},
		{"x-event-time", "59000"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		tt.Errorf("headers (-want +got):\n%s", diff)
	}
	if !late.Empty() {
		tt.Errorf("more was set aside: %v", late.All())
	}
}

// A record that misses several windows, and takes part in others, is set aside once; the headers name each that it missed. It is
// the same record when it comes to an operator by two ways, and another one for another operator.
func TestSidelineOncePerOperator(tt *testing.T) {
	tt.Parallel()
	b := topology.NewBuilder()
	all := topology.From(b, s)
	twice := all.Filter(func(_, _ string) bool { return true }).Merge(all.Filter(func(_, _ string) bool { return true }))
	first := topology.Windowed(twice.GroupByKey(), window.Hopping(30*ms, 10*ms), window.Sideline("late"))
	topology.Count(first, "first").To(outWindows(30 * ms))
	second := topology.Windowed(all.GroupByKey(), window.Tumbling(10*ms), window.Sideline("late"))
	topology.Count(second, "second")
	d := topologytest.New(tt, topologytest.Build(tt, b.Build))
	in, late := topologytest.Input(d, s), topologytest.Output(d, topology.Topic("late", str, str))
	in.Pipe(at(45), "a", "x")
	in.Pipe(at(25), "a", "y") // missed [0,30) and [10,40), not [20,50); and [20,30) of the second
	var got []string
	for _, r := range late.All() {
		line := r.Value
		for _, h := range r.Headers {
			switch h.Key {
			case "x-late-operator", "x-late-partial", "x-late-window-start", "x-late-window-end", "x-late-by-ms":
				line += " " + string(h.Value)
			}
		}
		got = append(got, line)
	}
	want := []string{"y first true 0 30 15 10 40 5", "y second false 20 30 15"}
	if diff := cmp.Diff(want, got); diff != "" {
		tt.Errorf("set aside (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int64{"late-sidelined": 2}, d.Counts()); diff != "" {
		tt.Errorf("counts (-want +got):\n%s", diff)
	}
}

// probe emits the watermark that it sees, whenever that moves.
type probe struct{}

func (probe) Init(t *topology.Task, out topology.Emitter[string, int64]) error {
	return t.EveryStreamTime(ms, func(w time.Time) error {
		return out(topology.Record[string, int64]{Key: "W", Value: w.UnixMilli()})
	})
}

func (probe) Process(topology.Record[string, string], topology.Emitter[string, int64]) error {
	return nil
}

func watch(st topology.Stream[string, string]) {
	topology.Process(st, "probe", func() probe { return probe{} }).To(outCounts)
}

// A filter in front of a repartition topic hides records, not time: W behind it follows the source.
func TestFilterBeforeRepartitionHidesNoTime(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, outCounts, func(b *topology.Builder) {
		few := topology.From(b, s).Filter(func(_, v string) bool { return v == "keep" })
		watch(topology.GroupBy(few, "again", func(k, _ string) string { return k }, str, str).Stream())
	})
	sc.in("a:keep@2", "W:2@0")
	sc.in("a:keep@3", "W:3@0")
	sc.in("a:no@7", "W:7@0")
	sc.in("a:no@9", "W:9@0")
}

// Behind a repartition topic W is the smallest of its writers', and unknown until all of them have spoken.
func TestWatermarkThroughRepartition(tt *testing.T) {
	tt.Parallel()
	b := topology.NewBuilder()
	watch(topology.GroupBy(topology.From(b, s.Watermarks(window.BoundedDisorder(10*ms))), "again", func(k, _ string) string { return k }, str, str).Stream())
	d := topologytest.New(tt, topologytest.Build(tt, b.Build), topologytest.Partitions(2))
	in, out := topologytest.Input(d, s), topologytest.Output(d, outCounts)
	step := func(partition int, ts int64, want ...int64) {
		tt.Helper()
		in.PipeTo(partition, at(ts), "a", "x")
		var got []int64
		for _, r := range out.All() {
			got = append(got, r.Value)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			tt.Errorf("after %d in partition %d (-want +got):\n%s", ts, partition, diff)
		}
	}
	step(0, 100)
	step(1, 50, 40, 40) // one for each of the two tasks
	step(0, 200)
	d.Crash() // the reader's table comes back
	step(1, 120, 110, 110)
	step(1, 300, 190, 190)
	step(1, 250)
}

// W behind a merge is the smaller one of its inputs.
func TestMergeTakesTheSmallerWatermark(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, outCounts, func(b *topology.Builder) {
		watch(topology.From(b, s).Merge(topology.From(b, t)))
	})
	sc.in("s a:x@100")
	sc.in("t a:x@50", "W:50@0")
	sc.in("t a:x@70", "W:70@0")
	sc.in("s a:x@200")
	sc.in("t a:x@150", "W:150@0")
	sc.in("t a:x@300", "W:200@0")
}

// The disorder of one input is not late because another one is ahead.
func TestMergedInputsAreJudgedTogether(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, outWindows(10*ms), func(b *topology.Builder) {
		both := topology.From(b, s).Merge(topology.From(b, t))
		topology.Count(topology.Windowed(both.GroupByKey(), window.Tumbling(10*ms), window.Drop()), "count", topology.EmitOnClose()).To(outWindows(10 * ms))
	})
	sc.in("s a:x@100")
	sc.in("t a:x@5")
	sc.in("t a:x@25", "a[0,10)=1@5")
	sc.in("s a:x@19")
	sc.in("s a:x@25")
	sc.in("t a:x@100", "a[20,30)=2@25")
	sc.counts(map[string]int64{"late-dropped": 1})
}

// A window holds the watermark behind it at the start of the earliest one that may still change, even if it is empty.
func TestWindowHoldsTheWatermark(tt *testing.T) {
	tt.Parallel()
	for _, repartitioned := range []bool{false, true} {
		sc := run(tt, outStrings, func(b *topology.Builder) {
			kept := topology.From(b, s).Filter(func(k, _ string) bool { return k != "time" })
			w := topology.Windowed(kept.GroupByKey(), window.Tumbling(50*ms).Grace(60*ms), window.Drop())
			counted := topology.Count(w, "first").Stream()
			if repartitioned {
				counted = topology.Repartition(counted, "again", 0, window.KeySerde(str).Size(50*ms), i64)
			}
			second := topology.Windowed(counted.GroupByKey(), window.Tumbling(10*ms), window.Drop())
			keys := topology.Map(topology.Count(second, "second").Stream(), func(k window.Key[window.Key[string]], n int64) (string, string) {
				return k.Key.Key, fmt.Sprint(k.Start, "+", n)
			})
			keys.To(outStrings)
		})
		sc.in("time:x@100") // W is 100, and nothing is open
		sc.in("a:x@10", "a:10+1@10")
		sc.counts(map[string]int64{})
	}
}

// Two windows one behind the other lose nothing between them: what the second one counts is what the first one took. Without
// holds, records would be late for the second window that were not for the first.
func TestChainedWindowsLoseNothing(tt *testing.T) {
	tt.Parallel()
	sums := topology.Topic("sums", window.KeySerde(str).Size(100*ms), i64)
	key := window.KeySerde(str).Size(10 * ms)
	add := func(a, v int64) int64 { return a + v }
	for _, repartitioned := range []bool{false, true} {
		for _, onClose := range []bool{false, true} {
			for seed := range uint64(20) {
				b := topology.NewBuilder()
				first := topology.Windowed(topology.From(b, s.Watermarks(window.BoundedDisorder(8*ms))).GroupByKey(),
					window.Tumbling(10*ms).Grace(3*ms), window.Drop())
				var opts []topology.AggregateOption
				if onClose {
					opts = append(opts, topology.EmitOnClose())
				}
				counted := topology.Count(first, "first", opts...).Stream()
				if repartitioned {
					counted = topology.Repartition(counted, "again", 0, serde.Serde[window.Key[string]](key), i64)
				}
				second := topology.Windowed(counted.GroupByKey(), window.Tumbling(100*ms), window.Drop())
				topology.Map(topology.Aggregate(second, "second", i64, add, topology.EmitOnClose()).Stream(),
					func(k window.Key[window.Key[string]], n int64) (window.Key[string], int64) {
						return window.Key[string]{Key: k.Key.Key, Start: k.Start, End: k.End}, n
					}).To(sums)
				d := topologytest.New(tt, topologytest.Build(tt, b.Build), topologytest.Partitions(3))
				in, out := topologytest.Input(d, s), topologytest.Output(d, sums)

				rng := rand.New(rand.NewPCG(seed, 1))
				now, piped := int64(1000), int64(0)
				newest := map[int]int64{}
				batch := map[window.Key[string]]int64{}
				var late int64
				for range 400 {
					now += rng.Int64N(4)
					ts := max(0, now-rng.Int64N(25))
					p := rng.IntN(3)
					// Late by the operator's own W, which is its partition's.
					start := ts / 10 * 10
					if w, ok := newest[p]; ok && w-8 >= start+10+3 {
						late++
					} else {
						batch[window.Key[string]{Key: fmt.Sprint(p), Start: start / 100 * 100, End: start/100*100 + 100}]++
					}
					newest[p] = max(newest[p], ts)
					in.PipeTo(p, at(ts), fmt.Sprint(p), "x")
					piped++
				}
				d.End()
				got := map[window.Key[string]]int64{}
				for _, r := range out.All() {
					got[r.Key] += r.Value
				}
				if !onClose {
					// Every record of the first window gave a running count: 1+2+…+n. Only that none is missing is checked.
					if n := d.Counts()["late-dropped"]; n != late {
						tt.Errorf("seed %d, repartitioned %v: %d late, want %d, all at the first window", seed, repartitioned, n, late)
					}
					continue
				}
				if diff := cmp.Diff(batch, got); diff != "" {
					tt.Errorf("seed %d, repartitioned %v: sums (-batch +got):\n%s", seed, repartitioned, diff)
				}
				if diff := cmp.Diff(map[string]int64{"late-dropped": late}, d.Counts()); diff != "" {
					tt.Errorf("seed %d, repartitioned %v: counts (-want +got):\n%s", seed, repartitioned, diff)
				}
				if late == 0 || late == piped {
					tt.Errorf("seed %d: %d of %d late: the test shows nothing", seed, late, piped)
				}
			}
		}
	}
}
