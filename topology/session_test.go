package topology_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/topology/topologytest"
	"github.com/headrace/headrace/window"
)

var (
	sessionCounts = topology.Topic("out", window.SessionKeySerde(str), i64)
	sessionTexts  = topology.Topic("out", window.SessionKeySerde(str), str)
)

func sessions(def window.Definition, late window.Late, opts ...topology.AggregateOption) func(*topology.Builder) {
	return func(b *topology.Builder) {
		topology.Count(topology.Windowed(topology.From(b, s).GroupByKey(), def, late), "sessions", opts...).To(sessionCounts)
	}
}

func concat(a, v string) string { return a + v }

// A gap that is reached exactly still joins, and the end is the last timestamp. C09.
func TestSessionGapIsInclusive(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, sessionCounts, sessions(window.Session(5*ms), window.Drop()))
	sc.in("a:x@0", "a[0,0)=1@0")
	sc.in("a:x@5", "a[0,0)=null@0", "a[0,5)=2@5")
	sc.in("a:x@11", "a[11,11)=1@11")
}

// A record that lies between two sessions makes one of them. C10.
func TestSessionBridge(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, sessionTexts, func(b *topology.Builder) {
		topology.Reduce(topology.Windowed(topology.From(b, s).GroupByKey(), window.Session(5*ms), window.Drop()), "sessions", str, concat).To(sessionTexts)
	})
	sc.in("a:p@0", "a[0,0)=p@0")
	sc.in("a:q@10", "a[10,10)=q@10")
	sc.in("a:r@5", "a[0,0)=null@0", "a[10,10)=null@10", "a[0,10)=pqr@10")
	sc.in("a:s@7", "a[0,10)=null@10", "a[0,10)=pqrs@10")
}

// A session of one moment keeps its key, and needs no null; one that a record lies in gets it all the same. C11, C10.
func TestSessionOfOneMoment(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, sessionCounts, sessions(window.Session(5*ms), window.Drop()))
	sc.in("a:x@0", "a[0,0)=1@0")
	sc.in("a:x@0", "a[0,0)=2@0")
	sc.in("a:x@2", "a[0,0)=null@0", "a[0,2)=3@2")
	sc.in("a:x@1", "a[0,2)=null@2", "a[0,2)=4@2")
}

// Late is what lies more than gap and grace before the watermark. C12: there the second of two is lost since Kafka Streams has forgotten the
// session that it could join; here because it is late.
func TestSessionGrace(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, sessionCounts, sessions(window.Session(5*ms).Grace(3*ms), window.Drop()))
	sc.in("a:z@20", "a[20,20)=1@20")
	sc.in("a:a@12", "a[12,12)=1@12")
	sc.in("a:b@11")
	sc.in("a:a@9")
	sc.counts(map[string]int64{"late-dropped": 2})
	// A session is there as long as anything may join it, whatever others do: Kafka Streams' default retention hides this one.
	sc.in("b:x@25", "b[25,25)=1@25")
	sc.in("a:c@17", "a[12,12)=null@12", "a[20,20)=null@20", "a[12,20)=3@20")
}

// A session closes when the first record comes by which nothing can join it any more: at W > last + twice the gap. C27b, where Kafka Streams
// closes one gap earlier.
func TestSessionEmitOnClose(tt *testing.T) {
	tt.Parallel()
	for _, emit := range []topology.AggregateOption{topology.EmitOnClose(), topology.EmitFinal()} {
		sc := run(tt, sessionCounts, sessions(window.Session(5*ms), window.Drop(), emit))
		sc.in("a:x@0")
		sc.in("a:x@3")
		sc.in("b:x@8")
		sc.in("b:x@9")
		sc.in("b:x@13")
		sc.in("b:x@14", "a[0,3)=2@3")
		sc.in("a:x@9")
		sc.in("z:x@100", "a[9,9)=1@9", "b[8,14)=4@14")
	}
}

