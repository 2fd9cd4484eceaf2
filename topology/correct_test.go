package topology_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/topology/topologytest"
	"github.com/headrace/headrace/window"
)

// runPanes is a sum of payments per minute, B = 5 s, that writes each result with the headers that tell its pane.
func runPanes(tt *testing.T, late window.Late, opts ...topology.AggregateOption) *script {
	tt.Helper()
	sc := &script{tb: tt, ins: map[string]*topologytest.In[string, string]{}}
	b := topology.NewBuilder()
	w := topology.Windowed(topology.From(b, s.Watermarks(window.BoundedDisorder(5*time.Second))).GroupByKey(), window.Tumbling(time.Minute), late)
	topology.AggregateWith(w, "sums", i64, topology.Aggregator[string, int64]{Add: plus, Subtract: minus}, opts...).To(minutes)
	sc.d = topologytest.New(tt, topologytest.Build(tt, b.Build))
	o := topologytest.Output(sc.d, minutes)
	sc.read = func() []string {
		var lines []string
		for _, r := range o.All() {
			lines = append(lines, showPane(r))
		}
		return lines
	}
	return sc
}

func number(v string) (n int64) {
	if _, err := fmt.Sscan(v, &n); err != nil {
		panic(err)
	}
	return n
}

func plus(a int64, v string) int64  { return a + number(v) }
func minus(a int64, v string) int64 { return a - number(v) }

// showPane writes times in seconds, and "early", "late", "#2" for the revision and "back" for a retraction.
func showPane(r topologytest.Record[window.Key[string], int64]) string {
	line := fmt.Sprintf("[%d,%d)=%d@%d", r.Key.Start/1000, r.Key.End/1000, r.Value, r.Time.Unix())
	if r.Null {
		line = fmt.Sprintf("[%d,%d)=null", r.Key.Start/1000, r.Key.End/1000)
	}
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
	return line
}

func (sc *script) pay(at, amount int64, want ...string) {
	sc.tb.Helper()
	line := fmt.Sprintf("acc:%d@%d", amount, at*1000)
	sc.pipe(line)
	sc.wants(line, want...)
}

// The result on closing goes out once, a late record corrects it, and beyond the horizon it is lost and counted.
func TestCorrections(tt *testing.T) {
	tt.Parallel()
	for _, c := range []struct {
		late    window.Late
		correct []string
		again   []string
	}{
		{
			window.CorrectWithin(30 * time.Second).Otherwise(window.Drop()),
			[]string{"[0,60)=15@59 late #1"},
			[]string{"[0,60)=16@59 late #2"},
		},
		{
			window.CorrectWithin(30 * time.Second).Retract().Otherwise(window.Drop()),
			[]string{"[0,60)=12@50 back", "[0,60)=15@59 late #1"},
			[]string{"[0,60)=15@59 late #1 back", "[0,60)=16@59 late #2"},
		},
	} {
		sc := runPanes(tt, c.late, topology.EmitOnClose())
		sc.pay(10, 5)
		sc.pay(50, 7)
		sc.pay(62, 11)
		sc.pay(70, 2, "[0,60)=12@50")
		sc.pay(59, 3, c.correct...)
		sc.pay(94, 0)
		sc.pay(58, 1, c.again...) // W is 89: the last instant of the horizon
		sc.pay(95, 0)
		sc.pay(57, 100) // W is 90
		sc.pay(125, 1, "[60,120)=13@95")
		sc.counts(map[string]int64{"late-corrected": 2, "late-dropped": 1})
	}
}

// A window that had nothing when it closed has its first result late.
func TestCorrectionOfNothing(tt *testing.T) {
	tt.Parallel()
	sc := runPanes(tt, window.CorrectWithin(time.Hour).Retract().Otherwise(window.Drop()), topology.EmitOnClose())
	sc.pay(70, 1)
	sc.pay(10, 5, "[0,60)=5@10 late")
	sc.pay(11, 6, "[0,60)=5@10 late back", "[0,60)=11@11 late #1")
}

