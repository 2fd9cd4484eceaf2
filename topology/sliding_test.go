package topology_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/topology/topologytest"
	"github.com/headrace/headrace/window"
)

func slidingOut(diff time.Duration) topology.TopicOf[window.Key[string], int64] {
	return topology.Topic("out", window.KeySerde(str).Size(diff), i64)
}

// sliding counts, and writes windows as intervals whose ends are both inclusive.
func sliding(tt *testing.T, diff, grace time.Duration, late window.Late, opts ...topology.AggregateOption) *script {
	tt.Helper()
	out := slidingOut(diff)
	sc := run(tt, out, func(b *topology.Builder) {
		def := window.Sliding(diff).Grace(grace)
		topology.Count(topology.Windowed(topology.From(b, s).GroupByKey(), def, late), "sliding", opts...).To(out)
	})
	return sc.panes(topologytest.Output(sc.d, out))
}

// panes has the script read results with the headers that tell their pane.
func (sc *script) panes(o *topologytest.Out[window.Key[string], int64]) *script {
	sc.read = func() []string {
		var lines []string
		for _, r := range o.All() {
			line := show(r)
			for _, h := range r.Headers {
				switch h.Key {
				case "x-pane":
					line += " " + string(h.Value)
				case "x-rev":
					line += " #" + string(h.Value)
				case "x-retract":
					line += " back"
				}
			}
			lines = append(lines, line)
		}
		return lines
	}
	return sc
}

// The window that ends at a record, that behind the record before it, and those that hold it, in Kafka Streams' order. C08.
func TestSliding(tt *testing.T) {
	tt.Parallel()
	out := topology.Topic("out", window.KeySerde(str).Size(5*time.Second), str)
	sc := run(tt, out, func(b *topology.Builder) {
		topology.Reduce(topology.Windowed(topology.From(b, s).GroupByKey(), window.Sliding(5*time.Second), window.Drop()), "sliding", str, concat).To(out)
	})
	sc.in("A:1@8000", "A[3000,8000)=1@8000")
	sc.in("A:2@9200", "A[8001,13001)=2@9200", "A[4200,9200)=12@9200")
	sc.in("A:3@12400", "A[8001,13001)=23@12400", "A[9201,14201)=3@12400", "A[7400,12400)=123@12400")
}

// Out of order, a record brings the window behind it into being, too. C08b.
func TestSlidingOutOfOrder(tt *testing.T) {
	tt.Parallel()
	out := topology.Topic("out", window.KeySerde(str).Size(10*ms), str)
	sc := run(tt, out, func(b *topology.Builder) {
		topology.Reduce(topology.Windowed(topology.From(b, s).GroupByKey(), window.Sliding(10*ms).Grace(50*ms), window.Drop()), "sliding", str, concat).To(out)
	})
	sc.in("a:1@100", "a[90,100)=1@100")
	sc.in("a:2@95", "a[90,100)=12@100", "a[85,95)=2@95", "a[96,106)=1@100")
}

// A window closes when end and grace lie before the watermark. C08e.
func TestSlidingGrace(tt *testing.T) {
	tt.Parallel()
	sc := sliding(tt, 10*ms, 5*ms, window.Drop())
	sc.in("A:x@100", "A[90,100)=1@100")
	sc.in("B:x@95", "B[85,95)=1@95")
	sc.in("C:x@94")
	sc.counts(map[string]int64{"late-dropped": 1})
	// It was in time for windows that may come, and is in them when they do.
	sc.in("C:x@99", "C[95,105)=1@99", "C[89,99)=2@99")
	sc.in("D:x@84") // 84 + 10 + 5 is before 100
	sc.counts(map[string]int64{"late-dropped": 2})
}

