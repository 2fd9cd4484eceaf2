package topology_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/topology/topologytest"
	"github.com/headrace/headrace/window"
)

func firstKey(k window.Key[string], _ int64) string { return k.Key }

var sumOf = topology.Aggregator[int64, int64]{
	Add:      func(a, v int64) int64 { return a + v },
	Subtract: func(a, v int64) int64 { return a - v },
}

// Rules that hold between windows: what Build refuses, with the way out, and what it lets pass.
func TestRulesOfChainedWindows(tt *testing.T) {
	tt.Parallel()
	type stream = topology.Stream[string, string]
	tumbling := func(n time.Duration) window.Fixed { return window.Tumbling(n * ms) }
	correct := func(n time.Duration) window.Correction { return window.CorrectWithin(n * ms) }
	per := func(in stream, w window.Definition, l window.Late, opts ...topology.AggregateOption) topology.Table[window.Key[string], int64] {
		return topology.Count(topology.Windowed(in.GroupByKey(), w, l), "per", opts...)
	}
	behind := func(t topology.Table[window.Key[string], int64], w window.Definition, l window.Late, opts ...topology.AggregateOption) {
		topology.AggregateWith(topology.Windowed(topology.GroupBy(t.Stream(), "by", firstKey, str, i64), w, l), "behind", i64, sumOf, opts...)
	}
	for _, c := range []struct {
		name  string
		build func(in stream)
		want  []string // nothing passes
	}{
		{"update and on close", func(in stream) {
			per(in, tumbling(10), dropLate, topology.EmitOnUpdate(), topology.EmitOnClose())
		}, []string{"EmitOnUpdate and EmitOnClose", "choose one"}},
		{"update and on commit", func(in stream) {
			topology.Count(in.GroupByKey(), "c", topology.EmitOnUpdate(), topology.EmitOnCommit())
		}, []string{"EmitOnUpdate and EmitOnCommit", "choose one"}},
		{"final on commit", func(in stream) {
			per(in, tumbling(10), dropLate, topology.EmitFinal(), topology.EmitOnCommit())
		}, []string{"EmitFinal and EmitOnCommit", "choose one"}},
		{"final without windows", func(in stream) { topology.Count(in.GroupByKey(), "c", topology.EmitFinal()) }, []string{"EmitFinal", "behind Windowed"}},
		{"early without windows", func(in stream) { topology.Count(in.GroupByKey(), "c", topology.EmitEarlyCount(2)) }, []string{"EmitEarlyCount", "behind Windowed"}},
		{"early by time where there is none", func(in stream) {
			per(in, window.Count(3), dropLate, topology.EmitEarlyEvery(time.Second))
		}, []string{"EmitEarlyEvery", "count(3)", "EmitEarlyCount"}},
		{"a sum of early results", func(in stream) {
			behind(per(in, tumbling(10), dropLate, topology.EmitEarlyCount(2)), tumbling(100), dropLate)
		}, []string{"counted again", "Retracting()", "AcceptRevisions()"}},
		{"a sum of early parts", func(in stream) {
			behind(per(in, tumbling(10), dropLate, topology.EmitEarlyCount(2), topology.Discarding()), tumbling(100), dropLate)
		}, nil},
		{"a sum of early results that are taken back", func(in stream) {
			behind(per(in, tumbling(10), dropLate, topology.EmitEarlyCount(2), topology.Retracting()), tumbling(100), dropLate)
		}, nil},
		{"early results under another key", func(in stream) {
			p := per(in, tumbling(10), dropLate, topology.EmitEarlyCount(2))
			topology.Map(p.Stream(), func(k window.Key[string], n int64) (string, int64) { return k.Key, n }).To(outCounts)
		}, []string{"is not a window.Key", "AcceptRevisions()"}},
		{"retractions under another key", func(in stream) {
			p := per(in, tumbling(10), dropLate, topology.Retracting())
			topology.Map(p.Stream(), func(k window.Key[string], n int64) (string, int64) { return k.Key, n }).To(outCounts)
		}, []string{"is not a window.Key", "AcceptRevisions()"}},
		{"grace for as long as corrections", func(in stream) {
			behind(per(in, tumbling(10), correct(30).Retract().Otherwise(dropLate), topology.EmitOnClose()), tumbling(100).Grace(30*ms), dropLate, topology.EmitFinal())
		}, nil},
		{"grace and corrections for as long together", func(in stream) {
			behind(per(in, tumbling(10), correct(30).Retract().Otherwise(dropLate)), tumbling(100).Grace(20*ms), correct(10).Retract().Otherwise(dropLate))
		}, nil},
		{"one millisecond less", func(in stream) {
			behind(per(in, tumbling(10), correct(30).Retract().Otherwise(dropLate)), tumbling(100).Grace(20*ms), correct(9).Retract().Otherwise(dropLate))
		}, []string{"corrections for 30ms", "would be late", "CorrectWithin", "Grace"}},
		{"windows that do not end with those in front", func(in stream) {
			behind(per(in, tumbling(60), correct(30).Retract().Otherwise(dropLate)), tumbling(10), correct(30).Retract().Otherwise(dropLate))
		}, []string{"of 51ms in all"}},
		{"the same for one millisecond less than long enough", func(in stream) {
			behind(per(in, tumbling(60), correct(30).Retract().Otherwise(dropLate)), tumbling(10), correct(50).Retract().Otherwise(dropLate))
		}, []string{"of 51ms in all"}},
		{"the same for long enough", func(in stream) {
			behind(per(in, tumbling(60), correct(30).Retract().Otherwise(dropLate)), tumbling(10), correct(51).Retract().Otherwise(dropLate))
		}, nil},
		{"a total between", func(in stream) {
			p := per(in, tumbling(10), correct(30).Retract().Otherwise(dropLate), topology.EmitOnClose())
			total := topology.AggregateWith(topology.GroupBy(p.Stream(), "g", firstKey, str, i64), "total", i64, sumOf)
			topology.Reduce(topology.Windowed(total.Stream().GroupByKey(), tumbling(100), dropLate), "max", i64, func(a, v int64) int64 { return max(a, v) })
		}, []string{"would be late"}},
		{"a total is no result of a window", func(in stream) {
			p := per(in, tumbling(10), correct(30).Retract().Otherwise(dropLate), topology.EmitOnClose())
			topology.AggregateWith(topology.GroupBy(p.Stream(), "g", firstKey, str, i64), "total", i64, sumOf).To(outCounts)
		}, nil},
		{"counting parts that come late", func(in stream) {
			p := per(in, tumbling(10), correct(30).Otherwise(dropLate), topology.EmitOnClose(), topology.Discarding())
			topology.Count(topology.Windowed(p.Stream().GroupByKey(), window.Count(5), dropLate), "fives")
		}, nil},
		{"late by the channel behind windows", func(in stream) {
			p := per(in, tumbling(10), dropLate)
			topology.Count(topology.Windowed(p.Stream().GroupByKey(), tumbling(100), window.Drop().LateBy(window.Channel)), "c")
		}, []string{"LateBy(window.Channel)", `"per"`, "leave LateBy out"}},
		{"a judge that there is not", func(in stream) { per(in, tumbling(10), window.Drop().LateBy(7)) }, []string{"LateBy"}},
		{"the store of results has a name", func(in stream) {
			per(in, tumbling(10), dropLate, topology.EmitEarlyCount(2))
			topology.Count(in.GroupByKey(), "per-panes")
		}, []string{`"per-panes"`, `a part of store "per"`}},
		{"a store that has no room for that name", func(in stream) {
			topology.Count(topology.Windowed(in.GroupByKey(), tumbling(10), dropLate), strings.Repeat("x", 196), topology.EmitEarlyCount(2))
		}, []string{"196", "194"}},
		{"no windows at all", func(in stream) { per(in, nil, dropLate) }, []string{"Windowed"}},
		{"windows that are nil inside", func(in stream) { per(in, (*ownWindows)(nil), dropLate) }, []string{"Windowed", "nil"}},
	} {
		b := topology.NewBuilder()
		c.build(topology.From(b, s))
		_, err := b.Build()
		if len(c.want) == 0 && err != nil {
			tt.Errorf("%s: %v", c.name, err)
		}
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "rules_test.go:") {
				tt.Errorf("%s: %v, want %q", c.name, err, want)
			}
		}
	}
}