// What is final stays so. C66: with suppress Kafka Streams gives [20,20] as final, and then [20,25].
func TestSessionsAreFinal(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, sessionCounts, sessions(window.Session(5*ms), window.Drop(), topology.EmitFinal()))
	sc.in("a:x@20")
	sc.in("b:x@25")
	sc.in("a:x@25")
	sc.in("z:x@100", "a[20,25)=2@25", "b[25,25)=1@25")
}

// ksql's "session start stream": each update of a growing session takes back the one before it.
func TestSessionGrows(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, sessionCounts, sessions(window.Session(5*time.Second), window.Drop()))
	sc.in("k:x@0", "k[0,0)=1@0")
	sc.in("k:x@1000", "k[0,0)=null@0", "k[0,1000)=2@1000")
	sc.in("k:x@2000", "k[0,1000)=null@1000", "k[0,2000)=3@2000")
	sc.in("k:x@70000", "k[70000,70000)=1@70000")
}

// The record as it was read is set aside, with what it missed: the session that it would have made, with its gap.
func TestSessionSideline(tt *testing.T) {
	tt.Parallel()
	b := topology.NewBuilder()
	sessions(window.Session(5*ms).Grace(3*ms), window.Sideline("late"))(b)
	d := topologytest.New(tt, topologytest.Build(tt, b.Build))
	in, late := topologytest.Input(d, s), topologytest.Output(d, topology.Topic("late", str, str))
	in.Pipe(at(100), "a", "x")
	in.Pipe(at(80), "a", "y")
	got := late.All()
	if len(got) != 1 || got[0].Key != "a" || got[0].Value != "y" || got[0].Time.UnixMilli() != 80 {
		tt.Fatalf("set aside: %+v", got)
	}
	headers := map[string]string{}
	for _, h := range got[0].Headers {
		headers[h.Key] = string(h.Value)
	}
	for k, want := range map[string]string{
		"x-late-reason": "window-closed", "x-late-operator": "sessions", "x-late-watermark": "100", "x-late-partial": "false",
		"x-late-window-start": "80", "x-late-window-end": "85", "x-late-by-ms": "12", "x-event-time": "80",
	} {
		if headers[k] != want {
			tt.Errorf("header %s is %q, want %q", k, headers[k], want)
		}
	}
}

// paned writes sessions with the headers that tell their pane.
func paned(tt *testing.T, def window.Definition, late window.Late, opts ...topology.AggregateOption) *script {
	tt.Helper()
	sc := run(tt, sessionCounts, sessions(def, late, opts...))
	return sc.panes(topologytest.Output(sc.d, sessionCounts))
}

// A correction that changes the bounds of what has closed takes back each result that it absorbs, and then gives the one of all.
func TestSessionCorrections(tt *testing.T) {
	tt.Parallel()
	within := window.CorrectWithin(50 * ms)
	sc := paned(tt, window.Session(5*ms), within.Otherwise(window.Drop()), topology.EmitOnClose())
	sc.in("a:x@0")
	sc.in("a:x@10")
	sc.in("z:x@30", "a[0,0)=1@0", "a[10,10)=1@10")
	sc.in("a:x@5", "a[0,0)=null@0 late #1", "a[10,10)=null@10 late #1", "a[0,10)=3@10 late #1")
	sc.in("a:x@7", "a[0,10)=4@10 late #2")
	sc.in("a:x@24")                                                    // open, and joins nothing
	sc.in("a:x@14", "a[0,10)=null@10 late #3", "a[0,14)=5@14 late #3") // closed, since 14 + 10 < 30
	sc.in("a:x@19", "a[0,14)=null@14 late #4", "a[0,24)=7@24 late #4") // joins what is open: it goes on being corrected
	sc.in("a:x@24", "a[0,24)=8@24 late #5")
	sc.in("z:x@60", "z[30,30)=1@30")      // a[0,24) has had its result
	sc.in("b:x@40", "b[40,40)=1@40 late") // a first result, late
	sc.in("a:x@4")                        // 4 + 5 + 50 is before 60
	sc.counts(map[string]int64{"late-corrected": 5, "late-dropped": 1})
}

