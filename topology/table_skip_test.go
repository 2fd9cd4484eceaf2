package topology_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/topology/topologytest"
)

// A table whose topic holds records that cannot be used is the same before and after a restore: one that cannot be decoded deletes
// its key, since compaction may have taken the value before it, and one on which an operator behind the table fails is in it all
// the same, since the topic has it.
func TestTableUnderSkipSurvivesACrash(t *testing.T) {
	t.Parallel()
	type price struct{ Cents int }
	prices := topology.Topic("prices", serde.String(), serde.JSON[price]()).
		EventTime(func(r topology.Record[string, price]) time.Time {
			if r.Value.Cents == 666 {
				panic("no time for this")
			}
			return time.UnixMilli(int64(r.Value.Cents))
		})
	changes := topology.Topic("changes", serde.String(), serde.JSON[price]())
	store := state.KeyValueOf("prices", serde.String(), serde.JSON[price]())

	b := topology.NewBuilder()
	topology.TableFrom(b, "prices", prices).Stream().
		Peek(func(_ string, p price) {
			if p.Cents == 13 {
				panic("thirteen")
			}
		}).
		To(changes)
	d := topologytest.New(t, topologytest.Build(t, b.Build), topologytest.OnError(topology.Skip()))
	in := topologytest.Input(d, prices)
	at := time.UnixMilli(1)
	for _, r := range [][2]string{
		{"kept", `{"Cents":1}`},
		{"garbled", `{"Cents":2}`},
		{"garbled", `{`},
		{"timeless", `{"Cents":3}`},
		{"timeless", `{"Cents":666}`},
		{"early", `{"Cents":4}`},
		{"early", `{"Cents":-5}`},
		{"unlucky", `{"Cents":6}`},
		{"unlucky", `{"Cents":13}`},
		{"mended", `{`},
		{"mended", `{"Cents":7}`},
	} {
		in.PipeRaw(0, at, []byte(r[0]), []byte(r[1]))
	}

	want := map[string]int{"kept": 1, "unlucky": 13, "mended": 7}
	check := func(when string) {
		t.Helper()
		view, err := store.Open(d.Stores(0))
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]int{}
		for e, err := range view.All() {
			if err != nil {
				t.Fatal(err)
			}
			got[e.Key] = e.Value.Cents
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s, the table (-want +got):\n%s", when, diff)
		}
	}
	check("before the crash")
	counts := map[string]int64{"undecodable": 3, "bad-timestamp": 1, "failed": 1}
	if diff := cmp.Diff(counts, d.Counts()); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	d.Crash()
	check("after the crash")
}
