package graph

import (
	"errors"
	"fmt"
)

// Topic names a topic of a plan: an outside one by its name, a repartition topic by the name that the user gave it.
type Topic struct {
	Name        string
	Repartition bool
}

// Ref names the topic that the source reads.
func (s *Source) Ref() Topic { return Topic{s.Topic, s.Repartition} }

// Ref names the topic that the sink writes.
func (s *Sink) Ref() Topic { return Topic{s.Topic, s.Repartition} }

// Partitions says how many partitions each topic that the plan reads has. An outside topic has what have says. A repartition
// topic has what the user said, else what the topics that it meets in an operator have, else as many as its widest writer has
// tasks. name turns a topic into the words for errors, which come all at once.
func (p *Plan) Partitions(have map[string]int32, name func(Topic) string) (map[Topic]int32, error) {
	count := make(map[Topic]int32)
	writers := make(map[Topic][]*SubTopology)
	for _, sub := range p.SubTopologies {
		for i := range sub.Sources {
			if s := &sub.Sources[i]; !s.Repartition {
				count[s.Ref()] = have[s.Topic]
			}
		}
		for i := range sub.Sinks {
			if s := &sub.Sinks[i]; s.Repartition {
				writers[s.Ref()] = append(writers[s.Ref()], sub)
				if s.Partitions > 0 {
					count[s.Ref()] = max(count[s.Ref()], s.Partitions)
				}
			}
		}
	}
	for p.matchCopartitioned(count) || p.followWriters(count, writers) {
	}
	var errs []error
	for _, sub := range p.SubTopologies {
		for i := range sub.Sources {
			if t := sub.Sources[i].Ref(); count[t] == 0 {
				errs = append(errs, fmt.Errorf("nothing says how many partitions %s needs: it only depends on itself; say it where the topic is named", name(t)))
			}
		}
		for _, set := range sub.Copartitioned {
			for _, i := range set[min(1, len(set)):] {
				a, b := sub.Sources[set[0]].Ref(), sub.Sources[i].Ref()
				if count[a] != count[b] && count[a] > 0 && count[b] > 0 {
					errs = append(errs, fmt.Errorf("%s has %d partitions and %s has %d, but they meet in one operator: equal keys would be in different tasks; give them the same count, or send one through a repartition topic",
						name(a), count[a], name(b), count[b]))
				}
			}
		}
	}
	return count, errors.Join(errs...)
}

// Tasks is how many tasks the sub-topology has: one for each partition of its widest source.
func (s *SubTopology) Tasks(count map[Topic]int32) int32 {
	var tasks int32
	for i := range s.Sources {
		tasks = max(tasks, count[s.Sources[i].Ref()])
	}
	return tasks
}

// matchCopartitioned gives repartition topics without a count that of a topic that they have to match.
func (p *Plan) matchCopartitioned(count map[Topic]int32) bool {
	progress := false
	for _, sub := range p.SubTopologies {
		for _, set := range sub.Copartitioned {
			var known int32
			for _, i := range set {
				known = max(known, count[sub.Sources[i].Ref()])
			}
			for _, i := range set {
				if s := &sub.Sources[i]; known > 0 && s.Repartition && count[s.Ref()] == 0 {
					count[s.Ref()], progress = known, true
				}
			}
		}
	}
	return progress
}

// followWriters gives one repartition topic whose writers are all known the number of tasks of the widest. One at a time, since
// that may decide what others have to match.
func (p *Plan) followWriters(count map[Topic]int32, writers map[Topic][]*SubTopology) bool {
	for _, sub := range p.SubTopologies {
		for i := range sub.Sources {
			t := sub.Sources[i].Ref()
			if count[t] > 0 || len(writers[t]) == 0 {
				continue
			}
			var widest int32
			known := true
			for _, w := range writers[t] {
				for j := range w.Sources {
					known = known && count[w.Sources[j].Ref()] > 0
				}
				widest = max(widest, w.Tasks(count))
			}
			if known && widest > 0 {
				count[t] = widest
				return true
			}
		}
	}
	return false
}
