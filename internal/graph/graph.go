// Package graph is the compiled plan of a topology: what the DSL makes and the engine runs.
//
// The plan is untyped. Keys and values are bytes here, times are int64 Unix milliseconds; the types K and V live only inside
// the closures that a [SubTopology]'s constructor makes, once for each task.
package graph

import (
	"fmt"
	"math"

	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/window"
)

// Unknown is the watermark before anything is known of it.
const Unknown = window.Unknown

// NoTime is the event time of a record that has none: it is taken at once and moves no watermark.
const NoTime = math.MinInt64

// Header is a record header.
type Header struct {
	Key   string
	Value []byte
}

// String is for people.
func (h Header) String() string { return fmt.Sprintf("%s=%q", h.Key, h.Value) }

// Raw is a record as the broker gave it. Its bytes are immutable.
type Raw struct {
	Topic      string
	Partition  int32
	Offset     int64
	Key, Value []byte // nil is null
	Headers    []Header
	Time       int64 // the broker record's timestamp
	// Control marks a transaction marker: it only moves the position.
	Control bool
	// Appended says that Time is when the broker appended the record, and not what its producer said.
	Appended bool
}

// Output is a record that a task wants written when its transaction commits. The bytes belong to the task's arena and stay
// valid until the transaction has ended.
type Output struct {
	// Sink is an index into SubTopology.Sinks.
	Sink int
	// Partition is the partition to write to, or -1 to let PartitionKey decide by murmur2.
	Partition    int32
	Key, Value   []byte
	PartitionKey []byte // the bytes of Key, or of the inner key of a windowed one; nil is spread over the partitions
	Headers      []Header
	Time         int64
}

// Plan is a whole topology.
type Plan struct {
	SubTopologies []*SubTopology
	// Fingerprint tells plans apart: members of one group must run the same.
	Fingerprint uint64
}

// SubTopology is a part of the topology that topics connect to the others. It runs as one task for each partition.
type SubTopology struct {
	ID      int
	Sources []Source
	Sinks   []Sink
	Stores  []state.Spec
	Nodes   []Node
	// Copartitioned lists sets of sources, by index, whose topics must have the same number of partitions.
	Copartitioned [][]int
	// New makes the closures of one task. It is called once for each task and never concurrently for one Runtime.
	New func(Runtime) (*Instance, error)
}

// Source is a topic that a sub-topology reads.
type Source struct {
	Node  string // as in Describe
	Topic string // a topic's name; for a repartition topic the name that the user gave, without the app's prefix
	// Repartition says that the topic is one of ours, that watermark reports of its writers move the watermark, and that the
	// timestamps of its records do not.
	Repartition bool
	// Table says that the topic is read to its end before the streams of the task start; Store is then the index of its store.
	Table bool
	Store int
	// Check tells whether a record of a table can be used at all: it decodes, and its event time is a time. One that cannot be used
	// deletes its key, here and when the store is restored: compaction may have taken the value before it. It is safe for
	// concurrent use.
	Check func(*Raw) error
	// OwnTime says that event time is not the broker's timestamp.
	OwnTime bool
	// Watermarks generates the watermark of each partition of an outside topic, unless Generates says that its Entry does, which is
	// a Generator then.
	Watermarks window.Watermarks
	Generates  bool
	// Future, if not nil, is what the source takes for too far ahead.
	Future *Future
}

// Future guards a source against event times that are too far ahead: one such would move the watermark past all others.
type Future struct {
	// Max is by how many milliseconds an event time may be ahead of the broker's timestamp, where event time is another, and else of
	// the wall clock.
	Max int64
	// Sink is where the records go that are further ahead, -1 to drop them.
	Sink int
}

// Sink is a topic that a sub-topology writes.
type Sink struct {
	Node  string
	Topic string // as in Source
	// Repartition says that the topic is one of ours and that the writers report their watermark into it.
	Repartition bool
	// NoReports says that nothing behind the repartition topic uses event time: its writers report none.
	NoReports bool
	// Partitions is the number of partitions that the user asked for a repartition topic, 0 to follow its readers and writers.
	Partitions int32
	// DeadLetters says that the engine writes here what policies leave out. No node does.
	DeadLetters bool
}

