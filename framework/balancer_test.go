package framework

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/headrace/headrace/internal/assign"
	"github.com/headrace/headrace/internal/wire"
)

// joinTasks is a topology of two sub-topologies: the first joins orders with payments, the second reads counts.
func joinTasks(partitions map[string]int32) ([]assign.Task, error) {
	var tasks []assign.Task
	for sub, topics := range [][]string{{"orders", "payments"}, {"counts"}} {
		n := int32(0)
		for _, topic := range topics {
			if _, ok := partitions[topic]; !ok {
				return nil, fmt.Errorf("topic %s is missing", topic)
			}
			n = max(n, partitions[topic])
		}
		for p := range n {
			task := assign.Task{ID: assign.ID{SubTopology: sub, Partition: p}, Stateful: sub == 0}
			for _, topic := range topics {
				if p < partitions[topic] {
					task.Reads = append(task.Reads, assign.TopicPartition{Topic: topic, Partition: p})
				}
			}
			tasks = append(tasks, task)
		}
	}
	return tasks, nil
}

var joinTopics = []string{"counts", "orders", "payments"} // sorted, as the client passes them

// fakeMember is a member as the group's leader knows it.
type fakeMember struct {
	*balancer
	id    string
	owned map[string][]int32
	gen   int32
}

func newFake(instance string, worker int32) *fakeMember {
	return &fakeMember{
		balancer: newBalancer(wire.Member{Instance: instance, Worker: worker, Topology: 7}, joinTasks),
		id:       fmt.Sprintf("%s-%d", instance, worker),
	}
}

// round lets the first member lead one round and returns what each member was told.
func round(members []*fakeMember, partitions map[string]int32) (map[string]map[string][]int32, error) {
	var joined []kmsg.JoinGroupResponseMember
	for _, m := range members {
		j := kmsg.NewJoinGroupResponseMember()
		j.MemberID = m.id
		j.ProtocolMetadata = m.JoinGroupMetadata(joinTopics, m.owned, m.gen)
		joined = append(joined, j)
	}
	mb, _, err := members[0].MemberBalancer(joined)
	if err != nil {
		return nil, err
	}
	plan, err := mb.(kgo.GroupMemberBalancerOrError).BalanceOrError(partitions)
	if err != nil {
		return nil, err
	}
	told := map[string]map[string][]int32{}
	dealt := 0
	var last wire.Assignment
	for _, s := range plan.IntoSyncAssignment() {
		data, ok, err := assignmentData(s.MemberAssignment)
		if err != nil || !ok || data.Topology != 7 {
			return nil, fmt.Errorf("%s is told %+v, %v besides its partitions: %w", s.MemberID, data, ok, err)
		}
		last = data
		for _, m := range members {
			if m.id != s.MemberID {
				continue
			}
			if told[m.id], err = m.ParseSyncAssignment(s.MemberAssignment); err != nil {
				return nil, err
			}
			for _, ps := range told[m.id] {
				dealt += len(ps)
			}
		}
	}
	all := 0
	for _, n := range partitions {
		all += int(n)
	}
	if last.Unfinished != (dealt < all) {
		return nil, fmt.Errorf("members are told that partitions are left: %v; %d of %d have an owner", last.Unfinished, dealt, all)
	}
	return told, nil
}

// settle runs rounds as the members of a cooperative group do: whoever has to give something up joins again. After each round,
// no partition may have two owners and no member a part of a task.
func settle(members []*fakeMember, partitions map[string]int32, gen *int32) error {
	for range 4 {
		*gen++
		told, err := round(members, partitions)
		if err != nil {
			return err
		}
		again := false
		for _, m := range members {
			for _, other := range members {
				for topic, ps := range told[m.id] {
					for _, p := range ps {
						if other != m && slices.Contains(other.owned[topic], p) {
							return fmt.Errorf("%s is given %s[%d] while %s owns it", m.id, topic, p, other.id)
						}
						if other != m && slices.Contains(told[other.id][topic], p) {
							return fmt.Errorf("%s and %s are both given %s[%d]", m.id, other.id, topic, p)
						}
					}
				}
			}
			for topic, ps := range m.owned {
				for _, p := range ps {
					again = again || !slices.Contains(told[m.id][topic], p)
				}
			}
			if _, err := wholeTasks(told[m.id], partitions); err != nil {
				return fmt.Errorf("%s: %w", m.id, err)
			}
		}
		for _, m := range members {
			m.owned, m.gen = told[m.id], *gen
		}
		if !again {
			return nil
		}
	}
	return errors.New("the group does not come to rest")
}

