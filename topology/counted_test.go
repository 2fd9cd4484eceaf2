package topology_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/topology/topologytest"
	"github.com/headrace/headrace/window"
)

func TestCountWindows(tt *testing.T) {
	tt.Parallel()
	threes := topology.Topic("out", window.KeySerde(str).For(window.Count(3)), str)
	sums := func(opts ...topology.AggregateOption) *script {
		return run(tt, threes, func(b *topology.Builder) {
			w := topology.Windowed(topology.From(b, s).GroupByKey(), window.Count(3), window.Drop())
			topology.Reduce(w, "c", str, func(a, v string) string { return a + v }, opts...).To(threes)
		})
	}
	sc := sums()
	sc.in("a:x@5", "a[0,3)=x@5")
	sc.in("b:x@1", "b[0,3)=x@1")
	sc.in("a:y@1", "a[0,3)=xy@5") // older, and never late
	sc.in("a:z@3", "a[0,3)=xyz@5")
	sc.in("a:w@2", "a[3,6)=w@2")

	sc = sums(topology.EmitOnClose())
	sc.in("a:x@5")
	sc.in("a:y@1")
	sc.d.Crash()
	sc.in("a:z@3", "a[0,3)=xyz@5")
	sc.in("a:null@4")
	sc.in("a:w@9")
	sc.d.End()
	sc.wants("the end", []string(nil)...) // a window that is not full stays open
	sc.counts(map[string]int64{"null-value": 1})

	sc = sums(topology.EmitEarlyCount(2), topology.Discarding())
	sc.in("a:x@5")
	sc.in("a:y@1", "a[0,3)=xy@5")
	sc.in("a:z@3", "a[0,3)=z@3")
	sc.in("a:w@2")
	sc.in("a:v@2", "a[3,6)=wv@2")
}

// Nothing is left of a window that is full, and the count goes on over a restart.
func TestCountWindowsKeepNothing(tt *testing.T) {
	tt.Parallel()
	b := topology.NewBuilder()
	w := topology.Windowed(topology.From(b, s).GroupByKey(), window.Count(2), window.Drop())
	twos := topology.Topic("out", window.KeySerde(str).For(window.Count(2)), i64)
	topology.Count(w, "c", topology.EmitEarlyCount(1)).To(twos)
	d := topologytest.New(tt, topologytest.Build(tt, b.Build))
	in, out := topologytest.Input(d, s), topologytest.Output(d, twos)
	for range 5 {
		in.Pipe(at(1), "a", "x")
		d.Crash()
	}
	var got []string
	for _, r := range out.All() {
		got = append(got, show(r))
	}
	want := []string{
		"a[0,2)=1@1", "a[0,2)=2@1", "a[0,2)=2@1", "a[2,4)=1@1", "a[2,4)=2@1", "a[2,4)=2@1", "a[4,6)=1@1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		tt.Errorf("results (-want +got):\n%s", diff)
	}
}

func TestCountWindowsMistakes(tt *testing.T) {
	tt.Parallel()
	for _, c := range []struct {
		n    int
		late window.Late
		want string
	}{
		{0, window.Drop(), "a window has from 1 to"},
		{2, window.Sideline("late"), "nothing is late for count(2)"},
		{2, window.CorrectWithin(ms).Otherwise(window.Drop()), "nothing is late for count(2)"},
		{2, window.Late{}, "no late policy"},
	} {
		b := topology.NewBuilder()
		topology.Count(topology.Windowed(topology.From(b, s).GroupByKey(), window.Count(c.n), c.late), "c")
		if _, err := b.Build(); err == nil || !strings.Contains(err.Error(), c.want) {
			tt.Errorf("%v: %v, want %q", c, err, c.want)
		}
	}
	b := topology.NewBuilder()
	per := topology.Count(topology.Windowed(topology.From(b, s).GroupByKey(), window.Tumbling(ms), window.Drop()), "c", topology.Retracting())
	topology.Count(topology.Windowed(per.Stream().GroupByKey(), window.Count(2), window.Drop()), "d")
	if _, err := b.Build(); err == nil || !strings.Contains(err.Error(), "counted as a record of count(2)") {
		tt.Error(err)
	}
}

// On commit, each window of so many records gives its last result, those that were full before the commit too, and nothing stays of them.
func TestCountWindowsOnCommit(tt *testing.T) {
	tt.Parallel()
	threes := topology.Topic("out", window.KeySerde(str).For(window.Count(3)), str)
	for _, c := range []struct {
		opts []topology.AggregateOption
		want [][]string
	}{
		{nil, [][]string{{"a[0,3)=12@1"}, {"a[0,3)=123@1", "a[3,6)=456@1", "a[6,9)=7@1"}, {"a[6,9)=78@1"}}},
		{
			[]topology.AggregateOption{topology.Retracting()},
			[][]string{{"a[0,3)=12@1"}, {"a[0,3)=12@1", "a[0,3)=123@1", "a[3,6)=456@1", "a[6,9)=7@1"}, {"a[6,9)=7@1", "a[6,9)=78@1"}},
		},
	} {
		sc := run(tt, threes, func(b *topology.Builder) {
			in := topology.From(b, s)
			w := topology.Windowed(in.GroupByKey(), window.Count(3), window.Drop())
			topology.Reduce(w, "c", str, func(a, v string) string { return a + v }, append(c.opts, topology.EmitOnCommit())...).To(threes)
			in.Peek(func(_, v string) {
				if v == "bad" {
					panic("bad")
				}
			})
		}, topologytest.Manual(), topologytest.OnError(topology.Skip()))
		for i, batch := range []string{"1 2", "bad 3 4 5 6 bad 7", "bad 8 bad"} {
			for _, v := range strings.Fields(batch) {
				sc.pipe("a:" + v + "@1")
			}
			sc.d.Run()
			sc.d.Commit()
			sc.wants(batch, c.want[i]...)
			sc.d.Crash()
		}
		view, err := state.WindowsOf("c", str, str, 0).Open(sc.d.Stores(0))
		if err != nil {
			tt.Fatal(err)
		}
		var left []int64
		for it, err := range view.All() {
			if err != nil {
				tt.Fatal(err)
			}
			left = append(left, it.Start)
		}
		if diff := cmp.Diff([]int64{6}, left); diff != "" {
			tt.Errorf("windows that stay (-want +got):\n%s", diff)
		}
	}
}
