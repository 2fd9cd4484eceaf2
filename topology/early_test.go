package topology_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/topology/topologytest"
	"github.com/headrace/headrace/window"
)

// paneLines are what is new on the topic of minutes.
func paneLines(out *topologytest.Out[window.Key[string], int64]) []string {
	var lines []string
	for _, r := range out.All() {
		lines = append(lines, showPane(r))
	}
	return lines
}

// A window that is deleted says so at once if it has given a result: on closing there is nothing left that could. What it never
// gave is never taken back.
func TestEarlyResultOfWhatIsDeleted(tt *testing.T) {
	tt.Parallel()
	for _, c := range []struct {
		opts []topology.AggregateOption
		want []string
	}{
		{
			[]topology.AggregateOption{topology.EmitEarlyCount(2)},
			[]string{"[0,60)=3@11 early", "[0,60)=null early #1", "[0,60)=9@14 early #2", "[0,60)=9@14 #3"},
		},
		{
			[]topology.AggregateOption{topology.EmitEarlyCount(2), topology.Retracting()},
			[]string{"[0,60)=3@11 early", "[0,60)=3@11 early back", "[0,60)=9@14 early #2", "[0,60)=9@14 early #2 back", "[0,60)=9@14 #3"},
		},
	} {
		b := topology.NewBuilder()
		w := topology.Windowed(topology.From(b, s).GroupByKey(), window.Tumbling(time.Minute), window.Drop())
		topology.AggregateOrDelete(w, "sums", i64, func(a int64, v string) (int64, bool) { return a + number(v), v != "0" }, c.opts...).To(minutes)
		d := topologytest.New(tt, topologytest.Build(tt, b.Build))
		in, out := topologytest.Input(d, s), topologytest.Output(d, minutes)
		for i, v := range []string{"1", "2", "0", "4", "5"} {
			in.Pipe(at(int64(10+i)*1000), "acc", v)
		}
		in.Pipe(at(60_000), "acc", "1")
		if diff := cmp.Diff(c.want, paneLines(out)); diff != "" {
			tt.Errorf("%d options (-want +got):\n%s", len(c.opts), diff)
		}
	}
}

// keeper keeps what it sees, and notes for when it was written.
type keeper struct {
	store *state.KeyValueView[string, string]
}

var kept = state.KeyValueOf("kept", str, str)

func (k *keeper) Init(t *topology.Task, _ topology.Emitter[string, string]) (err error) {
	k.store, err = kept.Open(t)
	return err
}

func (k *keeper) Process(r topology.Record[window.Key[string], string], _ topology.Emitter[string, string]) error {
	if r.Value == "bad" {
		return fmt.Errorf("bad")
	}
	return k.store.Put(r.Key.Key, r.Value)
}

// An early result that fails under the policy is counted once, and comes again when the window has changed. What is behind it
// writes at the result's own time.
func TestEarlyResultThatFails(tt *testing.T) {
	tt.Parallel()
	b := topology.NewBuilder()
	w := topology.Windowed(topology.From(b, s).GroupByKey(), window.Tumbling(time.Minute), window.Drop())
	last := topology.Reduce(w, "last", str, func(_, v string) string { return v }, topology.EmitEarlyEvery(10*time.Second))
	topology.Process(last.Stream(), "keep", func() *keeper { return &keeper{} }, kept).OnError(topology.Skip()).To(outStrings.AcceptRevisions())
	d := topologytest.New(tt, topologytest.Build(tt, b.Build))
	in := topologytest.Input(d, s)
	in.Pipe(at(1_000), "a", "bad")
	in.Pipe(at(2_000), "b", "good")
	in.Pipe(at(12_000), "b", "good")
	in.Pipe(at(22_000), "b", "better")
	if n := d.Counts()["failed"]; n != 1 {
		tt.Errorf("%d failed, want 1", n)
	}
	in.Pipe(at(23_000), "a", "mended")
	in.Pipe(at(35_000), "b", "best")
	view, err := kept.Open(d.Stores(0))
	if err != nil {
		tt.Fatal(err)
	}
	var got []string
	for e, err := range view.All() {
		if err != nil {
			tt.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s=%s@%d", e.Key, e.Value, e.At/1000))
	}
	if diff := cmp.Diff([]string{"a=mended@23", "b=best@35"}, got); diff != "" {
		tt.Errorf("kept (-want +got):\n%s", diff)
	}
}
