// Package assign decides which member of the group runs which task. It is pure: the same members, owners and tasks give the same
// answer, whoever asks.
//
// An assignment is, in this order of importance:
//
//   - complete: each task has exactly one member;
//   - balanced: the numbers of stateful tasks of any two members differ by at most one, and so do those of all tasks;
//   - spread: what cannot be divided evenly goes to the instances in turn, so that no instance idles while two workers of another
//     one have more than their share;
//   - sticky: a task stays with its owner unless the above demand otherwise. First as few stateful tasks move as possible, as
//     moving them costs a restore, then as few of the others;
//   - mixed: of what must move, the member gives up tasks of the sub-topology that it has most of, and takes those that it has
//     fewest of, since sub-topologies differ in work.
package assign

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// ID names a task: partition Partition of sub-topology SubTopology.
type ID struct {
	SubTopology int
	Partition   int32
}

// String returns the id as Kafka Streams writes it: 0_2 is partition 2 of sub-topology 0.
func (id ID) String() string { return fmt.Sprintf("%d_%d", id.SubTopology, id.Partition) }

func (id ID) compare(other ID) int {
	return cmp.Or(cmp.Compare(id.SubTopology, other.SubTopology), cmp.Compare(id.Partition, other.Partition))
}

// TopicPartition is a partition of a topic.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String returns topic[partition].
func (tp TopicPartition) String() string { return fmt.Sprintf("%s[%d]", tp.Topic, tp.Partition) }

// Task is a task to assign.
type Task struct {
	ID
	// Stateful tasks have a store.
	Stateful bool
	// Reads are the partitions that come with the task, to the same member. Assign does not look at them.
	Reads []TopicPartition
}

// Member is a member of the group.
type Member struct {
	// ID is unique in the group.
	ID string
	// Instance is the process that the member lives in and Worker its number there.
	Instance string
	Worker   int32
	// Owned are the tasks that it runs now. Those that are not to be assigned any more are ignored; of two members that own the
	// same task, the first by instance and worker counts.
	Owned []ID
}

// Assign gives each task to one member. The result has an entry for every member, with its tasks in ascending order; it is empty
// if there are no members. A task or a member that is listed twice counts once.
func Assign(members []Member, tasks []Task) map[string][]ID {
	p := newPlan(members)
	if len(p.members) == 0 {
		return map[string][]ID{}
	}
	tasks = slices.Clone(tasks)
	slices.SortStableFunc(tasks, func(a, b Task) int { return a.compare(b.ID) })
	tasks = slices.CompactFunc(tasks, func(a, b Task) bool { return a.ID == b.ID })

	owner := map[ID]int{}
	for i, m := range p.members {
		for _, id := range m.Owned {
			if _, taken := owner[id]; !taken {
				owner[id] = i
			}
		}
	}
	var stateful, stateless []ID
	for _, t := range tasks {
		if t.Stateful {
			stateful = append(stateful, t.ID)
		} else {
			stateless = append(stateless, t.ID)
		}
		if m, ok := owner[t.ID]; ok {
			p.load[m]++
		}
	}
	p.place(stateful, owner)
	p.place(stateless, owner)

	all := make(map[string][]ID, len(p.members))
	for i, m := range p.members {
		slices.SortFunc(p.given[i], ID.compare)
		all[m.ID] = p.given[i]
	}
	return all
}

// newPlan sorts the members by instance and worker, so that those of one instance are neighbours.
func newPlan(members []Member) *plan {
	members = slices.Clone(members)
	slices.SortStableFunc(members, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
	members = slices.CompactFunc(members, func(a, b Member) bool { return a.ID == b.ID })
	slices.SortStableFunc(members, func(a, b Member) int {
		return cmp.Or(strings.Compare(a.Instance, b.Instance), cmp.Compare(a.Worker, b.Worker))
	})
	p := &plan{members: members, given: make([][]ID, len(members)), load: make([]int, len(members)), of: make([]map[int]int, len(members))}
	for i, m := range members {
		p.of[i] = map[int]int{}
		if i == 0 || members[i-1].Instance != m.Instance {
			p.instances = append(p.instances, instance{from: i})
		}
		p.instances[len(p.instances)-1].to = i + 1
	}
	return p
}
