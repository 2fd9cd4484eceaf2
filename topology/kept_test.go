package topology_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/topology/topologytest"
	"github.com/headrace/headrace/window"
)

// One result for each key and transaction, the last, in the order of the first change.
func TestEmitOnCommit(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, outStrings, func(b *topology.Builder) {
		topology.AggregateOrDelete(topology.From(b, s).GroupByKey(), "c", str, func(a, v string) (string, bool) { return a + v, v != "del" },
			topology.EmitOnCommit()).To(outStrings)
	}, topologytest.Manual())
	sc.pipe("a:x@1")
	sc.pipe("b:x@2")
	sc.pipe("a:y@3")
	sc.pipe("c:x@4")
	sc.pipe("c:del@5") // comes and goes
	sc.d.Run()
	sc.wants("a run", []string(nil)...)
	sc.d.Commit()
	sc.wants("a commit", "a:xy@3", "b:x@2")
	sc.pipe("b:del@6")
	sc.d.Run()
	sc.d.Crash() // nothing of it has gone out
	sc.d.Run()
	sc.d.Commit()
	sc.wants("the next", "b:null@6")
}

// What is rolled back does not go out, and what fails as it goes out is left out alone.
func TestEmitOnCommitAndErrors(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, outStrings, func(b *topology.Builder) {
		in := topology.From(b, s)
		st := topology.Reduce(in.GroupByKey(), "c", str, func(a, v string) string { return a + v }, topology.EmitOnCommit()).Stream()
		topology.MapValues(st, func(v string) string {
			if strings.Contains(v, "bad") {
				panic("bad")
			}
			return v
		}).To(outStrings)
		in.Peek(func(_, v string) {
			if v == "worse" {
				panic("worse")
			}
		})
	}, topologytest.Manual(), topologytest.OnError(topology.Skip()))
	sc.pipe("a:x@1")
	sc.pipe("b:worse@2")
	sc.pipe("c:bad@3")
	sc.pipe("d:y@4")
	sc.pipe("a:worse@5")
	sc.d.Run()
	sc.d.Commit()
	sc.wants("a commit", "a:x@1", "d:y@4")
	sc.counts(map[string]int64{"failed": 3})
}

// The watermark comes behind the results: none is late for the next windows, whatever closes in one transaction. Windows that are gone
// before the commit have given what they had.
func TestEmitOnCommitHoldsTheWatermark(tt *testing.T) {
	tt.Parallel()
	sum := topology.Aggregator[int64, int64]{
		Add:      func(a, v int64) int64 { return a + v },
		Subtract: func(a, v int64) int64 { return a - v },
	}
	build := func(b *topology.Builder) {
		first := topology.Count(topology.Windowed(topology.From(b, s).GroupByKey(), window.Tumbling(10*ms), window.Drop()),
			"first", topology.EmitOnCommit(), topology.Retracting())
		topology.AggregateWith(topology.Windowed(first.Stream().GroupByKey(), window.Tumbling(10*ms), window.Drop()),
			"second", i64, sum, topology.EmitOnClose()).To(topology.Topic("out", window.KeySerde(window.KeySerde(str).Size(10*ms)).Size(10*ms), i64))
	}
	results := func(commitEach int) map[string]int64 {
		b := topology.NewBuilder()
		build(b)
		d := topologytest.New(tt, topologytest.Build(tt, b.Build), topologytest.Manual())
		in := topologytest.Input(d, s)
		for i := range 200 {
			in.Pipe(at(int64(i*3)), string(rune('a'+i%2)), "x")
			d.Run()
			if i%commitEach == 0 {
				d.Commit()
			}
		}
		d.Settle()
		d.End()
		out := map[string]int64{}
		for k, n := range topologytest.Latest(topologytest.Output(d, topology.Topic("out", window.KeySerde(window.KeySerde(str).Size(10*ms)).Size(10*ms), i64))) {
			out[fmt.Sprint(k.Key.Key, k.Start)] = n
		}
		if n := d.Counts(); len(n) > 0 {
			tt.Errorf("a commit for %d records: %v", commitEach, n)
		}
		return out
	}
	want := map[string]int64{}
	for i := range 200 {
		want[fmt.Sprint(string(rune('a'+i%2)), i*3/10*10)]++
	}
	for _, n := range []int{1, 2, 7, 50, 1000} {
		if diff := cmp.Diff(want, results(n)); diff != "" {
			tt.Errorf("a commit for %d records (-want +got):\n%s", n, diff)
		}
	}
}

