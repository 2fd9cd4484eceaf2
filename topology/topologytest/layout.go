package topologytest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/headrace/headrace/internal/graph"
)

// sub is a sub-topology laid over the topics.
type sub struct {
	plan    *graph.SubTopology
	tasks   int32
	sources []*topicLog
	sinks   []*topicLog
	// changelogs has the changelog of each store, by partition.
	changelogs [][]changes
}

// layout makes the topics and finds how many partitions each has: an outside topic what the test says, a repartition topic what
// the topology says, else what the topics that it must match have, else what its writers have.
func (d *Driver) layout(o options) error {
	var errs []error
	topic := func(name string, repartition bool) *topicLog {
		n := topicName{name, repartition}
		l, ok := d.topics[n]
		if ok {
			return l
		}
		l = &topicLog{name: n}
		d.topics[n] = l
		if repartition {
			return l
		}
		count := o.all
		if c, ok := o.partitions[name]; ok {
			count = c
		}
		if count < 1 {
			errs = append(errs, fmt.Errorf("topologytest: topic %s cannot have %d partitions", name, count))
			count = 1
		}
		l.partitions = make([]partitionLog, count)
		return l
	}
	writers := map[*topicLog][]*sub{}
	for _, p := range d.plan.SubTopologies {
		s := &sub{plan: p}
		d.subs = append(d.subs, s)
		for i := range p.Sources {
			l := topic(p.Sources[i].Topic, p.Sources[i].Repartition)
			l.read = true
			s.sources = append(s.sources, l)
		}
		for i := range p.Sinks {
			l := topic(p.Sinks[i].Topic, p.Sinks[i].Repartition)
			l.written = true
			s.sinks = append(s.sinks, l)
			writers[l] = append(writers[l], s)
			if n := p.Sinks[i].Partitions; n > 0 {
				l.partitions = make([]partitionLog, n)
			}
		}
	}
	for name := range o.partitions {
		if d.topics[topicName{Name: name}] == nil {
			errs = append(errs, fmt.Errorf("topologytest: TopicPartitions(%q): %w", name, d.unknown(func(*topicLog) bool { return true })))
		}
	}
	have := map[string]int32{}
	for n, l := range d.topics {
		have[n.Name] = int32(len(l.partitions))
	}
	count, err := d.plan.Partitions(have, func(t graph.Topic) string { return topicName(t).String() })
	if err != nil {
		errs = append(errs, fmt.Errorf("topologytest: %w", err))
	}
	for _, s := range d.subs {
		s.tasks = s.plan.Tasks(count)
		for _, l := range s.sources {
			if len(l.partitions) == 0 {
				l.partitions = make([]partitionLog, count[graph.Topic(l.name)])
			}
		}
		s.changelogs = make([][]changes, len(s.plan.Stores))
		for i := range s.changelogs {
			s.changelogs[i] = make([]changes, s.tasks)
		}
	}
	return errors.Join(errs...)
}

// unknown is the error for a topic that the topology does not have, with those that it has.
func (d *Driver) unknown(want func(*topicLog) bool) error {
	var names []string
	for n, l := range d.topics {
		if want(l) {
			names = append(names, n.String())
		}
	}
	slices.Sort(names)
	return fmt.Errorf("the topology has no such topic; it has %q", names)
}
