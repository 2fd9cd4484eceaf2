package exercise

import (
	"time"

	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/window"
)

// Total is what a window holds.
type Total struct {
	Count int64 `json:"count"`
	Sum   int64 `json:"sum"`
}

func (t Total) add(p payment) Total { return Total{t.Count + 1, t.Sum + p.Amount} }
func (t Total) plus(o Total) Total  { return Total{t.Count + o.Count, t.Sum + o.Sum} }
func (t Total) minus(o Total) Total { return Total{t.Count - o.Count, t.Sum - o.Sum} }

// payment is the value of an event; its time is the record's timestamp, its key the record's key.
type payment struct {
	Amount int64 `json:"amount"`
}

// entry is what the journal tells: that the record at an offset is processed, with the watermark before it, or that the watermark is
// now so far.
type entry struct {
	Offset    *int64 `json:"offset,omitempty"`
	Watermark *int64 `json:"watermark,omitempty"`
}

// names are the topics and stores of a run.
type names struct {
	app, in, journal, results, aside, balance string
}

func namesOf(r Run) names {
	app := "exercise-" + r.Name
	return names{app: app, in: app + "-payments", journal: app + "-journal", results: app + "-totals", aside: app + "-late", balance: app + "-balance"}
}

const (
	totalsStore = "totals"
	byAccount   = "by-account"
)

func (n names) changelog() string   { return n.app + "-" + totalsStore + "-changelog" }
func (n names) repartition() string { return n.app + "-" + byAccount + "-repartition" }

// build is the topology of a run: totals by window, a journal of the watermark, and behind a repartition topic the sum of all windows
// that have closed.
func build(r Run, s Setup) (*topology.Topology, error) {
	n := namesOf(r)
	in := topology.Topic(n.in, serde.String(), serde.JSON[payment]()).Watermarks(window.BoundedDisorder(s.Disorder))
	journal := topology.Topic(n.journal, serde.String(), serde.JSON[entry]())
	results := topology.Topic(n.results, window.KeySerde(serde.String()).Size(s.Size), serde.JSON[Total]())
	balance := topology.Topic(n.balance, serde.String(), serde.JSON[Total]())

	b := topology.NewBuilder()
	payments := topology.From(b, in)
	topology.Process(payments, "journal", func() *journalist { return &journalist{} }).To(journal)

	perWindow := topology.Windowed(payments.GroupByKey(), s.windows(), r.Late.late(s, n.aside))
	totals := topology.Aggregate(perWindow, totalsStore, serde.JSON[Total](), Total.add, topology.EmitOnClose()).Stream()
	totals.To(results)
	accounts := topology.GroupBy(totals, byAccount, func(k window.Key[string], _ Total) string { return k.Key }, serde.String(), serde.JSON[Total]())
	addUp(accounts, r.Late).To(balance)
	return b.Build()
}

// journalist writes the journal.
type journalist struct{ t *topology.Task }

func (j *journalist) Init(t *topology.Task, out topology.Emitter[string, entry]) error {
	j.t = t
	return t.EveryStreamTime(time.Millisecond, func(time.Time) error { return j.tell(out, nil) })
}

func (j *journalist) Process(r topology.Record[string, payment], out topology.Emitter[string, entry]) error {
	_, _, offset, _ := r.Origin()
	return j.tell(out, &offset)
}

func (j *journalist) tell(out topology.Emitter[string, entry], offset *int64) error {
	e := entry{Offset: offset}
	if w, ok := j.t.Watermark(); ok {
		ms := w.UnixMilli()
		e.Watermark = &ms
	}
	return out(topology.Record[string, entry]{Key: "watermark", Value: e})
}
