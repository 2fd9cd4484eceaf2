package topology_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/topology/topologytest"
	"github.com/headrace/headrace/window"
)

// A record is late by what its own input made of time, though the windows wait for another; and never after they have closed.
func TestLateByChannel(tt *testing.T) {
	tt.Parallel()
	for _, c := range []struct {
		late window.Late
		want []string
		drop int64
	}{
		{window.Drop(), []string{"a[0,10)=2@5"}, 0},
		{window.Drop().LateBy(window.Channel), []string{"a[0,10)=1@1"}, 1},
		{window.CorrectWithin(15 * ms).Otherwise(window.Drop().LateBy(window.Channel)), []string{"a[0,10)=2@5"}, 0},
		{window.CorrectWithin(5 * ms).Otherwise(window.Drop().LateBy(window.Channel)), []string{"a[0,10)=1@1"}, 1},
	} {
		sc := run(tt, outWindows(10*ms), func(b *topology.Builder) {
			both := topology.From(b, s).Merge(topology.From(b, t))
			topology.Count(topology.Windowed(both.GroupByKey(), window.Tumbling(10*ms), c.late), "c", topology.EmitOnClose()).To(outWindows(10 * ms))
		})
		sc.in("t a:x@1")
		sc.in("s a:x@20") // its own W is 20, the windows' is 1
		sc.in("s a:x@5")  // closed for its own, open for the windows
		sc.in("t a:x@12", c.want...)
		if got := sc.d.Counts()["late-dropped"]; got != c.drop {
			tt.Errorf("%v: %d dropped, want %d", c.late, got, c.drop)
		}
	}
}

// Whatever the order in which two partitions are read, the same records are late.
func TestLateByChannelIsTheSameInEveryOrder(tt *testing.T) {
	tt.Parallel()
	first := []string{"s a:x@0", "s a:x@25", "s a:x@9", "s a:x@16", "s a:x@31", "s a:x@22"}
	second := []string{"t b:x@0", "t b:x@8", "t b:x@11", "t b:x@4", "t b:x@30", "t b:x@29"}
	result := func(order []string) map[window.Key[string]]int64 {
		b := topology.NewBuilder()
		both := topology.From(b, s).Merge(topology.From(b, t))
		topology.Count(topology.Windowed(both.GroupByKey(), window.Tumbling(10*ms), window.Drop().LateBy(window.Channel)), "c", topology.EmitOnClose()).To(outWindows(10 * ms))
		sc := &script{tb: tt, d: topologytest.New(tt, topologytest.Build(tt, b.Build)), ins: map[string]*topologytest.In[string, string]{}}
		for _, line := range order {
			sc.pipe(line)
		}
		sc.d.End()
		return topologytest.Latest(topologytest.Output(sc.d, outWindows(10*ms)))
	}
	want := result(append(append([]string{}, first...), second...))
	// 9 and 16 come behind 25, 4 behind 11, 22 behind 31: late. 29 comes behind 30.
	if diff := cmp.Diff(map[window.Key[string]]int64{
		{Key: "a", Start: 0, End: 10}: 1, {Key: "a", Start: 20, End: 30}: 1, {Key: "a", Start: 30, End: 40}: 1,
		{Key: "b", Start: 0, End: 10}: 2, {Key: "b", Start: 10, End: 20}: 1, {Key: "b", Start: 30, End: 40}: 1,
	}, want); diff != "" {
		tt.Errorf("one behind the other (-want +got):\n%s", diff)
	}
	for _, order := range [][]string{append(append([]string{}, second...), first...), interleave(first, second), interleave(second, first)} {
		if diff := cmp.Diff(want, result(order)); diff != "" {
			tt.Errorf("%v (-want +got):\n%s", order, diff)
		}
	}
}

func interleave(a, b []string) (out []string) {
	for i := range a {
		out = append(out, a[i], b[i])
	}
	return out
}

func TestLateByChannelBehindARepartitionTopic(tt *testing.T) {
	tt.Parallel()
	b := topology.NewBuilder()
	g := topology.GroupBy(topology.From(b, s), "g", func(_, v string) string { return v }, str, str).Stream().Filter(func(_, _ string) bool { return true })
	topology.Count(topology.Windowed(g.GroupByKey(), window.Tumbling(time.Minute), window.Drop().LateBy(window.Channel)), "c")
	if _, err := b.Build(); err == nil || !strings.Contains(err.Error(), `repartition topic "g"`) {
		tt.Error(err)
	}
}
