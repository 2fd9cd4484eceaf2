package topology_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/topology/topologytest"
)

// passer sends two records for each: a copy, and one made of it. A third, made of nothing, has no headers.
type passer struct{}

func (passer) Init(*topology.Task, topology.Emitter[string, string]) error { return nil }

func (passer) Process(r topology.Record[string, string], out topology.Emitter[string, string]) error {
	if err := out(r); err != nil {
		return err
	}
	if err := out(topology.With(r, r.Key, r.Value+"-made")); err != nil {
		return err
	}
	return out(topology.Record[string, string]{Key: r.Key, Value: r.Value + "-new", Time: r.Time})
}

// What tracing needs: a header of the input is on everything that comes of it, through every operator that handles one record at a
// time and through a repartition topic, unchanged, in its place among the others, and on what is set aside too.
func TestHeadersPassThroughEveryOperator(tt *testing.T) {
	tt.Parallel()
	var (
		names = topology.Topic("names", str, str)
		dead  = topology.Topic("dead", str, str)
		b     = topology.NewBuilder()
	)
	table := topology.TableFrom(b, "names", names)
	st := topology.From(b, s).Filter(func(_, v string) bool { return v != "filtered" })
	st = topology.MapValues(st, strings.ToUpper)
	st = topology.FlatMap(st, func(r topology.Record[string, string], emit func(string, string) error) error {
		for _, part := range strings.Split(r.Value, " ") {
			if part == "BAD" {
				return errors.New("a bad word")
			}
			if err := emit(part, part); err != nil {
				return err
			}
		}
		return nil
	}).OnError(topology.DeadLetter("dead"))
	st = topology.GroupBy(st, "by-word", func(_, v string) string { return v }, str, str).Stream()
	st = topology.JoinTable(st, table, func(v, name string) string { return v + "=" + name })
	st = topology.Process(st, "pass", func() passer { return passer{} })
	st = topology.Map(st, func(k, v string) (string, string) { return k, v }).Peek(func(string, string) {})
	st.To(outStrings)

	d := topologytest.New(tt, topologytest.Build(tt, b.Build), topologytest.Partitions(3))
	topologytest.Input(d, names).Pipe(at(1), "A", "ann")
	topologytest.Input(d, names).Pipe(at(1), "B", "bob")
	headers := []topology.Header{
		{Key: "traceparent", Value: []byte("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")},
		{Key: "tracestate", Value: nil},
		{Key: "traceparent", Value: []byte{0, 0xff}},
	}
	in := topologytest.Input(d, s)
	in.Pipe(at(5), "k", "a b", headers...)
	in.Pipe(at(6), "k", "filtered", headers...)
	in.Pipe(at(7), "k", "bad", headers...)

	got := map[string][]topology.Header{}
	for _, r := range topologytest.Output(d, outStrings).All() {
		got[r.Value] = r.Headers
	}
	want := map[string][]topology.Header{
		"A=ann": headers, "A=ann-made": headers, "A=ann-new": nil,
		"B=bob": headers, "B=bob-made": headers, "B=bob-new": nil,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		tt.Errorf("headers by value (-want +got):\n%s", diff)
	}
	letters := topologytest.Output(d, dead).All()
	if len(letters) != 1 {
		tt.Fatalf("%d dead letters, want one", len(letters))
	}
	kept := slices.DeleteFunc(slices.Clone(letters[0].Headers), func(h topology.Header) bool { return strings.HasPrefix(h.Key, "__streams.errors.") })
	if diff := cmp.Diff(headers, kept); diff != "" {
		tt.Errorf("headers of the dead letter, without those of the error (-want +got):\n%s", diff)
	}
}
