package topology_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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

var update = flag.Bool("update", false, "write the golden files anew")

// mistakes makes every mistake that Build finds. A comment says what the error of its line has to say.
func mistakes(b *topology.Builder) {
	st := topology.From(b, s)
	upper := topology.Map(st, func(k, v string) (string, string) { return k, v })
	flat := topology.FlatMap(st, func(r topology.Record[string, string], emit func(string, string) error) error {
		return emit(r.Key, r.Value)
	})
	echoed := topology.Process(st, "echo", func() echo { return echo{} })
	table := topology.TableFrom(b, "table", t)
	join := func(a, _ string) string { return a }

	// Keys.
	upper.GroupByKey()                                                                                            // MISTAKE GroupByKey: the key may have been changed by Map at .*build_test.go:\d+,.* use GroupBy or Repartition
	flat.GroupByKey()                                                                                             // MISTAKE changed by FlatMap at
	echoed.GroupByKey()                                                                                           // MISTAKE changed by Process at
	upper.Filter(func(_, _ string) bool { return true }).GroupByKey()                                             // MISTAKE changed by Map at
	st.Merge(upper).GroupByKey()                                                                                  // MISTAKE changed by Map at
	topology.JoinTable(upper, table, join)                                                                        // MISTAKE JoinTable: the stream's key may have been changed by Map at
	topology.Process(upper, "keyed", func() echo { return echo{"keyed"} }, state.KeyValueOf("keyed", str, str))   // MISTAKE Process "keyed": the key may have been changed by Map at
	topology.Repartition(upper, "fine", 0, str, str).GroupByKey()                                                 // this is the way
	topology.Process(st, "echo", func() echo { return echo{} })                                                   // MISTAKE Process "echo": the name is taken at .*build_test.go:\d+
	topology.Process(st, "kinds", func() echo { return echo{} }, state.WindowsOf("table", str, str, time.Second)) // MISTAKE store "table": used as a window store here, and as a key-value store

	topology.Count(topology.Windowed(st.GroupByKey(), window.Tumbling(1), window.Drop()), "echo") // MISTAKE size is 1ns // MISTAKE windowed store "echo": the name is taken at .*build_test.go:\d+; what an operator knows of time

	// Names.
	topology.Count(st.GroupByKey(), "table")                 // MISTAKE store "table": the name is taken at .*build_test.go:\d+
	topology.Count(st.GroupByKey(), "")                      // MISTAKE store "": not a name
	topology.Count(st.GroupByKey(), "per key")               // MISTAKE store "per key": character ' ' cannot
	topology.Count(st.GroupByKey(), "a b/c d/é")             // MISTAKE store "a b/c d/é": characters ' ', '/', 'é' cannot
	topology.Count(st.GroupByKey(), "..")                    // MISTAKE store "..": not a name
	topology.Count(st.GroupByKey(), longName)                // MISTAKE 201 characters are too many
	topology.Repartition(st, "a/b", 0, str, str)             // MISTAKE repartition topic "a/b": character '/'
	topology.Repartition(st, "table", 0, str, str)           // MISTAKE repartition topic "table": the name is taken at
	topology.Process(st, "ü", func() echo { return echo{} }) // MISTAKE Process "ü": character 'ü'
	st.To(topology.Topic("no topic", str, str))              // MISTAKE topic "no topic": character ' '
	topology.From(b, s)                                      // MISTAKE topic s is read at .*build_test.go:\d+ already
	topology.TableFrom(b, "again", t)                        // MISTAKE topic t is read at .*build_test.go:\d+ already
	topology.From(b, topology.Topic("", str, str))           // MISTAKE topic "": not a name

	// Windows.
	g := st.GroupByKey()
	w := topology.Windowed(g, window.Tumbling(time.Minute), window.Drop())
	topology.Count(g, "no-window", topology.EmitOnClose())                        // MISTAKE EmitOnClose on store "no-window": there is no window
	topology.Windowed(g, window.Tumbling(0), window.Drop())                       // MISTAKE size is 0s
	topology.Count(w, "sized").To(outWindows(time.Hour))                          // MISTAKE topic "out": its key serde is for windows of 1h0m0s, and what is written are windows of 1m0s
	topology.Windowed(g, window.Hopping(time.Second, time.Minute), window.Drop()) // MISTAKE would leave gaps
	topology.Windowed(g, window.Tumbling(time.Minute), window.Late{})             // MISTAKE no late policy
	topology.Windowed(g, window.Tumbling(time.Minute), window.Sideline(""))       // MISTAKE Sideline: the topic has no name
	topology.Windowed(w, window.Tumbling(time.Minute), window.Drop())             // MISTAKE the group is windowed already
	w.Stream()                                                                    // MISTAKE a windowed group is no stream
	aside := window.Sideline("aside")
	behind := topology.Windowed(topology.Repartition(flat, "fine2", 0, str, str).GroupByKey(), window.Tumbling(time.Minute), aside)
	topology.Count(behind, "fine3")                                                                 // a record of a repartition topic can be set aside
	topology.Count(topology.Windowed(flat.GroupByKey(), window.Tumbling(time.Minute), aside), "x1") // MISTAKE changed by FlatMap // MISTAKE Sideline\("aside"\): a record here is not the one
	windowed := topology.Count(w, "x2")
	topology.Count(topology.Windowed(windowed.Stream().GroupByKey(), window.Tumbling(time.Hour), aside), "x3")         // MISTAKE Sideline\("aside"\): a record here is not the one
	topology.Count(topology.Windowed(st.Merge(table.Stream()).GroupByKey(), window.Tumbling(time.Hour), aside), "x10") // MISTAKE Sideline\("aside"\): a record here is not the one
	topology.Count(topology.Windowed(table.Stream().Merge(st).GroupByKey(), window.Tumbling(time.Hour), aside), "x11") // MISTAKE Sideline\("aside"\): a record here is not the one
	keyed := topology.From(b, topology.Topic("w", window.KeySerde(str).Size(time.Minute), str))
	topology.JoinTable(keyed, windowed, func(a string, _ int64) string { return a }) // MISTAKE table "x2" is windowed

	// Callbacks.
	st.Filter(nil)                                                                                                       // MISTAKE Filter: the function is nil; give one
	st.Peek(nil)                                                                                                         // MISTAKE Peek: the function is nil
	topology.Map[string, string, string, string](st, nil)                                                                // MISTAKE Map: the function is nil
	topology.MapValues[string, string, string](st, nil)                                                                  // MISTAKE MapValues: the function is nil
	topology.FlatMap[string, string, string, string](st, nil)                                                            // MISTAKE FlatMap: the function is nil
	topology.GroupBy(st, "y1", nil, str, str)                                                                            // MISTAKE GroupBy "y1": the function is nil
	topology.Aggregate(g, "y2", i64, nil)                                                                                // MISTAKE Aggregate into store "y2": the function is nil
	topology.AggregateOrDelete(g, "y3", i64, nil)                                                                        // MISTAKE AggregateOrDelete into store "y3": the function is nil
	topology.Reduce(g, "y4", str, nil)                                                                                   // MISTAKE Reduce into store "y4": the function is nil
	topology.JoinTable[string, string, string, string](st, table, nil)                                                   // MISTAKE JoinTable: the function is nil
	topology.LeftJoinTable[string, string, string, string](st, table, nil)                                               // MISTAKE LeftJoinTable: the function is nil
	topology.Process[echo, string, string, string, string](st, "y5", nil)                                                // MISTAKE Process "y5": the function is nil
	topology.Process(st, "y6", func() echo { return echo{} }, state.KeyValueOf("y7", str, str), nil)                     // MISTAKE Process "y6": store 2 of 2 is nil
	topology.From(b, topology.Topic("y8", str, str).EventTime(nil))                                                      // MISTAKE topic "y8": EventTime: the function given at .*build_test.go:\d+ is nil
	topology.From(b, topology.Topic("y9", str, str).EventTime(nil).EventTime(topology.Record[string, string].Timestamp)) // the last one counts // MISTAKE nothing is done with the stream of topic y9; add an operator or To behind From

	// What is zero or nil inside.
	st.Merge(topology.Stream[string, string]{})                                                  // MISTAKE Merge: the other stream is the zero value
	topology.JoinTable(st, topology.Table[string, string]{}, join)                               // MISTAKE JoinTable: the table is the zero value
	st.To(topology.Topic[string, string]("z1", str, (*pointedSerde)(nil)))                       // MISTAKE topic "z1": no serde
	topology.Process(st, "z2", func() echo { return echo{} }, (*pointedStore)(nil))              // MISTAKE Process "z2": store 1 of 1 is nil
	topology.From(b, topology.Topic("z3", str, str))                                             // MISTAKE nothing is done with the stream of topic z3
	topology.Repartition(topology.From(b, topology.Topic("z4", str, str)), "fine4", 0, str, str) // something is

	// Loops.
	st.To(s)                                                                                                  // MISTAKE topic s is written here, and read at .*build_test.go:\d+: .*use another topic
	table.To(t)                                                                                               // MISTAKE topic t is written here, and read at
	topology.Count(topology.Windowed(g, window.Tumbling(time.Minute), window.Sideline("s")), "late-to-input") // MISTAKE topic s is written here, and read at
	st.To(topology.Topic("fine", str, str))                                                                   // a repartition topic of that name has the application's in front

	// Serdes and numbers.
	topology.Aggregate(g, "x4", nil, func(a int64, _ string) int64 { return a })            // MISTAKE store "x4": no serde
	topology.GroupBy(st, "x5", func(k, _ string) string { return k }, nil, str)             // MISTAKE repartition topic "x5": no serde
	st.To(topology.Topic[string, string]("x7", str, brokenSerde{str}))                      // MISTAKE topic "x7": the schema is of something else
	st.To(topology.Topic[string, string]("x6", str, nil))                                   // MISTAKE topic "x6": no serde
	topology.Repartition(st, "x7", -1, str, str)                                            // MISTAKE Repartition "x7": -1 partitions
	topology.From(b, topology.Topic("x8", str, str).Watermarks(window.BoundedDisorder(-1))) // MISTAKE disorder is -1ns

	// Watermarks and time.
	fine := topology.Topic("fine", str, str)
	topology.From(b, topology.Topic("w1", str, str).Punctuated(nil)).To(fine)                                                                    // MISTAKE topic "w1": Punctuated: the function given at .*build_test.go:\d+ is nil
	topology.From(b, topology.Topic("w2", str, str).WatermarksBy(nil)).To(fine)                                                                  // MISTAKE topic "w2": WatermarksBy: the function given at .*build_test.go:\d+ is nil
	topology.From(b, topology.Topic("w3", str, str).Punctuated(nil).Watermarks(window.Monotonic())).To(fine)                                     // the last one counts
	topology.From(b, topology.Topic("w4", str, str).FutureGuard(0, window.Drop())).To(fine)                                                      // MISTAKE topic "w4": FutureGuard is given 0s at .*build_test.go:\d+; give a positive duration
	topology.From(b, topology.Topic("w5", str, str).FutureGuard(time.Minute, window.Late{})).To(fine)                                            // MISTAKE no late policy
	topology.From(b, topology.Topic("w6", str, str).FutureGuard(time.Minute, window.CorrectWithin(time.Hour).Otherwise(window.Drop()))).To(fine) // MISTAKE topic "w6": FutureGuard is given .* a record that is too far ahead corrects nothing
	topology.From(b, topology.Topic("w7", str, str).FutureGuard(time.Minute, window.Sideline("s"))).To(fine)                                     // MISTAKE topic s is written here, and read at
	topology.TableFrom(b, "w8", topology.Topic("w8", str, str).FutureGuard(time.Minute, window.Drop()))                                          // MISTAKE topic "w8": FutureGuard at .*build_test.go:\d+, and the topic is read as a table

	// Two builders.
	other := topology.From(topology.NewBuilder(), s)
	st.Merge(other)                                                                     // MISTAKE Merge: the other stream belongs to another Builder
	topology.JoinTable(st, topology.TableFrom(topology.NewBuilder(), "x9", t), join)    // MISTAKE JoinTable: the table belongs to another Builder
	topology.LeftJoinTable(upper, table, func(a, _ string, _ bool) string { return a }) // MISTAKE LeftJoinTable: the stream's key may have been changed by Map at
}

