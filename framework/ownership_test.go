package framework

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headrace/headrace/internal/wire"
)

// scripted is a balancer that assigns what it is told.
type scripted struct {
	kgo.GroupBalancer
	next map[string][]int32
}

func (s *scripted) JoinGroupMetadata([]string, map[string][]int32, int32) []byte { return nil }
func (s *scripted) ParseSyncAssignment([]byte) (map[string][]int32, error)       { return s.next, nil }

func (s *scripted) MemberBalancer([]kmsg.JoinGroupResponseMember) (kgo.GroupMemberBalancer, map[string]struct{}, error) {
	return nil, nil, nil
}

// Each continuous stretch of owning a partition has its own number. Whatever comes between two syncs that both name a partition
// must give it another.
func TestOwnershipKnowsABreak(t *testing.T) {
	t.Parallel()
	a := topicPartition{"t", 0}
	for name, c := range map[string]struct {
		between func(o *ownership, s *scripted, member *string)
		kept    bool
	}{
		"nothing":                     {func(*ownership, *scripted, *string) {}, true},
		"a join that claims it":       {func(o *ownership, _ *scripted, _ *string) { o.JoinGroupMetadata(nil, map[string][]int32{"t": {0}}, 1) }, true},
		"a join that does not":        {func(o *ownership, _ *scripted, _ *string) { o.JoinGroupMetadata(nil, nil, 1) }, false},
		"the membership was lost":     {func(o *ownership, _ *scripted, _ *string) { o.lost() }, false},
		"another member id, silently": {func(_ *ownership, _ *scripted, member *string) { *member = "m2" }, false},
		"a sync without it": {func(o *ownership, s *scripted, _ *string) {
			s.next = map[string][]int32{"t": {1}}
			_, _ = o.ParseSyncAssignment(nil)
		}, false},
	} {
		s := &scripted{}
		o := newOwnership(s, 7)
		member := "m1"
		o.start(func() string { return member })
		s.next = map[string][]int32{"t": {0, 1}}
		if _, err := o.ParseSyncAssignment(nil); err != nil {
			t.Fatal(err)
		}
		owned, version := o.owned()
		before := owned[a]
		c.between(o, s, &member)
		s.next = map[string][]int32{"t": {0}}
		if _, err := o.ParseSyncAssignment(nil); err != nil {
			t.Fatal(err)
		}
		owned, after := o.owned()
		if owned[a] == 0 {
			t.Errorf("%s: the partition is not owned at all", name)
		}
		if (owned[a] == before) != c.kept {
			t.Errorf("%s: kept = %v, want %v", name, owned[a] == before, c.kept)
		}
		if after == version {
			t.Errorf("%s: the version did not change", name)
		}
		if owned[topicPartition{"t", 1}] != 0 {
			t.Errorf("%s: a partition that the last sync did not name is owned", name)
		}
	}
}

func TestJoiningLastsFromTheEndOfASessionToTheSync(t *testing.T) {
	t.Parallel()
	o := newOwnership(&scripted{}, 7)
	o.start(func() string { return "m" })
	if o.isJoining() {
		t.Error("joining before anything happened")
	}
	for _, begin := range []func(){o.sessionEnds, func() { o.JoinGroupMetadata(nil, nil, 0) }} {
		begin()
		if !o.isJoining() {
			t.Error("not joining after a session ended")
		}
		if _, err := o.ParseSyncAssignment(nil); err != nil {
			t.Fatal(err)
		}
		if o.isJoining() {
			t.Error("joining after the sync")
		}
	}
}

// told is an assignment of the partition t[0] with what the leader says besides.
func told(data []byte) []byte {
	a := kmsg.NewConsumerMemberAssignment()
	a.Topics = []kmsg.ConsumerMemberAssignmentTopic{{Topic: "t", Partitions: []int32{0}}}
	a.UserData = data
	return a.AppendTo(nil)
}