// Null values are dropped, as in Kafka Streams (C07c), and what comes within the difference of 0 is in one window that begins there (C08d).
func TestSlidingAtTheBeginningOfTime(tt *testing.T) {
	tt.Parallel()
	sc := sliding(tt, 10*ms, 50*ms, window.Drop())
	sc.in("a:null@3")
	sc.in("a:x@3", "a[0,10)=1@3")
	sc.in("a:x@0", "a[0,10)=2@3", "a[1,11)=1@3")
	sc.in("a:x@7", "a[1,11)=2@7", "a[0,10)=3@7", "a[4,14)=1@7")
	sc.counts(map[string]int64{"null-value": 1})
}

// Results on closing: once, of every window, however far time jumps. Kafka Streams gives none of these with a gap behind them.
func TestSlidingEmitOnClose(tt *testing.T) {
	tt.Parallel()
	sc := sliding(tt, 10*ms, 0, window.Drop(), topology.EmitFinal())
	sc.in("a:x@100")
	sc.in("a:x@105", "a[90,100)=1@100")
	sc.in("b:x@106", "a[95,105)=2@105")
	sc.in("a:x@108", "b[96,106)=1@106") // in [98,108], which has what has closed, and in [101,111] and [106,116]
	sc.in("b:x@1000000", "a[98,108)=3@108", "a[101,111)=2@108", "a[106,116)=1@108")
	sc.counts(map[string]int64{})
}

func TestSlidingCorrections(tt *testing.T) {
	tt.Parallel()
	for _, retract := range []bool{false, true} {
		late := window.CorrectWithin(50 * ms).Otherwise(window.Drop())
		if retract {
			late = window.CorrectWithin(50 * ms).Retract().Otherwise(window.Drop())
		}
		sc := sliding(tt, 10*ms, 0, late, topology.EmitOnClose())
		sc.in("a:x@100")
		sc.in("z:x@120", "a[90,100)=1@100")
		want := []string{"a[90,100)=2@100 late #1", "a[85,95)=1@95 late", "a[96,106)=1@100 late"}
		if retract {
			want = append([]string{"a[90,100)=1@100 back"}, want...)
		}
		sc.in("a:x@95", want...)
		sc.in("z:x@156", "z[110,120)=1@120")
		want = []string{"a[96,106)=2@106 late #1", "a[101,111)=1@106 late"}
		if retract {
			want = append([]string{"a[96,106)=1@100 late back"}, want...)
		}
		sc.in("a:x@106", want...)
		sc.counts(map[string]int64{"late-corrected": 5})
	}
}

