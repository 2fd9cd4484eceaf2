package framework

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/headrace/headrace/internal/assign"
	"github.com/headrace/headrace/internal/engine"
	"github.com/headrace/headrace/internal/graph"
)

// topicInfo is what the cluster says of a topic.
type topicInfo struct {
	partitions int32
	id         [16]byte
}

// layout is the plan laid over the topics of the cluster: real names, counts of partitions, and so the tasks. It never changes
// once made.
type layout struct {
	subs   []subLayout
	topics map[string]topicInfo
	source map[string]sourceRef
}

// sourceRef is the one place where a topic is read.
type sourceRef struct {
	sub, source int
}

type subLayout struct {
	sub        *graph.SubTopology
	tasks      int32
	sources    []string // the real topic of each source
	sinks      []string // the real topic of each sink
	changelogs []string // the changelog topic of each store; empty where the source topic is the changelog
}

func (n naming) source(s *graph.Source) string {
	if s.Repartition {
		return n.repartition(n.app, s.Topic)
	}
	return s.Topic
}

func (n naming) sink(s *graph.Sink) string {
	if s.Repartition {
		return n.repartition(n.app, s.Topic)
	}
	return s.Topic
}

// checkPlan returns what is wrong with a plan that no topic can mend.
func checkPlan(plan *graph.Plan, n naming) error {
	var errs []error
	read := make(map[string]string)
	written := make(map[string]bool)
	for _, sub := range plan.SubTopologies {
		for i := range sub.Sinks {
			if s := &sub.Sinks[i]; s.Repartition {
				written[n.sink(s)] = true
			}
		}
	}
	for _, sub := range plan.SubTopologies {
		for i := range sub.Sources {
			s := &sub.Sources[i]
			topic := n.source(s)
			if by, twice := read[topic]; twice {
				errs = append(errs, fmt.Errorf("framework: topic %s is read by %s and by %s; the app has one position in it: read it once and branch the stream", topic, by, s.Node))
			}
			read[topic] = s.Node
			if s.Repartition && !written[topic] {
				errs = append(errs, fmt.Errorf("framework: repartition topic %s is read by %s but nothing writes it", topic, s.Node))
			}
		}
	}
	if len(read) == 0 {
		errs = append(errs, errors.New("framework: the topology reads no topic: add a source"))
	}
	return errors.Join(errs...)
}

// internalTopic is a topic that the app makes for itself.
type internalTopic struct {
	name       string
	partitions int32
	sub        int
	store      int // index of the store of a changelog, -1 for a repartition topic
}

// resolve lays the plan over the topics that the user made, counted in have. It returns the layout, without ids, and the topics
// that have to be there besides. Counts follow the records: a sub-topology has one task for each partition of its widest source,
// and a repartition topic has what the user said, else what its readers must match, else what its writers have.
func resolve(plan *graph.Plan, n naming, have map[string]int32) (*layout, []internalTopic, error) {
	count := make(map[string]int32)
	explicit := make(map[string]int32)
	writers := make(map[string][]int)
	for si, sub := range plan.SubTopologies {
		for i := range sub.Sources {
			if s := &sub.Sources[i]; !s.Repartition {
				count[s.Topic] = have[s.Topic]
			}
		}
		for i := range sub.Sinks {
			s := &sub.Sinks[i]
			if !s.Repartition {
				continue
			}
			topic := n.sink(s)
			writers[topic] = append(writers[topic], si)
			explicit[topic] = max(explicit[topic], s.Partitions)
		}
	}
	for topic, c := range explicit {
		if c > 0 {
			count[topic] = c
		}
	}
	for {
		progress := matchCopartitioned(plan, n, count)
		if !progress {
			progress = followWriters(plan, n, count, writers)
		}
		if !progress {
			break
		}
	}
	var errs []error
	lay := &layout{topics: make(map[string]topicInfo), source: make(map[string]sourceRef)}
	var made []internalTopic
	for si, sub := range plan.SubTopologies {
		sl := subLayout{sub: sub}
		for i := range sub.Sources {
			topic := n.source(&sub.Sources[i])
			c := count[topic]
			if c == 0 {
				errs = append(errs, fmt.Errorf("framework: cannot tell how many partitions repartition topic %s needs: it only depends on itself; say it where the topic is named", topic))
			}
			sl.sources = append(sl.sources, topic)
			sl.tasks = max(sl.tasks, c)
			lay.source[topic] = sourceRef{si, i}
			lay.topics[topic] = topicInfo{partitions: c}
			if sub.Sources[i].Repartition {
				made = append(made, internalTopic{name: topic, partitions: c, sub: si, store: -1})
			}
		}
		errs = append(errs, checkCopartitioned(sub, sl.sources, count)...)
		lay.subs = append(lay.subs, sl)
	}
	for si := range lay.subs {
		sl := &lay.subs[si]
		for i := range sl.sub.Sinks {
			topic := n.sink(&sl.sub.Sinks[i])
			sl.sinks = append(sl.sinks, topic)
			if _, ok := lay.topics[topic]; !ok {
				lay.topics[topic] = topicInfo{partitions: have[topic]}
			}
		}
		for i := range sl.sub.Stores {
			name := ""
			if sl.sub.Stores[i].SourceTopic == "" {
				name = n.changelog(n.app, sl.sub.Stores[i].Name)
				lay.topics[name] = topicInfo{partitions: sl.tasks}
				made = append(made, internalTopic{name: name, partitions: sl.tasks, sub: si, store: i})
			}
			sl.changelogs = append(sl.changelogs, name)
		}
	}
	return lay, made, errors.Join(errs...)
}

