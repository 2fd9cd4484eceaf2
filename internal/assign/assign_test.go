package assign_test

import (
	"fmt"
	"maps"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/headrace/headrace/internal/assign"
)

func tasks(sub, n int, stateful bool) []assign.Task {
	var ts []assign.Task
	for p := range n {
		ts = append(ts, assign.Task{ID: assign.ID{SubTopology: sub, Partition: int32(p)}, Stateful: stateful})
	}
	return ts
}

func ids(ts []assign.Task) []assign.ID {
	var all []assign.ID
	for _, t := range ts {
		all = append(all, t.ID)
	}
	return all
}

func member(instance string, worker int32, owned ...assign.ID) assign.Member {
	return assign.Member{ID: fmt.Sprintf("%s-%d", instance, worker), Instance: instance, Worker: worker, Owned: owned}
}

// settle makes what was assigned what is owned.
func settle(members []assign.Member, a map[string][]assign.ID) []assign.Member {
	members = slices.Clone(members)
	for i := range members {
		members[i].Owned = a[members[i].ID]
	}
	return members
}

func TestAssign(t *testing.T) {
	t.Parallel()
	id := func(sub int, p int32) assign.ID { return assign.ID{SubTopology: sub, Partition: p} }
	for name, c := range map[string]struct {
		members []assign.Member
		tasks   []assign.Task
		want    map[string][]assign.ID
	}{
		"nobody":  {nil, tasks(0, 2, true), map[string][]assign.ID{}},
		"nothing": {[]assign.Member{member("a", 0)}, nil, map[string][]assign.ID{"a-0": nil}},
		"two workers of one instance": {
			[]assign.Member{member("a", 0), member("a", 1)},
			tasks(0, 8, true),
			map[string][]assign.ID{
				"a-0": {id(0, 0), id(0, 2), id(0, 4), id(0, 6)},
				"a-1": {id(0, 1), id(0, 3), id(0, 5), id(0, 7)},
			},
		},
		"instances before workers": {
			[]assign.Member{member("a", 0), member("a", 1), member("a", 2), member("b", 0)},
			tasks(0, 2, true),
			map[string][]assign.ID{"a-0": {id(0, 0)}, "a-1": nil, "a-2": nil, "b-0": {id(0, 1)}},
		},
		"an instance gives up a task for one that idles": {
			[]assign.Member{member("a", 0, id(0, 0)), member("a", 1, id(0, 1)), member("b", 0)},
			tasks(0, 2, true),
			map[string][]assign.ID{"a-0": {id(0, 0)}, "a-1": nil, "b-0": {id(0, 1)}},
		},
		"both classes are balanced": {
			[]assign.Member{member("a", 0), member("b", 0)},
			append(tasks(0, 3, true), tasks(1, 3, false)...),
			map[string][]assign.ID{"a-0": {id(0, 0), id(0, 2), id(1, 1)}, "b-0": {id(0, 1), id(1, 0), id(1, 2)}},
		},
		"what moves is mixed": {
			[]assign.Member{member("a", 0, ids(append(tasks(0, 4, true), tasks(1, 4, true)...))...), member("b", 0)},
			append(tasks(0, 4, true), tasks(1, 4, true)...),
			map[string][]assign.ID{
				"a-0": {id(0, 0), id(0, 1), id(1, 0), id(1, 1)},
				"b-0": {id(0, 2), id(0, 3), id(1, 2), id(1, 3)},
			},
		},
		"owners of what is no more, and twice the same": {
			[]assign.Member{member("b", 0, id(0, 0)), member("a", 0, id(9, 9), id(0, 0)), member("a", 0)},
			append(tasks(0, 1, true), tasks(0, 2, true)...),
			map[string][]assign.ID{"a-0": {id(0, 0)}, "b-0": {id(0, 1)}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, assign.Assign(c.members, c.tasks)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func drawMembers(t *rapid.T) []assign.Member {
	var ms []assign.Member
	for i := range rapid.IntRange(1, 3).Draw(t, "instances") {
		for w := range rapid.IntRange(1, 3).Draw(t, "workers") {
			ms = append(ms, member(string(rune('a'+i)), int32(w)))
		}
	}
	return ms
}

func drawTasks(t *rapid.T, classes bool) []assign.Task {
	var ts []assign.Task
	for sub := range rapid.IntRange(0, 3).Draw(t, "sub-topologies") {
		ts = append(ts, tasks(sub, rapid.IntRange(1, 7).Draw(t, "partitions"), !classes || rapid.Bool().Draw(t, "stateful"))...)
	}
	return ts
}

// drawOwners gives each task to any member or to none.
func drawOwners(t *rapid.T, ms []assign.Member, ts []assign.Task) []assign.Member {
	ms = slices.Clone(ms)
	for _, task := range ts {
		if m := rapid.IntRange(-1, len(ms)-1).Draw(t, "owner of "+task.String()); m >= 0 {
			ms[m].Owned = append(ms[m].Owned, task.ID)
		}
	}
	return ms
}

// counts says, per member, how many tasks it has of those that pass.
func counts(ms []assign.Member, a map[string][]assign.ID, pass func(assign.ID) bool) []int {
	n := make([]int, len(ms))
	for i, m := range ms {
		for _, id := range a[m.ID] {
			if pass(id) {
				n[i]++
			}
		}
	}
	return n
}

// fair says why counts are not balanced and spread, or nothing.
func fair(ms []assign.Member, n []int) string {
	low := slices.Min(n)
	if slices.Max(n) > low+1 {
		return fmt.Sprintf("unbalanced: %v", n)
	}
	type inst struct{ extras, workers int }
	by := map[string]inst{}
	for i, m := range ms {
		in := by[m.Instance]
		in.workers++
		in.extras += n[i] - low
		by[m.Instance] = in
	}
	for a, ia := range by {
		for b, ib := range by {
			if ia.extras < ia.workers && ib.extras > ia.extras+1 {
				return fmt.Sprintf("not spread: %v, instance %s has too few, %s too many", n, a, b)
			}
		}
	}
	return ""
}

func statefulOf(ts []assign.Task) func(assign.ID) bool {
	set := map[assign.ID]bool{}
	for _, task := range ts {
		set[task.ID] = task.Stateful
	}
	return func(id assign.ID) bool { return set[id] }
}

func all(assign.ID) bool { return true }

func moves(before []assign.Member, after map[string][]assign.ID, pass func(assign.ID) bool) int {
	n := 0
	for _, m := range before {
		for _, id := range m.Owned {
			if pass(id) && !slices.Contains(after[m.ID], id) {
				n++
			}
		}
	}
	return n
}

// leastMoves tries all ways to hand out what does not divide evenly.
func leastMoves(ms []assign.Member, total int, pass func(assign.ID) bool) int {
	owned := map[string][]assign.ID{}
	for _, m := range ms {
		owned[m.ID] = m.Owned
	}
	have := counts(ms, owned, pass)
	base, extras := total/len(ms), total%len(ms)
	best := total + 1
	for set := range 1 << len(ms) {
		if bits.OnesCount(uint(set)) != extras {
			continue
		}
		quota, n := make([]int, len(ms)), 0
		for i := range ms {
			quota[i] = base + set>>i&1
			n += max(0, have[i]-quota[i])
		}
		if fair(ms, quota) == "" {
			best = min(best, n)
		}
	}
	return best
}

func TestEveryAssignmentIsCompleteBalancedAndSpread(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ts := drawTasks(t, true)
		ms := drawOwners(t, drawMembers(t), ts)
		a := assign.Assign(ms, ts)
		got := slices.Concat(slices.Collect(maps.Values(a))...)
		slices.SortFunc(got, func(a, b assign.ID) int {
			return slices.Compare([]int{a.SubTopology, int(a.Partition)}, []int{b.SubTopology, int(b.Partition)})
		})
		if diff := cmp.Diff(ids(ts), got); diff != "" {
			t.Fatalf("not complete: %s", diff)
		}
		if why := fair(ms, counts(ms, a, statefulOf(ts))); why != "" {
			t.Fatalf("stateful tasks %s", why)
		}
		if why := fair(ms, counts(ms, a, all)); why != "" {
			t.Fatalf("all tasks %s", why)
		}
	})
}

// The order in which members and tasks are listed makes no difference, nor does asking again once all have what was decided.
func TestDeterministicAndAtRest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ts := drawTasks(t, true)
		ms := drawOwners(t, drawMembers(t), ts)
		a := assign.Assign(ms, ts)

		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "shuffle"), 0))
		ms2, ts2 := slices.Clone(ms), slices.Clone(ts)
		r.Shuffle(len(ms2), func(i, j int) { ms2[i], ms2[j] = ms2[j], ms2[i] })
		r.Shuffle(len(ts2), func(i, j int) { ts2[i], ts2[j] = ts2[j], ts2[i] })
		if diff := cmp.Diff(a, assign.Assign(ms2, ts2)); diff != "" {
			t.Fatalf("in another order: %s", diff)
		}
		if diff := cmp.Diff(a, assign.Assign(settle(ms, a), ts)); diff != "" {
			t.Fatalf("asked again: %s", diff)
		}
	})
}