// NodeKind says how Describe prints a node.
type NodeKind uint8

// The kinds of nodes that Kafka Streams prints.
const (
	SourceNode NodeKind = iota
	ProcessorNode
	SinkNode
)

// Node is one operator, for printing and for naming it in errors.
type Node struct {
	Name string
	// At is where the user's code added it, as "flights.go:40".
	At     string
	Kind   NodeKind
	Topic  string
	Stores []string
	To     []int // indexes of the nodes that it feeds
	// Label is what counters call it: the name of the store that it brought into being, where its own is only numbered.
	Label string
	// OnError is for what fails here.
	OnError Policy
	// FutureAside says that records counted as TooFarAhead here are written to a topic.
	FutureAside bool
}

// Instance is a sub-topology made for one task.
type Instance struct {
	// Entries has one element for each source.
	Entries []Entry
	// Clocks are the operators that keep event time of their own, upstream before downstream.
	Clocks []Clock
	// Givers are the operators that keep results back until a commit, upstream before downstream.
	Givers []Giver
}

// Duty is work in units that no record causes. Fire does one unit: closes one window, fires one punctuation. It may run user code, emit,
// and fail. Fired tells that the unit is done, or, after a failure that the policy skips, that it is given up: with failed set, the unit's
// writes have been rolled back and the operator must forget it (writing only its own store) so that it is not due again. When nothing
// more is due the operator lets its watermark go on.
type Duty interface {
	// Name identifies the operator in checkpoints and errors: the name of its store, or of its node.
	Name() string
	// Node is its index in SubTopology.Nodes.
	Node() int
	Fire(now int64) error
	Fired(failed bool) error
}

// Giver is an operator that keeps results back until the transaction is about to end.
type Giver interface {
	Duty
	// Holds says whether there is a result to give.
	Holds() bool
}

// Entry handles the records of one source in one task.
type Entry interface {
	// Head decodes the next record and returns its event time, NoTime if it has none. The record stays in the entry until Record
	// or the next Head. r stays unchanged until then. An error says that the record cannot be decoded.
	Head(r *Raw) (eventTime int64, err error)
	// Record runs the record that Head decoded through the closures.
	Record() error
	// Advance tells the operators behind the source that its watermark is w. While the partition is idle that is what the task's other
	// inputs have come to. It runs no user code and emits nothing: what
	// becomes due stays with the Clocks.
	Advance(w int64)
}

// Generator is an Entry that makes the watermark of its partition. What it returns depends on the records that Observe was told of, in
// their order, and on nothing else.
type Generator interface {
	// Observe takes the record that Head decoded in, once it is processed or left out, and returns the partition's watermark. One that
	// is less than before says nothing new. It may run user code.
	Observe() int64
	// Save appends what it keeps to dst; Load sets it when a task is made.
	Save(dst []int64) []int64
	Load([]int64) error
}

// Keeper is an Entry whose records have an effect of their own that stays when the policy skips them: the topic of a table is the
// table's truth, and a store restored from it has no other.
type Keeper interface {
	// Keep gives r that effect, without user code, after everything else has been rolled back. bad says that it could not be
	// decoded, or has no possible event time.
	Keep(r *Raw, bad bool) error
}

// Clock is an operator that keeps event time: it has a watermark, may have work that time has made due, and holds back the
// watermark of what is behind it until that work is done.
type Clock interface {
	Duty
	// Watermark is the operator's own watermark: the smallest of its inputs'.
	Watermark() int64
	// Due says whether a unit of work is due, at the wall time now.
	Due(now int64) bool
	// Save appends the operator's event-time state to dst; Load sets it when a task is made, before any Advance.
	Save(dst []int64) []int64
	Load([]int64) error
}

// Expirer is what a window store that a Runtime lends is, too. Expire deletes every key below floor, for good, without a word to the
// changelog: an operator that closes windows does it again when the watermark tells it to after a restore.
type Expirer interface {
	state.Store
	Expire(floor []byte) error
}