// matchCopartitioned gives a repartition topic without a count that of a topic that it has to match.
func matchCopartitioned(plan *graph.Plan, n naming, count map[string]int32) bool {
	progress := false
	for _, sub := range plan.SubTopologies {
		for _, set := range sub.Copartitioned {
			var known int32
			for _, i := range set {
				known = max(known, count[n.source(&sub.Sources[i])])
			}
			for _, i := range set {
				if s := &sub.Sources[i]; known > 0 && s.Repartition && count[n.source(s)] == 0 {
					count[n.source(s)], progress = known, true
				}
			}
		}
	}
	return progress
}

// followWriters gives one repartition topic whose writers are all known the number of tasks of the largest. It gives only one at a
// time, since that may decide what others have to match.
func followWriters(plan *graph.Plan, n naming, count map[string]int32, writers map[string][]int) bool {
	for _, sub := range plan.SubTopologies {
		for i := range sub.Sources {
			topic := n.source(&sub.Sources[i])
			if count[topic] > 0 {
				continue
			}
			var widest int32
			for _, w := range writers[topic] {
				tasks := int32(0)
				for j := range plan.SubTopologies[w].Sources {
					c := count[n.source(&plan.SubTopologies[w].Sources[j])]
					if c == 0 {
						tasks = 0
						break
					}
					tasks = max(tasks, c)
				}
				if tasks == 0 {
					widest = 0
					break
				}
				widest = max(widest, tasks)
			}
			if widest > 0 {
				count[topic] = widest
				return true
			}
		}
	}
	return false
}

func checkCopartitioned(sub *graph.SubTopology, topics []string, count map[string]int32) []error {
	var errs []error
	for _, set := range sub.Copartitioned {
		for _, i := range set[min(1, len(set)):] {
			a, b := topics[set[0]], topics[i]
			if count[a] == count[b] {
				continue
			}
			errs = append(errs, fmt.Errorf("framework: %s has %d partitions and %s has %d, but they meet in one operator: equal keys would be in different tasks; give them the same count, or send one through a repartition topic",
				a, count[a], b, count[b]))
		}
	}
	return errs
}

// taskOf returns the task that reads a partition.
func (l *layout) taskOf(tp topicPartition) (engine.TaskID, bool) {
	ref, ok := l.source[tp.topic]
	if !ok || tp.partition >= l.topics[tp.topic].partitions {
		return engine.TaskID{}, false
	}
	return engine.TaskID{SubTopology: l.subs[ref.sub].sub.ID, Partition: tp.partition}, true
}

// sub returns the layout of a task's sub-topology.
func (l *layout) sub(id engine.TaskID) *subLayout {
	for i := range l.subs {
		if l.subs[i].sub.ID == id.SubTopology {
			return &l.subs[i]
		}
	}
	return nil
}

// inputs returns the partitions that a task reads, in the order of its sources. A source whose topic has no such partition is
// left out.
func (l *layout) inputs(id engine.TaskID) []topicPartition {
	var out []topicPartition
	for _, topic := range l.sub(id).sources {
		if id.Partition < l.topics[topic].partitions {
			out = append(out, topicPartition{topic, id.Partition})
		}
	}
	return out
}

// tasks returns all tasks, in order.
func (l *layout) tasks() []engine.TaskID {
	var out []engine.TaskID
	for i := range l.subs {
		for p := range l.subs[i].tasks {
			out = append(out, engine.TaskID{SubTopology: l.subs[i].sub.ID, Partition: p})
		}
	}
	slices.SortFunc(out, compareTasks)
	return out
}

// inputTopics returns the topics that the app reads, in order.
func (l *layout) inputTopics() []string {
	var out []string
	for topic := range l.source {
		out = append(out, topic)
	}
	slices.Sort(out)
	return out
}

func compareTasks(a, b engine.TaskID) int {
	return cmp.Or(cmp.Compare(a.SubTopology, b.SubTopology), cmp.Compare(a.Partition, b.Partition))
}

// groupTasks is what the group balances, given the counts of partitions that the leader sees. A topic that has grown since start
// keeps its tasks, or keys would change theirs; one that is missing or has shrunk must not take tasks from their owners.
func (l *layout) groupTasks(partitions map[string]int32) ([]assign.Task, error) {
	for topic := range l.source {
		if want := l.topics[topic].partitions; partitions[topic] < want {
			return nil, fmt.Errorf("topic %s has %d partitions, %d when the app started", topic, partitions[topic], want)
		}
	}
	var out []assign.Task
	for _, id := range l.tasks() {
		t := assign.Task{ID: assign.ID{SubTopology: id.SubTopology, Partition: id.Partition}, Stateful: len(l.sub(id).sub.Stores) > 0}
		for _, tp := range l.inputs(id) {
			t.Reads = append(t.Reads, assign.TopicPartition{Topic: tp.topic, Partition: tp.partition})
		}
		out = append(out, t)
	}
	return out, nil
}