func TestSessionRetractions(tt *testing.T) {
	tt.Parallel()
	within := window.CorrectWithin(50 * ms)
	sc := paned(tt, window.Session(5*ms), within.Retract().Otherwise(window.Drop()), topology.EmitOnClose())
	sc.in("a:x@0")
	sc.in("a:x@10")
	sc.in("z:x@30", "a[0,0)=1@0", "a[10,10)=1@10")
	sc.in("a:x@5", "a[0,0)=1@0 back", "a[10,10)=1@10 back", "a[0,10)=3@10 late #1")
	sc.in("a:x@7", "a[0,10)=3@10 late #1 back", "a[0,10)=4@10 late #2")
}

// Updates of a session under Retracting: what is replaced is taken back, whether or not its bounds have changed.
func TestSessionUpdatesRetract(tt *testing.T) {
	tt.Parallel()
	sc := paned(tt, window.Session(5*ms), window.Drop(), topology.Retracting())
	sc.in("a:x@0", "a[0,0)=1@0")
	sc.in("a:x@0", "a[0,0)=1@0 back", "a[0,0)=2@0")
	sc.in("a:x@4", "a[0,0)=2@0 back", "a[0,4)=3@4")
}

// Beam's "early_late_sessions" with our corrections at once, and our end, the last timestamp: an early result is taken back when the next
// one goes out under another key, so there is one all the time.
func TestSessionEarlyAndLate(tt *testing.T) {
	tt.Parallel()
	sc := paned(tt, window.Session(9*ms), window.CorrectWithin(time.Second).Otherwise(window.Drop()), topology.EmitEarlyCount(2))
	sc.in("a:x@1")
	sc.in("a:x@2", "a[1,2)=2@2 early")
	sc.in("a:x@3")
	sc.in("a:x@4", "a[1,2)=null@2 early #1", "a[1,4)=4@4 early #1")
	sc.in("a:x@5")
	sc.in("a:x@6", "a[1,4)=null@4 early #2", "a[1,6)=6@6 early #2")
	sc.in("z:x@100", "a[1,6)=6@6 #3")
	sc.in("a:x@1", "a[1,6)=7@6 late #4")
	sc.in("a:x@3", "a[1,6)=8@6 late #5")
	sc.in("a:x@4", "a[1,6)=9@6 late #6")
}

func TestSessionEarlyEvery(tt *testing.T) {
	tt.Parallel()
	sc := paned(tt, window.Session(9*ms), window.Drop(), topology.EmitEarlyEvery(10*ms))
	sc.in("a:x@1")
	sc.in("a:x@8")
	sc.in("a:x@12", "a[1,12)=3@12 early")
	sc.in("b:x@19")
	sc.in("b:x@20", "b[19,20)=2@20 early") // that of a has not changed
	sc.in("b:x@29")
	sc.in("b:x@31", "a[1,12)=3@12 #1", "b[19,20)=null@20 early #1", "b[19,31)=4@31 early #1")
}

// Each record has a gap, in milliseconds, and reaches that far. The end is the last timestamp all the same.
func TestSessionGapOfEachRecord(tt *testing.T) {
	tt.Parallel()
	def := window.SessionBy(func(v string) time.Duration { return time.Duration(number(v)) * ms }, 20*ms)
	sc := run(tt, sessionCounts, sessions(def, window.Drop()), topologytest.OnError(topology.Skip()))
	sc.in("a:2@0", "a[0,0)=1@0")
	sc.in("a:20@3", "a[3,3)=1@3")
	sc.in("a:0@23", "a[3,3)=null@3", "a[3,23)=2@23")
	sc.in("a:0@24", "a[24,24)=1@24")
	sc.in("a:1@4", "a[3,23)=null@23", "a[3,23)=3@23")
	sc.in("a:1@23", "a[3,23)=null@23", "a[24,24)=null@24", "a[3,24)=5@24")
	sc.in("a:21@23")
	sc.in("a:-1@23")
	sc.counts(map[string]int64{"failed": 2})

	sc = run(tt, sessionCounts, sessions(def, window.Drop(), topology.EmitOnClose()))
	sc.in("a:2@0")
	sc.in("a:20@3") // reaches to 23, and closes behind 43
	sc.in("z:0@22")
	sc.in("z:0@23", "a[0,0)=1@0")
	sc.in("z:0@43", "z[22,22)=1@22")
	sc.in("z:0@44", "a[3,3)=1@3", "z[23,23)=1@23")
}

