package framework

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
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
		o := newOwnership(s)
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
	o := newOwnership(&scripted{})
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
