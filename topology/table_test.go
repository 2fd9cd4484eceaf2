package topology_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/topology/topologytest"
)

func joined(table topology.TopicOf[string, string]) func(b *topology.Builder) {
	return func(b *topology.Builder) {
		topology.JoinTable(topology.From(b, s), topology.TableFrom(b, "table", table),
			func(v, w string) string { return v + "+" + w }).To(outStrings)
	}
}

// The streams of a task wait until its table is read to the end that it had when the task was made, whatever the times say. What
// comes to the table later is taken by event time.
func TestTableIsReadFirst(tt *testing.T) {
	tt.Parallel()
	for _, how := range []string{"from the start", "after a crash"} {
		sc := run(tt, outStrings, joined(t), topologytest.Manual())
		if how == "after a crash" {
			sc.d.Settle()
		}
		sc.pipe("s a:early@1")
		sc.pipe("t a:1@100")
		sc.pipe("t a:2@200")
		if how == "after a crash" {
			sc.d.Crash()
		}
		sc.d.Step(1)
		sc.pipe("t a:3@5")
		sc.pipe("s a:late@6")
		sc.d.Settle()
		sc.wants(how, "a:early+2@1", "a:late+3@6")
	}
}

// A table restored from its topic is the one that was there, where the topic has event times of its own, too.
func TestTableWithEventTimeSurvivesACrash(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, outStrings, joined(t.EventTime(func(r topology.Record[string, string]) time.Time {
		return r.Timestamp().Add(time.Hour)
	})))
	sc.in("t a:1@1")
	sc.in("t b:1@1")
	sc.in("t b:null@2")
	sc.in("t null:x@3")
	sc.d.Crash()
	sc.in("s a:x@1", "a:x+1@1")
	sc.in("s b:x@1")
}

// meddler writes into a store that is not its own.
type meddler struct {
	store state.KeyValue[string, string]
	view  *state.KeyValueView[string, string]
}

func (p *meddler) Init(t *topology.Task, _ topology.Emitter[string, string]) (err error) {
	p.view, err = p.store.Open(t)
	return err
}

func (p *meddler) Process(r topology.Record[string, string], out topology.Emitter[string, string]) error {
	v, ok, err := p.view.Get(r.Key)
	if err != nil || !ok {
		return err
	}
	if r.Value == "delete" {
		return p.view.Delete(r.Key)
	}
	if r.Value == "put" {
		return p.view.Put(r.Key, "mine")
	}
	r.Value += "+" + v
	return out(r)
}

// A processor reads a table. What it wrote there would be in no changelog, and be lost with the task.
func TestProcessReadsATable(tt *testing.T) {
	tt.Parallel()
	table := state.KeyValueOf("table", str, str)
	for _, how := range []string{"put", "delete"} {
		sc := run(tt, outStrings, func(b *topology.Builder) {
			topology.TableFrom(b, "table", t)
			topology.Process(topology.From(b, s), "meddler", func() *meddler { return &meddler{store: table} }, table).To(outStrings)
		})
		sc.in("t a:T@1")
		sc.in("s a:x@2", "a:x+T@2")
		err := sc.d.Try(func() { sc.pipe("s a:" + how + "@3") })
		if err == nil || !strings.Contains(err.Error(), `store "table" is the table of topic t and is restored from there`) {
			tt.Errorf("%s: got %v", how, err)
		}
	}
}

// Streams and tables that meet must have the same number of partitions; what does not meet need not.
func TestCopartitioning(tt *testing.T) {
	tt.Parallel()
	u := topology.Topic("u", str, str)
	for _, c := range []struct {
		name  string
		build func(b *topology.Builder)
		want  map[int][][]int // sets of sources by sub-topology
	}{
		{"join", joined(t), map[int][][]int{0: {{0, 1}}}},
		{"aggregate of a merge", func(b *topology.Builder) {
			topology.Count(topology.From(b, s).Merge(topology.From(b, t)).GroupByKey(), "count")
		}, map[int][][]int{0: {{0, 1}}}},
		{"two joins of one table", func(b *topology.Builder) {
			table := topology.TableFrom(b, "table", t)
			f := func(v, w string) string { return v + w }
			topology.JoinTable(topology.From(b, s), table, f)
			topology.JoinTable(topology.From(b, u), table, f)
		}, map[int][][]int{0: {{0, 1}, {0, 2}}}},
		{"a merge without state", func(b *topology.Builder) {
			topology.From(b, s).Merge(topology.From(b, t)).To(outStrings)
		}, map[int][][]int{}},
		{"behind a repartition topic", func(b *topology.Builder) {
			again := topology.Repartition(topology.From(b, s), "again", 0, str, str)
			topology.JoinTable(again, topology.TableFrom(b, "table", t), func(v, w string) string { return v + w })
		}, map[int][][]int{1: {{0, 1}}}},
	} {
		b := topology.NewBuilder()
		c.build(b)
		got := map[int][][]int{}
		for _, sub := range topologytest.Build(tt, b.Build).Plan().SubTopologies {
			if len(sub.Copartitioned) > 0 {
				got[sub.ID] = sub.Copartitioned
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			tt.Errorf("%s: sources that meet (-want +got):\n%s", c.name, diff)
		}
	}
	b := topology.NewBuilder()
	joined(t)(b)
	if _, err := topologytest.Open(topologytest.Build(tt, b.Build), topologytest.TopicPartitions("s", 2)); err == nil {
		tt.Error("a join of 2 partitions with 1 is no error")
	}
	b = topology.NewBuilder()
	topology.From(b, s).Merge(topology.From(b, t)).To(outStrings)
	if _, err := topologytest.Open(topologytest.Build(tt, b.Build), topologytest.TopicPartitions("s", 2)); err != nil {
		tt.Errorf("a merge of 2 partitions with 1: %v", err)
	}
}
