package topology_test

import (
	"errors"
	"fmt"
	"os"
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
	tumbling10 = window.Tumbling(10 * ms)
	dropLate   = window.Drop()

	seen = state.KeyValueOf("seen", str, i64)
)

// clumsy counts what it sees, emits it twice, and only then finds out that it cannot.
type clumsy struct {
	fail  func(v string) error // where the value says so
	punct bool                 // in punctuations instead
	view  *state.KeyValueView[string, int64]
	last  string
}

func (p *clumsy) Init(t *topology.Task, out topology.Emitter[string, string]) (err error) {
	if p.view, err = seen.Open(t); err != nil || !p.punct {
		return err
	}
	fire := func(now time.Time) error { return p.do(fmt.Sprint("fire", now.UnixMilli()%1000), p.last, out) }
	return errors.Join(t.EveryStreamTime(10*ms, fire), t.EveryWallClock(10*ms, fire))
}

func (p *clumsy) Process(r topology.Record[string, string], out topology.Emitter[string, string]) error {
	p.last = r.Value
	if p.punct {
		return nil
	}
	return p.do(r.Key, r.Value, out)
}

func (p *clumsy) do(key, value string, out topology.Emitter[string, string]) error {
	n, _, err := p.view.Get(key)
	if err != nil {
		return err
	}
	if err := p.view.Put(key, n+1); err != nil {
		return err
	}
	if err := p.view.Put("all", n+1); err != nil {
		return err
	}
	for i := range 2 {
		if err := out(topology.Record[string, string]{Key: key, Value: fmt.Sprint(value, i)}); err != nil {
			return err
		}
	}
	return p.fail(value)
}

func failing(v string) error {
	switch v {
	case "panic":
		panic("oh no")
	case "error":
		return errors.New("oh no")
	}
	return nil
}

func stored(tt *testing.T, d *topologytest.Driver) map[string]int64 {
	tt.Helper()
	view, err := seen.Open(d.Stores(0))
	if err != nil {
		tt.Fatal(err)
	}
	got := map[string]int64{}
	for it, err := range view.All() {
		if err != nil {
			tt.Fatal(err)
		}
		got[it.Key] = it.Value
	}
	return got
}

// Under Skip a record that fails leaves no trace: no write, no output, no count of what it dropped on the way. The sibling
// branches that it has passed already are no exception.
func TestAFailedRecordLeavesNoTrace(tt *testing.T) {
	tt.Parallel()
	for _, how := range []string{"panic", "error"} {
		sc := run(tt, outStrings, func(b *topology.Builder) {
			all := topology.From(b, s)
			topology.Count(all.GroupByKey(), "before")                                         // a branch before it
			topology.Count(topology.Windowed(all.GroupByKey(), tumbling10, dropLate), "drops") // counts late ones
			topology.Process(all, "clumsy", func() *clumsy { return &clumsy{fail: failing} }, seen).To(outStrings)
		}, topologytest.OnError(topology.Skip()))
		sc.in("a:ok@100", "a:ok0@0", "a:ok1@0")
		sc.in("a:" + how + "@5") // late for drops
		sc.counts(map[string]int64{"failed": 1})
		if diff := cmp.Diff(map[string]int64{"a": 1, "all": 1}, stored(tt, sc.d)); diff != "" {
			tt.Errorf("%s: store (-want +got):\n%s", how, diff)
		}
		before, err := state.KeyValueOf("before", str, i64).Open(sc.d.Stores(0))
		if err != nil {
			tt.Fatal(err)
		}
		if n, _, _ := before.Get("a"); n != 1 {
			tt.Errorf("%s: the branch before it kept %d, want 1", how, n)
		}
		sc.in("a:ok@101", "a:ok0@0", "a:ok1@0")
		sc.in("new:" + how + "@102")
		sc.in("b:ok@5", "b:ok0@0", "b:ok1@0")
		sc.counts(map[string]int64{"failed": 2, "late-dropped": 1})
		sc.d.Crash()
		if diff := cmp.Diff(map[string]int64{"a": 2, "b": 1, "all": 1}, stored(tt, sc.d)); diff != "" {
			tt.Errorf("%s: store after a crash (-want +got):\n%s", how, diff)
		}
	}
}