// TestSlidingEqualsBatch: the last result of each window is that of a batch over the definition: see the test of its arithmetic.
func TestSlidingEqualsBatch(tt *testing.T) {
	tt.Parallel()
	const diff, grace = 8, 4
	for name, c := range map[string]struct {
		late    window.Late
		horizon int64
		once    bool
		opts    []topology.AggregateOption
	}{
		"on update":   {window.Drop(), 0, false, nil},
		"on close":    {window.Drop(), 0, true, []topology.AggregateOption{topology.EmitOnClose()}},
		"early":       {window.Drop(), 0, false, []topology.AggregateOption{topology.EmitEarlyCount(2)}},
		"early every": {window.Drop(), 0, false, []topology.AggregateOption{topology.EmitEarlyEvery(3 * ms), topology.Retracting()}},
		"corrected":   {window.CorrectWithin(20 * ms).Otherwise(window.Drop()), 20, false, []topology.AggregateOption{topology.EmitOnClose()}},
		"taken back":  {window.CorrectWithin(20 * ms).Retract().Otherwise(window.Drop()), 20, false, []topology.AggregateOption{topology.EmitOnClose()}},
	} {
		tt.Run(name, func(tt *testing.T) {
			tt.Parallel()
			for seed := range uint64(60) {
				r := rand.New(rand.NewPCG(seed, 7))
				sc := sliding(tt, diff*ms, grace*ms, c.late, c.opts...)
				o := topologytest.Output(sc.d, slidingOut(diff*ms))
				type rec struct {
					key   string
					at, w int64
				}
				var in []rec
				now, most := int64(r.IntN(2)*100), window.Unknown
				for range 50 {
					now += r.Int64N(5)
					v := rec{string(rune('a' + r.IntN(2))), max(0, now-r.Int64N(1+r.Int64N(40))), most}
					most = max(most, v.at)
					in = append(in, v)
					sc.pipe(fmt.Sprintf("%s:x@%d", v.key, v.at))
				}
				sc.pipe("z:x@10000")
				sc.pipe("z:x@10100")
				got, sums, results := map[string]int64{}, map[string]int64{}, map[string]int{}
				for _, rec := range o.All() {
					k := fmt.Sprintf("%s[%d,%d]", rec.Key.Key, rec.Key.Start, rec.Key.End)
					if rec.Key.Key == "z" {
						continue
					}
					if slices.ContainsFunc(rec.Headers, func(h topology.Header) bool { return h.Key == "x-retract" }) {
						sums[k] -= rec.Value
						continue
					}
					got[k], sums[k] = rec.Value, sums[k]+rec.Value
					if results[k]++; c.once && results[k] > 1 {
						tt.Fatalf("seed %d: %s has a second result", seed, k)
					}
				}
				lives := window.Sliding(diff * ms).Grace((grace + time.Duration(c.horizon)) * ms)
				want := map[string]int64{}
				for _, of := range in {
					if lives.Late(of.at, of.w) {
						continue
					}
					for _, start := range []int64{lives.Start(of.at), of.at + 1} {
						n, ends := int64(0), false
						for _, v := range in {
							if v.key == of.key && v.at >= start && v.at <= start+diff && !lives.Closed(start, v.w) {
								n++
								ends = ends || lives.Start(v.at) == start
							}
						}
						if n > 0 && (ends || start == of.at+1) {
							want[fmt.Sprintf("%s[%d,%d]", of.key, start, start+diff)] = n
						}
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					tt.Fatalf("seed %d: %v: last results (-batch +got):\n%s", seed, in, diff)
				}
				if name == "early every" || name == "taken back" {
					if diff := cmp.Diff(want, sums); diff != "" {
						tt.Fatalf("seed %d: %v: sums (-batch +got):\n%s", seed, in, diff)
					}
				}
			}
		})
	}
}

func TestSlidingBuildErrors(tt *testing.T) {
	tt.Parallel()
	five := window.Sliding(5 * ms)
	for name, c := range map[string]struct {
		build func(in topology.Stream[string, string])
		says  string
	}{
		"deleting": {func(in topology.Stream[string, string]) {
			topology.AggregateOrDelete(topology.Windowed(in.GroupByKey(), five, window.Drop()), "c", str, func(a, v string) (string, bool) { return a + v, true })
		}, "none of those can be deleted"},
		"discarding": {func(in topology.Stream[string, string]) {
			topology.Count(topology.Windowed(in.GroupByKey(), five, window.Drop()), "c", topology.EmitEarlyCount(2), topology.Discarding())
		}, "Discarding: sliding(5ms)"},
		"no difference": {func(in topology.Stream[string, string]) {
			topology.Count(topology.Windowed(in.GroupByKey(), window.Sliding(0), window.Drop()), "c")
		}, "difference is 0s"},
		"behind retractions": {func(in topology.Stream[string, string]) {
			first := topology.Count(topology.Windowed(in.GroupByKey(), window.Tumbling(ms), window.CorrectWithin(ms).Retract().Otherwise(window.Drop())), "first")
			topology.Count(topology.Windowed(first.Stream().GroupByKey(), five, window.CorrectWithin(ms).Otherwise(window.Drop())), "c")
		}, "cannot go again"},
	} {
		tt.Run(name, func(tt *testing.T) {
			tt.Parallel()
			b := topology.NewBuilder()
			c.build(topology.From(b, s))
			_, err := b.Build()
			if err == nil || !strings.Contains(err.Error(), c.says) {
				tt.Errorf("Build: %v, want an error that says %q", err, c.says)
			}
		})
	}
}