func TestSessionBuildErrors(tt *testing.T) {
	tt.Parallel()
	five := window.Session(5 * ms)
	for name, c := range map[string]struct {
		build func(b *topology.Builder, in topology.Stream[string, string])
		says  string
	}{
		"no merge": {func(_ *topology.Builder, in topology.Stream[string, string]) {
			topology.Aggregate(topology.Windowed(in.GroupByKey(), five, window.Drop()), "c", str, concat)
		}, "cannot merge"},
		"discarding": {func(_ *topology.Builder, in topology.Stream[string, string]) {
			topology.Count(topology.Windowed(in.GroupByKey(), five, window.Drop()), "c", topology.EmitEarlyCount(2), topology.Discarding())
		}, "Discarding: session(5ms)"},
		"on commit": {func(_ *topology.Builder, in topology.Stream[string, string]) {
			topology.Count(topology.Windowed(in.GroupByKey(), five, window.Drop()), "c", topology.EmitOnCommit())
		}, "EmitOnCommit: session(5ms)"},
		"final and corrected": {func(_ *topology.Builder, in topology.Stream[string, string]) {
			topology.Count(topology.Windowed(in.GroupByKey(), five, window.CorrectWithin(ms).Otherwise(window.Drop())), "c", topology.EmitFinal())
		}, "EmitFinal"},
		"gap of another type": {func(_ *topology.Builder, in topology.Stream[string, string]) {
			topology.Count(topology.Windowed(in.GroupByKey(), window.SessionBy(func(int) time.Duration { return 0 }, ms), window.Drop()), "c")
		}, "which is not what the group has for values"},
		"no gap": {func(_ *topology.Builder, in topology.Stream[string, string]) {
			topology.Count(topology.Windowed(in.GroupByKey(), window.Session(0), window.Drop()), "c")
		}, "gap is 0s"},
		"behind retractions": {func(_ *topology.Builder, in topology.Stream[string, string]) {
			first := topology.Count(topology.Windowed(in.GroupByKey(), window.Tumbling(ms), window.CorrectWithin(ms).Retract().Otherwise(window.Drop())), "first")
			topology.Count(topology.Windowed(first.Stream().GroupByKey(), five, window.CorrectWithin(ms).Otherwise(window.Drop())), "c")
		}, "cannot be taken apart again"},
		"windowed twice": {func(_ *topology.Builder, in topology.Stream[string, string]) {
			topology.Count(topology.Windowed(topology.Windowed(in.GroupByKey(), five, window.Drop()), five, window.Drop()), "c")
		}, "windowed already"},
	} {
		tt.Run(name, func(tt *testing.T) {
			tt.Parallel()
			b := topology.NewBuilder()
			c.build(b, topology.From(b, s))
			_, err := b.Build()
			if err == nil || !strings.Contains(err.Error(), c.says) {
				tt.Errorf("Build: %v, want an error that says %q", err, c.says)
			}
		})
	}
}

// visitor is a record of the model: B is 0, so it is late by the largest timestamp before it.
type visitor struct {
	key     string
	at, gap int64
}

func (v visitor) String() string { return fmt.Sprintf("%s:%d@%d", v.key, v.gap, v.at) }