// A punctuation is atomic as well, and one that failed is over: it comes again with the next multiple.
func TestAFailedPunctuationLeavesNoTrace(tt *testing.T) {
	tt.Parallel()
	for _, how := range []string{"panic", "error"} {
		sc := run(tt, outStrings, func(b *topology.Builder) {
			topology.Process(topology.From(b, s), "clumsy", func() *clumsy { return &clumsy{fail: failing, punct: true} }, seen).To(outStrings)
		}, topologytest.OnError(topology.Skip()), topologytest.StartAt(at(0)))
		sc.in("a:ok@1", "fire1:ok0@0", "fire1:ok1@0")
		sc.in("a:" + how + "@15")
		sc.counts(map[string]int64{"failed": 1})
		sc.d.Advance(20 * ms)
		sc.wants("wall clock, failing")
		sc.counts(map[string]int64{"failed": 2})
		if diff := cmp.Diff(map[string]int64{"fire1": 1, "all": 1}, stored(tt, sc.d)); diff != "" {
			tt.Errorf("%s: store (-want +got):\n%s", how, diff)
		}
		sc.in("a:ok@19")
		sc.in("a:ok@20", "fire20:ok0@0", "fire20:ok1@0")
		sc.d.Advance(10 * ms)
		sc.wants("wall clock, repaired", "fire30:ok0@0", "fire30:ok1@0")
		sc.counts(map[string]int64{"failed": 2})
	}
}

// A window whose result fails is given up, with its state; the windows after it, and time, go on.
func TestAFailedWindowIsGivenUp(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, outStrings, func(b *topology.Builder) {
		w := topology.Windowed(topology.From(b, s).GroupByKey(), tumbling10, dropLate)
		last := topology.Reduce(w, "last", str, func(_, v string) string { return v }, topology.EmitOnClose())
		plain := topology.Map(last.Stream(), func(k window.Key[string], v string) (string, string) { return k.Key, v })
		// Two results go out before it fails.
		topology.FlatMap(plain, func(r topology.Record[string, string], emit func(string, string) error) error {
			if err := errors.Join(emit(r.Key, "0"), emit(r.Key, "1")); err != nil {
				return err
			}
			return failing(r.Value)
		}).To(outStrings)
	}, topologytest.OnError(topology.Skip()))
	for _, r := range []string{"a:panic@1", "b:ok@2", "c:error@3"} {
		sc.in(r)
	}
	sc.in("z:ok@10", "b:0@2", "b:1@2")
	sc.counts(map[string]int64{"failed": 2})
	sc.in("a:ok@5") // late: the window is closed, given up or not
	sc.in("z:ok@20", "z:0@10", "z:1@10")
	sc.counts(map[string]int64{"failed": 2, "late-dropped": 1})
	windows, err := state.WindowsOf("last", str, str, time.Minute).Open(sc.d.Stores(0))
	if err != nil {
		tt.Fatal(err)
	}
	var left []string
	for it, err := range windows.All() {
		if err != nil {
			tt.Fatal(err)
		}
		left = append(left, fmt.Sprint(it.Key, it.Start))
	}
	if diff := cmp.Diff([]string{"z20"}, left); diff != "" {
		tt.Errorf("windows left (-want +got):\n%s", diff)
	}
	sc.d.Crash()
}