var longName = strings.Repeat("n", 201)

type pointedSerde struct{ serde.Serde[string] }

type pointedStore struct{}

func (s *pointedStore) Spec() state.Spec { return state.Spec{Name: fmt.Sprint(*s)} }

// TestZeroValues: no Builder knows of a stream that no operator has returned, so no Build can report what is done with it. The place is
// told all the same.
func TestZeroValues(tt *testing.T) {
	tt.Parallel()
	var st topology.Stream[string, string]
	for name, call := range map[string]func(){
		"From":       func() { topology.From[string, string](nil, s) },
		"TableFrom":  func() { topology.TableFrom[string, string](nil, "t", t) },
		"Build":      func() { _, _ = (*topology.Builder)(nil).Build() },
		"Filter":     func() { st.Filter(func(_, _ string) bool { return true }) },
		"Peek":       func() { st.Peek(func(_, _ string) {}) },
		"Map":        func() { topology.Map(st, func(k, v string) (string, string) { return k, v }) },
		"MapValues":  func() { topology.MapValues(st, func(v string) string { return v }) },
		"Merge":      func() { st.Merge(st) },
		"To":         func() { st.To(outStrings) },
		"GroupByKey": func() { st.GroupByKey() },
		"GroupBy":    func() { topology.GroupBy(st, "g", func(k, _ string) string { return k }, str, str) },
		"Repart":     func() { topology.Repartition(st, "g", 0, str, str) },
		"Process":    func() { topology.Process(st, "p", func() echo { return echo{} }) },
		"OnError":    func() { st.OnError(topology.Skip()) },
		"Join": func() {
			topology.JoinTable(st, topology.Table[string, string]{}, func(a, _ string) string { return a })
		},
		"Stream":   func() { topology.Table[string, string]{}.Stream() },
		"Table.To": func() { topology.Table[string, string]{}.To(outStrings) },
		"Count":    func() { topology.Count(topology.Grouped[string, string]{}, "c") },
		"Windowed": func() {
			topology.Count(topology.Windowed(topology.Grouped[string, string]{}, window.Tumbling(time.Minute), window.Drop()), "c")
		},
		"Grouped": func() { topology.Grouped[string, string]{}.Stream() },
	} {
		func() {
			defer func() {
				said := fmt.Sprint(recover())
				if !regexp.MustCompile(`build_test\.go:\d+: topology: the zero value is no stream, .*start with NewBuilder and From`).MatchString(said) {
					tt.Errorf("%s of a zero value: %s", name, said)
				}
			}()
			call()
		}()
	}
}