// A static member that was restarted gets an old assignment. If its topology is another by now, it owns nothing, and asks for a new
// one, once, since it cannot know what becomes of that.
func TestAnAssignmentOfAnotherTopologyOwnsNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		data []byte
		owns bool
	}{
		"ours":                    {wire.AppendAssignment(nil, wire.Assignment{Topology: 7}), true},
		"of a version without it": {nil, true},
		"another's":               {wire.AppendAssignment(nil, wire.Assignment{Topology: 8}), false},
	} {
		o := newOwnership(&scripted{next: map[string][]int32{"t": {0}}}, 7)
		o.start(func() string { return "m" })
		if _, err := o.ParseSyncAssignment(told(c.data)); err != nil {
			t.Fatal(err)
		}
		owned, _ := o.owned()
		if got := owned[topicPartition{"t", 0}] != 0; got != c.owns {
			t.Errorf("%s: owned = %v, want %v", name, got, c.owns)
		}
		for n, want := range []bool{!c.owns, false} {
			if why := o.wantsRebalance(time.Now()); (why != "") != want {
				t.Errorf("%s: asked the %d. time, it wants a rebalance because of %q, want one: %v", name, n+1, why, want)
			}
		}
	}
	if _, err := newOwnership(&scripted{}, 7).ParseSyncAssignment(told([]byte{9})); !errors.Is(err, wire.ErrFormat) {
		t.Errorf("data of an unknown format: %v", err)
	}
}

// If partitions are nobody's, the round that gives them away has to come soon, and members may not ask for it all the time.
func TestAnUnfinishedAssignmentIsFinished(t *testing.T) {
	t.Parallel()
	o := newOwnership(&scripted{next: map[string][]int32{"t": {0}}}, 7)
	o.start(func() string { return "m" })
	sync := func(unfinished bool) {
		t.Helper()
		if _, err := o.ParseSyncAssignment(told(wire.AppendAssignment(nil, wire.Assignment{Topology: 7, Unfinished: unfinished}))); err != nil {
			t.Fatal(err)
		}
	}
	begin := time.Now()
	wants := func(what string, after time.Duration, want bool) {
		t.Helper()
		if why := o.wantsRebalance(begin.Add(after)); (why != "") != want {
			t.Errorf("%s: wants a rebalance because of %q, want one: %v", what, why, want)
		}
	}
	sync(false)
	wants("finished", time.Hour, false)
	sync(true)
	wants("unfinished, a moment ago", roundDelay/2, false)
	wants("unfinished for a while", time.Second, true)
	wants("asked already", time.Second+3*roundDelay/2, false)
	wants("asked in vain", time.Second+2*roundDelay, true)
	wants("asked twice", time.Second+5*roundDelay, false)
	wants("asked twice in vain", time.Hour, true)
	o.JoinGroupMetadata(nil, map[string][]int32{"t": {0}}, 1)
	wants("the round has begun", time.Hour, false)
	sync(false)
	wants("the round is over", time.Hour, false)
	for range 100 {
		sync(true)
	}
	wants("it is never over", maxRoundDelay/2, false)
	wants("it is never over, and a while has passed", 2*time.Hour, true)
}

// The number of the transaction decides, never the offset.
func TestJudge(t *testing.T) {
	t.Parallel()
	tried, previous := mark{"app-a-0", 7}, mark{"app-b-1", 7}
	at := func(m mark) committed {
		c := committed{offset: 5}
		c.commit.TransactionalID, c.commit.Sequence = m.transactionalID, m.sequence
		return c
	}
	for name, c := range map[string]struct {
		got      committed
		previous mark
		want     verdict
	}{
		"ours":                            {at(tried), previous, ours},
		"the one before, by another":      {at(previous), previous, before},
		"the one before, ours":            {at(mark{"app-a-0", 6}), mark{"app-a-0", 6}, before},
		"nothing was committed before":    {committed{offset: -1}, mark{}, before},
		"another took over":               {at(mark{"app-c-0", 7}), previous, others},
		"same number, another id":         {at(mark{"app-c-0", 7}), previous, others},
		"the position was reset by hand":  {committed{offset: 0}, previous, others},
		"somebody with our id, elsewhere": {at(mark{"app-a-0", 9}), previous, others},
	} {
		if got := judge(c.got, tried, c.previous); got != c.want {
			t.Errorf("%s: verdict %d, want %d", name, got, c.want)
		}
	}
}