// What is read on update is corrected on update, for as long.
func TestCorrectionsOnUpdate(tt *testing.T) {
	tt.Parallel()
	sc := runPanes(tt, window.CorrectWithin(30*time.Second).Otherwise(window.Drop()))
	sc.pay(10, 5, "[0,60)=5@10")
	sc.pay(70, 2, "[60,120)=2@70")
	sc.pay(59, 3, "[0,60)=8@59 late")
	sc.pay(95, 0, "[60,120)=2@95")
	sc.pay(58, 1)
	sc.counts(map[string]int64{"late-corrected": 1, "late-dropped": 1})

	sc = runPanes(tt, window.Drop(), topology.Retracting())
	sc.pay(10, 5, "[0,60)=5@10")
	sc.pay(59, 3, "[0,60)=5@10 back", "[0,60)=8@59")
}

// Beyond the horizon a record is set aside with what it missed, if the policy says so.
func TestCorrectionsThenSideline(tt *testing.T) {
	tt.Parallel()
	sc := runPanes(tt, window.CorrectWithin(30*time.Second).Otherwise(window.Sideline("aside")), topology.EmitOnClose())
	aside := topologytest.Output(sc.d, topology.Topic("aside", str, str))
	sc.pay(95, 1)
	sc.pay(59, 3)
	r := aside.Read()
	by, _ := r.Header("x-late-by-ms")
	if r.Value != "3" || by != "30000" || !aside.Empty() {
		tt.Errorf("set aside: %v, late by %s", r, by)
	}
	sc.counts(map[string]int64{"late-sidelined": 1})
}

func TestEarlyByTime(tt *testing.T) {
	tt.Parallel()
	sc := runPanes(tt, window.CorrectWithin(time.Hour).Otherwise(window.Drop()), topology.EmitEarlyEvery(20*time.Second))
	sc.pay(10, 5)                                               // W 5
	sc.pay(26, 1, "[0,60)=6@26 early")                          // W 21
	sc.pay(44, 1)                                               // W 39
	sc.pay(46, 1, "[0,60)=8@46 early #1")                       // W 41
	sc.pay(64, 1)                                               // W 59
	sc.pay(66, 1, "[0,60)=8@46 #2", "[60,120)=2@66 early")      // W 61
	sc.pay(59, 1, "[0,60)=9@59 late #3")                        //
	sc.pay(130, 1, "[60,120)=2@66 #1", "[120,180)=1@130 early") // W 125: it closed, and changed nothing
	sc.pay(146, 0, "[120,180)=1@146 early #1")
	sc.pay(166, 0, "[120,180)=1@166 early #2")
}

func TestEarlyByCount(tt *testing.T) {
	tt.Parallel()
	sc := runPanes(tt, window.Drop(), topology.EmitEarlyCount(2), topology.Retracting())
	sc.pay(10, 5)
	sc.pay(11, 1, "[0,60)=6@11 early")
	sc.pay(12, 1)
	sc.pay(13, 1, "[0,60)=6@11 early back", "[0,60)=8@13 early #1")
	sc.pay(14, 1)
	sc.pay(65, 1, "[0,60)=8@13 early #1 back", "[0,60)=9@14 #2")
}

func TestDiscarding(tt *testing.T) {
	tt.Parallel()
	sc := runPanes(tt, window.CorrectWithin(time.Hour).Otherwise(window.Drop()), topology.EmitEarlyEvery(20*time.Second), topology.Discarding())
	sc.pay(10, 5)
	sc.pay(26, 1, "[0,60)=6@26 early")
	sc.pay(27, 1)
	sc.pay(66, 1, "[0,60)=1@27 #1", "[60,120)=1@66 early")
	sc.pay(59, 4, "[0,60)=4@59 late #2")
	sc.pay(130, 1, "[120,180)=1@130 early") // nothing has come for [60,120) since
	sc.pay(61, 2, "[60,120)=2@61 late #1")
}