// whole fails if a part of a task was assigned, and else returns the number of tasks.
func wholeTasks(assigned map[string][]int32, partitions map[string]int32) (int, error) {
	tasks, err := joinTasks(partitions)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, task := range tasks {
		got := 0
		for _, tp := range task.Reads {
			if slices.Contains(assigned[tp.Topic], tp.Partition) {
				got++
			}
		}
		switch got {
		case 0:
		case len(task.Reads):
			n++
		default:
			return 0, fmt.Errorf("task %s is torn", task.ID)
		}
	}
	return n, nil
}

func TestTasksMoveWholeAndOneRoundAfterTheyAreGivenUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		partitions := map[string]int32{"orders": 6, "payments": rapid.Int32Range(1, 6).Draw(t, "payments"), "counts": 4}
		var members []*fakeMember
		var gen int32
		for i := range rapid.IntRange(1, 12).Draw(t, "steps") {
			switch {
			case len(members) > 1 && rapid.Bool().Draw(t, "leave"):
				m := rapid.IntRange(0, len(members)-1).Draw(t, "who")
				members = slices.Delete(members, m, m+1)
			case rapid.IntRange(0, 4).Draw(t, "grow") == 0:
				partitions["counts"]++
			default:
				members = append(members, newFake(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "instance"), int32(i)))
			}
			if len(members) == 0 {
				continue
			}
			if err := settle(members, partitions, &gen); err != nil {
				t.Fatal(err)
			}
			tasks, _ := joinTasks(partitions)
			total, least, most := 0, len(tasks), 0
			for _, m := range members {
				n, _ := wholeTasks(m.owned, partitions)
				total, least, most = total+n, min(least, n), max(most, n)
			}
			if total != len(tasks) || most > least+1 {
				t.Fatalf("%d of %d tasks are assigned, from %d to %d a member", total, len(tasks), least, most)
			}
		}
	})
}

// A topology that reads one more topic finds owners of the other parts of its tasks: the new part waits with them.
func TestATaskWithANewTopicComesWhole(t *testing.T) {
	t.Parallel()
	partitions := map[string]int32{"orders": 2, "payments": 2, "counts": 0}
	a, b := newFake("a", 0), newFake("b", 0)
	a.owned, a.gen = map[string][]int32{"orders": {0, 1}}, 1
	told, err := round([]*fakeMember{a, b}, partitions)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string][]int32{"a-0": {"orders": {0}, "payments": {0}}, "b-0": {}}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("first round: %s", diff)
	}
	a.owned, a.gen = told["a-0"], 2
	if told, err = round([]*fakeMember{a, b}, partitions); err != nil {
		t.Fatal(err)
	}
	want["b-0"] = map[string][]int32{"orders": {1}, "payments": {1}}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("second round: %s", diff)
	}
}

// A member that was away claims what others have run since then.
func TestAnOldClaimDoesNotCount(t *testing.T) {
	t.Parallel()
	partitions := map[string]int32{"orders": 4, "payments": 4, "counts": 0}
	a, b := newFake("a", 0), newFake("b", 0)
	a.owned, a.gen = map[string][]int32{"orders": {0, 1, 2, 3}, "payments": {0, 1, 2, 3}}, 3
	b.owned, b.gen = map[string][]int32{"orders": {0, 1}, "payments": {0, 1}}, 5
	told, err := round([]*fakeMember{a, b}, partitions)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string][]int32{
		"a-0": {"orders": {2, 3}, "payments": {2, 3}},
		"b-0": {"orders": {0, 1}, "payments": {0, 1}},
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Error(diff)
	}
}