// Build reports all mistakes at once, each with the line that made it.
func TestBuildFindsAllMistakes(tt *testing.T) {
	tt.Parallel()
	b := topology.NewBuilder()
	mistakes(b)
	top, err := b.Build()
	if err == nil || top != nil {
		tt.Fatalf("Build returned %v and %v", top, err)
	}
	src, err2 := os.ReadFile("build_test.go")
	if err2 != nil {
		tt.Fatal(err2)
	}
	var left []string
	for _, line := range strings.Split(strings.TrimPrefix(err.Error(), "topology: "), "\n") {
		if !strings.Contains(line, "build_test.go:") && len(left) > 0 {
			left[len(left)-1] += "; " + line // what is wrong with one window may take several
			continue
		}
		left = append(left, line)
	}
	for i, line := range strings.Split(string(src), "\n") {
		for _, want := range strings.Split(line, "// MIS"+"TAKE ")[1:] {
			re := regexp.MustCompile(fmt.Sprintf(`^.*build_test\.go:%d: .*%s`, i+1, strings.TrimSpace(want)))
			found := false
			for j := range left {
				if re.MatchString(left[j]) {
					left, found = append(left[:j:j], left[j+1:]...), true
					break
				}
			}
			if !found {
				tt.Errorf("no error matches %s", re)
			}
		}
	}
	for _, l := range left {
		tt.Errorf("not expected: %s", l)
	}
}