// total sums the minutes of a day, which retract: it is right after every correction.
func TestSumsBehindRetractions(tt *testing.T) {
	tt.Parallel()
	day := window.Tumbling(24 * time.Hour)
	days := topology.Topic("days", window.KeySerde(str).For(day), i64)
	b := topology.NewBuilder()
	policy := window.CorrectWithin(30 * time.Second).Retract().Otherwise(window.Drop())
	w := topology.Windowed(topology.From(b, s.Watermarks(window.BoundedDisorder(5*time.Second))).GroupByKey(), window.Tumbling(time.Minute), policy)
	perMinute := topology.AggregateWith(w, "minutes", i64, topology.Aggregator[string, int64]{Add: plus, Subtract: minus}, topology.EmitOnClose())
	byKey := topology.GroupBy(perMinute.Stream(), "by-key", func(k window.Key[string], _ int64) string { return k.Key }, str, i64)
	sum := topology.Aggregator[int64, int64]{
		Add:      func(a, v int64) int64 { return a + v },
		Subtract: func(a, v int64) int64 { return a - v },
	}
	topology.AggregateWith(topology.Windowed(byKey, day, policy), "days", i64, sum, topology.EmitOnUpdate()).To(days)
	d := topologytest.New(tt, topologytest.Build(tt, b.Build))
	in, out := topologytest.Input(d, s), topologytest.Output(d, days)
	for _, p := range []payment{{10, 5}, {50, 7}, {62, 11}, {70, 2}, {59, 3}, {125, 1}} {
		in.Pipe(at(p.at*1000), "acc", fmt.Sprint(p.amount))
	}
	var got []int64
	for _, r := range out.All() {
		if back, ok := r.Header("x-retract"); !ok || back != "true" {
			got = append(got, r.Value)
		}
	}
	if diff := cmp.Diff([]int64{12, 0, 15, 28}, got); diff != "" {
		tt.Errorf("the day (-want +got):\n%s", diff)
	}
}

// Hours, days and months of the same payments, corrected at each, are in the end what a batch makes of those that were not too late.
func TestChainedCorrectionsAreBatch(tt *testing.T) {
	tt.Parallel()
	const hour = 3_600_000
	corrected := 0
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 8))
		horizon := 3 * time.Hour
		policy := window.CorrectWithin(horizon).Retract().Otherwise(window.Drop())
		sum := topology.Aggregator[int64, int64]{
			Add:      func(a, v int64) int64 { return a + v },
			Subtract: func(a, v int64) int64 { return a - v },
		}
		inner := func(k window.Key[string], _ int64) string { return k.Key }
		hours, days, months := window.Tumbling(time.Hour), window.Daily(time.UTC).Grace(time.Hour), window.Monthly(time.UTC)
		b := topology.NewBuilder()
		paid := topology.From(b, topology.Topic("paid", str, i64).Watermarks(window.BoundedDisorder(time.Minute)))
		perHour := topology.AggregateWith(topology.Windowed(paid.GroupByKey(), hours, policy), "hours", i64, sum, topology.EmitOnClose())
		perDay := topology.AggregateWith(topology.Windowed(topology.GroupBy(perHour.Stream(), "h", inner, str, i64), days, policy), "days", i64, sum, topology.EmitOnClose())
		perMonth := topology.AggregateWith(topology.Windowed(topology.GroupBy(perDay.Stream(), "d", inner, str, i64), months, policy), "months", i64, sum, topology.EmitOnClose())
		outs := []topology.TopicOf[window.Key[string], int64]{
			topology.Topic("out-hours", window.KeySerde(str).For(hours), i64),
			topology.Topic("out-days", window.KeySerde(str).For(days), i64),
			topology.Topic("out-months", window.KeySerde(str).For(months), i64),
		}
		perHour.To(outs[0])
		perDay.To(outs[1])
		perMonth.To(outs[2])
		d := topologytest.New(tt, topologytest.Build(tt, b.Build), topologytest.Partitions(2))
		in := topologytest.Input(d, topology.Topic("paid", str, i64))
		want := []map[window.Key[string]]int64{{}, {}, {}}
		now := int64(0)
		dropped := d.Counts()["late-dropped"]
		for range 1500 {
			now += rng.Int64N(hour / 4)
			ts, k, amount := max(0, now-rng.Int64N(2*hour)), string(rune('a'+rng.IntN(3))), 1+rng.Int64N(9)
			in.Pipe(at(ts), k, amount)
			if n := d.Counts()["late-dropped"]; n != dropped {
				dropped = n // too late for its hour even for a correction
				continue
			}
			for i, w := range []window.Windows{hours, days, months} {
				start := w.First(ts)
				want[i][window.Key[string]{Key: k, Start: start, End: w.End(start)}] += amount
			}
		}
		d.End()
		for i, o := range outs {
			if diff := cmp.Diff(want[i], topologytest.Latest(topologytest.Output(d, o))); diff != "" {
				tt.Fatalf("seed %d, %s (-batch +got):\n%s", seed, o.Name(), diff)
			}
		}
		corrected += int(d.Counts()["late-corrected"])
		if n := d.Counts()["late-dropped"]; n != 0 {
			tt.Errorf("seed %d: %d records were too late", seed, n)
		}
	}
	if corrected < 1000 {
		tt.Errorf("%d corrections only", corrected)
	}
}

