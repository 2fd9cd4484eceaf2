package topology_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/topology/topologytest"
	"github.com/headrace/headrace/window"
)

// tally counts per key, and every 50 ms of event time emits all counts.
type tally struct {
	view *state.KeyValueView[string, int64]
}

var tallies = state.KeyValueOf("tallies", str, i64)

func (p *tally) Init(t *topology.Task, out topology.Emitter[string, string]) (err error) {
	if p.view, err = tallies.Open(t); err != nil {
		return err
	}
	return t.EveryStreamTime(50*ms, func(w time.Time) error {
		for it, err := range p.view.All() {
			if err != nil {
				return err
			}
			err = out(topology.Record[string, string]{Key: it.Key, Value: fmt.Sprint("tally ", it.Value, " by ", it.At), Time: w.UnixMilli()})
			if err != nil {
				return err
			}
			if it.Value > 5 {
				if err := p.view.Delete(it.Key); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func (p *tally) Process(r topology.Record[string, string], _ topology.Emitter[string, string]) error {
	n, _, err := p.view.Get(r.Key)
	if err != nil {
		return err
	}
	return p.view.Put(r.Key, n+1)
}

// everything is a topology with all that keeps state or time: a table, a repartition topic, windows on update, on close and
// chained, deleting aggregates, a processor with punctuations, late records set aside and dropped.
func everything(b *topology.Builder) {
	text := func(st topology.Stream[window.Key[string], int64], what string) {
		topology.Map(st, func(k window.Key[string], n int64) (string, string) {
			return k.Key, fmt.Sprint(what, " ", k.Start, ": ", n)
		}).To(outStrings)
	}
	in := topology.From(b, s.Watermarks(window.BoundedDisorder(10*ms)))
	topology.Process(in, "tally", func() *tally { return &tally{} }, tallies).To(outStrings)
	topology.AggregateOrDelete(in.GroupByKey(), "until-9", str, func(a, v string) (string, bool) { return a + v, len(a) < 9 }).To(outStrings)
	byValue := topology.GroupBy(in, "by-value", func(_, v string) string { return v }, str, str).Stream()
	named := topology.JoinTable(byValue, topology.TableFrom(b, "names", t), func(v, n string) string { return n + v })
	named.To(outStrings)
	hopping := topology.Windowed(named.GroupByKey(), window.Hopping(40*ms, 20*ms).Grace(5*ms), window.Sideline("late"))
	text(topology.Count(hopping, "hopping").Stream(), "hop")
	closing := topology.Count(topology.Windowed(named.GroupByKey(), window.Tumbling(20*ms), window.Drop()), "closing", topology.EmitOnClose())
	text(closing.Stream(), "closed")
	correct := window.CorrectWithin(60 * ms).Retract().Otherwise(window.Drop())
	early := topology.Count(topology.Windowed(named.GroupByKey(), window.Tumbling(20*ms), correct), "early", topology.EmitEarlyEvery(7*ms))
	topology.Map(early.Stream(), func(k window.Key[string], n int64) (string, string) {
		return k.Key, fmt.Sprint("early ", k.Start, ": ", n)
	}).To(outStrings.AcceptRevisions())
	sums := topology.AggregateWith(topology.GroupBy(early.Stream(), "sums-by", func(k window.Key[string], _ int64) string { return k.Key }, str, i64),
		"sums", i64, topology.Aggregator[int64, int64]{
			Add:      func(a, v int64) int64 { return a + v },
			Subtract: func(a, v int64) int64 { return a - v },
		})
	topology.MapValues(sums.Stream(), func(n int64) string { return fmt.Sprint("sum ", n) }).To(outStrings)
	last := topology.Count(named.GroupByKey(), "last", topology.EmitOnCommit())
	topology.MapValues(last.Stream(), func(n int64) string { return fmt.Sprint("last ", n) }).To(outStrings)
	parts := topology.Count(topology.Windowed(named.GroupByKey(), window.Hopping(40*ms, 20*ms), window.CorrectWithin(60*ms).Otherwise(window.Drop())),
		"parts", topology.EmitEarlyCount(3), topology.Discarding())
	topology.Map(parts.Stream(), func(k window.Key[string], n int64) (string, string) {
		return k.Key, fmt.Sprint("part ", k.Start, ": ", n)
	}).To(outStrings.AcceptRevisions())
	visits := topology.Count(topology.Windowed(named.GroupByKey(), window.Session(6*ms).Grace(5*ms), window.Sideline("late")), "visits")
	text(visits.Stream(), "visit")
	gap := window.SessionBy(func(v string) time.Duration { return time.Duration(len(v)%4+2) * ms }, 8*ms)
	stays := topology.Count(topology.Windowed(named.GroupByKey(), gap, window.CorrectWithin(60*ms).Retract().Otherwise(window.Drop())),
		"stays", topology.EmitEarlyEvery(9*ms))
	topology.Map(stays.Stream(), func(k window.Key[string], n int64) (string, string) {
		return k.Key, fmt.Sprint("stay ", k.Start, " to ", k.End, ": ", n)
	}).To(outStrings.AcceptRevisions())
	slides := topology.Count(topology.Windowed(named.GroupByKey(), window.Sliding(15*ms).Grace(5*ms), window.Sideline("late")), "slides", topology.EmitOnClose())
	text(slides.Stream(), "slide")
	slips := topology.Count(topology.Windowed(named.GroupByKey(), window.Sliding(9*ms), window.CorrectWithin(60*ms).Otherwise(window.Drop())),
		"slips", topology.EmitEarlyCount(2))
	topology.Map(slips.Stream(), func(k window.Key[string], n int64) (string, string) {
		return k.Key, fmt.Sprint("slip ", k.Start, ": ", n)
	}).To(outStrings.AcceptRevisions())
	again := topology.Repartition(closing.Stream(), "again", 0, serde.Serde[window.Key[string]](window.KeySerde(str).Size(20*ms)), i64)
	chained := topology.Aggregate(topology.Windowed(again.GroupByKey(), window.Tumbling(100*ms), window.Drop()), "chained", i64,
		func(a, v int64) int64 { return a + v }, topology.EmitOnClose())
	text(topology.Map(chained.Stream(), func(k window.Key[window.Key[string]], n int64) (window.Key[string], int64) {
		return window.Key[string]{Key: k.Key.Key, Start: k.Start, End: k.End}, n
	}), "chained")
}

// journey pipes random batches and commits each. Before some commits it crashes, in the middle of the work and more than once. It
// returns everything that was committed, line by line.
func journey(tt *testing.T, seed uint64, crashing bool) (lines []string, crashes int) {
	tt.Helper()
	b := topology.NewBuilder()
	everything(b)
	d := topologytest.New(tt, topologytest.Build(tt, b.Build), topologytest.Partitions(3), topologytest.Manual(), topologytest.OnError(topology.Skip()))
	stream, table := topologytest.Input(d, s), topologytest.Input(d, t)
	out := topologytest.Output(d, outStrings)
	late := topologytest.Output(d, topology.Topic("late", str, str))
	for _, v := range []string{"a", "b", "c"} {
		table.Pipe(at(0), v, v+"-")
	}
	d.Settle()
	input, chaos := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
	now := int64(1000)
	for range 25 {
		for range input.IntN(40) {
			now += input.Int64N(4)
			ts := now - input.Int64N(150)
			k, v := string(rune('p'+input.IntN(5))), string(rune('a'+input.IntN(4)))
			switch input.IntN(20) {
			case 0:
				stream.PipeNull(at(ts), k)
			case 1:
				stream.PipeRaw(input.IntN(3), at(ts), nil, []byte(v))
			case 2:
				stream.Pipe(time.UnixMilli(-5), k, v)
			default:
				stream.Pipe(at(ts), k, v, topology.Header{Key: "n", Value: []byte(fmt.Sprint(now))})
			}
		}
		if input.IntN(5) == 0 {
			table.Pipe(at(now), string(rune('a'+input.IntN(4))), fmt.Sprint("new", now))
			table.PipeNull(at(now), string(rune('a'+input.IntN(4))))
			if crashing {
				crashes++
			}
			d.Crash() // both ways: what a table gets before the task is made is read before its streams
		}
		for crashing && chaos.IntN(3) > 0 {
			d.Step(chaos.IntN(20))
			d.Crash()
			crashes++
		}
		d.Run()
		d.Commit()
	}
	d.Settle()
	d.End()
	for _, r := range out.All() {
		n, _ := r.Header("n")
		rev, _ := r.Header("x-rev")
		pane, _ := r.Header("x-pane")
		back, _ := r.Header("x-retract")
		lines = append(lines, fmt.Sprint(r.Partition, " ", show(r), " ", n, " ", pane, rev, back))
	}
	for _, r := range late.All() {
		line := fmt.Sprint("late ", r.Partition, " ", show(r))
		for _, h := range r.Headers {
			if h.Key != "x-origin-offset" { // a task made anew repeats its watermark report, which takes an offset
				line += fmt.Sprintf(" %s=%s", h.Key, h.Value)
			}
		}
		lines = append(lines, line)
	}
	for p := range 3 {
		view, err := tallies.Open(d.Stores(p))
		if err != nil {
			tt.Fatal(err)
		}
		for it, err := range view.All() {
			if err != nil {
				tt.Fatal(err)
			}
			lines = append(lines, fmt.Sprint("tally ", p, " ", it))
		}
	}
	lines = append(lines, fmt.Sprint(d.Counts()))
	return lines, crashes
}

// inSteps has all done that there is to do, in steps of up to most units, with commits between them and now and then a crash: one in rare
// steps. It returns how many there were.
func inSteps(d *topologytest.Driver, chaos *rand.Rand, most, rare int) (crashes int) {
	for d.Step(1+chaos.IntN(most)) > 0 {
		if chaos.IntN(2) == 0 {
			d.Commit()
		}
		if chaos.IntN(rare) == 0 {
			d.Crash()
			crashes++
		}
	}
	return crashes
}

// Crashes change nothing that is committed: no output, no late decision, no count, no store.
func TestCrashesChangeNothing(tt *testing.T) {
	tt.Parallel()
	all := 0
	for seed := range uint64(12) {
		want, _ := journey(tt, seed, false)
		got, crashes := journey(tt, seed, true)
		all += crashes
		if diff := cmp.Diff(want, got); diff != "" {
			tt.Fatalf("seed %d, %d crashes (-without +with):\n%s", seed, crashes, diff)
		}
		counts := want[len(want)-1]
		for _, reason := range []string{"late-dropped", "late-sidelined", "null-key", "null-value", "bad-timestamp", "late-corrected"} {
			if len(want) < 300 || !strings.Contains(counts, reason) {
				tt.Errorf("seed %d: the test shows little: %d lines, %s", seed, len(want), counts)
			}
		}
	}
	if all < 100 {
		tt.Errorf("%d crashes only", all)
	}
}

// Where commits fall, and crashes between them, does not matter to one task: the same input gives the same output, in the same
// order, one unit per commit or all in one.
func TestCommitsChangeNothing(tt *testing.T) {
	tt.Parallel()
	drive := func(seed uint64, commits bool) []string {
		b := topology.NewBuilder()
		in := topology.From(b, s.Watermarks(window.BoundedDisorder(10*ms))).Merge(topology.From(b, t))
		topology.Process(in, "tally", func() *tally { return &tally{} }, tallies).To(outStrings)
		w := topology.Windowed(in.GroupByKey(), window.Hopping(40*ms, 20*ms), window.Sideline("out"))
		counted := topology.Count(w, "first", topology.EmitOnClose()).Stream()
		second := topology.Windowed(counted.GroupByKey(), window.Tumbling(100*ms), window.Drop())
		topology.Map(topology.Count(second, "second", topology.EmitOnClose()).Stream(), func(k window.Key[window.Key[string]], n int64) (string, string) {
			return k.Key.Key, fmt.Sprint(k.Start, ": ", n)
		}).To(outStrings)
		visits := topology.Count(topology.Windowed(in.GroupByKey(), window.Session(4*ms), window.Drop()), "visits", topology.EmitOnClose()).Stream()
		sliding := topology.Count(topology.Windowed(in.GroupByKey(), window.Sliding(6*ms), window.Drop()), "slides", topology.EmitOnClose()).Stream()
		topology.Map(sliding, func(k window.Key[string], n int64) (string, string) { return k.Key, fmt.Sprint(k, ": ", n) }).To(outStrings)
		chained := topology.Windowed(visits.GroupByKey(), window.Session(20*ms), window.Drop())
		topology.Map(topology.Count(chained, "visits-of-visits", topology.EmitOnClose()).Stream(), func(k window.Key[window.Key[string]], n int64) (string, string) {
			return k.Key.Key, fmt.Sprint(k, ": ", n)
		}).To(outStrings)
		d := topologytest.New(tt, topologytest.Build(tt, b.Build), topologytest.Manual())
		out := topologytest.Output(d, outStrings)
		input, chaos := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
		now := [2]int64{1000, 1000}
		ins := [2]*topologytest.In[string, string]{topologytest.Input(d, s), topologytest.Input(d, t)}
		for range 300 {
			i := input.IntN(2)
			now[i] += input.Int64N(8)
			ins[i].Pipe(at(now[i]-input.Int64N(30)), string(rune('p'+input.IntN(5))), "x")
		}
		if commits {
			inSteps(d, chaos, 9, 4)
		}
		d.Settle()
		d.End()
		var lines []string
		for _, r := range out.All() {
			lines = append(lines, fmt.Sprint(show(r), " ", r.Headers))
		}
		return append(lines, fmt.Sprint(d.Counts()))
	}
	for seed := range uint64(20) {
		if diff := cmp.Diff(drive(seed, false), drive(seed, true)); diff != "" {
			tt.Fatalf("seed %d (-all at once +in steps):\n%s", seed, diff)
		}
	}
}
