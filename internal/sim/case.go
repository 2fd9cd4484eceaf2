package sim

import (
	"github.com/headrace/headrace/internal/engine"
	"github.com/headrace/headrace/internal/sim/oracle"
)

// Case is a simulation as data: what runs, and what happens to it. Run is a function of it alone.
type Case struct {
	Seed    uint64 // that it was drawn from
	Spec    oracle.Spec
	Workers int
	Keep    Keep
	Fetch   int // batches that a fetch brings while a store is restored
	Ops     []Op

	// tamper, in tests, changes what is written. It says whether the record is written at all.
	tamper func(*entry) bool
}

// Verb is what an Op does.
type Verb string

// The verbs.
const (
	// Push writes a record to a topic from outside. How says whether in a transaction, which commits or aborts.
	Push Verb = "push"
	// Step lets a task read up to N records of each source and do Budget units of work.
	Step Verb = "step"
	// TakeOff freezes what a worker's tasks have done and writes it in a transaction. With Crash the process ends after N records.
	TakeOff Verb = "takeoff"
	// Land commits the transaction, after a TakeOff if there is none open, and applies it. With Crash the process ends after N of
	// the tasks have applied it.
	Land Verb = "land"
	// Abort aborts the transaction. The worker's tasks are made anew.
	Abort Verb = "abort"
	// Crash ends a worker's process. What was not flushed is lost; its tasks are nobody's.
	Crash Verb = "crash"
	// Move gives a task to a worker, which restores it. With Crash the process ends in the Nth change of the restored store.
	Move Verb = "move"
	// Assign gives all tasks that are nobody's to workers, one after the other from Worker on.
	Assign Verb = "assign"
	// Flush writes a task's state to its worker's disk.
	Flush Verb = "flush"
	// Compact compacts the changelogs of a task and the tables that it reads; Trim deletes what it does not need any more.
	Compact Verb = "compact"
	Trim    Verb = "trim"
	// Pass moves the wall clock on by N milliseconds.
	Pass Verb = "pass"
)

// How a Push is written.
const (
	Plain     = ""
	Committed = "committed"
	Aborted   = "aborted"
)

// Op is one thing that happens. What does not apply, such as a step of a task that is nobody's, does nothing: so any part of a
// schedule is one, too.
type Op struct {
	Do     Verb
	Task   engine.TaskID
	Worker int
	N      int
	Budget int
	Crash  bool

	// Of a Push.
	Topic      string
	Part       int32
	Key, Value []byte // nil is null
	At         int64
	How        string
}