// What contradicts is refused, and says how to go on.
func TestContradictionsOfTime(tt *testing.T) {
	tt.Parallel()
	correct := window.CorrectWithin(time.Minute).Otherwise(window.Drop())
	for _, c := range []struct {
		name  string
		build func(b *topology.Builder, in topology.Stream[string, string])
		want  string
	}{
		{"final and corrected", func(_ *topology.Builder, in topology.Stream[string, string]) {
			topology.Count(topology.Windowed(in.GroupByKey(), window.Tumbling(ms), correct), "c", topology.EmitFinal())
		}, "EmitFinal promises one result"},
		{"final and early", func(_ *topology.Builder, in topology.Stream[string, string]) {
			topology.Count(topology.Windowed(in.GroupByKey(), window.Tumbling(ms), window.Drop()), "c", topology.EmitFinal(), topology.EmitEarlyCount(3))
		}, "early results are more"},
		{"discarding and retracting", func(_ *topology.Builder, in topology.Stream[string, string]) {
			topology.Count(topology.Windowed(in.GroupByKey(), window.Tumbling(ms), correct), "c", topology.EmitOnClose(), topology.Discarding(), topology.Retracting())
		}, "choose one"},
		{"discarding one result", func(_ *topology.Builder, in topology.Stream[string, string]) {
			topology.Count(topology.Windowed(in.GroupByKey(), window.Tumbling(ms), window.Drop()), "c", topology.EmitOnClose(), topology.Discarding())
		}, "one result only"},
		{"retracting one result", func(_ *topology.Builder, in topology.Stream[string, string]) {
			topology.Count(topology.Windowed(in.GroupByKey(), window.Tumbling(ms), window.Drop()), "c", topology.EmitOnClose(), topology.Retracting())
		}, "one result only"},
		{"discarding on update", func(_ *topology.Builder, in topology.Stream[string, string]) {
			topology.Count(topology.Windowed(in.GroupByKey(), window.Tumbling(ms), correct), "c", topology.Discarding())
		}, "add EmitOnClose"},
		{"early every nothing", func(_ *topology.Builder, in topology.Stream[string, string]) {
			topology.Count(topology.Windowed(in.GroupByKey(), window.Tumbling(ms), window.Drop()), "c", topology.EmitEarlyEvery(0))
		}, "positive number of milliseconds"},
		{"early after none", func(_ *topology.Builder, in topology.Stream[string, string]) {
			topology.Count(topology.Windowed(in.GroupByKey(), window.Tumbling(ms), window.Drop()), "c", topology.EmitEarlyCount(0))
		}, "give 1 or more"},
		{"on commit and on closing", func(_ *topology.Builder, in topology.Stream[string, string]) {
			topology.Count(topology.Windowed(in.GroupByKey(), window.Tumbling(ms), window.Drop()), "c", topology.EmitOnCommit(), topology.EmitOnClose())
		}, "choose one"},
		{"no windows", func(_ *topology.Builder, in topology.Stream[string, string]) {
			topology.Count(in.GroupByKey(), "c", topology.Retracting(), topology.Discarding())
		}, "there are no windows"},
		{"a maximum of what is taken back", func(_ *topology.Builder, in topology.Stream[string, string]) {
			w := topology.Windowed(in.GroupByKey(), window.Tumbling(ms), window.CorrectWithin(time.Minute).Retract().Otherwise(window.Drop()))
			per := topology.Count(w, "c", topology.EmitOnClose())
			topology.Reduce(per.Stream().GroupByKey(), "max", i64, func(a, b int64) int64 { return max(a, b) })
		}, "cannot subtract"},
		{"a sum of what is corrected", func(_ *topology.Builder, in topology.Stream[string, string]) {
			per := topology.Count(topology.Windowed(in.GroupByKey(), window.Tumbling(ms), correct), "c", topology.EmitOnClose())
			topology.Reduce(per.Stream().GroupByKey(), "sum", i64, func(a, b int64) int64 { return a + b })
		}, "counted again here"},
		{"through a repartition topic", func(_ *topology.Builder, in topology.Stream[string, string]) {
			per := topology.Count(topology.Windowed(in.GroupByKey(), window.Tumbling(ms), correct), "c", topology.EmitOnClose())
			g := topology.GroupBy(per.Stream(), "g", func(k window.Key[string], _ int64) string { return k.Key }, str, i64)
			topology.Reduce(g, "sum", i64, func(a, b int64) int64 { return a + b })
		}, "counted again here"},
		{"windows that take no corrections", func(_ *topology.Builder, in topology.Stream[string, string]) {
			w := topology.Windowed(in.GroupByKey(), window.Tumbling(ms), window.CorrectWithin(time.Minute).Retract().Otherwise(window.Drop()))
			per := topology.Count(w, "c", topology.EmitOnClose())
			topology.Count(topology.Windowed(per.Stream().GroupByKey(), window.Tumbling(ms), window.Drop()), "d", topology.EmitOnClose())
		}, "corrections would be late"},
		{"a topic without windows", func(_ *topology.Builder, in topology.Stream[string, string]) {
			per := topology.Count(topology.Windowed(in.GroupByKey(), window.Tumbling(ms), correct), "c", topology.EmitOnClose())
			topology.Map(per.Stream(), func(k window.Key[string], n int64) (string, int64) { return k.Key, n }).To(outCounts)
		}, "AcceptRevisions"},
	} {
		b := topology.NewBuilder()
		c.build(b, topology.From(b, s))
		_, err := b.Build()
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "correct_test.go:") {
			tt.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	b := topology.NewBuilder()
	per := topology.Count(topology.Windowed(topology.From(b, s).GroupByKey(), window.Tumbling(ms), correct), "c", topology.EmitOnClose())
	topology.Map(per.Stream(), func(k window.Key[string], n int64) (string, int64) { return k.Key, n }).To(outCounts.AcceptRevisions())
	topology.Reduce(per.Stream().GroupByKey(), "last", i64, func(_, v int64) int64 { return v }, topology.AcceptRevisions())
	if _, err := b.Build(); err != nil {
		tt.Error(err)
	}
}