// What could not be given, and is left out, is not taken back by the next result; it is given up, and counted. Without retractions the
// next result has all.
func TestEmitOnCommitTakesBackWhatItGave(tt *testing.T) {
	tt.Parallel()
	for _, c := range []struct {
		opts []topology.AggregateOption
		want [][]string
	}{
		{nil, [][]string{{"a[0,1000)=x@1"}, nil, {"a[0,1000)=xbady@3"}, nil, {"b[0,1000)=badz@5"}}},
		{
			[]topology.AggregateOption{topology.Retracting()},
			[][]string{{"a[0,1000)=x@1"}, nil, {"a[0,1000)=x@1", "a[0,1000)=xy@3"}, nil, {"b[0,1000)=z@5"}},
		},
	} {
		second := topology.Topic("out", window.KeySerde(str).Size(time.Second), str)
		sc := run(tt, second, func(b *topology.Builder) {
			w := topology.Windowed(topology.From(b, s).GroupByKey(), window.Tumbling(time.Second), window.Drop())
			st := topology.Reduce(w, "c", str, func(a, v string) string { return a + v }, append(c.opts, topology.EmitOnCommit())...).Stream()
			topology.MapValues(st, func(v string) string {
				if strings.HasSuffix(v, "bad") {
					panic("bad")
				}
				return v
			}).To(second)
		}, topologytest.Manual(), topologytest.OnError(topology.Skip()))
		for i, line := range []string{"a:x@1", "a:bad@2", "a:y@3", "b:bad@4", "b:z@5"} {
			sc.pipe(line)
			sc.d.Run()
			sc.d.Commit()
			sc.wants(line, c.want[i]...)
		}
		sc.counts(map[string]int64{"failed": 2})
	}
}

// A result is late if something late is in it: a late record that was left out does not count.
func TestEmitOnCommitIsLate(tt *testing.T) {
	tt.Parallel()
	tens := topology.Topic("out", window.KeySerde(str).Size(10*ms), str)
	b := topology.NewBuilder()
	in := topology.From(b, s)
	w := topology.Windowed(in.GroupByKey(), window.Tumbling(10*ms), window.CorrectWithin(time.Second).Otherwise(window.Drop()))
	topology.Reduce(w, "c", str, func(a, v string) string { return a + v }, topology.EmitOnCommit()).To(tens)
	in.Peek(func(_, v string) {
		if v == "bad" {
			panic("bad")
		}
	})
	d := topologytest.New(tt, topologytest.Build(tt, b.Build), topologytest.Manual(), topologytest.OnError(topology.Skip()))
	src, out := topologytest.Input(d, s), topologytest.Output(d, tens)
	var got []string
	for _, batch := range []string{"x@1 y@20 bad@2", "x@3 bad@4", "y@21 y@30 bad@22 z@23"} {
		for _, r := range strings.Fields(batch) {
			r := parse("a:" + r)
			src.Pipe(at(r.at), r.key, r.value)
		}
		d.Run()
		d.Commit()
		for _, r := range out.All() {
			pane, _ := r.Header("x-pane")
			got = append(got, show(r)+" "+pane)
		}
	}
	want := []string{"a[0,10)=x@1 ", "a[20,30)=y@20 ", "a[0,10)=xx@3 late", "a[20,30)=yyz@23 late", "a[30,40)=y@30 "}
	if diff := cmp.Diff(want, got); diff != "" {
		tt.Errorf("(-want +got):\n%s", diff)
	}
}
