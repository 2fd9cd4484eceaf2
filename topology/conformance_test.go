package topology_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/topology/topologytest"
	"github.com/headrace/headrace/window"
)

// What Kafka Streams does, record by record, with its cache off. Where we differ the test says so.

func TestCountDropsNulls(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, outCounts, func(b *topology.Builder) {
		topology.Count(topology.From(b, s).GroupByKey(), "count").To(outCounts)
	})
	sc.in("a:1@0", "a:1@0")
	sc.in("a:null@1")
	sc.in("null:x@2")
	sc.in("a:2@3", "a:2@3")
	sc.counts(map[string]int64{"null-value": 1, "null-key": 1})
}

// The first value is the first aggregate; the time of a result is the largest that went in.
func TestReduce(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, outStrings, func(b *topology.Builder) {
		topology.Reduce(topology.From(b, s).GroupByKey(), "reduce", str, func(a, v string) string { return a + v }).To(outStrings)
	})
	sc.in("a:1@10", "a:1@10")
	sc.in("a:2@5", "a:12@10")
	sc.in("a:3@12", "a:123@12")
}

// A deleted aggregate is a null value, and the next record starts anew. Deleting what is not there emits nothing.
func TestAggregateOrDelete(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, outStrings, func(b *topology.Builder) {
		topology.AggregateOrDelete(topology.From(b, s).GroupByKey(), "agg", str, func(a, v string) (string, bool) {
			if a == "" {
				a = "I"
			}
			return a + v, v != "del"
		}).To(outStrings)
	})
	sc.in("a:1@1", "a:I1@1")
	sc.in("a:del@2", "a:null@2")
	sc.in("a:del@3")
	sc.in("a:2@1", "a:I2@1")
}

func windowedCount(w window.Fixed, opts ...topology.AggregateOption) func(b *topology.Builder) {
	return func(b *topology.Builder) {
		topology.Count(topology.Windowed(topology.From(b, s).GroupByKey(), w, window.Drop()), "count", opts...).
			To(outWindows(time.Duration(w.SizeMillis()) * ms))
	}
}

func runWindows(tt *testing.T, w window.Fixed, opts ...topology.AggregateOption) *script {
	tt.Helper()
	return run(tt, outWindows(time.Duration(w.SizeMillis())*ms), windowedCount(w, opts...))
}

func TestTumblingEndIsExclusive(tt *testing.T) {
	tt.Parallel()
	sc := runWindows(tt, window.Tumbling(10*ms))
	sc.in("a:x@0", "a[0,10)=1@0")
	sc.in("a:x@9", "a[0,10)=2@9")
	sc.in("a:x@10", "a[10,20)=1@10")
}

func TestHoppingIsAlignedToTheEpoch(tt *testing.T) {
	tt.Parallel()
	sc := runWindows(tt, window.Hopping(5*ms, 3*ms).Grace(100*ms))
	sc.in("a:x@1", "a[0,5)=1@1")
	sc.in("a:x@7", "a[3,8)=1@7", "a[6,11)=1@7")
	sc.in("a:x@3", "a[0,5)=2@3", "a[3,8)=2@7")
}

func TestGrace(tt *testing.T) {
	tt.Parallel()
	sc := runWindows(tt, window.Tumbling(10*ms).Grace(5*ms))
	sc.in("a:x@0", "a[0,10)=1@0")
	sc.in("a:x@14", "a[10,20)=1@14")
	sc.in("a:x@3", "a[0,10)=2@3")
	sc.in("a:x@15", "a[10,20)=2@15")
	sc.in("a:x@4")
	sc.counts(map[string]int64{"late-dropped": 1})
	sc.in("b:x@4") // time is the operator's, not the key's
	sc.counts(map[string]int64{"late-dropped": 2})
}

// A record that is late for one of its windows goes into the others.
func TestHoppingDropsPerWindow(tt *testing.T) {
	tt.Parallel()
	sc := runWindows(tt, window.Hopping(10*ms, 5*ms))
	sc.in("a:x@12", "a[5,15)=1@12", "a[10,20)=1@12")
	sc.in("a:x@7", "a[5,15)=2@12")
	sc.counts(map[string]int64{"late-dropped": 1})
}

func TestStreamTableJoin(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, outStrings, func(b *topology.Builder) {
		table := topology.TableFrom(b, "table", t)
		topology.JoinTable(topology.From(b, s), table, func(v, w string) string { return v + "+" + w }).To(outStrings)
	})
	sc.in("a:x@5")
	sc.in("t a:T@10")
	sc.in("a:s@3", "a:s+T@3")
	sc.in("a:null@4")
	sc.in("null:x@4")
	sc.in("t null:x@4")
	sc.in("t a:null@20")
	sc.in("a:x@21")
	sc.in("t a:new@30")
	sc.in("t a:old@25") // the last one wins, not the newest
	sc.in("a:x@31", "a:x+old@31")
	sc.counts(map[string]int64{"null-value": 1, "null-key": 2, "no-match": 2})
}

