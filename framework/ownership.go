package framework

import (
	"maps"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// topicPartition names a partition.
type topicPartition struct {
	topic     string
	partition int32
}

// ownership knows which partitions a group member owns, and since when without a break.
//
// It is what the last SyncGroup said, never a sum of revoke and assign callbacks: the session swallows callbacks. "Since when"
// matters as much: a partition that was lost and won back between two looks has been processed by somebody else, and a task that
// kept its state would write that again. So each continuous stretch of ownership has its number, which a task remembers.
//
// It wraps the balancer, because only there every join and every sync passes by.
type ownership struct {
	kgo.GroupBalancer
	// ready is closed when member is set: the client may join before whoever made it has it in hand.
	ready    chan struct{}
	memberID func() string

	mu     sync.Mutex
	member string
	syncs  uint64
	since  map[topicPartition]uint64
	// joining: between the end of one session of the group and the sync that begins the next.
	joining bool
	// topology is the fingerprint of our plan. foreign: the last assignment was made by another one.
	topology uint64
	foreign  bool
	// leaders is the fingerprint by which it was made then, and told that we have asked whether that is to stay.
	leaders uint64
	told    bool
	// unfinished counts the assignments in a row that leave partitions without an owner until the next round, and asked is when the
	// last of them came, or when that round was last asked for.
	unfinished int
	asked      time.Time
}

func newOwnership(b kgo.GroupBalancer, topology uint64) *ownership {
	return &ownership{GroupBalancer: b, ready: make(chan struct{}), since: make(map[topicPartition]uint64), topology: topology}
}

// start says how to ask for the member id. No sync is taken before.
func (o *ownership) start(memberID func() string) {
	o.memberID = memberID
	close(o.ready)
}

// JoinGroupMetadata passes by before each join. What the client does not claim in it, it has lost.
func (o *ownership) JoinGroupMetadata(topics []string, claimed map[string][]int32, generation int32) []byte {
	o.mu.Lock()
	claims := flatten(claimed)
	o.joining = true
	before := len(o.since)
	maps.DeleteFunc(o.since, func(tp topicPartition, _ uint64) bool { return planted != trustCallbacks && !claims[tp] })
	if len(o.since) != before {
		o.syncs++
	}
	o.mu.Unlock()
	return o.GroupBalancer.JoinGroupMetadata(topics, claimed, generation)
}

// ParseSyncAssignment passes by after each sync.
func (o *ownership) ParseSyncAssignment(assignment []byte) (map[string][]int32, error) {
	assigned, err := o.GroupBalancer.ParseSyncAssignment(assignment)
	if err != nil {
		return nil, err
	}
	data, ok, err := assignmentData(assignment)
	if err != nil {
		return nil, err
	}
	<-o.ready
	member := o.memberID()
	owned := flatten(assigned)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.syncs++
	o.joining = false
	o.foreign, o.leaders = ok && data.Topology != o.topology, data.Topology
	o.told = o.told && o.foreign
	if data.Unfinished {
		o.unfinished++
	} else {
		o.unfinished = 0
	}
	o.asked = time.Now()
	if o.foreign {
		clear(owned) // partitions of a plan that is not ours are no tasks of ours
	}
	if member != o.member {
		// The coordinator had forgotten us, and the client joined anew without telling anybody. Whatever we claimed, others may
		// have had it in between.
		clear(o.since)
		o.member = member
	}
	maps.DeleteFunc(o.since, func(tp topicPartition, _ uint64) bool { return planted != trustCallbacks && !owned[tp] })
	for tp := range owned {
		if _, ok := o.since[tp]; !ok {
			o.since[tp] = o.syncs
		}
	}
	return assigned, nil
}

// lost says that the membership is gone, and everything with it.
func (o *ownership) lost() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.syncs++
	clear(o.since)
}

// sessionEnds says that a join is about to follow.
func (o *ownership) sessionEnds() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.joining = true
}

// isJoining says whether a join is under way or about to be: what is committed now is refused.
func (o *ownership) isJoining() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.joining
}

// roundDelay is how long to wait before joining the round that has to follow an unfinished assignment: the others must have heard of
// the assignment, or they only get the same again. It doubles up to maxRoundDelay.
const (
	roundDelay    = 50 * time.Millisecond
	maxRoundDelay = 5 * time.Second
)

// wantsRebalance says why this member should join anew, or nothing. It says so once for each reason and delay.
//
// Those who have to give something up join anew when they have done so, and then may not commit until everybody has joined, too. The
// others would notice with their next heartbeat: half a second in which nothing is committed. So they do not wait for it.
//
// And a static member that was restarted gets the assignment of its predecessor, without a round, whatever has changed since: its
// topology, or that the predecessor had to give something up, and died before it joined again.
func (o *ownership) wantsRebalance(now time.Time) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.wantsOwnTopology():
		o.told = true // if the leader means it, asking all the time would only keep the others from their work
		return "the assignment is that of another topology"
	case o.wantsNextRound(now):
		o.unfinished++
		o.asked = now
		return "partitions are to get their new owners"
	}
	return ""
}

// wants says whether wantsRebalance would.
func (o *ownership) wants(now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.wantsOwnTopology() || o.wantsNextRound(now)
}

func (o *ownership) wantsOwnTopology() bool { return !o.joining && o.foreign && !o.told }

func (o *ownership) wantsNextRound(now time.Time) bool {
	return !o.joining && !o.foreign && o.unfinished > 0 && now.Sub(o.asked) >= min(roundDelay<<min(o.unfinished-1, 10), maxRoundDelay)
}

// isMoving says whether something is about to happen in the group, of which nobody tells.
func (o *ownership) isMoving() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.joining || (o.foreign && !o.told) || o.unfinished > 0
}

// stranger says that the group's leader runs another topology than we do, and which. Then there are no tasks for us.
func (o *ownership) stranger() (leaders uint64, is bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.leaders, o.foreign && o.told && !o.joining
}

// owned returns the partitions owned now, each with the number of its stretch, and the version that this is.
func (o *ownership) owned() (map[topicPartition]uint64, uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.since), o.syncs
}

func flatten(byTopic map[string][]int32) map[topicPartition]bool {
	out := make(map[topicPartition]bool)
	for topic, partitions := range byTopic {
		for _, p := range partitions {
			out[topicPartition{topic, p}] = true
		}
	}
	return out
}
