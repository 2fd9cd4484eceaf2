package topology_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/topology/topologytest"
	"github.com/headrace/headrace/window"
)

// lastValue is a table of the last value of each key; "del" deletes.
func lastValue(b *topology.Builder) topology.Table[string, string] {
	return topology.AggregateOrDelete(topology.From(b, s).GroupByKey(), "last", str, func(_, v string) (string, bool) { return v, v != "del" })
}

func suppressed(until topology.Suppression) func(b *topology.Builder) {
	return func(b *topology.Builder) { lastValue(b).Suppress("suppressed", until).To(outStrings) }
}

// As Kafka Streams does: suppress untilTimeLimit.
func TestSuppressUntilTimeLimit(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, outStrings, suppressed(topology.UntilTimeLimit(10*ms)))
	sc.in("a:1@0")
	sc.in("a:2@5")
	sc.in("b:1@9")
	sc.in("b:2@10", "a:2@5")
	sc.in("c:x@29", "b:2@10")
	sc.in("c:del@30")
	sc.in("z:z@60", "c:null@30")
	sc.in("a:3@61") // its time starts anew
	sc.in("a:4@70", "z:z@60")
	sc.in("y:y@71", "a:4@70")
}

// As Kafka Streams does: suppress untilWindowCloses over a tumbling count. It gives what EmitFinal does.
func TestSuppressUntilWindowCloses(tt *testing.T) {
	tt.Parallel()
	windows := func(b *topology.Builder, opts ...topology.AggregateOption) topology.Table[window.Key[string], int64] {
		return topology.Count(topology.Windowed(topology.From(b, s).GroupByKey(), tumbling10.Grace(2*ms), dropLate), "count", opts...)
	}
	for _, sc := range []*script{
		run(tt, outWindows(10*ms), func(b *topology.Builder) {
			windows(b).Suppress("final", topology.UntilWindowCloses()).To(outWindows(10 * ms))
		}),
		run(tt, outWindows(10*ms), func(b *topology.Builder) {
			windows(b, topology.EmitEarlyCount(1)).Suppress("final", topology.UntilWindowCloses().MaxRecords(10).FailWhenFull()).To(outWindows(10 * ms))
		}),
		run(tt, outWindows(10*ms), func(b *topology.Builder) { windows(b, topology.EmitFinal()).To(outWindows(10 * ms)) }),
	} {
		sc.in("a:x@0")
		sc.in("a:x@9")
		sc.in("b:x@11")
		sc.in("b:x@12", "a[0,10)=2@9")
		sc.in("a:x@5")
		sc.counts(map[string]int64{"late-dropped": 1})
		sc.in("c:x@1000", "b[10,20)=2@12")
		sc.d.Crash()
		sc.d.End()
		sc.wants("the end", "c[1000,1010)=1@1000")
		for _, r := range topologytest.Output(sc.d, outWindows(10*ms)).All() {
			if len(r.Headers) > 0 {
				tt.Errorf("%s has headers %v, and is the only result", show(r), r.Headers)
			}
		}
	}
}

// A window whose aggregate is deleted has no final result, unless it comes back. Kafka Streams: the same.
func TestSuppressDropsDeletedWindows(tt *testing.T) {
	tt.Parallel()
	out := topology.Topic("out", window.KeySerde(str).Size(10*ms), str)
	sc := run(tt, out, func(b *topology.Builder) {
		w := topology.Windowed(topology.From(b, s).GroupByKey(), tumbling10, dropLate)
		topology.AggregateOrDelete(w, "last", str, func(_, v string) (string, bool) { return v, v != "del" }).
			Suppress("final", topology.UntilWindowCloses()).To(out)
	})
	sc.in("a:1@0")
	sc.in("b:1@1")
	sc.in("b:del@2")
	sc.in("c:1@3")
	sc.in("c:del@4")
	sc.in("c:2@5")
	sc.in("d:del@6")
	sc.in("z:z@10", "a[0,10)=1@0", "c[0,10)=2@5")
	if left := timersLeft(tt, sc.d, "final"); left != 2 {
		tt.Errorf("the store has %d entries, want those of the open window only", left)
	}
}