// A left join keeps what has no match, and says so. Null keys are our own rule: dropped, as before everything keyed.
func TestStreamTableLeftJoin(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, outStrings, func(b *topology.Builder) {
		table := topology.TableFrom(b, "table", t)
		topology.LeftJoinTable(topology.From(b, s), table, func(v, w string, ok bool) string { return fmt.Sprint(v, "+", w, ok) }).To(outStrings)
	})
	sc.in("a:x@5", "a:x+false@5")
	sc.in("t a:T@10")
	sc.in("a:s@3", "a:s+Ttrue@3")
	sc.in("t a:@11") // an empty value is a value
	sc.in("a:s@12", "a:s+true@12")
	sc.in("a:null@13")
	sc.in("null:x@13")
	sc.in("t a:null@20")
	sc.in("a:x@21", "a:x+false@21")
	sc.d.Crash()
	sc.in("a:x@22", "a:x+false@22")
	sc.counts(map[string]int64{"null-value": 1, "null-key": 1})
}

// KTable suppress(untilWindowCloses), and emit on close: one and the same here.
func TestEmitOnClose(tt *testing.T) {
	tt.Parallel()
	sc := runWindows(tt, window.Tumbling(10*ms).Grace(2*ms), topology.EmitOnClose())
	sc.in("a:x@0")
	sc.in("a:x@9")
	sc.in("b:x@11")
	sc.in("b:x@12", "a[0,10)=2@9")
	sc.in("a:x@5")
	sc.counts(map[string]int64{"late-dropped": 1})
}

// Kafka Streams loses the middle one: it reads closed windows back from a store that hides them by then.
func TestEmitOnCloseLosesNoWindow(tt *testing.T) {
	tt.Parallel()
	sc := runWindows(tt, window.Tumbling(10*ms), topology.EmitOnClose())
	sc.in("a:x@5")
	sc.in("b:x@15", "a[0,10)=1@5")
	sc.in("b:x@35", "b[10,20)=1@15")
	sc.in("b:x@45", "b[30,40)=1@35")
}

// Results of one advance come by window, then by key.
func TestClosingOrder(tt *testing.T) {
	tt.Parallel()
	sc := runWindows(tt, window.Tumbling(10*ms).Grace(100*ms), topology.EmitOnClose())
	for _, r := range []string{"b:x@12", "c:x@1", "a:x@13", "b:x@25", "a:x@2"} {
		sc.in(r)
	}
	sc.in("z:x@1000", "a[0,10)=1@2", "c[0,10)=1@1", "a[10,20)=1@13", "b[10,20)=1@12", "b[20,30)=1@25")
}

func TestFinalResults(tt *testing.T) {
	tt.Parallel()
	for _, c := range []struct {
		name string
		w    window.Fixed
		in   []string
		want []string
	}{
		{
			"a window ends with the record at its end", window.Tumbling(2 * ms),
			[]string{"k:x@0", "k:x@1", "k:x@2"},
			[]string{"k[0,2)=2@1"},
		},
		{
			"grace 1, out of order", window.Tumbling(2 * ms).Grace(1 * ms),
			[]string{"k:x@0", "k:x@1", "k:x@2", "k:x@1", "k:x@0", "k:x@5"},
			[]string{"k[0,2)=4@1", "k[2,4)=1@2"},
		},
		{
			"large jump", window.Tumbling(2 * ms).Grace(2 * ms),
			[]string{"k:x@0", "k:x@1", "k:x@2", "k:x@0", "k:x@3", "k:x@0", "k:x@10", "k:x@0", "k:x@30"},
			[]string{"k[0,2)=4@1", "k[2,4)=2@3", "k[10,12)=1@10"},
		},
		{
			"hopping", window.Hopping(5*ms, 2*ms).Grace(1 * ms),
			[]string{"k:x@0", "k:x@1", "k:x@2", "k:x@1", "k:x@6", "k:x@5", "k:x@10"},
			[]string{"k[0,5)=4@2", "k[2,7)=3@6", "k[4,9)=2@6"},
		},
	} {
		sc := runWindows(tt, c.w, topology.EmitOnClose())
		for _, r := range c.in {
			sc.pipe(r)
		}
		sc.wants(c.name, c.want...)
	}
}

