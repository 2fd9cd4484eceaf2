package framework

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/state"
)

func source(topic string) graph.Source { return graph.Source{Node: "read " + topic, Topic: topic} }
func fromRepartition(name string) graph.Source {
	return graph.Source{Node: "read " + name, Topic: name, Repartition: true}
}

func sink(topic string) graph.Sink { return graph.Sink{Node: "write " + topic, Topic: topic} }
func toRepartition(name string, partitions int32) graph.Sink {
	return graph.Sink{Node: "write " + name, Topic: name, Repartition: true, Partitions: partitions}
}

func plan(subs ...*graph.SubTopology) *graph.Plan {
	for i, s := range subs {
		s.ID = i
	}
	return &graph.Plan{SubTopologies: subs}
}

// Counts follow the records: what the user says, else what has to match, else the largest writer.
func TestResolveCountsPartitions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		plan *graph.Plan
		have map[string]int32
		want map[string]int32 // topics
		task []int32          // of each sub-topology
	}{
		{
			"a repartition topic follows the widest source of its writer",
			plan(
				&graph.SubTopology{Sources: []graph.Source{source("a"), source("b")}, Sinks: []graph.Sink{toRepartition("r", 0)}},
				&graph.SubTopology{Sources: []graph.Source{fromRepartition("r")}, Stores: []state.Spec{{Name: "s", Kind: state.KeyValueKind}}},
			),
			map[string]int32{"a": 3, "b": 5},
			map[string]int32{"a": 3, "b": 5, "app-r-repartition": 5, "app-s-changelog": 5},
			[]int32{5, 5},
		},
		{
			"what has to match comes before the writer",
			plan(
				&graph.SubTopology{Sources: []graph.Source{source("a")}, Sinks: []graph.Sink{toRepartition("r", 0)}},
				&graph.SubTopology{Sources: []graph.Source{fromRepartition("r"), source("table")}, Copartitioned: [][]int{{0, 1}}},
			),
			map[string]int32{"a": 2, "table": 7},
			map[string]int32{"a": 2, "table": 7, "app-r-repartition": 7},
			[]int32{2, 7},
		},
		{
			"what the user says comes first, and goes on down a chain",
			plan(
				&graph.SubTopology{Sources: []graph.Source{source("a")}, Sinks: []graph.Sink{toRepartition("r", 6)}},
				&graph.SubTopology{Sources: []graph.Source{fromRepartition("r")}, Sinks: []graph.Sink{toRepartition("q", 0), sink("out")}},
				&graph.SubTopology{Sources: []graph.Source{fromRepartition("q")}},
			),
			map[string]int32{"a": 2, "out": 1},
			map[string]int32{"a": 2, "out": 1, "app-r-repartition": 6, "app-q-repartition": 6},
			[]int32{2, 6, 6},
		},
		{
			"two repartition topics that meet get the same count",
			plan(
				&graph.SubTopology{Sources: []graph.Source{source("a")}, Sinks: []graph.Sink{toRepartition("r", 0)}},
				&graph.SubTopology{Sources: []graph.Source{source("b")}, Sinks: []graph.Sink{toRepartition("q", 0)}},
				&graph.SubTopology{Sources: []graph.Source{fromRepartition("r"), fromRepartition("q")}, Copartitioned: [][]int{{0, 1}}},
			),
			map[string]int32{"a": 4, "b": 4},
			map[string]int32{"a": 4, "b": 4, "app-r-repartition": 4, "app-q-repartition": 4},
			[]int32{4, 4, 4},
		},
		{
			"a table's topic is its changelog",
			plan(&graph.SubTopology{
				Sources: []graph.Source{{Topic: "t", Table: true}},
				Stores:  []state.Spec{{Name: "t", Kind: state.KeyValueKind, SourceTopic: "t"}},
			}),
			map[string]int32{"t": 3},
			map[string]int32{"t": 3},
			[]int32{3},
		},
	} {
		lay, _, err := resolve(c.plan, namesOf("app"), c.have)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		got := make(map[string]int32)
		for topic, info := range lay.topics {
			got[topic] = info.partitions
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: topics (-want +got):\n%s", c.name, diff)
		}
		var tasks []int32
		for _, s := range lay.subs {
			tasks = append(tasks, s.tasks)
		}
		if diff := cmp.Diff(c.task, tasks); diff != "" {
			t.Errorf("%s: tasks (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestResolveRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		plan *graph.Plan
		have map[string]int32
		want []string
	}{
		{
			"topics that meet and differ",
			plan(&graph.SubTopology{Sources: []graph.Source{source("a"), source("b")}, Copartitioned: [][]int{{0, 1}}}),
			map[string]int32{"a": 4, "b": 3},
			[]string{"a has 4 partitions", "b has 3", "repartition"},
		},
		{
			"a loop that nothing decides",
			plan(&graph.SubTopology{Sources: []graph.Source{fromRepartition("r")}, Sinks: []graph.Sink{toRepartition("r", 0)}}),
			nil,
			[]string{"app-r-repartition", "depends on itself"},
		},
	} {
		_, _, err := resolve(c.plan, namesOf("app"), c.have)
		if err == nil {
			t.Errorf("%s: no error", c.name)
			continue
		}
		for _, part := range c.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q does not say %q", c.name, err, part)
			}
		}
	}
}

func TestCheckPlanRefuses(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]*graph.Plan{
		"reads no topic":                  plan(&graph.SubTopology{}),
		"topic a is read by":              plan(&graph.SubTopology{Sources: []graph.Source{source("a")}}, &graph.SubTopology{Sources: []graph.Source{source("a")}}),
		"read by read r but nothing writ": plan(&graph.SubTopology{Sources: []graph.Source{fromRepartition("r")}}),
	} {
		err := checkPlan(p, namesOf("app"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error that says %q", err, want)
		}
	}
}

// A task has the same partition of each source that has one.
func TestInputsOfATask(t *testing.T) {
	t.Parallel()
	lay, _, err := resolve(plan(&graph.SubTopology{Sources: []graph.Source{source("a"), source("b")}}), namesOf("app"), map[string]int32{"a": 1, "b": 2})
	if err != nil {
		t.Fatal(err)
	}
	if len(lay.tasks()) != 2 {
		t.Fatalf("tasks %v, want two", lay.tasks())
	}
	for _, id := range lay.tasks() {
		want := []topicPartition{{"a", 0}, {"b", 0}}
		if id.Partition == 1 {
			want = []topicPartition{{"b", 1}}
		}
		if diff := cmp.Diff(want, lay.inputs(id), cmp.AllowUnexported(topicPartition{})); diff != "" {
			t.Errorf("task %s reads (-want +got):\n%s", id, diff)
		}
		for _, tp := range lay.inputs(id) {
			if got, ok := lay.taskOf(tp); !ok || got != id {
				t.Errorf("%v belongs to %v, want %v", tp, got, id)
			}
		}
	}
	if _, ok := lay.taskOf(topicPartition{"a", 1}); ok {
		t.Error("a partition that did not exist at start has a task")
	}
	if _, err := lay.groupTasks(map[string]int32{"a": 1}); err == nil {
		t.Error("tasks were balanced without the counts of topic b")
	}
	if _, err := lay.groupTasks(map[string]int32{"a": 1, "b": 5}); err != nil {
		t.Errorf("a topic that has grown keeps its tasks: %v", err)
	}
}
