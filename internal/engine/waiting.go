package engine

import (
	"slices"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/state"
)

// Wait is a windowed operator that does not know the time yet, with the sources that keep it from knowing.
type Wait struct {
	Operator string
	Sources  []SourceWait
}

// SourceWait is a source whose watermark is not known.
type SourceWait struct {
	// Source is its index.
	Source int
	// Heard are the producers of a repartition topic that have reported, in ascending order. All others have not.
	Heard []int32
}

// Waiting returns the windowed operators that wait, once the task has processed a record: with none there is nothing to wait for.
// It is for now and then, not for every step.
func (t *Task) Waiting() []Wait {
	if t.records == 0 {
		return nil
	}
	var out []Wait
	for _, c := range t.inst.Clocks {
		if c.Watermark() != graph.Unknown || !t.windowed(c.Name()) {
			continue
		}
		w := Wait{Operator: c.Name()}
		for i := range t.sources {
			s := &t.sources[i]
			if s.told != graph.Unknown || s.idle || !t.feeds(t.sourceNode(s), c.Node()) {
				continue
			}
			wait := SourceWait{Source: i}
			for _, ch := range s.channels {
				wait.Heard = append(wait.Heard, ch.Producer)
			}
			w.Sources = append(w.Sources, wait)
		}
		if len(w.Sources) > 0 {
			out = append(out, w)
		}
	}
	return out
}

// windowed says whether a clock is that of windows: it has the name of their store.
func (t *Task) windowed(name string) bool {
	return slices.ContainsFunc(t.cfg.Sub.Stores, func(s state.Spec) bool { return s.Kind.Timed() && s.Name == name })
}

// feeds says whether what goes in at one node comes to another.
func (t *Task) feeds(from, to int) bool {
	if from < 0 || from == to {
		return from == to
	}
	return slices.ContainsFunc(t.cfg.Sub.Nodes[from].To, func(next int) bool { return t.feeds(next, to) })
}
