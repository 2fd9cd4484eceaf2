package framework

import (
	"slices"
	"time"

	"github.com/headrace/headrace/internal/engine"
	"github.com/headrace/headrace/internal/graph"
)

// deadLetterTopics are the topics that dead letters go to.
func deadLetterTopics(plan *graph.Plan) []string {
	var topics []string
	for _, sub := range plan.SubTopologies {
		for i := range sub.Sinks {
			if s := &sub.Sinks[i]; s.DeadLetters && !slices.Contains(topics, s.Topic) {
				topics = append(topics, s.Topic)
			}
		}
	}
	return topics
}

// sinkFails says that a refused output of a sink ends the app. A dead letter that is refused always does: there is nowhere left for
// the record to go.
func sinkFails(sub *graph.SubTopology, sink int) bool {
	s := &sub.Sinks[sink]
	i := slices.IndexFunc(sub.Nodes, func(n graph.Node) bool { return n.Name == s.Node })
	if s.DeadLetters || i < 0 {
		return true
	}
	a := sub.Nodes[i].OnError.Action
	return a != graph.Skip && a != graph.DeadLetter
}

// leftOut is told of each record that a policy leaves out. Where one is has to be found in the log, but not a thousand times a second:
// they are counted.
func (w *worker) leftOut(e *engine.RecordError, deadLetter bool) {
	if t := w.tasks[e.Task]; t != nil && e.Topic == "" && e.Reason == graph.Refused {
		t.outputs.unmatched = 0
	}
	log, attrs := w.log.Debug, []any{
		"task", e.Task, "topic", e.Topic, "partition", e.Partition, "offset", e.Offset,
		"operator", e.Node, "place", e.At, "reason", e.Reason.String(), "err", e.Err,
	}
	w.logPanic(e)
	w.sawLeftOut(e, deadLetter)
	if ok, unsaid := w.app.quiet.say("left out "+e.Task.String()+e.Node+e.Reason.String(), time.Now()); ok {
		log = w.log.Warn
		if unsaid > 0 {
			attrs = append(attrs, "unsaid", unsaid)
		}
	}
	if deadLetter {
		log("record goes to the dead letters", attrs...)
		return
	}
	log("record skipped", attrs...)
}

// drops are the records that went no further, or were late, by sub-topology and node.
type drops [][]nodeDrops

type nodeDrops struct {
	counts engine.Counts
	late   engine.Lateness
}

func newDrops(l *layout) drops {
	d := make(drops, len(l.subs))
	for i := range l.subs {
		d[i] = make([]nodeDrops, len(l.subs[i].sub.Nodes))
	}
	return d
}

func (d drops) clone() drops {
	out := make(drops, len(d))
	for i := range d {
		out[i] = slices.Clone(d[i])
	}
	return out
}

// sum adds what another worker has.
func (d drops) sum(o drops) drops {
	if d == nil {
		return o.clone()
	}
	for i := range o {
		for node := range o[i] {
			to, from := &d[i][node], &o[i][node]
			for r, n := range from.counts {
				to.counts[r] += n
			}
			for b, n := range from.late.Buckets {
				to.late.Buckets[b] += n
			}
			to.late.Sum += from.late.Sum
		}
	}
	return d
}

// add takes in what a task has counted more than before.
func (d drops) add(l *layout, now, before engine.Status) {
	sub := slices.IndexFunc(l.subs, func(s subLayout) bool { return s.sub.ID == now.Task.SubTopology })
	for node := range now.Counts {
		for r, n := range now.Counts[node] {
			if before.Counts != nil {
				n -= before.Counts[node][r]
			}
			d[sub][node].counts[r] += n
		}
	}
	for node := range now.Late {
		to, was := &d[sub][node].late, engine.Lateness{}
		if before.Late != nil {
			was = before.Late[node]
		}
		for b, n := range now.Late[node].Buckets {
			to.Buckets[b] += n - was.Buckets[b]
		}
		to.Sum += now.Late[node].Sum - was.Sum
	}
}

// Outcome is what became of a record that went no further, or was late.
type Outcome string

// The outcomes.
const (
	// Dropped: it was left out.
	Dropped Outcome = "dropped"
	// Sidelined: it was too late, or too far ahead, and written to the sideline topic.
	Sidelined Outcome = "sidelined"
	// Corrected: it was late, and corrected the result of a window.
	Corrected Outcome = "corrected"
	// DeadLettered: it could not be processed, and was written to the dead-letter topic.
	DeadLettered Outcome = "dead-lettered"
)

// Drops is how many records went no further at one operator for one reason.
type Drops struct {
	SubTopology int
	// Operator is the name of the store that the operator keeps, or else of the node, as in the topology's description: as in
	// OperatorStatus.
	Operator string
	// Reason is one of those of Counters.Dropped, or late-sidelined, or late-corrected.
	Reason  string
	Outcome Outcome
	Records int64
}

// list returns what is not zero.
func (d drops) list(l *layout) []Drops {
	var out []Drops
	for i := range d {
		for node := range d[i] {
			for r, n := range d[i][node].counts {
				if n == 0 {
					continue
				}
				at := &l.subs[i].sub.Nodes[node]
				out = append(out, Drops{
					SubTopology: l.subs[i].sub.ID, Operator: at.Label, Reason: graph.Reason(r).String(),
					Outcome: outcome(at, graph.Reason(r)), Records: n,
				})
			}
		}
	}
	return out
}

// lateness returns how late records were, of operators that had such.
func (d drops) lateness(l *layout) []Lateness {
	var out []Lateness
	for i := range d {
		for node := range d[i] {
			late := &d[i][node].late
			if late.Buckets == [len(late.Buckets)]int64{} {
				continue
			}
			of := Lateness{
				SubTopology: l.subs[i].sub.ID, Operator: l.subs[i].sub.Nodes[node].Label,
				Counts: slices.Clone(late.Buckets[:]), SumSeconds: float64(late.Sum) / 1000,
			}
			for _, b := range engine.LateBounds {
				of.Bounds = append(of.Bounds, time.Duration(b)*time.Millisecond)
			}
			out = append(out, of)
		}
	}
	return out
}

// Lateness is how late the late records of one operator were: for how long, by event time, their windows had been closed. A record counts
// once for each window.
type Lateness struct {
	// SubTopology and Operator are as in Drops.
	SubTopology int
	Operator    string
	// Bounds and Counts are as in Histogram; the bounds go from a second to a week.
	Bounds     []time.Duration
	Counts     []int64
	SumSeconds float64
}

func outcome(at *graph.Node, r graph.Reason) Outcome {
	switch r {
	case graph.LateSidelined:
		return Sidelined
	case graph.TooFarAhead:
		if at.FutureAside {
			return Sidelined
		}
	case graph.LateCorrected:
		return Corrected
	case graph.Undecodable, graph.BadTimestamp, graph.Failed, graph.Refused:
		if at.OnError.Action == graph.DeadLetter {
			return DeadLettered
		}
	}
	return Dropped
}
