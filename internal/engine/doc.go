// Package engine runs one task as a step machine.
//
// A [Task] owns everything that one sub-topology needs to process one partition: the queues of its inputs, the closures of its
// operators, the overlay of the open transaction, the list of outputs, and event time. It starts no goroutine, asks no clock and
// does no I/O: its caller pushes records into the queues, passes the wall time to [Task.Step], and at commit takes what has
// gathered. The framework and the test driver run the same task.
//
// # A step
//
// Step does units of work until its budget is spent or there is nothing to do. A unit is one record, one watermark report, or
// one thing that time has made due (a window to close, a punctuation to fire). Each unit is atomic: it has a savepoint, and an
// error or a panic in it takes back its writes, its outputs and its timers before the policy acts. What time has made due comes
// first, then reports at the head of a queue, then the record with the smallest event time among the heads. Between any two
// units a commit may fall.
//
// # Event time
//
// An outside partition has the watermark W = max(event time) − disorder, moved by each record that is read, before any filter,
// and only after that record has been processed. A partition of a repartition topic has the smallest W that its writers
// reported. A partition that is idle holds nobody back: it comes along with the task's others. Every operator has its own W, the smallest of its inputs', and holds back what it tells the next one at the smallest
// timestamp it may still emit. All of it is checkpointed with the offsets.
package engine