func TestOnlyWhatMustMoveMoves(t *testing.T) {
	t.Parallel()
	check := func(t *rapid.T, ms []assign.Member, ts []assign.Task) map[string][]assign.ID {
		a := assign.Assign(ms, ts)
		if got, least := moves(ms, a, all), leastMoves(ms, len(ts), all); got != least {
			t.Fatalf("%d tasks moved, %d had to", got, least)
		}
		return a
	}
	rapid.Check(t, func(t *rapid.T) {
		ts := drawTasks(t, false)
		ms := drawOwners(t, drawMembers(t), ts)
		ms = settle(ms, check(t, ms, ts))

		joined := append(slices.Clone(ms), member(rapid.SampledFrom([]string{"a", "b", "z"}).Draw(t, "instance of the new one"), 9))
		joined = settle(joined, check(t, joined, ts))

		left := rapid.IntRange(0, len(joined)-1).Draw(t, "who leaves")
		check(t, slices.Delete(joined, left, left+1), ts)
	})
}

// With two classes, stateless tasks never make a stateful one move.
func TestStatefulTasksMoveLeast(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ts := drawTasks(t, true)
		stateful := statefulOf(ts)
		ms := drawOwners(t, drawMembers(t), ts)
		n := 0
		for _, task := range ts {
			if task.Stateful {
				n++
			}
		}
		if got, least := moves(ms, assign.Assign(ms, ts), stateful), leastMoves(ms, n, stateful); got != least {
			t.Fatalf("%d stateful tasks moved, %d had to", got, least)
		}
	})
}

// Between instances with one worker each, one that joins gets its share and no task moves between the others.
func TestJoiningMovesOnlyTheShare(t *testing.T) {
	t.Parallel()
	ts := append(tasks(0, 12, true), tasks(1, 7, false)...)
	ms := []assign.Member{member("a", 0), member("b", 0), member("c", 0)}
	ms = settle(ms, assign.Assign(ms, ts))
	ms = append(ms, member("d", 0))
	a := assign.Assign(ms, ts)
	if got, want := moves(ms, a, all), len(a["d-0"]); got != want || want < 4 || want > 5 {
		t.Errorf("%d tasks moved and the new member has %d", got, want)
	}
}

func BenchmarkAssign(b *testing.B) {
	ts := append(tasks(0, 1000, true), tasks(1, 1000, false)...)
	var ms []assign.Member
	for i := range 50 {
		ms = append(ms, member(fmt.Sprint(i), 0), member(fmt.Sprint(i), 1))
	}
	ms = settle(ms, assign.Assign(ms, ts))[1:]
	for b.Loop() {
		assign.Assign(ms, ts)
	}
}