// batch makes sessions of what a policy with this much grace, horizon included, takes.
func batch(in []visitor, most, grace int64) map[string]int64 {
	newest := window.Unknown
	by := map[string][]visitor{}
	for _, v := range in {
		if newest == window.Unknown || v.at+most+grace >= newest {
			by[v.key] = append(by[v.key], v)
		}
		newest = max(newest, v.at)
	}
	out := map[string]int64{}
	for key, vs := range by {
		slices.SortFunc(vs, func(a, b visitor) int { return int(a.at - b.at) })
		for i := 0; i < len(vs); {
			n, last, reach := int64(0), vs[i].at, vs[i].at
			start := vs[i].at
			for ; i < len(vs) && (n == 0 || vs[i].at <= reach); i++ {
				n, last, reach = n+1, vs[i].at, max(reach, vs[i].at+vs[i].gap)
			}
			out[fmt.Sprintf("%s[%d,%d)", key, start, last)] = n
		}
	}
	return out
}

// TestSessionsEqualTheBatch: whatever comes, the results that count in the end are the sessions of all records that were not lost: each
// key's last result, or the sum of results less what was taken back.
func TestSessionsEqualTheBatch(tt *testing.T) {
	tt.Parallel()
	drop, correct := window.Drop(), window.CorrectWithin(30*ms)
	for name, c := range map[string]struct {
		late    window.Late
		horizon int64
		once    bool // one result for each session
		opts    []topology.AggregateOption
	}{
		"on update":           {drop, 0, false, nil},
		"on close":            {drop, 0, true, []topology.AggregateOption{topology.EmitOnClose()}},
		"retracting":          {drop, 0, false, []topology.AggregateOption{topology.Retracting()}},
		"early by count":      {drop, 0, false, []topology.AggregateOption{topology.EmitEarlyCount(2)}},
		"early by time":       {drop, 0, false, []topology.AggregateOption{topology.EmitEarlyEvery(7 * ms), topology.Retracting()}},
		"corrected":           {correct.Otherwise(drop), 30, false, []topology.AggregateOption{topology.EmitOnClose()}},
		"corrected on update": {correct.Otherwise(drop), 30, false, nil},
		"corrected back":      {correct.Retract().Otherwise(drop), 30, false, []topology.AggregateOption{topology.EmitOnClose()}},
		"all at once":         {correct.Retract().Otherwise(drop), 30, false, []topology.AggregateOption{topology.EmitEarlyCount(3)}},
		"all by time":         {correct.Otherwise(drop), 30, false, []topology.AggregateOption{topology.EmitEarlyEvery(5 * ms)}},
	} {
		for _, own := range []bool{false, true} {
			tt.Run(fmt.Sprint(name, ", own gaps ", own), func(tt *testing.T) {
				tt.Parallel()
				for seed := range uint64(60) {
					r := rand.New(rand.NewPCG(seed, 5))
					const gap, grace = 6, 4
					var def window.Definition = window.Session(gap * ms).Grace(grace * ms)
					if own {
						def = window.SessionBy(func(v string) time.Duration { return time.Duration(number(v)) * ms }, gap*ms).Grace(grace * ms)
					}
					sc := run(tt, sessionCounts, sessions(def, c.late, c.opts...))
					o := topologytest.Output(sc.d, sessionCounts)
					var in []visitor
					now := int64(100)
					for range 60 {
						now += r.Int64N(4)
						v := visitor{string(rune('a' + r.IntN(2))), now - r.Int64N(1+r.Int64N(50)), gap}
						if own {
							v.gap = r.Int64N(gap + 1)
						}
						in = append(in, v)
						sc.pipe(v.String())
					}
					in = append(in, visitor{"z", 10_000, 0})
					sc.pipe("z:0@10000")
					counts, sums, results := map[string]int64{}, map[string]int64{}, map[string]int{}
					for _, rec := range o.All() {
						k := fmt.Sprintf("%s[%d,%d)", rec.Key.Key, rec.Key.Start, rec.Key.End)
						back := slices.ContainsFunc(rec.Headers, func(h topology.Header) bool { return h.Key == "x-retract" })
						switch {
						case rec.Null:
							delete(counts, k)
						case back:
							if sums[k] -= rec.Value; sums[k] == 0 {
								delete(sums, k)
							}
							if counts[k] != rec.Value {
								tt.Fatalf("seed %d: %d is taken back of %s, which had %d", seed, rec.Value, k, counts[k])
							}
							delete(counts, k)
						default:
							results[k]++
							sums[k] += rec.Value
							counts[k] = rec.Value
						}
						if c.once && results[k] > 1 {
							tt.Fatalf("seed %d: %s has a second result", seed, k)
						}
					}
					want := batch(in, gap, grace+c.horizon)
					delete(want, "z[10000,10000)")
					delete(counts, "z[10000,10000)")
					delete(sums, "z[10000,10000)")
					if diff := cmp.Diff(want, counts); diff != "" {
						tt.Fatalf("seed %d: %v: last results (-batch +got):\n%s", seed, in, diff)
					}
					if strings.Contains(fmt.Sprint(c.late), "retract") || name == "retracting" || name == "early by time" {
						if diff := cmp.Diff(want, sums); diff != "" {
							tt.Fatalf("seed %d: %v: sums (-batch +got):\n%s", seed, in, diff)
						}
					}
				}
			})
		}
	}
}

