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
		if d.topics[topicName{name: name}] == nil {
			errs = append(errs, fmt.Errorf("topologytest: TopicPartitions(%q): %w", name, d.unknown(func(*topicLog) bool { return true })))
		}
	}
	for d.match() || d.follow(writers) {
	}
	for _, s := range d.subs {
		for _, l := range s.sources {
			if len(l.partitions) == 0 {
				errs = append(errs, fmt.Errorf("topologytest: %s: nothing says how many partitions it has; say so where it is named", l.name))
			}
			s.tasks = max(s.tasks, int32(len(l.partitions)))
		}
		for _, set := range s.plan.Copartitioned {
			for _, i := range set[1:] {
				a, b := s.sources[set[0]], s.sources[i]
				if len(a.partitions) != len(b.partitions) {
					errs = append(errs, fmt.Errorf("topologytest: %s has %d partitions and %s has %d, but they meet in one operator, so equal keys would be in different tasks; give them the same number, or send one through a repartition topic",
						a.name, len(a.partitions), b.name, len(b.partitions)))
				}
			}
		}
		s.changelogs = make([][]changes, len(s.plan.Stores))
		for i := range s.changelogs {
			s.changelogs[i] = make([]changes, s.tasks)
		}
	}
	return errors.Join(errs...)
}

// match gives a repartition topic the count of a topic that it meets in an operator.
func (d *Driver) match() bool {
	for _, s := range d.subs {
		for _, set := range s.plan.Copartitioned {
			known := 0
			for _, i := range set {
				known = max(known, len(s.sources[i].partitions))
			}
			for _, i := range set {
				if l := s.sources[i]; known > 0 && len(l.partitions) == 0 {
					l.partitions = make([]partitionLog, known)
					return true
				}
			}
		}
	}
	return false
}

// follow gives one repartition topic the number of tasks that its widest writer has, once that is known of all writers.
func (d *Driver) follow(writers map[*topicLog][]*sub) bool {
	for _, s := range d.subs {
		for _, l := range s.sources {
			if len(l.partitions) > 0 || len(writers[l]) == 0 {
				continue
			}
			tasks, known := 0, true
			for _, w := range writers[l] {
				for _, in := range w.sources {
					known = known && len(in.partitions) > 0
					tasks = max(tasks, len(in.partitions))
				}
			}
			if known {
				l.partitions = make([]partitionLog, tasks)
				return true
			}
		}
	}
	return false
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
