package topology_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/topology/topologytest"
	"github.com/headrace/headrace/window"
)

// secondLargest takes the second largest event time for the watermark, so that no single record moves it far.
type secondLargest struct{ first, second int64 }

func (g *secondLargest) Observe(r topology.Record[string, int64]) time.Time {
	if r.Value < 0 {
		panic("a generator fell over")
	}
	switch {
	case r.Time > g.first:
		g.first, g.second = r.Time, g.first
	case r.Time > g.second:
		g.second = r.Time
	}
	if g.second == 0 {
		return time.Time{}
	}
	return time.UnixMilli(g.second)
}

func (g *secondLargest) Save(dst []int64) []int64 { return append(dst, g.first, g.second) }

func (g *secondLargest) Load(state []int64) error {
	switch len(state) {
	case 0:
		return nil
	case 2:
		g.first, g.second = state[0], state[1]
		return nil
	}
	return errors.New("want two values")
}

func newSecondLargest() topology.Generator[string, int64] { return &secondLargest{} }

// sums are what the payments come to, one result for each minute that has closed.
func sums(tt *testing.T, paid topology.TopicOf[string, int64], opts ...topologytest.Option) (*topologytest.Driver, *topologytest.In[string, int64], *topologytest.Out[window.Key[string], int64]) {
	tt.Helper()
	b := topology.NewBuilder()
	w := topology.Windowed(topology.From(b, paid).GroupByKey(), window.Tumbling(time.Minute), window.Drop())
	topology.Aggregate(w, "sums", i64, func(sum, v int64) int64 { return sum + v }, topology.EmitOnClose()).To(minutes)
	d := topologytest.New(tt, topologytest.Build(tt, b.Build), opts...)
	return d, topologytest.Input(d, paid), topologytest.Output(d, minutes)
}

func values(out *topologytest.Out[window.Key[string], int64]) (v []int64) {
	for _, r := range out.All() {
		v = append(v, r.Value)
	}
	return v
}

// A generator is told of every record, and what it has seen outlives commits and crashes: a run with a crash behind every record comes
// to the same.
func TestOwnGenerator(tt *testing.T) {
	tt.Parallel()
	topic := topology.Topic("payments", str, i64).WatermarksBy(newSecondLargest)
	for _, crash := range []string{"no", "before the commit", "after it"} {
		d, in, out := sums(tt, topic, topologytest.Manual())
		for i, at0 := range []int64{10, 4000, 50, 55, 61, 20, 121, 30, 4001} {
			in.Pipe(at(at0*1000), "acc", 1<<i)
			d.Run()
			if crash == "before the commit" {
				d.Crash()
				d.Run()
			}
			d.Commit()
			if crash == "after it" {
				d.Crash()
			}
		}
		d.Settle()
		// 4000 alone moves nothing. W is 50, 55, 61 (closes the first minute; 20 s is late), 121 (closes the second; 30 s is late), 4000.
		if diff := cmp.Diff([]int64{1 + 4 + 8, 16, 64}, values(out)); diff != "" {
			tt.Errorf("crash %s: minutes (-want +got):\n%s", crash, diff)
		}
		if diff := cmp.Diff(map[string]int64{"late-dropped": 2}, d.Counts()); diff != "" {
			tt.Errorf("crash %s: counts (-want +got):\n%s", crash, diff)
		}
	}
}

