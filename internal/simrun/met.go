package simrun

import (
	"fmt"
	"slices"
	"strings"
)

// Least is the share of schedules, in percent, in which each of Situations has to come up.
const Least = 5

// Situations are what schedules have to meet.
func Situations() []string {
	return []string{
		CrashInCommit, Abort, Rebalance, StaleRestore, Fence, ReadBack, DiskFault, LongStall, CutConnection, WrongAnswer, TimeJump,
		IdlePartition, LateRecord, PolicyAction, PowerLoss, JoinOrLeave, Moved, BrokerGone, ClocksAway,
	}
}

// The situations. Each is counted by what was seen to happen, not by what was told to.
const (
	CrashInCommit = "crash inside a commit"
	Abort         = "abort"
	Rebalance     = "rebalance"
	StaleRestore  = "restore from a stale position"
	Fence         = "fence"
	ReadBack      = "read-back"
	DiskFault     = "disk fault"
	LongStall     = "stall beyond the session timeout"
	CutConnection = "cut connection"
	WrongAnswer   = "wrong answer"
	TimeJump      = "jump of event time"
	IdlePartition = "idle partition"
	LateRecord    = "late record set aside"
	PolicyAction  = "policy action"
	PowerLoss     = "power loss"
	JoinOrLeave   = "join or leave"
	Moved         = "leaders and coordinators moved"
	BrokerGone    = "broker gone and back"
	ClocksAway    = "clocks in the meta topic"
)

// Coverage is in how many schedules each situation came up.
type Coverage struct {
	Schedules int
	In        map[string]int
}

// Add counts what one schedule met.
func (c *Coverage) Add(met []string) {
	if c.In == nil {
		c.In = make(map[string]int)
	}
	c.Schedules++
	for i, s := range met {
		if !slices.Contains(met[:i], s) {
			c.In[s]++
		}
	}
}

// TooLittle are the situations that came up in less than Least percent.
func (c *Coverage) TooLittle() []string {
	return slices.DeleteFunc(Situations(), func(s string) bool { return 100*c.In[s] >= Least*c.Schedules })
}

// Table writes the shares, one situation a line.
func (c *Coverage) Table() string {
	var b strings.Builder
	for _, s := range Situations() {
		fmt.Fprintf(&b, "  %-34s %5.1f %%\n", s, 100*float64(c.In[s])/float64(max(c.Schedules, 1)))
	}
	return b.String()
}
