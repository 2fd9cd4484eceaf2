package framework

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headrace/headrace/internal/assign"
	"github.com/headrace/headrace/internal/wire"
)

// balancerProtocol is the name that the group agrees on. A member that knows only other protocols cannot join.
const balancerProtocol = "headrace"

// balancer is the group protocol of one worker. It assigns whole tasks, so that the partitions of a task move together, and
// cooperatively: a task that changes hands is given up in one round and taken in the next.
//
// It does not change and keeps no record of what was assigned: ownership wraps it for that.
type balancer struct {
	member wire.Member
	tasks  func(partitions map[string]int32) ([]assign.Task, error)
	log    *slog.Logger
}

// newBalancer makes the balancer of the member. Given the number of partitions of each topic that the group reads, tasks returns
// all tasks with all the partitions that each reads. It must fail if a topic is missing that a task reads: metadata come from the
// broker and may lack a topic for a while, and a plan without it would take its partitions from their owners.
func newBalancer(member wire.Member, tasks func(partitions map[string]int32) ([]assign.Task, error)) *balancer {
	return &balancer{member: member, tasks: tasks, log: slog.New(slog.DiscardHandler)}
}

var (
	_ kgo.GroupBalancer           = (*balancer)(nil)
	_ kgo.ConsumerBalancerBalance = (*balancer)(nil)
)

func (*balancer) ProtocolName() string { return balancerProtocol }

func (*balancer) IsCooperative() bool { return true }

// JoinGroupMetadata is a subscription of the consumer protocol, so that every tool can read it. Equal input gives equal bytes: the
// broker takes a change for a reason to rebalance.
func (b *balancer) JoinGroupMetadata(topics []string, current map[string][]int32, generation int32) []byte {
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Version = 3 // the first with generation
	meta.Topics = topics
	meta.Generation = generation
	meta.UserData = wire.AppendMember(nil, b.member)
	for _, topic := range slices.Sorted(maps.Keys(current)) {
		owned := kmsg.NewConsumerMemberMetadataOwnedPartition()
		owned.Topic, owned.Partitions = topic, current[topic]
		meta.OwnedPartitions = append(meta.OwnedPartitions, owned)
	}
	return meta.AppendTo(nil)
}

// ParseSyncAssignment decodes what the leader sent.
func (*balancer) ParseSyncAssignment(assignment []byte) (map[string][]int32, error) {
	assigned, err := kgo.ParseConsumerSyncAssignment(assignment)
	if err != nil {
		return nil, fmt.Errorf("framework: the group's leader sent an assignment that cannot be read: %w", err)
	}
	return assigned, nil
}

// assignmentData is what the leader says beside the partitions. ok is false if it says nothing: it runs a version that did not.
func assignmentData(assignment []byte) (data wire.Assignment, ok bool, err error) {
	if len(assignment) == 0 {
		return data, false, nil
	}
	var a kmsg.ConsumerMemberAssignment
	if err = a.ReadFrom(assignment); err == nil && len(a.UserData) > 0 {
		data, err = wire.DecodeAssignment(a.UserData)
		ok = err == nil
	}
	if err != nil {
		err = fmt.Errorf("framework: the group's leader sent an assignment that cannot be read: %w", err)
	}
	return data, ok, err
}

// groupPlan is a plan in which every member is told something besides its partitions.
type groupPlan struct {
	*kgo.BalancePlan
	data wire.Assignment
}

func (p *groupPlan) IntoSyncAssignment() []kmsg.SyncGroupRequestGroupAssignment {
	out := p.BalancePlan.IntoSyncAssignment()
	data := wire.AppendAssignment(nil, p.data)
	for i := range out {
		var a kmsg.ConsumerMemberAssignment
		if err := a.ReadFrom(out[i].MemberAssignment); err != nil {
			continue // it was encoded a moment ago
		}
		a.UserData = data
		out[i].MemberAssignment = a.AppendTo(nil)
	}
	return out
}

// MemberBalancer makes the leader's view of the group.
func (b *balancer) MemberBalancer(members []kmsg.JoinGroupResponseMember) (kgo.GroupMemberBalancer, map[string]struct{}, error) {
	cb, err := kgo.NewConsumerBalancer(b, members)
	if err != nil {
		return nil, nil, fmt.Errorf("framework: a group member's subscription cannot be read; is its group id another application's? %w", err)
	}
	return cb, cb.MemberTopics(), nil
}

// Balance is called at the leader. A failure is an error of the leader's group session, which tries again.
func (b *balancer) Balance(cb *kgo.ConsumerBalancer, partitions map[string]int32) kgo.IntoSyncAssignment {
	plan, err := b.plan(cb, partitions)
	if err != nil {
		cb.SetError(err)
		return nil
	}
	return plan
}

