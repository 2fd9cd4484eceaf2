// Package wire holds the encodings that outlive a process: the metadata of a committed offset, watermark reports, the metadata
// of a group member and of its assignment, and the names of the record headers we reserve. Each format starts with its number; golden bytes in the
// tests keep it.
package wire

// Commit is what the metadata of each committed offset carries. It tells which transaction committed the offset, and how event
// time stood then, so that a restart or a move never changes what is late.
type Commit struct {
	// TransactionalID and Sequence name the transaction: Sequence counts the commits of that id, from 1.
	TransactionalID string
	Sequence        uint64
	// Source is the clock of the partition whose offset this is.
	Source SourceClock
	// Operators are the clocks of the task's operators. Only the first partition of a task carries them.
	Operators []OperatorClock
}

// SourceClock is event time at one input partition.
type SourceClock struct {
	// MaxTime is the largest event time seen and Watermark what was made of it. math.MinInt64 is none.
	MaxTime   int64
	Watermark int64
	// Ahead is by how much what the operators were told is above Watermark: the partition was idle while others went on. It is the
	// difference of two int64, none of which need be anywhere near 0.
	Ahead uint64
	// Idle says that the partition had nothing and holds nobody back.
	Idle bool
	// Generator is what a watermark generator that is not BoundedDisorder keeps.
	Generator []int64
	// Producers is how many tasks write the partition, if it is one of a repartition topic, and Channels is the watermark that
	// each of them reported, in ascending order of Producer. A producer that has not reported has no entry.
	Producers int32
	Channels  []Channel
}

// Told is what the operators were told.
func (c *SourceClock) Told() int64 { return int64(uint64(c.Watermark) + c.Ahead) }

// Channel is what one producer task reported.
type Channel struct {
	Producer  int32 // the partition of the producing task
	Watermark int64
	State     ReportState
}

// OperatorClock is the event-time state of one operator.
type OperatorClock struct {
	Name   string
	Values []int64
}

// ReportState says whether the producer of a report goes on.
type ReportState uint8

const (
	// Active is a producer whose watermark moves with its data.
	Active ReportState = iota
	// Idle is a producer that has nothing to read.
	Idle
	// End is a producer that will write no more.
	End
)

// Report is a watermark report: it travels through every partition of a repartition topic, in the transaction of the data that
// it covers and after them, as the value of header HeaderWatermark of a record with null key and null value.
type Report struct {
	SubTopology int32 // of the producer
	Producer    int32 // the partition of the producing task
	Producers   int32 // how many tasks the producing sub-topology has
	Watermark   int64 // exclusive lower bound of what the producer will still write
	State       ReportState
}

// Member is what a group member tells the leader when it joins, beyond what the consumer protocol says already: its topics and
// the partitions that it owns.
type Member struct {
	// Instance is the process and Worker the member's number in it.
	Instance string
	Worker   int32
	// Topology is a fingerprint of the plan: members with another one read other topics.
	Topology uint64
}

// The record headers that we reserve. Their values are decimal numbers or names, but for HeaderWatermark.
const (
	// HeaderWatermark marks a watermark report in a repartition topic.
	HeaderWatermark = "x-wm"

	HeaderLateReason      = "x-late-reason"
	HeaderLateOperator    = "x-late-operator"
	HeaderLateWindowStart = "x-late-window-start"
	HeaderLateWindowEnd   = "x-late-window-end"
	HeaderLatePartial     = "x-late-partial"
	HeaderLateWatermark   = "x-late-watermark"
	HeaderLateBy          = "x-late-by-ms"
	HeaderOriginTopic     = "x-origin-topic"
	HeaderOriginPartition = "x-origin-partition"
	HeaderOriginOffset    = "x-origin-offset"
	HeaderEventTime       = "x-event-time"

	// Those of a result of a window whose results have a history: its revision where it is not the first, early or late where it is
	// not on time, and whether it takes a result back.
	HeaderRevision = "x-rev"
	HeaderPane     = "x-pane"
	HeaderRetract  = "x-retract"

	// Those of a dead letter are those of Kafka Streams, KIP-1034.
	HeaderErrorException = "__streams.errors.exception"
	HeaderErrorMessage   = "__streams.errors.message"
	HeaderErrorStack     = "__streams.errors.stacktrace"
	HeaderErrorTopic     = "__streams.errors.topic"
	HeaderErrorPartition = "__streams.errors.partition"
	HeaderErrorOffset    = "__streams.errors.offset"

	// ReasonWindowClosed is the value of HeaderLateReason for a record whose window had closed.
	ReasonWindowClosed = "window-closed"
	// ReasonFuture is that for a record whose event time is further ahead than its topic allows.
	ReasonFuture = "future"
)
