package topology_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/topology/topologytest"
)

// echo passes on what it gets.
type echo struct{ store string }

func (p echo) Init(t *topology.Task, _ topology.Emitter[string, string]) error {
	if p.store == "" {
		return nil
	}
	_, err := state.KeyValueOf(p.store, str, str).Open(t)
	return err
}

func (echo) Process(r topology.Record[string, string], out topology.Emitter[string, string]) error {
	return out(r)
}

// No callback sees a null value, whatever the topic says; Process and To do where it says KeepNulls. What is dropped is counted.
func TestNullValues(tt *testing.T) {
	tt.Parallel()
	for _, c := range []struct {
		name  string
		build func(topology.Stream[string, string]) topology.Stream[string, string]
		keeps bool
	}{
		{"To", func(st topology.Stream[string, string]) topology.Stream[string, string] { return st }, true},
		{"Process", func(st topology.Stream[string, string]) topology.Stream[string, string] {
			return topology.Process(st, "echo", func() echo { return echo{} })
		}, true},
		{"Process with a store", func(st topology.Stream[string, string]) topology.Stream[string, string] {
			return topology.Process(st, "echo", func() echo { return echo{"store"} }, state.KeyValueOf("store", str, str))
		}, true},
		{"Merge", func(st topology.Stream[string, string]) topology.Stream[string, string] {
			return st.Merge(st.Filter(func(_, _ string) bool { return false }))
		}, true},
		{"Filter", func(st topology.Stream[string, string]) topology.Stream[string, string] {
			return st.Filter(func(_, _ string) bool { return true })
		}, false},
		{"Peek", func(st topology.Stream[string, string]) topology.Stream[string, string] {
			return st.Peek(func(_, v string) {
				if v == "" {
					tt.Error("Peek saw a null value")
				}
			})
		}, false},
		{"MapValues", func(st topology.Stream[string, string]) topology.Stream[string, string] {
			return topology.MapValues(st, func(v string) string { return v })
		}, false},
		{"Map", func(st topology.Stream[string, string]) topology.Stream[string, string] {
			return topology.Map(st, func(k, v string) (string, string) { return k, v })
		}, false},
		{"FlatMap", func(st topology.Stream[string, string]) topology.Stream[string, string] {
			return topology.FlatMap(st, func(r topology.Record[string, string], emit func(string, string) error) error {
				return emit(r.Key, r.Value)
			})
		}, false},
		{"GroupBy", func(st topology.Stream[string, string]) topology.Stream[string, string] {
			return topology.GroupBy(st, "again", func(k, _ string) string { return k }, str, str).Stream()
		}, false},
		{"Repartition", func(st topology.Stream[string, string]) topology.Stream[string, string] {
			return topology.Repartition(st, "again", 0, str, str)
		}, false},
		{"Reduce", func(st topology.Stream[string, string]) topology.Stream[string, string] {
			return topology.Reduce(st.GroupByKey(), "store", str, func(_, v string) string { return v }).Stream()
		}, false},
	} {
		for _, keep := range []bool{false, true} {
			in := s
			if keep {
				in = s.KeepNulls()
			}
			sc := run(tt, outStrings, func(b *topology.Builder) { c.build(topology.From(b, in)).To(outStrings) })
			sc.in("a:x@1", "a:x@1")
			if keep && c.keeps {
				sc.in("a:null@2", "a:null@2")
				want := map[string]int64{}
				if c.name == "Merge" {
					want["null-value"] = 1 // by the filter in one of its branches
				}
				sc.counts(want)
			} else {
				sc.in("a:null@2")
				sc.counts(map[string]int64{"null-value": 1})
			}
			if tt.Failed() {
				tt.Fatalf("%s, KeepNulls %v", c.name, keep)
			}
		}
	}
}

// A null key passes what needs none. Before anything keyed it is dropped and counted.
func TestNullKeys(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, outStrings, func(b *topology.Builder) {
		st := topology.From(b, s).Filter(func(k, _ string) bool { return k == "" }).Peek(func(_, _ string) {})
		st = topology.MapValues(st, func(v string) string { return v + "!" })
		topology.Process(st, "echo", func() echo { return echo{} }).To(outStrings)
	})
	sc.in("null:x@1", "null:x!@1")
	sc.counts(map[string]int64{})

	for _, c := range []struct {
		name  string
		build func(b *topology.Builder, st topology.Stream[string, string])
	}{
		{"Count", func(_ *topology.Builder, st topology.Stream[string, string]) { topology.Count(st.GroupByKey(), "x") }},
		{"Windowed", func(_ *topology.Builder, st topology.Stream[string, string]) {
			topology.Count(topology.Windowed(st.GroupByKey(), tumbling10, dropLate), "x")
		}},
		{"JoinTable", func(b *topology.Builder, st topology.Stream[string, string]) {
			topology.JoinTable(st, topology.TableFrom(b, "x", t), func(a, b string) string { return a + b })
		}},
		{"LeftJoinTable", func(b *topology.Builder, st topology.Stream[string, string]) {
			topology.LeftJoinTable(st, topology.TableFrom(b, "x", t), func(a, b string, _ bool) string { return a + b })
		}},
		{"Repartition", func(_ *topology.Builder, st topology.Stream[string, string]) {
			topology.Repartition(st, "x", 0, str, str)
		}},
		{"Process with a store", func(_ *topology.Builder, st topology.Stream[string, string]) {
			topology.Process(st, "echo", func() echo { return echo{"x"} }, state.KeyValueOf("x", str, str))
		}},
	} {
		b := topology.NewBuilder()
		c.build(b, topology.From(b, s))
		d := topologytest.New(tt, topologytest.Build(tt, b.Build))
		topologytest.Input(d, s).PipeNullKey(at(1), "x")
		if diff := cmp.Diff(map[string]int64{"null-key": 1}, d.Counts()); diff != "" {
			tt.Errorf("%s: counts (-want +got):\n%s", c.name, diff)
		}
	}
}

// A table passes its deletions on as null values: To writes them, a callback does not see them.
func TestTableDeletions(tt *testing.T) {
	tt.Parallel()
	build := func(change func(topology.Stream[string, string]) topology.Stream[string, string]) func(b *topology.Builder) {
		return func(b *topology.Builder) { change(topology.TableFrom(b, "table", t).Stream()).To(outStrings) }
	}
	sc := run(tt, outStrings, build(func(st topology.Stream[string, string]) topology.Stream[string, string] { return st }))
	sc.in("t a:1@1", "a:1@1")
	sc.in("t a:null@2", "a:null@2")
	sc.in("t null:x@3")
	sc.counts(map[string]int64{"null-key": 1})

	sc = run(tt, outStrings, build(func(st topology.Stream[string, string]) topology.Stream[string, string] {
		return topology.MapValues(st, func(v string) string { return v + "!" })
	}))
	sc.in("t a:1@1", "a:1!@1")
	sc.in("t a:null@2")
	sc.counts(map[string]int64{"null-value": 1})
}

// An empty value is a value.
func TestEmptyIsNotNull(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, outStrings, func(b *topology.Builder) {
		table := topology.Reduce(topology.From(b, s).GroupByKey(), "last", str, func(_, v string) string { return v })
		topology.Repartition(table.Stream(), "again", 0, str, str).To(outStrings)
	})
	sc.in("a:@1", "a:@1")
	sc.in(":x@1", ":x@1")
	sc.in(":@2", ":@2")
	sc.d.Crash()
	sc.in("a:x@1", "a:x@1")
	sc.counts(map[string]int64{})
}