func TestWhatCannotBeBalancedSaysWhy(t *testing.T) {
	t.Parallel()
	partitions := map[string]int32{"orders": 2, "payments": 2, "counts": 2}
	foreign := newFake("a", 0)
	foreign.tasks = func(map[string]int32) ([]assign.Task, error) {
		reads := []assign.TopicPartition{{Topic: "orders", Partition: 0}}
		return []assign.Task{{ID: assign.ID{SubTopology: 0}, Reads: reads}, {ID: assign.ID{SubTopology: 1}, Reads: reads}}, nil
	}
	for name, c := range map[string]struct {
		members    []*fakeMember
		partitions map[string]int32
		want       []string
	}{
		"a topic is missing": {[]*fakeMember{newFake("a", 0)}, map[string]int32{"orders": 2, "counts": 2}, []string{"topic payments is missing"}},
		"two readers":        {[]*fakeMember{foreign}, partitions, []string{"tasks 0_0 and 1_0", "orders[0]"}},
		"no such partition":  {[]*fakeMember{foreign}, map[string]int32{}, []string{"task 0_0 reads orders[0]", "0 partitions"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := round(c.members, c.partitions)
			if err == nil {
				t.Fatal("balanced")
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
		})
	}

	t.Run("user data of somebody else", func(t *testing.T) {
		t.Parallel()
		j := kmsg.NewJoinGroupResponseMember()
		j.MemberID = "stranger"
		j.ProtocolMetadata = kgo.CooperativeStickyBalancer().JoinGroupMetadata(joinTopics, nil, -1)
		mb, _, err := newFake("a", 0).MemberBalancer([]kmsg.JoinGroupResponseMember{j})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = mb.(kgo.GroupMemberBalancerOrError).BalanceOrError(partitions); err == nil || !strings.Contains(err.Error(), "stranger") {
			t.Errorf("got %v", err)
		}
	})
}

// A member with another topology gets nothing and gives up what it has; the others share everything. The leader's counts.
func TestAnotherTopologyGetsNoTasks(t *testing.T) {
	t.Parallel()
	partitions := map[string]int32{"orders": 4, "payments": 4, "counts": 4}
	var log bytes.Buffer
	a, b, other := newFake("a", 0), newFake("b", 0), newFake("c", 1)
	a.log = slog.New(slog.NewTextHandler(&log, nil))
	other.member.Topology = 8
	other.owned, other.gen = map[string][]int32{"orders": {0, 1}, "payments": {0, 1}}, 1
	b.owned, b.gen = map[string][]int32{"orders": {2, 3}, "payments": {2, 3}}, 1
	members, gen := []*fakeMember{a, b, other}, int32(1)
	if err := settle(members, partitions, &gen); err != nil {
		t.Fatal(err)
	}
	if len(other.owned) > 0 {
		t.Errorf("the stranger has %v", other.owned)
	}
	tasks := 0
	for _, m := range []*fakeMember{a, b} {
		n, err := wholeTasks(m.owned, partitions)
		if err != nil || n == 0 {
			t.Errorf("%s has %d tasks (%v): %v", m.id, n, err, m.owned)
		}
		tasks += n
	}
	if tasks != 8 {
		t.Errorf("%d tasks have an owner, want all 8", tasks)
	}
	for _, part := range []string{"level=WARN", "instance=c", "worker=1", "0000000000000008", "0000000000000007"} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("the leader's log does not say %q: %s", part, &log)
		}
	}
}

func TestMemberMetadataIsSmallAndStable(t *testing.T) {
	t.Parallel()
	m := newFake(strings.Repeat("i", 36), 3)
	m.owned = map[string][]int32{"orders": nil, "payments": nil, "counts": nil}
	for p := range int32(64) {
		for topic := range m.owned {
			m.owned[topic] = append(m.owned[topic], p)
		}
	}
	first := m.JoinGroupMetadata(joinTopics, m.owned, 3)
	if len(first) > 2<<10 {
		t.Errorf("%d bytes, want at most 2 KiB", len(first))
	}
	for range 20 {
		if again := m.JoinGroupMetadata(joinTopics, m.owned, 3); !slices.Equal(first, again) {
			t.Fatal("equal input gave other bytes: the broker would rebalance for it")
		}
	}
}

func TestAnAssignmentCutOffIsRefused(t *testing.T) {
	t.Parallel()
	if got, err := newFake("a", 0).ParseSyncAssignment([]byte{0}); err == nil {
		t.Errorf("read as %v", got)
	}
}

// Two clients against a broker: the second one gets its half, in whole tasks, and the first keeps the rest.
func TestTwoClientsShareTheGroup(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, joinTopics...))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	partitions := map[string]int32{"orders": 4, "payments": 4, "counts": 4}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()

	join := func(instance string) {
		cl, err := kgo.NewClient(
			kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ClientID(instance),
			kgo.ConsumerGroup("app"), kgo.ConsumeTopics(joinTopics...),
			kgo.Balancers(newBalancer(wire.Member{Instance: instance, Topology: 7}, joinTasks)),
			kgo.HeartbeatInterval(50*time.Millisecond), kgo.SessionTimeout(10*time.Second),
		)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cl.Close)
	}
	// until waits for a stable group whose members have so many tasks each, and returns what each client has.
	until := func(members, tasks int) map[string]map[string][]int32 {
		t.Helper()
		has := map[string]map[string][]int32{}
		_, err := cluster.WaitGroupInfo(ctx, "app", func(g *kfake.GroupInfo) bool {
			if g == nil || g.State != "Stable" || len(g.Members) != members {
				return false
			}
			for _, m := range g.Members {
				has[m.ClientID] = m.Assignment
				n, err := wholeTasks(m.Assignment, partitions)
				if err != nil {
					t.Error(err)
				}
				if n != tasks {
					return false
				}
			}
			return true
		})
		if err != nil {
			t.Fatalf("the group did not come to rest: %v; it had %v", err, has)
		}
		return has
	}

	join("a")
	before := until(1, 8)
	join("b")
	after := until(2, 4)
	for topic, ps := range after["a"] {
		for _, p := range ps {
			if !slices.Contains(before["a"][topic], p) || slices.Contains(after["b"][topic], p) {
				t.Errorf("a has %s[%d]: before there was %v, now there is %v", topic, p, before, after)
			}
		}
	}
}