// Full, it fails, or passes on what it has kept the longest.
func TestSuppressWhenFull(tt *testing.T) {
	tt.Parallel()
	limit := topology.UntilTimeLimit(100 * ms)
	for _, until := range []topology.Suppression{limit.MaxRecords(2), limit.MaxBytes(2 * (1 + 1 + 8 + 18 + 1))} {
		sc := run(tt, outStrings, suppressed(until.EmitEarlyWhenFull()))
		sc.in("b:1@5")
		sc.in("a:1@6")
		sc.in("b:2@7")
		sc.in("c:1@8", "b:2@7")
		sc.in("b:3@8", "a:1@6")
		sc.d.Crash()
		sc.in("c:2@9")
		sc.in("a:2@9", "b:3@8") // of those kept since 8 the first by its key
		sc.in("z:1@200", "c:2@9", "a:2@9")

		sc = run(tt, outStrings, suppressed(until.FailWhenFull()), topologytest.OnError(topology.Skip()))
		sc.in("a:1@5")
		sc.in("b:1@5")
		sc.in("a:2@5")
		sc.in("c:1@5")
		sc.counts(map[string]int64{"failed": 1})
		sc.d.Crash()
		sc.in("z:1@105", "a:2@5", "b:1@5")
		sc.in("c:1@106") // there is room
		sc.in("d:1@107")
		sc.in("e:1@107")
		sc.counts(map[string]int64{"failed": 3}) // c, z, which came when there was no room yet, and e
	}
	sc := run(tt, outStrings, suppressed(limit.MaxRecords(1).FailWhenFull()))
	sc.in("a:1@5")
	err := sc.d.Try(func() { sc.pipe("b:1@5") })
	if want := "suppress suppressed: no room: 2 keys of "; err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "record s[0]@1 at KTABLE-SUPPRESS-") {
		tt.Errorf("got %v, want %q of the record s[0]@1", err, want)
	}
}

// What is kept back keeps its headers and its pane, and holds the watermark of what is behind.
func TestSuppressKeepsHeadersAndHoldsTheWatermark(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, outStrings, func(b *topology.Builder) {
		st := lastValue(b).Suppress("suppressed", topology.UntilTimeLimit(10*ms))
		topology.Process(st, "told", func() *told { return &told{} }).To(outStrings)
	})
	sc.pipe("a:1@5", topology.Header{Key: "n", Value: []byte("1")})
	sc.pipe("a:2@6", topology.Header{Key: "n", Value: []byte("2")}, topology.Header{Key: "null"}, topology.Header{Key: "", Value: []byte{}})
	sc.d.Crash()
	sc.in("b:1@14")
	sc.in("b:2@15", "a:2 W=5@6")
	sc.in("c:1@24", "b:2 W=14@15")
	sc.in("c:2@34", "c:2 W=24@34")
	sc.in("d:1@40")
	sc.in("d:2@38") // older than what the key's time started with
	sc.in("e:1@45")
	sc.in("z:1@50", "d:2 W=40@40") // an aggregate's time is the largest that went in
	if r := topologytest.Output(sc.d, outStrings).Read(); fmt.Sprint(r.Headers) != `[n="2" null="" =""]` || r.Headers[1].Value != nil || r.Headers[2].Value == nil {
		tt.Errorf("headers %v", r.Headers)
	}
}

// The pane of a correction that is kept back is told when it is passed on.
func TestSuppressKeepsPanes(tt *testing.T) {
	tt.Parallel()
	b := topology.NewBuilder()
	w := topology.Windowed(topology.From(b, s).GroupByKey(), tumbling10, window.CorrectWithin(100*ms).Otherwise(window.Drop()))
	topology.Count(w, "count", topology.EmitOnClose()).Suppress("suppressed", topology.UntilTimeLimit(20*ms)).To(outWindows(10 * ms))
	d := topologytest.New(tt, topologytest.Build(tt, b.Build))
	in, out := topologytest.Input(d, s), topologytest.Output(d, outWindows(10*ms))
	in.Pipe(at(1), "a", "x", topology.Header{Key: "n", Value: []byte("1")})
	in.Pipe(at(12), "z", "x")
	in.Pipe(at(2), "a", "x")
	in.Pipe(at(3), "a", "x", topology.Header{Key: "n", Value: []byte("3")})
	d.Crash()
	if !out.Empty() {
		tt.Fatalf("too early: %v", out.All())
	}
	in.Pipe(at(40), "z", "x")
	var got []string
	for _, r := range out.All() {
		got = append(got, fmt.Sprint(show(r), " ", r.Headers))
	}
	if diff := cmp.Diff([]string{`a[0,10)=3@3 [n="3" x-pane="late" x-rev="2"]`, `z[10,20)=1@12 []`}, got); diff != "" {
		tt.Errorf("passed on (-want +got):\n%s", diff)
	}
}

