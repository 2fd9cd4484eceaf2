package framework

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

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
	for _, topic := range deadLetterTopics(plan) {
		if by, is := read[topic]; is {
			errs = append(errs, fmt.Errorf("framework: dead letters go to topic %s, which is read by %s: they would come in again, and fail again; use another topic", topic, by))
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
	store      int // index of the store of a changelog, or what follows
}

// What an internal topic is that is no changelog of a store.
const (
	repartitioned = -1
	metaRecords   = -2 // of any number of partitions: each record is referred to by where it is
)

// resolve lays the plan over the topics that the user made, counted in have. It returns the layout, without ids, and the topics
// that have to be there besides. Counts follow the records: a sub-topology has one task for each partition of its widest source,
// and a repartition topic has what the user said, else what its readers must match, else what its writers have.
func resolve(plan *graph.Plan, n naming, have map[string]int32) (*layout, []internalTopic, error) {
	count, err := plan.Partitions(have, func(t graph.Topic) string {
		if t.Repartition {
			return "repartition topic " + n.repartition(n.app, t.Name)
		}
		return "topic " + t.Name
	})
	if err != nil {
		return nil, nil, fmt.Errorf("framework: %w", err)
	}
	lay := &layout{topics: make(map[string]topicInfo), source: make(map[string]sourceRef)}
	var made []internalTopic
	for si, sub := range plan.SubTopologies {
		sl := subLayout{sub: sub, tasks: sub.Tasks(count)}
		for i := range sub.Sources {
			topic := n.source(&sub.Sources[i])
			c := count[sub.Sources[i].Ref()]
			sl.sources = append(sl.sources, topic)
			lay.source[topic] = sourceRef{si, i}
			lay.topics[topic] = topicInfo{partitions: c}
			if sub.Sources[i].Repartition {
				made = append(made, internalTopic{name: topic, partitions: c, sub: si, store: repartitioned})
			}
		}
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
	return lay, made, nil
}

// because names the topics of the user's that give an internal topic its number of partitions, where there are such.
func (l *layout) because(t internalTopic) string {
	have := l.measures(t.sub, t.partitions, make(map[int]bool))
	if len(have) == 0 {
		return ""
	}
	slices.Sort(have)
	return ", as " + strings.Join(slices.Compact(have), " and ") + " now has"
}

// measures are the topics with that many partitions that a sub-topology reads, or, if it reads repartition topics only, those whose
// writers do.
func (l *layout) measures(sub int, partitions int32, seen map[int]bool) []string {
	if seen[sub] {
		return nil
	}
	seen[sub] = true
	var have []string
	for i, topic := range l.subs[sub].sources {
		if !l.subs[sub].sub.Sources[i].Repartition && l.topics[topic].partitions == partitions {
			have = append(have, topic)
		}
	}
	for i, topic := range l.subs[sub].sources {
		if len(have) > 0 || !l.subs[sub].sub.Sources[i].Repartition {
			continue
		}
		for w := range l.subs {
			if slices.Contains(l.subs[w].sinks, topic) {
				have = append(have, l.measures(w, partitions, seen)...)
			}
		}
	}
	return have
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