// Runtime is what one task lends to the closures made for it. The engine implements it. Everything in it belongs to the
// goroutine that steps the task.
type Runtime interface {
	state.Host
	// Partition is the task's partition.
	Partition() int32
	// Arena is where outputs are encoded.
	Arena() *Arena
	// Emit adds an output to the open transaction.
	Emit(Output)
	// Sideline emits the source record in process, with headers that say why it was late.
	Sideline(Missed)
	// Told returns headers with those of a pane behind them, and Heard finds those of a pane at the end of headers, with how many
	// they are. heard says that Heard will read them: it must not take headers of the user's own for them.
	Told(h []Header, p Pane, heard bool) []Header
	Heard(h []Header) (Pane, int)
	// Report sets the watermark that goes to the readers of a repartition sink with the next commit.
	Report(sink int, w int64)
	// At points at the index of the node whose user code runs, which errors name: closures set it before they call it.
	At() *int
	// Record is the source record in process: what a sideline writes. It is nil outside of Entry.Record.
	Record() *Raw
	// SourceWatermark is the watermark of the input partition that the source record in process is from, before the record: a
	// function of that partition's log alone. Unknown outside of Entry.Record.
	SourceWatermark() int64
	// SetTime sets what Store.Time returns.
	SetTime(ms int64)
	// Late notes by how many milliseconds of event time a window had been closed when a record for it came, whatever became of that.
	Late(node int, by int64)
	// Count adds one to a node's counter of dropped or sidelined records.
	Count(node int, reason Reason)
	// Now is the wall time of the step, in Unix milliseconds.
	Now() int64
	// Look has the clocks asked what is due before the next record: something has become due, or gone on, though no time has moved.
	Look()
}

// Missed says what a record came too late for.
type Missed struct {
	Sink      int
	Operator  string
	EventTime int64
	Watermark int64 // the operator's, before the record
	Grace     int64
	Partial   bool       // some other window took it
	Windows   []Interval // those that had closed
}

// Pane says what a result of a window is in the history of that window. The zero Pane is that of a record that is no such result.
type Pane struct {
	// Revision counts the results of one window and key, from 0.
	Revision int32
	Timing   Timing
	// Retraction says that the record takes back a result: it has the value that does not count any more.
	Retraction bool
}

// Timing says when a result of a window went out.
type Timing uint8

// The timings of results. NoTiming is that of windows that emit on every update, before they close.
const (
	NoTiming Timing = iota
	Early
	OnTime
	Late
)

// String is the timing as headers write it, empty for NoTiming.
func (t Timing) String() string {
	switch t {
	case Early:
		return "early"
	case OnTime:
		return "on-time"
	case Late:
		return "late"
	}
	return ""
}

// Interval is a stretch of event time, start inclusive, end exclusive.
type Interval struct{ Start, End int64 }

// Reason says why a record went no further, or what else is counted of it.
type Reason uint8

// The reasons for which records are dropped, skipped, sidelined or late and counted as such.
const (
	NullKey Reason = iota
	NullValue
	LateDropped
	LateSidelined
	Undecodable
	BadTimestamp
	Failed
	Refused
	NoMatch
	NoWindow
	LateCorrected // not dropped at all: it corrected a window that had closed
	TooFarAhead
	NumReasons
)

// String is the reason as metrics and logs write it.
func (r Reason) String() string {
	switch r {
	case NullKey:
		return "null-key"
	case NullValue:
		return "null-value"
	case LateDropped:
		return "late-dropped"
	case LateSidelined:
		return "late-sidelined"
	case Undecodable:
		return "undecodable"
	case BadTimestamp:
		return "bad-timestamp"
	case Failed:
		return "failed"
	case Refused:
		return "refused"
	case NoMatch:
		return "no-match"
	case NoWindow:
		return "no-window"
	case LateCorrected:
		return "late-corrected"
	case TooFarAhead:
		return "future"
	}
	return "unknown"
}
