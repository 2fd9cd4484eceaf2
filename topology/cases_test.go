package topology_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/topology/topologytest"
	"github.com/headrace/headrace/window"
)

// Small cases of other systems' own tests. Where we differ the test says so.
//
// A value "W=10" is no record of theirs: it moves the watermark to 10, and is filtered out. Flink's watermark is inclusive: its 9 is our 10.
var byMarks = s.Punctuated(func(r topology.Record[string, string]) (time.Time, bool) {
	w, ok := strings.CutPrefix(r.Value, "W=")
	if !ok {
		return time.Time{}, false
	}
	return at(number(w)), true
})

func fromTold(b *topology.Builder) topology.Stream[string, string] {
	return topology.From(b, byMarks).Filter(func(_, v string) bool { return !strings.HasPrefix(v, "W=") })
}

// The output as lines, with the pane's headers behind.
func panesOf(sc *script, out *topologytest.Out[window.Key[string], string]) {
	sc.read = func() []string {
		var lines []string
		for _, r := range out.All() {
			line := show(r)
			for _, h := range r.Headers {
				line += fmt.Sprintf(" %s", h.Value)
			}
			lines = append(lines, line)
		}
		return lines
	}
}

// Kafka Streams counts null values in windows of time. Here a null value is dropped and counted, as before everything keyed.
func TestNullValuesInWindows(tt *testing.T) {
	tt.Parallel()
	sc := runWindows(tt, window.Tumbling(10*ms))
	sc.in("a:null@0")
	sc.in("a:x@1", "a[0,10)=1@1")
	sc.in("null:x@2")
	sc.counts(map[string]int64{"null-value": 1, "null-key": 1})
}

// suppress(untilWindowCloses) of Kafka Streams.
func TestEmitFinal(tt *testing.T) {
	tt.Parallel()
	sc := runWindows(tt, window.Tumbling(10*ms).Grace(2*ms), topology.EmitFinal())
	sc.in("a:x@0")
	sc.in("a:x@9")
	sc.in("b:x@11")
	sc.in("b:x@12", "a[0,10)=2@9")
	sc.in("a:x@5")
	sc.counts(map[string]int64{"late-dropped": 1})
}

// ksqlDB, tumbling windows: the largest value, with a grace of two windows.
func TestLargestValueWithGrace(tt *testing.T) {
	tt.Parallel()
	out := topology.Topic("out", window.KeySerde(str).Size(30*time.Second), i64)
	sc := run(tt, out, func(b *topology.Builder) {
		w := topology.Windowed(topology.From(b, s).GroupByKey(), window.Tumbling(30*time.Second).Grace(time.Minute), window.Drop())
		topology.Aggregate(w, "max", i64, func(a int64, v string) int64 { return max(a, number(v)) }).To(out)
	})
	sc.in("k:0@0", "k[0,30000)=0@0")
	sc.in("k:1@89999", "k[60000,90000)=1@89999")
	sc.in("k:5@10009", "k[0,30000)=5@10009")
	sc.in("k:0@90000", "k[90000,120000)=0@90000")
	sc.in("k:6@10010")
	sc.counts(map[string]int64{"late-dropped": 1})
}

// ksqlDB, hopping windows.
func TestHoppingOpensOneForEachAdvance(tt *testing.T) {
	tt.Parallel()
	sc := runWindows(tt, window.Hopping(5*time.Second, time.Second))
	sc.in("k:x@10345", "k[6000,11000)=1@10345", "k[7000,12000)=1@10345", "k[8000,13000)=1@10345", "k[9000,14000)=1@10345", "k[10000,15000)=1@10345")
	sc.in("k:x@13251", "k[9000,14000)=2@13251", "k[10000,15000)=2@13251", "k[11000,16000)=1@13251", "k[12000,17000)=1@13251", "k[13000,18000)=1@13251")
}

// Flink, WindowOperatorTest.testSideOutputDueToLatenessTumbling. Its results have the time of the window's last millisecond, ours that of
// the last record in it.
func TestLateRecordsAsideTumbling(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, outWindows(2*time.Second), func(b *topology.Builder) {
		w := topology.Windowed(fromTold(b).GroupByKey(), window.Tumbling(2*time.Second), window.Sideline("aside"))
		topology.Count(w, "count", topology.EmitOnClose()).To(outWindows(2 * time.Second))
	})
	aside := topologytest.Output(sc.d, topology.Topic("aside", str, str))
	sc.in("k:x@1000")
	sc.in("k:W=1986@0")
	sc.in("k:x@1980")
	sc.in("k:W=2000@0", "k[0,2000)=2@1980")
	sc.in("k:late@1998")
	sc.in("k:x@2001")
	sc.in("k:W=3000@0")
	sc.in("k:W=4000@0", "k[2000,4000)=1@2001")
	if r := aside.Read(); r.Value != "late" || !aside.Empty() {
		tt.Errorf("set aside: %v, and then %v", r, aside.All())
	}
}