func TestBuildWithoutSource(tt *testing.T) {
	tt.Parallel()
	if _, err := topology.NewBuilder().Build(); err == nil || !strings.Contains(err.Error(), "the topology has no source") {
		tt.Errorf("got %v", err)
	}
}

// A topology stays what Build made of it.
func TestBuilderIsUsedOnce(tt *testing.T) {
	tt.Parallel()
	b := topology.NewBuilder()
	st := topology.From(b, s)
	st.To(outStrings)
	top := topologytest.Build(tt, b.Build)
	if _, err := b.Build(); err == nil || !regexp.MustCompile(`Build was called at .*\.go:\d+ already`).MatchString(err.Error()) {
		tt.Errorf("second Build: got %v", err)
	}
	st.Peek(func(_, _ string) {})
	if _, err := topologytest.Open(top); err == nil || !strings.Contains(err.Error(), "operators were added after Build") {
		tt.Errorf("an operator added later: got %v", err)
	}
}

// eager emits in Init, which every rebuild of the task would repeat.
type eager struct{ echo }

func (eager) Init(_ *topology.Task, out topology.Emitter[string, string]) error {
	_ = out(topology.Record[string, string]{Key: "a"})
	return nil
}

func TestNothingIsEmittedInInit(tt *testing.T) {
	tt.Parallel()
	b := topology.NewBuilder()
	topology.Process(topology.From(b, s), "eager", func() eager { return eager{} }).To(outStrings)
	_, err := topologytest.Open(topologytest.Build(tt, b.Build))
	if err == nil || !strings.Contains(err.Error(), "processor eager: Init: nothing can be emitted in Init") {
		tt.Errorf("got %v", err)
	}
}