// A record on which the generator falls over is a bad one: it leaves nothing behind.
func TestGeneratorThatPanics(tt *testing.T) {
	tt.Parallel()
	topic := topology.Topic("payments", str, i64).WatermarksBy(newSecondLargest)
	d, in, out := sums(tt, topic, topologytest.OnError(topology.Skip()))
	for _, p := range []payment{{10, 1}, {20, -2}, {61, 4}, {70, 8}} {
		in.Pipe(at(p.at*1000), "acc", p.amount)
	}
	if diff := cmp.Diff([]int64{1}, values(out)); diff != "" {
		tt.Errorf("minutes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int64{"failed": 1}, d.Counts()); diff != "" {
		tt.Errorf("counts (-want +got):\n%s", diff)
	}
}

// Punctuations say the time; all other records say nothing.
func TestPunctuated(tt *testing.T) {
	tt.Parallel()
	topic := topology.Topic("payments", str, i64).Punctuated(func(r topology.Record[string, int64]) (time.Time, bool) {
		return r.Timestamp(), r.Key == "tick"
	})
	d, in, out := sums(tt, topic)
	in.Pipe(at(10_000), "acc", 1)
	in.Pipe(at(900_000), "acc", 2)
	in.Pipe(at(20_000), "acc", 4)
	if !out.Empty() {
		tt.Errorf("closed without a punctuation: %v", out.All())
	}
	in.Pipe(at(60_000), "tick", 0)
	in.Pipe(at(30_000), "acc", 8) // late
	in.Pipe(at(40_000), "tick", 0)
	if diff := cmp.Diff([]int64{5}, values(out)); diff != "" {
		tt.Errorf("minutes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int64{"late-dropped": 2}, d.Counts()); diff != "" { // the second tick is late, too
		tt.Errorf("counts (-want +got):\n%s", diff)
	}
}

// What is said last holds.
func TestLastWatermarksHold(tt *testing.T) {
	tt.Parallel()
	never := func(topology.Record[string, int64]) (time.Time, bool) { return time.Time{}, false }
	_, in, out := sums(tt, topology.Topic("payments", str, i64).Punctuated(never).Watermarks(window.BoundedDisorder(time.Second)))
	in.Pipe(at(10_000), "acc", 1)
	in.Pipe(at(60_999), "acc", 2)
	if !out.Empty() {
		tt.Error("closed below the bound")
	}
	in.Pipe(at(61_000), "acc", 4)
	if diff := cmp.Diff([]int64{1}, values(out)); diff != "" {
		tt.Errorf("minutes (-want +got):\n%s", diff)
	}
}

// A record two hours ahead among a hundred is set aside, moves nothing, and makes none of the others late: by the broker's timestamp where
// event time is another, else by the wall clock.
func TestFutureGuard(tt *testing.T) {
	tt.Parallel()
	now := time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)
	late := topology.Topic("late", str, i64)
	own := func(r topology.Record[string, int64]) time.Time { return time.UnixMilli(r.Value) }
	for name, topic := range map[string]topology.TopicOf[string, int64]{
		"own time":    topology.Topic("payments", str, i64).EventTime(own),
		"broker time": topology.Topic("payments", str, i64),
	} {
		start := now
		if name == "own time" {
			start = now.AddDate(-10, 0, 0) // the wall clock does not count: it is a replay
		}
		for _, policy := range []window.Late{window.Sideline("late"), window.Drop()} {
			d, in, out := sums(tt, topic.FutureGuard(5*time.Minute, policy), topologytest.StartAt(now))
			for i := range 101 {
				broker := start.Add(time.Duration(i) * time.Second)
				event := broker
				switch i {
				case 50:
					event = broker.Add(2 * time.Hour)
				case 60:
					event = broker.Add(5 * time.Minute) // just not
				}
				if name == "broker time" {
					if i == 60 {
						event = now.Add(5 * time.Minute)
					}
					broker = event
				}
				in.Pipe(broker, "acc", event.UnixMilli())
			}
			want := map[string]int64{"future": 1}
			if n := d.Counts()["late-dropped"]; n > 0 { // behind the one that is 5 min ahead, which the guard lets through
				want["late-dropped"] = n
			}
			if diff := cmp.Diff(want, d.Counts()); diff != "" {
				tt.Errorf("%s, %v: counts (-want +got):\n%s", name, policy, diff)
			}
			if out.Empty() {
				tt.Errorf("%s, %v: nothing has closed", name, policy)
			}
			if _, aside := policy.Topic(); !aside {
				continue
			}
			r := topologytest.Output(d, late).Read()
			var got []string
			for _, h := range r.Headers {
				got = append(got, h.Key+"="+string(h.Value))
			}
			text := strings.Join(got, " ")
			if r.Value != start.Add(50*time.Second+2*time.Hour).UnixMilli() || !strings.Contains(text, "x-late-reason=future x-late-operator=KSTREAM-SOURCE-0000000000 x-late-watermark=") ||
				!strings.HasSuffix(text, "x-origin-topic=payments x-origin-partition=0 x-origin-offset=50 x-event-time="+text[strings.LastIndex(text, "=")+1:]) {
				tt.Errorf("%s: set aside was %v with %s", name, r, text)
			}
		}
	}
}

// The empty partition of four, and the one that has fallen silent, hold the windows of the others no longer once they are idle; a crash
// does not make them hold again. What comes late after that is judged as any.
func TestIdlePartitions(tt *testing.T) {
	tt.Parallel()
	for _, repartitioned := range []bool{false, true} {
		b := topology.NewBuilder()
		in0 := topology.From(b, s).Merge(topology.From(b, t))
		g := in0.GroupByKey()
		if repartitioned {
			g = topology.GroupBy(in0, "again", func(k, _ string) string { return k }, str, str)
		}
		topology.Count(topology.Windowed(g, window.Tumbling(10*ms), window.Drop()), "counts", topology.EmitOnClose()).
			To(topology.Topic("out", window.KeySerde(str).Size(10*ms), i64))
		d := topologytest.New(tt, topologytest.Build(tt, b.Build), topologytest.Partitions(2))
		in := topologytest.Input(d, s)
		out := topologytest.Output(d, topology.Topic("out", window.KeySerde(str).Size(10*ms), i64))
		in.PipeTo(0, at(1), "a", "x")
		in.PipeTo(1, at(2), "b", "x")
		in.PipeTo(0, at(25), "a", "x")
		if !out.Empty() {
			tt.Fatalf("repartitioned %t: closed although topic t is empty and not idle", repartitioned)
		}
		d.Idle(t.Name())
		var keys []string
		closed := func() []string {
			for _, r := range out.All() {
				keys = append(keys, r.Key.Key)
			}
			return keys
		}
		// Of the two tasks one is at 25 and one at 2, which closes nothing: without a topic between, each has its own time.
		want := []string{"a"}
		if repartitioned {
			want = nil
		}
		if diff := cmp.Diff(want, closed()); diff != "" {
			tt.Errorf("repartitioned %t: t idle: closed (-want +got):\n%s", repartitioned, diff)
		}
		d.Crash()
		d.Idle(s.Name(), 1)
		if diff := cmp.Diff(map[bool][]string{false: {"a"}, true: {"a", "b"}}[repartitioned], sorted(closed())); diff != "" {
			tt.Errorf("repartitioned %t: s[1] idle: closed (-want +got):\n%s", repartitioned, diff)
		}
		before := d.Counts()["late-dropped"]
		in.PipeTo(1, at(3), "b", "woken")
		if n := d.Counts()["late-dropped"] - before; n != map[bool]int64{false: 0, true: 1}[repartitioned] {
			tt.Errorf("repartitioned %t: %d late after waking up", repartitioned, n)
		}
		in.PipeTo(1, at(50), "b", "x") // it has caught up: the other partition is the slow one now
		d.Crash()
		in.PipeTo(0, at(40), "a", "x")
		if diff := cmp.Diff([]string{"a", "a", "b"}, sorted(closed())); diff != "" {
			tt.Errorf("repartitioned %t: at 40 and 50: closed (-want +got):\n%s", repartitioned, diff)
		}
	}
}

func sorted(s []string) []string {
	out := append([]string(nil), s...)
	for i := range out {
		for j := i; j > 0 && out[j] < out[j-1]; j-- {
			out[j], out[j-1] = out[j-1], out[j]
		}
	}
	return out
}

// A task waits for an input of which it knows that there is more, and takes what comes by time over all inputs.
func TestHoldBack(tt *testing.T) {
	tt.Parallel()
	b := topology.NewBuilder()
	topology.From(b, s).Merge(topology.From(b, t)).To(topology.Topic("out", str, str))
	d := topologytest.New(tt, topologytest.Build(tt, b.Build))
	slow, fast, out := topologytest.Input(d, s), topologytest.Input(d, t), topologytest.Output(d, topology.Topic("out", str, str))
	d.HoldBack(s.Name())
	slow.Pipe(at(5), "slow", "5")
	for i := range int64(3) {
		fast.Pipe(at(4+i), "fast", "")
	}
	if !out.Empty() {
		tt.Fatalf("went on without what is in %s: %v", s.Name(), out.All())
	}
	d.Release(s.Name())
	var got []int64
	for _, r := range out.All() {
		got = append(got, r.Time.UnixMilli())
	}
	if diff := cmp.Diff([]int64{4, 5, 5, 6}, got); diff != "" {
		tt.Errorf("order by time (-want +got):\n%s", diff)
	}
}