// Flink, WindowOperatorTest.testSideOutputDueToLatenessSliding. Flink has a window from −1000 on; here none begins before 1970. And Flink sets
// a record aside if no window takes it, we do if one misses it, and say so in x-late-partial.
func TestLateRecordsAsideHopping(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, outWindows(3*time.Second), func(b *topology.Builder) {
		w := topology.Windowed(fromTold(b).GroupByKey(), window.Hopping(3*time.Second, time.Second), window.Sideline("aside"))
		topology.Count(w, "count", topology.EmitOnClose()).To(outWindows(3 * time.Second))
	})
	aside := topologytest.Output(sc.d, topology.Topic("aside", str, str))
	for _, line := range []string{"2:x@1000", "2:W=2000@0", "2:x@2000"} {
		sc.in(line)
	}
	sc.in("2:W=3001@0", "2[0,3000)=2@2000")
	for _, line := range []string{"1:x@3001", "2:x@2400", "2:x@2400", "1:x@3001", "2:x@3900"} {
		sc.in(line)
	}
	sc.in("2:W=6001@0", "1[1000,4000)=2@3001", "2[1000,4000)=5@3900", "1[2000,5000)=2@3001", "2[2000,5000)=4@3900", "1[3000,6000)=2@3001", "2[3000,6000)=1@3900")
	sc.in("1:x@3001")
	var got []string
	for _, r := range aside.All() {
		partial, _ := r.Header("x-late-partial")
		got = append(got, fmt.Sprint(r.Key, "@", r.Time.UnixMilli(), " ", partial))
	}
	if diff := cmp.Diff([]string{"2@2400 true", "2@2400 true", "1@3001 false"}, got); diff != "" {
		tt.Errorf("set aside (-want +got):\n%s", diff)
	}
}

// Flink, WindowOperatorTest: nothing wraps around at the end of time, neither end plus grace nor that plus the horizon.
func TestTheEndOfTime(tt *testing.T) {
	tt.Parallel()
	const last = math.MaxInt64
	longest := time.Duration(math.MaxInt64).Truncate(time.Millisecond)
	for _, w := range []window.Windows{window.Tumbling(time.Second), window.Tumbling(time.Second).Grace(longest), forEver{}} {
		for _, late := range []window.Late{window.Drop(), window.CorrectWithin(longest).Otherwise(window.Drop())} {
			out := topology.Topic("out", window.KeySerde(str).For(w), str)
			sc := run(tt, out, func(b *topology.Builder) {
				topology.Reduce(topology.Windowed(fromTold(b).GroupByKey(), w, late), "all", str, func(a, v string) string { return a + v }, topology.EmitOnClose()).To(out)
			})
			sc.in(fmt.Sprint("k:x@", int64(last-1750)))
			sc.in(fmt.Sprint("k:W=", int64(last-1500), "@0"))
			var want []string
			if w == window.Tumbling(time.Second) {
				start := int64(last-1750) / 1000 * 1000
				want = []string{fmt.Sprintf("k[%d,%d)=x@%d", start, start+1000, int64(last-1750))}
			}
			sc.in(fmt.Sprint("k:W=", int64(last-800), "@0"), want...)
			early := fmt.Sprint("k:y@", int64(last-1750))
			switch {
			case want == nil: // it is open
				sc.in(early)
				sc.counts(map[string]int64{})
			case late.Corrects():
				sc.in(early, strings.Replace(want[0], "=x", "=xy", 1))
				sc.counts(map[string]int64{"late-corrected": 1})
			default:
				sc.in(early)
				sc.counts(map[string]int64{"late-dropped": 1})
			}
		}
	}
}

// forEver are windows that are never closed, as their grace has no end.
type forEver struct{}

func (forEver) First(t int64) int64    { return t / 1000 * 1000 }
func (forEver) Next(start int64) int64 { return start + 1000 } // wraps around at the end, and says so that there is none
func (forEver) End(start int64) int64  { return max(start, start+1000) }
func (forEver) GraceMillis() int64     { return math.MaxInt64 }
func (forEver) Validate() error        { return nil }
func (forEver) String() string         { return "for ever" }

// Beam, "fixed_drop_late": early after three, corrections one by one, accumulating. A correction has a revision here.
func TestEarlyAndLatePanes(tt *testing.T) {
	tt.Parallel()
	out := topology.Topic("out", window.KeySerde(str).Size(10*ms), str)
	sc := run(tt, out, func(b *topology.Builder) {
		w := topology.Windowed(fromTold(b).GroupByKey(), window.Tumbling(10*ms), window.CorrectWithin(20*ms).Otherwise(window.Drop()))
		topology.Reduce(w, "all", str, func(a, v string) string { return a + " " + v }, topology.EmitEarlyCount(3)).To(out)
	})
	panesOf(sc, topologytest.Output(sc.d, out))
	for _, n := range []int{1, 2, 10, 11, 80, 81} {
		sc.in(fmt.Sprintf("k:%d@%d", n, n))
	}
	sc.in("k:W=100@0", "k[0,10)=1 2@2", "k[10,20)=10 11@11", "k[80,90)=80 81@81")
	for _, n := range []int{7, 8, 17, 18} {
		sc.in(fmt.Sprintf("k:%d@%d", n, n))
	}
	sc.in("k:82@82", "k[80,90)=80 81 82@82 late 1")
	sc.counts(map[string]int64{"late-dropped": 4, "late-corrected": 1})
}
