package topology_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/topology/topologytest"
	"github.com/headrace/headrace/window"
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

// Headers of the user's own may look like those of panes: an application may read what another one has retracted. Through a repartition
// topic they stay what they are, whatever pane the record has itself, and are none of this application's panes.
func TestHeadersOfOthersTellNoPane(tt *testing.T) {
	tt.Parallel()
	told := topology.Topic("told", str, str).AcceptRevisions()
	header := func(k, v string) topology.Header { return topology.Header{Key: k, Value: []byte(v)} }
	for _, own := range [][]topology.Header{
		{header("x-retract", "true")},
		{header("x-rev", "3")},
		{header("x-pane", "late"), header("x-rev", "3"), header("x-retract", "true")},
		{header("x-pane", "")},
		{header("x-pane", "early")},
		{header("n", "1"), header("x-pane", "on-time"), header("x-rev", "0")},
	} {
		b := topology.NewBuilder()
		in := topology.From(b, s)
		again := topology.Repartition(in, "again", 0, str, str)
		topology.Count(again.GroupByKey(), "count").To(outCounts)
		// The same behind windows: early results have the headers of the record that made them, and panes of their own.
		w := topology.Windowed(in.GroupByKey(), window.Tumbling(time.Second), window.Drop())
		early := topology.Reduce(w, "early", str, func(a, v string) string { return a + v }, topology.EmitEarlyCount(1), topology.Retracting())
		text := topology.GroupBy(early.Stream(), "text", func(k window.Key[string], _ string) string { return k.Key }, str, str)
		topology.Process(text.Stream(), "panes", func() panes { return panes{} }).To(told)
		d := topologytest.New(tt, topologytest.Build(tt, b.Build))
		src, counts, out := topologytest.Input(d, s), topologytest.Output(d, outCounts), topologytest.Output(d, told)
		src.Pipe(at(1), "a", "x", own...)
		src.Pipe(at(2), "a", "y", own...)
		for n := int64(1); n <= 2; n++ {
			r := counts.Read()
			if r.Value != n {
				tt.Errorf("%v: counted %d, want %d", own, r.Value, n)
			}
			if diff := cmp.Diff(own, r.Headers); diff != "" {
				tt.Errorf("%v: headers of the count (-want +got):\n%s", own, diff)
			}
		}
		var got []string
		for _, r := range out.All() {
			got = append(got, r.Value)
		}
		want := []string{
			fmt.Sprint("x {0 early false} ", own), fmt.Sprint("x {0 early true} ", own), fmt.Sprint("xy {1 early false} ", own),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			tt.Errorf("panes (-want +got):\n%s", diff)
		}
	}
}

// panes tells the pane of a record, and the headers that it has besides.
type panes struct{}

func (panes) Init(*topology.Task, topology.Emitter[string, string]) error { return nil }

func (panes) Process(r topology.Record[string, string], out topology.Emitter[string, string]) error {
	return out(topology.With(r, r.Key, fmt.Sprint(r.Value, " ", r.Pane(), " ", r.Headers())))
}
