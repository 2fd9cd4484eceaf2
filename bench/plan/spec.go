package plan

import (
	"fmt"
	"strconv"
)

// Spec is what a peer's process is told.
type Spec struct {
	Peer      Peer
	Work      string
	App       string // application id, consumer group, prefix of internal topics
	Instance  int
	Brokers   []string
	Input     string
	Table     string // the topic of the table
	Output    string
	Changelog string // for Raw, which makes none of its own
	Dir       string // for state, of this process alone
	Profiles  string // a directory for profiles of a Go peer
	Params    Params
}

// Args are the spec for a Java process.
func (s *Spec) Args() []string {
	return []string{
		"peer=" + string(s.Peer), "work=" + s.Work, "app=" + s.App, "brokers=" + s.Brokers[0], "input=" + s.Input, "table=" + s.Table,
		"output=" + s.Output, "dir=" + s.Dir, "threads=" + strconv.Itoa(s.Params.Workers), "operators=" + strconv.Itoa(s.Params.Operators),
		"partitions=" + strconv.Itoa(s.Params.Partitions), "nocache=" + strconv.FormatBool(s.Peer == StreamsNoCache),
	}
}

// What a peer's process says on its standard output, a line each. It ends when its standard input does.
const (
	Settings = "settings"  // what it is set to, for people
	First    = "first"     // Unix nanoseconds at which it had the first batch of records
	Ready    = "ready"     // Unix nanoseconds at which all its tasks ran
	Restored = "restored"  // Unix nanoseconds at which all stores were restored, and how many records went into them
	Allocd   = "allocated" // objects and bytes allocated since its start
	Longest  = "longest"   // the bytes of its largest transaction, and nanoseconds of the longest time between two commits
)

// String names the run for people.
func (s *Spec) String() string { return fmt.Sprintf("%s · %s", s.Work, s.Peer) }