// Under Fail, the default, the error says which record, which operator, where the builder's user added it, and what.
func TestFailNamesThePlace(tt *testing.T) {
	tt.Parallel()
	src, err := os.ReadFile("atomic_test.go")
	if err != nil {
		tt.Fatal(err)
	}
	// line is the place so many lines below the first one with the text.
	line := func(text string, below int) string {
		before, _, _ := strings.Cut(string(src), text)
		return fmt.Sprint("atomic_test.go:", strings.Count(before, "\n")+1+below)
	}
	process := func(b *topology.Builder) {
		topology.Process(topology.From(b, s), "clumsy", func() *clumsy { return &clumsy{fail: failing} }, seen).To(outStrings)
	}
	ticking := func(b *topology.Builder) {
		topology.Process(topology.From(b, s), "clumsy", func() *clumsy { return &clumsy{fail: failing, punct: true} }, seen).To(outStrings)
	}
	closing := func(b *topology.Builder) {
		w := topology.Windowed(topology.From(b, s).GroupByKey(), tumbling10, dropLate)
		last := topology.Reduce(w, "last", str, func(_, v string) string { return v }, topology.EmitOnClose())
		topology.MapValues(last.Stream(), func(v string) string { return fmt.Sprint(failing(v)) })
		topology.Map(last.Stream(), func(k window.Key[string], v string) (string, string) { return k.Key, v }).To(outStrings)
	}
	for _, c := range []struct {
		name  string
		build func(b *topology.Builder)
		in    []string
		want  []string
	}{
		{"error in Process", process, []string{"a:error@1"}, []string{"record s[0]@0 at clumsy (" + line("process := func", 1) + "): oh no"}},
		{"panic in Process", process, []string{"a:ok@1", "a:panic@2"}, []string{"record s[0]@1 at clumsy (" + line("process := func", 1) + "): panic: oh no"}},
		{"panic in a punctuation", ticking, []string{"a:panic@1"}, []string{"task 0_0 at clumsy (" + line("ticking := func", 1) + "): panic: oh no"}},
		{"panic behind a window", closing, []string{"a:panic@1", "b:ok@10"}, []string{"task 0_0 at KSTREAM-MAPVALUES-", " (" + line("closing := func", 3) + "): panic: oh no"}},
		{"panic in a join", func(b *topology.Builder) {
			topology.JoinTable(topology.From(b, s), topology.TableFrom(b, "table", t), func(a, _ string) string { return fmt.Sprint(failing(a)) }).To(outStrings)
		}, []string{"t a:x@1", "a:panic@2"}, []string{"record s[0]@0 at KSTREAM-JOIN-", "panic: oh no"}},
		{"panic in an aggregate", func(b *topology.Builder) {
			topology.Reduce(topology.From(b, s).GroupByKey(), "last", str, func(_, v string) string { return fmt.Sprint(failing(v)) }).To(outStrings)
		}, []string{"a:x@1", "a:panic@2"}, []string{"record s[0]@1 at KSTREAM-REDUCE-", "panic: oh no"}},
	} {
		sc := run(tt, outStrings, c.build)
		err := sc.d.Try(func() {
			for _, line := range c.in {
				sc.pipe(line)
			}
		})
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				tt.Errorf("%s: got %v, want %q", c.name, err, want)
			}
		}
	}
}

// A record that cannot be decoded never reaches an operator and moves no watermark.
func TestUndecodable(tt *testing.T) {
	tt.Parallel()
	numbers := topology.Topic("s", str, i64)
	sc := run(tt, outCounts, func(b *topology.Builder) {
		w := topology.Windowed(topology.From(b, numbers).GroupByKey(), tumbling10, dropLate)
		topology.Map(topology.Count(w, "count").Stream(), func(k window.Key[string], n int64) (string, int64) { return k.Key, n }).To(outCounts)
	}, topologytest.OnError(topology.Skip()))
	in := topologytest.Input(sc.d, numbers)
	in.Pipe(at(1), "a", 1)
	in.PipeRaw(0, at(1000), []byte("a"), []byte("what?"))
	in.Pipe(at(2), "a", 1)
	sc.wants("two good ones", "a:1@1", "a:2@2")
	sc.counts(map[string]int64{"undecodable": 1})
}

// What an operator emits after its error is swallowed does not make a half record of it.
func TestASwallowedErrorFailsTheRecord(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, outStrings, func(b *topology.Builder) {
		st := topology.FlatMap(topology.From(b, s), func(r topology.Record[string, string], emit func(string, string) error) error {
			_ = emit(r.Key, "first")
			_ = emit(r.Key, r.Value)
			return nil
		})
		topology.FlatMap(st, func(r topology.Record[string, string], emit func(string, string) error) error {
			return errors.Join(emit(r.Key, r.Value), failing(r.Value))
		}).To(outStrings)
	}, topologytest.OnError(topology.Skip()))
	sc.in("a:ok@1", "a:first@1", "a:ok@1")
	sc.in("a:error@2")
	sc.counts(map[string]int64{"failed": 1})
	sc.in("a:ok@3", "a:first@3", "a:ok@3")
}