// ownWindows are windows of a user's: from each full hundred on for 30 ms, and from 20 on up to the same end. Between them are gaps.
type ownWindows struct{ grace int64 }

func (ownWindows) Validate() error       { return nil }
func (ownWindows) String() string        { return "of my own" }
func (w *ownWindows) GraceMillis() int64 { return w.grace }

func (ownWindows) First(t int64) int64 {
	start := t / 100 * 100
	if t < start+30 {
		return start
	}
	return start + 100
}

func (ownWindows) Next(start int64) int64 {
	if start%100 == 0 {
		return start + 20
	}
	return start + 80
}

func (ownWindows) End(start int64) int64 { return start/100*100 + 30 }

// Whatever windows are in front of whatever windows, and however they emit: behind them no first result is late, and no correction
// either, for which Build let them pass. In the end all is as a batch makes it.
func TestNothingIsLateBehindWindows(tt *testing.T) {
	tt.Parallel()
	corrected := 0
	for seed := range uint64(120) {
		rng := rand.New(rand.NewPCG(seed, 3))
		pick := func() window.Windows {
			size := time.Duration(10 * (1 + rng.IntN(6)))
			switch rng.IntN(6) {
			case 0:
				return window.Hopping(2*size*ms, size*ms).Grace(time.Duration(rng.IntN(30)) * ms)
			case 1:
				return &ownWindows{grace: rng.Int64N(30)}
			case 2:
				return window.Global()
			}
			return window.Tumbling(size * ms).Grace(time.Duration(rng.IntN(30)) * ms)
		}
		first, second := pick(), pick()
		horizon := time.Duration(rng.IntN(3)*(1+rng.IntN(50))) * ms
		late := func(h time.Duration) window.Late {
			if h == 0 {
				return dropLate
			}
			return window.CorrectWithin(h).Retract().Otherwise(window.Drop())
		}
		emissions := [][]topology.AggregateOption{
			{topology.EmitOnClose()},
			{topology.EmitEarlyEvery(15 * ms), topology.Retracting()},
			{topology.EmitEarlyCount(2), topology.Retracting()},
			{topology.EmitOnCommit(), topology.Retracting()},
			{topology.Retracting()},
		}
		if horizon == 0 {
			emissions = append(emissions, []topology.AggregateOption{topology.EmitEarlyEvery(15 * ms), topology.Discarding()})
		}
		how := rng.IntN(len(emissions))
		ins := topology.Topic("in", str, i64).Watermarks(window.BoundedDisorder(20 * ms))
		outFirst := topology.Topic("first", window.KeySerde(str).For(first), i64)
		outSecond := topology.Topic("second", window.KeySerde(str).For(second), i64)
		outBoth := topology.Topic("second", window.KeySerde(window.KeySerde(str).For(first)).For(second), i64)
		build := func(behind time.Duration) (*topology.Topology, error) {
			b := topology.NewBuilder()
			w := topology.Windowed(topology.From(b, ins).GroupByKey(), first, late(horizon))
			p := topology.AggregateWith(w, "first", i64, sumOf, emissions[how]...)
			p.To(outFirst)
			switch {
			case behind < 0:
			case seed%2 == 0:
				g := topology.Windowed(topology.GroupBy(p.Stream(), "by", firstKey, str, i64), second, late(behind))
				topology.AggregateWith(g, "second", i64, sumOf, topology.EmitOnClose()).To(outSecond)
			default:
				g := topology.Windowed(p.Stream().GroupByKey(), second, late(behind))
				topology.AggregateWith(g, "second", i64, sumOf, topology.EmitOnClose()).To(outBoth)
			}
			return b.Build()
		}
		drive := func(top *topology.Topology) *topologytest.Driver {
			rng := rand.New(rand.NewPCG(seed, 4))
			d := topologytest.New(tt, top, topologytest.Manual())
			in := topologytest.Input(d, ins)
			now := int64(500)
			for range 150 {
				now += rng.Int64N(12)
				in.Pipe(at(now-rng.Int64N(120)), string(rune('a'+rng.IntN(2))), 1)
				d.Run()
				if rng.IntN(3) == 0 {
					d.Commit()
				}
			}
			d.Settle()
			d.End()
			return d
		}
		behind := horizon
		top, err := build(behind)
		for err != nil && strings.Contains(err.Error(), "would be late") && behind < time.Second {
			behind += ms
			top, err = build(behind)
		}
		if err != nil {
			tt.Fatal(err)
		}
		alone, err := build(-1)
		if err != nil {
			tt.Fatal(err)
		}
		what := fmt.Sprintf("seed %d: %v (emission %d) corrected for %v, in front of %v corrected for %v", seed, first, how, horizon, second, behind)
		front, both := drive(alone), drive(top)
		if n := both.Counts()["late-dropped"] - front.Counts()["late-dropped"]; n != 0 {
			tt.Errorf("%s: %d results were late", what, n)
		}
		corrected += int(front.Counts()["late-corrected"])
		_, hops := second.(window.Fixed)
		hops = hops && second.(window.Fixed).AdvanceMillis() < second.(window.Fixed).SizeMillis()
		if _, gaps := second.(*ownWindows); gaps || hops {
			continue // a result goes into no window, or several
		}
		want, got := int64(0), int64(0)
		if how == len(emissions)-1 && horizon == 0 {
			for _, r := range topologytest.Output(front, outFirst).All() {
				want += r.Value // each is a part
			}
		} else {
			for _, n := range topologytest.Latest(topologytest.Output(front, outFirst)) {
				want += n
			}
		}
		if seed%2 == 0 {
			for _, n := range topologytest.Latest(topologytest.Output(both, outSecond)) {
				got += n
			}
		} else {
			for _, n := range topologytest.Latest(topologytest.Output(both, outBoth)) {
				got += n
			}
		}
		if got != want {
			tt.Errorf("%s: in all %d, want %d", what, got, want)
		}
	}
	if corrected < 500 {
		tt.Errorf("%d corrections only", corrected)
	}
}
