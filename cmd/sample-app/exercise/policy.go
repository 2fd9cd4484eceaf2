package exercise

import (
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/window"
)

// late is the policy of a run as the library has it.
func (p Policy) late(s Setup, aside string) window.Late {
	switch p {
	case Sideline:
		return window.Sideline(aside)
	case Upsert:
		return window.CorrectWithin(s.Horizon).Otherwise(window.Sideline(aside))
	case Retract:
		return window.CorrectWithin(s.Horizon).Retract().Otherwise(window.Sideline(aside))
	default:
		return window.Drop()
	}
}

// addUp is the sum of the windows of each account. It is right behind all policies but Upsert, where a revision is counted beside the
// result that it replaces: without AcceptRevisions, Build refuses that, and it is here to be seen.
func addUp(g topology.Grouped[string, Total], p Policy) topology.Stream[string, Total] {
	var opts []topology.AggregateOption
	if p == Upsert {
		opts = append(opts, topology.AcceptRevisions())
	}
	sum := topology.Aggregator[Total, Total]{Add: Total.plus, Subtract: Total.minus}
	return topology.AggregateWith(g, "balance", serde.JSON[Total](), sum, opts...).Stream()
}