// A change that cannot be passed on is given up, and the others go on.
func TestSuppressGivesUpWhatFails(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, outStrings, func(b *topology.Builder) {
		st := lastValue(b).Suppress("suppressed", topology.UntilTimeLimit(10*ms).MaxRecords(3).EmitEarlyWhenFull())
		topology.FlatMap(st, func(r topology.Record[string, string], emit func(string, string) error) error {
			if err := emit(r.Key, r.Value); err != nil {
				return err
			}
			return failing(r.Value)
		}).To(outStrings)
	}, topologytest.OnError(topology.Skip()))
	sc.in("a:panic@1")
	sc.in("b:error@1")
	sc.in("c:ok@1")
	sc.in("d:ok@2")
	sc.counts(map[string]int64{"failed": 1}) // there was no room for a
	sc.in("z:ok@12", "c:ok@1", "d:ok@2")
	sc.counts(map[string]int64{"failed": 2})
	sc.d.Crash()
	sc.in("z:ok@100", "z:ok@100")
	if left := timersLeft(tt, sc.d, "suppressed"); left != 1 {
		tt.Errorf("the store has %d entries, and nothing is kept back", left)
	}
}

// Contradictions are told by Build.
func TestSuppressMistakes(tt *testing.T) {
	tt.Parallel()
	limit := topology.UntilTimeLimit(time.Second)
	windows := func(w window.Definition, late window.Late, opts ...topology.AggregateOption) func(b *topology.Builder, until topology.Suppression) {
		return func(b *topology.Builder, until topology.Suppression) {
			topology.Count(topology.Windowed(topology.From(b, s).GroupByKey(), w, late), "count", opts...).Suppress("x", until)
		}
	}
	plain := func(b *topology.Builder, until topology.Suppression) { lastValue(b).Suppress("x", until) }
	corrects := window.CorrectWithin(time.Second).Otherwise(window.Drop())
	for _, c := range []struct {
		build func(b *topology.Builder, until topology.Suppression)
		until topology.Suppression
		want  string
	}{
		{plain, topology.Suppression{}, "it does not say how long"},
		{plain, topology.UntilWindowCloses(), "the table has no windows that could close"},
		{plain, topology.UntilTimeLimit(0), "UntilTimeLimit(0s): give a positive number of milliseconds"},
		{plain, topology.UntilTimeLimit(1500 * time.Microsecond), "UntilTimeLimit(1.5ms): give"},
		{plain, limit.MaxRecords(5), "does not say what happens when it is full"},
		{plain, limit.FailWhenFull(), "has no bound"},
		{plain, limit.MaxRecords(0).FailWhenFull(), "give 1 or more"},
		{plain, limit.MaxBytes(-1).FailWhenFull(), "give 1 or more"},
		{windows(tumbling10, dropLate), topology.UntilWindowCloses().MaxRecords(1).EmitEarlyWhenFull(), "a result that goes out early is not the last"},
		{windows(tumbling10, corrects), topology.UntilWindowCloses(), "window.CorrectWithin sends more"},
		{windows(window.Count(3), dropLate), topology.UntilWindowCloses(), "use EmitFinal"},
		{windows(tumbling10, dropLate, topology.Discarding(), topology.EmitEarlyCount(2)), limit, "each result of the windows counts"},
		{windows(tumbling10, dropLate, topology.Retracting(), topology.EmitEarlyCount(2)), limit, "each result of the windows counts"},
		{func(b *topology.Builder, until topology.Suppression) { lastValue(b).Suppress("last", until) }, limit, `store "last": the name is taken`},
	} {
		b := topology.NewBuilder()
		c.build(b, c.until)
		if _, err := b.Build(); err == nil || !strings.Contains(err.Error(), c.want) {
			tt.Errorf("got %v, want %q", err, c.want)
		}
	}
}

// keptBack is what the model keeps of a key.
type keptBack struct {
	since, low, at int64
	value          string
}

