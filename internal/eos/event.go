package eos

// Happening is a line that a test process writes: what it did, and the evidence of a fault.
type Happening struct {
	At int64 // Unix milliseconds
	// What is one of the constants below, and App the application that it is about.
	What string
	App  string `json:",omitempty"`

	// Point is where the process killed or stopped itself.
	Point string `json:",omitempty"`
	// Transaction, Sequence and Offsets name the transaction in hand: its id, its number, and the offsets to be committed in it.
	Transaction string `json:",omitempty"`
	Sequence    uint64 `json:",omitempty"`
	Offsets     string `json:",omitempty"`
	// Unmoved says that these offsets are those of the transaction before: it holds only what time has made.
	Unmoved bool `json:",omitempty"`
	// Error is the name of a broker's refusal, or why the process ends.
	Error string `json:",omitempty"`
	// Tasks are those that run, and Restored is how many records went into their stores when they were made.
	Tasks    int   `json:",omitempty"`
	Restored int64 `json:",omitempty"`
	Aborts   int64 `json:",omitempty"`
	Fenced   int64 `json:",omitempty"`
}

// What happens in a test process.
const (
	Started   = "started"   // it runs
	Committed = "committed" // a transaction has committed
	Refused   = "refused"   // the broker has refused offsets or end of a transaction
	Killing   = "killing"   // it is about to kill itself
	Stopping  = "stopping"  // it is about to stop itself
	Continued = "continued" // somebody let it go on
	Status    = "status"    // now and then
	Failed    = "failed"    // an application has ended by itself
	Stopped   = "stopped"   // it has ended in an orderly way
)

// The points at which a process can be told to kill itself.
const (
	AfterPoll     = "after-poll"           // records were taken in
	AfterFlush    = "after-flush"          // a transaction's records are with the broker
	AfterOffsets  = "after-offset-commit"  // so are its offsets: the answer to TxnOffsetCommit has come
	AfterEnd      = "after-end"            // it has committed: the answer to EndTxn has come
	BeforeApply   = "before-apply"         // its changes have not reached the stores
	DuringApply   = "during-apply"         // those of one task have, those of another have not
	DuringRestore = "during-restore"       // some of a changelog has been read
	BeforeOffsets = "before-offset-commit" // TxnOffsetCommit is about to be sent
)

// KillPoints are those of a plan, in its order.
func KillPoints() []string {
	return []string{AfterPoll, AfterFlush, AfterOffsets, AfterEnd, BeforeApply, DuringApply, DuringRestore}
}