// A store that Process does not name cannot be opened, and one that is not there neither; views open in Init only.
func TestUndeclaredStore(tt *testing.T) {
	tt.Parallel()
	b := topology.NewBuilder()
	topology.Count(topology.From(b, s).GroupByKey(), "count")
	topology.Process(topology.From(b, t), "echo", func() echo { return echo{"count"} })
	_, err := topologytest.Open(topologytest.Build(tt, b.Build))
	if err == nil || !strings.Contains(err.Error(), `processor echo: Init`) || !strings.Contains(err.Error(), `store "count" is not among those of processor echo; name it in Process`) {
		tt.Errorf("got %v", err)
	}
}

// The text is Kafka Streams' form, which tools read.
func TestDescribe(tt *testing.T) {
	tt.Parallel()
	for name, build := range map[string]func(b *topology.Builder){
		"stateless": func(b *topology.Builder) {
			topology.MapValues(topology.From(b, s).Filter(func(_, _ string) bool { return true }), func(v string) string { return v }).To(outStrings)
		},
		"branches": func(b *topology.Builder) {
			st := topology.From(b, s)
			st.Filter(func(_, _ string) bool { return true }).Merge(st.Peek(func(_, _ string) {})).To(outStrings)
			topology.Count(topology.From(b, t).GroupByKey(), "count")
		},
		"join-and-windows": func(b *topology.Builder) {
			byOther := topology.GroupBy(topology.From(b, s), "by-other", func(_, v string) string { return v }, str, str)
			named := topology.JoinTable(byOther.Stream(), topology.TableFrom(b, "names", t), func(v, _ string) string { return v })
			w := topology.Windowed(named.GroupByKey(), window.Tumbling(time.Hour), window.Sideline("late"))
			topology.Count(w, "per-hour", topology.EmitOnClose()).To(outWindows(time.Hour))
		},
		"left-join": func(b *topology.Builder) {
			table := topology.TableFrom(b, "names", t)
			topology.LeftJoinTable(topology.From(b, s), table, func(v, _ string, _ bool) string { return v }).To(outStrings)
		},
		"processor": func(b *topology.Builder) {
			st := topology.From(b, s)
			topology.Process(st, "first", func() echo { return echo{"shared"} }, state.KeyValueOf("shared", str, str)).To(outStrings)
			topology.Process(topology.Repartition(st, "again", 2, str, str), "second", func() echo { return echo{"own"} }, state.KeyValueOf("own", str, str))
		},
	} {
		b := topology.NewBuilder()
		build(b)
		top := topologytest.Build(tt, b.Build)
		file := filepath.Join("testdata", "describe", name+".txt")
		if *update {
			if err := os.WriteFile(file, []byte(top.Describe()), 0o644); err != nil {
				tt.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			tt.Fatalf("%v; run with -update to write it", err)
		}
		if diff := cmp.Diff(string(want), top.Describe()); diff != "" {
			tt.Errorf("%s (-golden +got):\n%s", name, diff)
		}
	}
}

// Equal topologies have equal fingerprints, others others.
func TestFingerprint(tt *testing.T) {
	tt.Parallel()
	build := func(store string) uint64 {
		b := topology.NewBuilder()
		topology.Count(topology.From(b, s).GroupByKey(), store)
		return topologytest.Build(tt, b.Build).Fingerprint()
	}
	first, again, other := build("a"), build("a"), build("b")
	if first != again || first == other {
		tt.Errorf("fingerprints do not tell topologies apart: %x, %x and another one %x", first, again, other)
	}
}

// brokenSerde knows its own mistake, as one that is made of a schema.
type brokenSerde struct{ serde.Serde[string] }

func (brokenSerde) Err() error { return errors.New("the schema is of something else") }