// Suppress does what its definition says, as a map would: with commits anywhere and crashes that lose what was not committed.
func TestSuppressIsTheModel(tt *testing.T) {
	tt.Parallel()
	const disorder, limit, room = 15, 25, 4
	lines, crashes, early := 0, 0, 0
	for seed := range uint64(60) {
		input, chaos := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
		bounded := seed%2 == 0
		until := topology.UntilTimeLimit(limit * ms)
		if bounded {
			until = until.MaxRecords(room).EmitEarlyWhenFull()
		}
		table := topology.Topic("t", str, str).Watermarks(window.BoundedDisorder(disorder * ms))
		b := topology.NewBuilder()
		st := topology.TableFrom(b, "table", table).Suppress("suppressed", until)
		topology.Process(st, "told", func() *told { return &told{} }).To(outStrings)
		d := topologytest.New(tt, topologytest.Build(tt, b.Build), topologytest.Manual())
		in, out := topologytest.Input(d, table), topologytest.Output(d, outStrings)

		w, sent := int64(math.MinInt64), int64(math.MinInt64)
		kept := map[string]keptBack{}
		var want []string
		pass := func(key string) {
			k, said := kept[key], "?"
			if sent != math.MinInt64 {
				said = fmt.Sprint(sent)
			}
			want = append(want, fmt.Sprintf("%s:%s W=%s@%d", key, k.value, said, k.at))
			delete(kept, key)
		}
		// first is the key kept back the longest.
		first := func() (key string) {
			for k, v := range kept {
				if o := kept[key]; key == "" || v.since < o.since || v.since == o.since && k < key {
					key = k
				}
			}
			return key
		}
		goOn := func() {
			hold := w
			for _, k := range kept {
				hold = min(hold, k.low)
			}
			sent = max(sent, hold)
		}
		now := int64(100)
		for range 50 + input.IntN(200) {
			now += input.Int64N(5)
			if input.IntN(50) == 0 {
				now += 200
			}
			key, ts, value := string(rune('a'+input.IntN(7))), now-input.Int64N(20), fmt.Sprint("v", now)
			k, had := kept[key]
			if !had {
				k = keptBack{since: ts, low: ts}
			}
			k.low, k.at, k.value = min(k.low, ts), ts, value
			in.Pipe(at(ts), key, value)
			kept[key] = k
			w = max(w, ts-disorder)
			for key := first(); key != "" && kept[key].since <= w-limit; key = first() {
				pass(key)
			}
			goOn()
			if bounded && len(kept) > room {
				pass(first())
				goOn()
				early++
			}
		}
		crashes += inSteps(d, chaos, 6, 5)
		d.Settle()
		var got []string
		for _, r := range out.All() {
			got = append(got, show(r))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			tt.Fatalf("seed %d (-model +got):\n%s", seed, diff)
		}
		lines += len(got)
	}
	if lines < 1000 || crashes < 200 || early < 50 {
		tt.Errorf("the test shows little: %d lines, %d crashes, %d passed on early", lines, crashes, early)
	}
}

// Behind every kind of window, final results by Suppress are those of EmitFinal: in the same order, but for sessions.
func TestSuppressIsEmitFinal(tt *testing.T) {
	tt.Parallel()
	for _, def := range []window.Definition{
		tumbling10, tumbling10.Grace(7 * ms), window.Hopping(20*ms, 5*ms).Grace(3 * ms), window.Global(), window.Session(8 * ms).Grace(4 * ms),
		window.SessionBy(func(string) time.Duration { return 3 * ms }, 6*ms), window.Sliding(6 * ms).Grace(3 * ms),
	} {
		for seed := range uint64(8) {
			input := rand.New(rand.NewPCG(seed, 1))
			b := topology.NewBuilder()
			g := topology.From(b, s.Watermarks(window.BoundedDisorder(5*ms))).GroupByKey()
			topic := func(name string) topology.TopicOf[window.Key[string], int64] {
				key := serde.Serde[window.Key[string]](window.KeySerde(str))
				if strings.HasPrefix(def.String(), "session") {
					key = window.SessionKeySerde(str)
				}
				return topology.Topic(name, key, i64)
			}
			topology.Count(topology.Windowed(g, def, dropLate), "updates").Suppress("final", topology.UntilWindowCloses()).To(topic("suppressed"))
			topology.Count(topology.Windowed(g, def, dropLate), "closes", topology.EmitFinal()).To(topic("finals"))
			d := topologytest.New(tt, topologytest.Build(tt, b.Build))
			in, suppressed, finals := topologytest.Input(d, s), topologytest.Output(d, topic("suppressed")), topologytest.Output(d, topic("finals"))
			now := int64(1000)
			for range 200 {
				if now += input.Int64N(6); input.IntN(40) == 0 {
					now += 300
				}
				in.Pipe(at(now-input.Int64N(15)), string(rune('a'+input.IntN(4))), "x")
				if input.IntN(20) == 0 {
					d.Crash()
				}
			}
			d.End()
			var got, want []string
			for _, r := range suppressed.All() {
				got = append(got, show(r))
			}
			for _, r := range finals.All() {
				want = append(want, show(r))
			}
			if strings.HasPrefix(def.String(), "session") { // whose order is by how far they reach
				slices.Sort(want)
				slices.Sort(got)
			}
			if diff := cmp.Diff(want, got); diff != "" || len(got) < 4 {
				tt.Fatalf("%v, seed %d: %d results (-EmitFinal +Suppress):\n%s", def, seed, len(got), diff)
			}
		}
	}
}