// The watermark behind sessions is held where no result comes below it: none is late for the windows behind, however much disorder there is,
// in one sub-topology and through a repartition topic.
func TestSessionsHoldTheWatermark(tt *testing.T) {
	tt.Parallel()
	build := func(b *topology.Builder) {
		in := topology.From(b, s.Watermarks(window.BoundedDisorder(15*ms)))
		visits := topology.Count(topology.Windowed(in.GroupByKey(), window.Session(7*ms).Grace(5*ms), window.Drop()), "visits", topology.EmitOnClose()).Stream()
		sum := func(a, v int64) int64 { return a + v }
		total := func(st topology.Grouped[string, int64], store string) {
			topology.Map(topology.Aggregate(topology.Windowed(st, window.Tumbling(10*ms), window.Drop()), store, i64, sum, topology.EmitOnClose()).Stream(),
				func(_ window.Key[string], n int64) (string, int64) { return store, n }).To(outCounts)
		}
		byKey := func(k window.Key[string], _ int64) string { return k.Key }
		total(topology.GroupBy(visits, "by", byKey, str, i64), "behind")
		near := topology.Aggregate(topology.Windowed(visits.GroupByKey(), window.Tumbling(10*ms), window.Drop()), "near", i64, sum, topology.EmitOnClose())
		topology.Map(near.Stream(), func(window.Key[window.Key[string]], int64) (string, int64) { return "near", 0 }).To(outCounts)
	}
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 6))
		b := topology.NewBuilder()
		build(b)
		d := topologytest.New(tt, topologytest.Build(tt, b.Build))
		in := topologytest.Input(d, s)
		now := int64(100)
		for range 200 {
			now += r.Int64N(5)
			in.Pipe(at(now-r.Int64N(14)), string(rune('a'+r.IntN(3))), "x")
		}
		in.Pipe(at(10_000), "z", "x")
		in.Pipe(at(10_100), "z", "x")
		d.Settle()
		if n := d.Counts(); len(n) > 0 {
			tt.Fatalf("seed %d: lost on the way: %v", seed, n)
		}
		total := int64(0)
		for _, rec := range topologytest.Output(d, outCounts).All() {
			if rec.Key == "behind" {
				total += rec.Value
			}
		}
		if total < 200 {
			tt.Fatalf("seed %d: %d records are in windows behind, want all 200 that were in time", seed, total)
		}
	}
}