// Time, headers and key go with the record through a repartition topic; a null key does not.
func TestRepartitionKeepsTimeAndHeaders(tt *testing.T) {
	tt.Parallel()
	h := topology.Header{Key: "trace", Value: []byte("77")}
	for _, c := range []struct {
		name    string
		count   func(topology.Stream[string, string]) topology.Table[string, int64]
		nullKey int64
	}{
		{"Repartition", func(st topology.Stream[string, string]) topology.Table[string, int64] {
			return topology.Count(topology.Repartition(st, "again", 0, str, str).GroupByKey(), "count")
		}, 1},
		{"GroupBy", func(st topology.Stream[string, string]) topology.Table[string, int64] {
			return topology.Count(topology.GroupBy(st, "again", func(k, _ string) string { return strings.ToUpper(k) }, str, str), "count")
		}, 0},
	} {
		b := topology.NewBuilder()
		c.count(topology.From(b, s)).To(outCounts)
		d := topologytest.New(tt, topologytest.Build(tt, b.Build), topologytest.Partitions(3))
		in, out := topologytest.Input(d, s), topologytest.Output(d, outCounts)
		in.Pipe(at(77), "k1", "x", h)
		in.Pipe(at(70), "k1", "x", h)
		for want := int64(1); want <= 2; want++ {
			r := out.Read()
			trace, _ := r.Header("trace")
			if !strings.EqualFold(r.Key, "k1") || r.Value != want || r.Time != at(77) || trace != "77" || len(r.Headers) != 1 {
				tt.Errorf("%s: got %v with headers %v, want count %d at 77 with the header of the input", c.name, r, r.Headers, want)
			}
		}
		in.PipeNullKey(at(78), "x")
		if got := d.Counts()["null-key"]; got != c.nullKey {
			tt.Errorf("%s: %d null keys counted, want %d", c.name, got, c.nullKey)
		}
		if rest := out.All(); c.nullKey > 0 && len(rest) > 0 {
			tt.Errorf("%s: a null key was counted as a key: %v", c.name, rest)
		}
	}
}

// ticker emits the time of every punctuation.
type ticker struct{ stream, wall time.Duration }

func (p ticker) Init(t *topology.Task, out topology.Emitter[string, int64]) error {
	fire := func(now time.Time) error {
		return out(topology.Record[string, int64]{Key: "fire", Value: now.UnixMilli()})
	}
	if p.stream > 0 {
		if err := t.EveryStreamTime(p.stream, fire); err != nil {
			return err
		}
	}
	if p.wall > 0 {
		return t.EveryWallClock(p.wall, fire)
	}
	return nil
}

func (ticker) Process(topology.Record[string, string], topology.Emitter[string, int64]) error {
	return nil
}

func TestStreamTimePunctuation(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, outCounts, func(b *topology.Builder) {
		topology.Process(topology.From(b, s), "ticker", func() ticker { return ticker{stream: 10 * ms} }).To(outCounts)
	})
	sc.in("a:x@3", "fire:3@0")
	sc.in("a:x@12", "fire:12@0")
	sc.in("a:x@13")
	sc.in("a:x@47", "fire:47@0")
	sc.d.Crash() // when it fires next is committed with the offsets
	sc.in("a:x@5")
	sc.in("a:x@49")
	sc.in("a:x@53", "fire:53@0")
	sc.in("a:x@57")
	sc.d.End()
	if got := len(sc.read()); got != 1 {
		tt.Errorf("at the end of time the punctuation fired %d times, want once", got)
	}
}

func TestWallClockPunctuation(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, outCounts, func(b *topology.Builder) {
		topology.Process(topology.From(b, s), "ticker", func() ticker { return ticker{wall: 10 * ms} }).To(outCounts)
	}, topologytest.StartAt(at(0)))
	sc.pipe("a:x@1000000") // event time has nothing to do with it
	for _, c := range []struct {
		by   time.Duration
		want []string
	}{
		{9 * ms, nil},
		{1 * ms, []string{"fire:10@0"}},
		{35 * ms, []string{"fire:45@0"}},
		{5 * ms, []string{"fire:50@0"}},
	} {
		sc.d.Advance(c.by)
		sc.wants("+"+c.by.String(), c.want...)
	}
}

// A record whose event time is before 1970 is a bad one. It moves no watermark.
func TestNegativeEventTime(tt *testing.T) {
	tt.Parallel()
	timed := s.EventTime(func(r topology.Record[string, string]) time.Time {
		if r.Value == "bad" {
			return time.UnixMilli(-1)
		}
		return r.Timestamp()
	})
	build := func(b *topology.Builder) {
		topology.Count(topology.From(b, timed).GroupByKey(), "count").To(outCounts)
	}
	sc := run(tt, outCounts, build, topologytest.OnError(topology.Skip()))
	sc.in("a:bad@1")
	sc.in("a:good@2", "a:1@2")
	sc.counts(map[string]int64{"bad-timestamp": 1})

	sc = run(tt, outCounts, build)
	err := sc.d.Try(func() { sc.pipe("a:bad@1") })
	if err == nil || !strings.Contains(err.Error(), "record s[0]@0") || !strings.Contains(err.Error(), "event time -1 ms is before 1970") {
		tt.Errorf("by default it fails: got %v", err)
	}
}
