package simrun

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Version is that of the format of traces.
const Version = 1

// Trace is one schedule: the apps, and what happens to them.
type Trace struct {
	Version int    `json:"version"`
	Seed    uint64 `json:"seed"`
	// App is what runs: one of Apps.
	App string `json:"app"`
	// Disk says that stores are on disks, in memory but able to fail and to lose what was not flushed. Else a restart has nothing.
	Disk bool `json:"disk"`
	// Static says that members have names that last, and Keep that they do not leave the group when they stop.
	Static bool `json:"static"`
	Keep   bool `json:"keep"`
	// Members is how many apps there are from the start, and Workers how many workers each has.
	Members int `json:"members"`
	Workers int `json:"workers"`
	// Pending is Config.MaxPendingBytes, 0 for its default: a small one makes many transactions of much input.
	Pending int `json:"pending,omitempty"`
	// Idle is a partition of the input that gets nothing until everything else is written; none below 0.
	Idle int32 `json:"idle"`
	// Away says that the clocks of tasks with windows do not fit into the metadata of offsets.
	Away bool `json:"away,omitempty"`
	// Skip says that what cannot be decoded is left out, instead of going to the dead letters.
	Skip bool `json:"skip"`
	// Events are in the order of their times. Behind the last all faults end, everybody runs again, and the input is finished.
	Events []Event `json:"events"`
}

// Event is something that happens.
type Event struct {
	// At is when, since the first members were started.
	At Duration `json:"at"`
	// Do is what: one of the constants below.
	Do string `json:"do"`
	// Member is to whom.
	Member int `json:"member,omitempty"`
	// For is how long it lasts, and Delay how long each frame takes under Slow.
	For   Duration `json:"for,omitempty"`
	Delay Duration `json:"delay,omitempty"`
	// Key is the request that it is about, by Kafka's name, all if empty; Response says that it befalls the answer.
	Key      string `json:"key,omitempty"`
	Response bool   `json:"response,omitempty"`
	// N is how many records are written, or how many answers are wrong, 0 for all within For.
	N int `json:"n,omitempty"`
	// Error is the wrong answer, by Kafka's name.
	Error string `json:"error,omitempty"`
	// Topic is that of the partitions that the wrong answer is about, if the request names any.
	Topic string `json:"topic,omitempty"`
	// Point is where in its work a member dies: one of Points. Empty is at once.
	Point string `json:"point,omitempty"`
	// Keep is how much of what was written to a disk and not yet flushed is still there after a crash, in percent.
	Keep int `json:"keep,omitempty"`
	// Op is what fails of a disk: "read", "write", "sync" or "all".
	Op string `json:"op,omitempty"`
	// Late, Poison: how many of the records come too late, and how many cannot be decoded. Jump: how far event time jumps before.
	Late   int      `json:"late,omitempty"`
	Poison int      `json:"poison,omitempty"`
	Jump   Duration `json:"jump,omitempty"`
}

// What happens.
const (
	Write   = "write"   // records are written to the input
	Start   = "start"   // a member starts, under the name it had if it ran before
	Stop    = "stop"    // a member is told to stop
	Kill    = "kill"    // a member dies: from one moment on nobody hears of it, and its disk keeps what Keep says
	Stall   = "stall"   // frames of a member wait until it is over
	Cut     = "cut"     // connections of a member are cut
	Slow    = "slow"    // frames of a member take longer
	Wrong   = "wrong"   // the broker refuses, and does not do what it was asked
	Forge   = "forge"   // the broker ends transactions of a member, and says that it does not know
	Garble  = "garble"  // the broker's answers to a member are garbage
	Hijack  = "hijack"  // somebody takes the transactional ids of a member
	Move    = "move"    // partitions and groups move to other brokers
	Gone    = "gone"    // a broker goes away, all connections with it, and comes back
	Disk    = "disk"    // the disk of a member fails
	Compact = "compact" // the broker compacts its logs
)

// Points are where in its work a member can be told to die, in the order in which it comes by.
func Points() []string {
	return []string{AtFetch, AtProduce, AtProduced, AtOffsets, AtOffsetsDone, AtEnd, AtEnded, AtApply, AtApplied, AtRestore}
}

// The points.
const (
	AtFetch       = "fetch"        // records were fetched
	AtProduce     = "produce"      // a transaction's records are about to be sent
	AtProduced    = "produced"     // they are with the broker
	AtOffsets     = "offsets"      // so are not its offsets
	AtOffsetsDone = "offsets-done" // they are
	AtEnd         = "end"          // it is about to commit
	AtEnded       = "ended"        // it has, and has not heard of it
	AtApply       = "apply"        // it has, and no store has it
	AtApplied     = "applied"      // one store has it
	AtRestore     = "restore"      // a store is being restored
)

// The apps.
const (
	Fold    = "fold"    // totals of each key, behind a repartition topic
	Windows = "windows" // windows behind a repartition topic, late records set aside, results joined with a table
	Ticks   = "ticks"   // counters that time alone moves
)

// Apps are all.
func Apps() []string { return []string{Fold, Windows, Ticks} }

// Duration is a time.Duration that is written as people write it.
type Duration time.Duration

// MarshalText writes "1.5s".
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads it.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// Format writes a trace, one event a line.
func (t Trace) Format() ([]byte, error) {
	events := t.Events
	t.Events = nil
	head, err := json.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("simrun: write a trace: %w", err)
	}
	out := bytes.NewBuffer(bytes.TrimSuffix(head, []byte("null}")))
	out.WriteString("[\n")
	for i, e := range events {
		line, err := json.Marshal(e)
		if err != nil {
			return nil, fmt.Errorf("simrun: write event %d of a trace: %w", i, err)
		}
		out.WriteString("  ")
		out.Write(line)
		if i < len(events)-1 {
			out.WriteByte(',')
		}
		out.WriteByte('\n')
	}
	out.WriteString("]}\n")
	return out.Bytes(), nil
}

// Parse reads a trace. It refuses another version, and what it does not know.
func Parse(b []byte) (Trace, error) {
	var t Trace
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&t); err != nil {
		return t, fmt.Errorf("simrun: read a trace: %w", err)
	}
	if t.Version != Version {
		return t, fmt.Errorf("simrun: the trace is of version %d, this program reads %d: draw its seed again", t.Version, Version)
	}
	if !slices.Contains(Apps(), t.App) || t.Members < 1 || t.Workers < 1 {
		return t, fmt.Errorf("simrun: a trace of app %q with %d members of %d workers cannot be run", t.App, t.Members, t.Workers)
	}
	for i, e := range t.Events {
		if err := e.check(); err != nil {
			return t, fmt.Errorf("simrun: event %d of the trace, at %v: %w", i, time.Duration(e.At), err)
		}
	}
	return t, nil
}

func (e Event) check() error {
	known := []string{Write, Start, Stop, Kill, Stall, Cut, Slow, Wrong, Forge, Garble, Hijack, Move, Gone, Disk, Compact}
	switch {
	case !slices.Contains(known, e.Do):
		return fmt.Errorf("%q is not known", e.Do)
	case e.Point != "" && !slices.Contains(Points(), e.Point):
		return fmt.Errorf("%q is no point to die at", e.Point)
	case e.Member < 0 || e.Member >= MaxMembers:
		return fmt.Errorf("there is no member %d", e.Member)
	}
	return nil
}

// MaxMembers is how many members a trace may speak of.
const MaxMembers = 8