// Closing goes on where a commit has left it, also among sessions that end at one instant, and so does deleting what has closed: each result
// comes once, through crashes that bring back from the changelog what is gone, and nothing is left.
func TestSessionsCloseInSteps(tt *testing.T) {
	tt.Parallel()
	const keys = 700 // more than one look finds
	for _, kind := range []window.Definition{window.Session(5 * ms), window.Sliding(5 * ms)} {
		b := topology.NewBuilder()
		counts := topology.Count(topology.Windowed(topology.From(b, s).GroupByKey(), kind, window.Drop()), "closing", topology.EmitOnClose())
		topology.Map(counts.Stream(), func(k window.Key[string], n int64) (string, int64) { return k.Key, n }).To(outCounts)
		d := topologytest.New(tt, topologytest.Build(tt, b.Build), topologytest.Manual())
		in, out := topologytest.Input(d, s), topologytest.Output(d, outCounts)
		for i := range keys {
			in.Pipe(at(100), fmt.Sprintf("%03d", i), "x")
		}
		d.Run()
		d.Commit()
		in.Pipe(at(100_000), "z", "x")
		r := rand.New(rand.NewPCG(1, 1))
		for d.Step(1+r.IntN(40)) > 0 {
			if r.IntN(3) > 0 {
				d.Commit()
			}
			if r.IntN(3) == 0 {
				d.Crash()
			}
		}
		in.Pipe(at(200_000), "z", "x")
		in.Pipe(at(300_000), "z", "x")
		d.Settle()
		got := map[string]int{}
		for _, rec := range out.All() {
			got[rec.Key]++
		}
		for i := range keys {
			if k := fmt.Sprintf("%03d", i); got[k] != 1 {
				tt.Fatalf("%v: %s has %d results, want 1", kind, k, got[k])
			}
		}
		if _, ok := kind.(window.Sessions); !ok {
			continue
		}
		view, err := state.SessionsOf("closing", str, i64, 0).Open(d.Stores(0))
		if err != nil {
			tt.Fatal(err)
		}
		for it, err := range view.All() {
			if err != nil || it.Key != "z" {
				tt.Fatalf("%+v, %v is left", it, err)
			}
		}
	}
}

// A result that cannot be emitted is left out, and counts once; the others come, and what is late finds no trace of it.
func TestSessionsWithErrors(tt *testing.T) {
	tt.Parallel()
	for _, c := range []struct {
		opt    topology.AggregateOption
		want   []string
		failed int64
	}{
		{topology.EmitOnClose(), []string{"a1", "c1", "q1", "z1"}, 1},
		{topology.EmitEarlyEvery(20 * ms), []string{"a1", "a1", "c1", "c1", "q1", "q1", "y1", "z1", "z1"}, 2},
	} {
		b := topology.NewBuilder()
		counts := topology.Count(topology.Windowed(topology.From(b, s).GroupByKey(), window.Session(50*ms), window.Drop()), "closing", c.opt)
		topology.Map(counts.Stream(), func(k window.Key[string], n int64) (string, int64) {
			if k.Key == "bad" {
				panic("bad")
			}
			return k.Key, n
		}).To(outCounts.AcceptRevisions())
		d := topologytest.New(tt, topologytest.Build(tt, b.Build), topologytest.OnError(topology.Skip()))
		in, out := topologytest.Input(d, s), topologytest.Output(d, outCounts)
		for _, k := range []string{"a", "bad", "c"} {
			in.Pipe(at(100), k, "x")
		}
		in.Pipe(at(120), "q", "x")
		in.Pipe(at(1000), "z", "x")
		in.Pipe(at(2000), "y", "x")
		var got []string
		for _, rec := range out.All() {
			got = append(got, fmt.Sprint(rec.Key, rec.Value))
		}
		slices.Sort(got)
		if diff := cmp.Diff(c.want, got); diff != "" {
			tt.Errorf("results (-want +got):\n%s", diff)
		}
		if n := d.Counts()["failed"]; n != c.failed {
			tt.Errorf("%d have failed, want %d", n, c.failed)
		}
		d.Crash()
	}
}
