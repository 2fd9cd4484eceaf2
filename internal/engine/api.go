package engine

import (
	"fmt"
	"slices"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/internal/wire"
	"github.com/headrace/headrace/state"
)

// TaskID names a task, printed as Kafka Streams does: 0_2 is partition 2 of sub-topology 0.
type TaskID struct {
	SubTopology int
	Partition   int32
}

// String returns the id as Kafka Streams writes it.
func (id TaskID) String() string { return fmt.Sprintf("%d_%d", id.SubTopology, id.Partition) }

// MarshalText is String: logs in JSON have it so, too.
func (id TaskID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// Config is what a task is made of.
type Config struct {
	ID  TaskID
	Sub *graph.SubTopology
	// Txn is the overlay over the task's backend, empty and at the committed position.
	Txn *state.Txn
	// Sources has one element for each source of Sub.
	Sources []SourceConfig
	// Operators are the committed clocks of the operators.
	Operators []wire.OperatorClock
	// Limits, if any, has what each sink of Sub does not take, and Refused the outputs that brokers did not take before, each with
	// the error: a unit that makes one fails, with the reason Refused, under the policy of the sink's node.
	Limits  []SinkLimit
	Refused map[OutputID]error
	// LeftOut, if set, is told of each record that a policy leaves out, and whether it is a dead letter.
	LeftOut func(err *RecordError, deadLetter bool)
	// Now is the wall time when the task is made, in Unix milliseconds.
	Now int64
	// ReportInterval is the shortest time between two reports of a watermark that moves, and ReportRepeat after how long one is said
	// again that has not, 0 for never. IdleRepeat is the shortest time between two reports that the task is idle. Milliseconds, as what
	// follows.
	ReportInterval, ReportRepeat, IdleRepeat int64
	// MaxTaskIdle is how long the task waits for a source of which nothing is known to be there, while others have records.
	MaxTaskIdle int64
	// MaxDrift, if not 0, is how far a source's watermark may be ahead of the task's least advanced input, or of the floor, before its
	// records have to wait.
	MaxDrift int64
	// AdvanceWhenIdle, if not 0, is by how much the watermark of a task is behind the wall clock while all its sources are idle. It
	// is not a function of the logs.
	AdvanceWhenIdle int64
}

// SourceConfig is the state of one input partition when a task is made.
type SourceConfig struct {
	// Absent says that the topic has no such partition.
	Absent bool
	// Topic is the real name of the topic, for errors.
	Topic string
	// Offset is the next offset to process: the committed one.
	Offset int64
	// End is what is known of the partition's end, 0 if nothing is: see SetEnd.
	End int64
	// Clock is the committed clock.
	Clock wire.SourceClock
	// ReadTo is for tables: streams of the task wait until the source's position has reached it.
	ReadTo int64
}

// RecordError is a record, or a unit of work that time made due, that could not be processed.
type RecordError struct {
	Task      TaskID
	Topic     string // empty for a unit that no record caused
	Partition int32
	Offset    int64
	Node      string // the operator, as in Describe
	At        string // where it was added, as in graph.Node
	Reason    graph.Reason
	Err       error
	Stack     []byte // of a panic
}

// Error names the record, the operator with the place in the user's code, and the cause.
func (e *RecordError) Error() string {
	what := "task " + e.Task.String()
	if e.Topic != "" {
		what = fmt.Sprintf("record %s[%d]@%d", e.Topic, e.Partition, e.Offset)
	}
	node := e.Node
	if e.At != "" {
		node += " (" + e.At + ")"
	}
	return fmt.Sprintf("%s at %s: %v", what, node, e.Err)
}

// Unwrap returns the cause.
func (e *RecordError) Unwrap() error { return e.Err }

// Cut is what a transaction has to commit for a task: everything up to a step boundary.
type Cut struct {
	// Outputs are to be produced in order. They stay valid until Committed.
	Outputs []graph.Output
	// Reports are to be written after the outputs, each to every partition of its sink's topic.
	Reports []SinkReport
	// Sources has the next offset and the clock of each source that is not absent.
	Sources []SourceCut
	// Operators are the clocks of the operators.
	Operators []wire.OperatorClock
}

// SinkReport is the watermark to report through a repartition sink.
type SinkReport struct {
	Sink      int
	Watermark int64
	State     wire.ReportState
}

// SourceCut is where one input partition stands.
type SourceCut struct {
	Source int
	Offset int64
	Clock  wire.SourceClock
}

// Progress is what a step did.
type Progress struct {
	// Units is how many units of work were done.
	Units int
	// More says that there is more to do now.
	More bool
}

// Status is a task's state for people and probes.
type Status struct {
	Task    TaskID
	Sources []SourceStatus
	// Operators have event time of their own, upstream before downstream.
	Operators []OperatorStatus
	// Counts has the records that went no further, by node and reason.
	Counts []Counts
	// Late has by how much records were late, by node.
	Late []Lateness
	// Records is the number of records processed.
	Records int64
}

// Counts are the records that went no further at one node, by reason.
type Counts [graph.NumReasons]int64

// Lateness counts by how many milliseconds of event time windows had been closed when records for them came. A record counts in the
// first bucket whose bound is not below it, the last has no bound.
type Lateness struct {
	Buckets [len(LateBounds) + 1]int64
	Sum     int64
}

// LateBounds are the bounds of Lateness, in milliseconds: from a second to a week.
var LateBounds = [...]int64{1000, 10_000, 60_000, 600_000, 3_600_000, 21_600_000, 86_400_000, 604_800_000}

// Add counts one that is late by so many milliseconds.
func (l *Lateness) Add(by int64) {
	i, _ := slices.BinarySearch(LateBounds[:], by)
	l.Buckets[i]++
	l.Sum += by
}

// Total sums what all nodes counted.
func (s *Status) Total() Counts {
	var sum Counts
	for i := range s.Counts {
		for r, n := range s.Counts[i] {
			sum[r] += n
		}
	}
	return sum
}

// SourceStatus is the state of one input partition.
type SourceStatus struct {
	Topic     string
	Partition int32
	Offset    int64 // next to process
	Queued    int
	// Watermark is the partition's own. While it is Idle the operators may have been told more, and Behind counts the records that
	// came behind that afterwards, though not behind their own partition's.
	Watermark int64
	Idle      bool
	Behind    int64
	// Held says that its records wait since it is too far ahead: see Config.MaxDrift.
	Held bool
	// Records and Bytes are what was taken from it, left out or not; bytes of keys, values and headers.
	Records, Bytes int64
}

// OperatorStatus is the state of one operator that keeps event time.
type OperatorStatus struct {
	Name              string
	Watermark, Passed int64 // Passed is graph.Unknown where the operator does not tell
	Due               bool
}

// The methods of Task, for whoever drives it:
//
//	New(Config) (*Task, error)
//	Push(source int, r graph.Raw)            append to a queue; no work is done
//	Queued(source int) (records, bytes int)
//	SetIdle(source int, idle bool)           the partition has nothing, and holds nobody back
//	Confirm(source int, upTo int64)          it still has nothing, and had nothing when the others were at upTo
//	SetEnd(source int, end int64)            what is before it is waited for
//	SetFloor(w int64)                        how far other tasks have come
//	Time() (w int64, active bool)            how far the task has come
//	TimeWithout(source int)                  the same without a source
//	UsesTime, Reports() bool                 is that of any use here, or behind it
//	Step(now int64, budget int) (Progress, error)
//	Settle(now int64) error                  right before Freeze or Cut: what operators keep back until a commit
//	Pending() bool                           is there anything to commit: outputs, mutations, moved offsets or reports
//	PendingBytes() int                       how much
//	Mutations() iter.Seq[state.Mutation]     the last value of each key changed in this transaction
//	Cut() Cut
//	Freeze()                                 set the Cut apart, for steps to go on before Committed
//	OutputID(i int) OutputID                 finds the ith output of the Cut again after an abort
//	Refused(i int, cause error) *RecordError the error for the ith output of the Cut
//	Committed(positions []*state.Position) error   the transaction of the last Cut has committed: apply the overlay
//	Status() Status
//	Waiting() []Wait                         windowed operators that cannot know the time yet, and why
//
// What fails is left to the policy of the node that failed: graph.Node.OnError.
//
// After an error from Step, or an abort, a task is thrown away: nothing of it may be used again but ID and Status.