func (b *balancer) plan(cb *kgo.ConsumerBalancer, partitions map[string]int32) (*groupPlan, error) {
	tasks, err := b.tasks(partitions)
	if err != nil {
		return nil, fmt.Errorf("framework: the group cannot be balanced: %w", err)
	}
	reads := map[assign.ID][]assign.TopicPartition{}
	reader := map[assign.TopicPartition]assign.ID{}
	for _, task := range tasks {
		reads[task.ID] = task.Reads
		for _, tp := range task.Reads {
			if other, taken := reader[tp]; taken {
				return nil, fmt.Errorf("framework: tasks %s and %s both read %s; one partition can feed one task only", other, task.ID, tp)
			}
			if tp.Partition >= partitions[tp.Topic] {
				return nil, fmt.Errorf("framework: task %s reads %s, but the topic has %d partitions", task.ID, tp, partitions[tp.Topic])
			}
			reader[tp] = task.ID
		}
	}
	members, err := b.members(cb, reader)
	if err != nil {
		return nil, err
	}

	assigned := assign.Assign(members, tasks)
	plan := cb.NewPlan()
	cb.EachMember(func(m *kmsg.JoinGroupResponseMember, _ *kmsg.ConsumerMemberMetadata) {
		for _, id := range assigned[m.MemberID] {
			for _, tp := range reads[id] {
				plan.AddPartition(m, tp.Topic, tp.Partition)
			}
		}
	})
	plan.AdjustCooperative(cb)
	dropTorn(plan.AsMemberIDMap(), assigned, reads)
	dealt := 0
	for _, topics := range plan.AsMemberIDMap() {
		for _, ps := range topics {
			dealt += len(ps)
		}
	}
	return &groupPlan{plan, wire.Assignment{Topology: b.member.Topology, Unfinished: dealt < len(reader)}}, nil
}

// members turns subscriptions into members with the tasks that they own. A task is owned by the member that has most of its
// partitions: they can be apart only if the task has just got another topic, or if another protocol assigned before.
//
// A member that runs another topology than the leader is none: it keeps nothing and gets nothing, and the others go on. What it owns
// others get in the round that follows.
func (b *balancer) members(cb *kgo.ConsumerBalancer, reader map[assign.TopicPartition]assign.ID) ([]assign.Member, error) {
	var members []assign.Member
	var failed error
	type claim struct {
		member     int
		generation int32
	}
	owner := map[assign.TopicPartition]claim{}
	cb.EachMember(func(m *kmsg.JoinGroupResponseMember, meta *kmsg.ConsumerMemberMetadata) {
		info, err := wire.DecodeMember(meta.UserData)
		switch {
		case failed != nil:
		case err != nil:
			failed = fmt.Errorf("framework: group member %s: %w", m.MemberID, err)
		case info.Topology != b.member.Topology:
			b.log.Warn("a member of the group runs another topology and gets no tasks; members of one application must run the same",
				"member", m.MemberID, "member_instance", info.Instance, "member_worker", info.Worker,
				"member_fingerprint", fingerprint(info.Topology), "fingerprint", fingerprint(b.member.Topology))
			return
		}
		for _, owned := range meta.OwnedPartitions {
			for _, p := range owned.Partitions {
				// A member that missed rebalances may claim what others were given since.
				tp := assign.TopicPartition{Topic: owned.Topic, Partition: p}
				if c, claimed := owner[tp]; !claimed || meta.Generation > c.generation {
					owner[tp] = claim{len(members), meta.Generation}
				}
			}
		}
		members = append(members, assign.Member{ID: m.MemberID, Instance: info.Instance, Worker: info.Worker})
	})
	if failed != nil {
		return nil, failed
	}

	parts := map[assign.ID][]int{} // how many of its partitions each member owns
	for tp, c := range owner {
		id, ok := reader[tp]
		if !ok {
			continue
		}
		if parts[id] == nil {
			parts[id] = make([]int, len(members))
		}
		parts[id][c.member]++
	}
	for id, n := range parts {
		m := slices.Index(n, slices.Max(n))
		members[m].Owned = append(members[m].Owned, id)
	}
	for _, m := range members {
		slices.SortFunc(m.Owned, func(a, b assign.ID) int {
			return cmp.Or(cmp.Compare(a.SubTopology, b.SubTopology), cmp.Compare(a.Partition, b.Partition))
		})
	}
	return members, nil
}

func fingerprint(topology uint64) string { return fmt.Sprintf("%016x", topology) }

// dropTorn takes the rest of a task out of the plan where a part of it has to wait for another member to give it up. The task
// comes whole in the round that follows.
func dropTorn(plan map[string]map[string][]int32, assigned map[string][]assign.ID, reads map[assign.ID][]assign.TopicPartition) {
	for member, ids := range assigned {
		topics := plan[member]
		planned := func(tp assign.TopicPartition) bool { return slices.Contains(topics[tp.Topic], tp.Partition) }
		for _, id := range ids {
			if !slices.ContainsFunc(reads[id], func(tp assign.TopicPartition) bool { return !planned(tp) }) {
				continue
			}
			for _, tp := range reads[id] {
				topics[tp.Topic] = slices.DeleteFunc(topics[tp.Topic], func(p int32) bool { return p == tp.Partition })
				if len(topics[tp.Topic]) == 0 {
					delete(topics, tp.Topic)
				}
			}
		}
	}
}
