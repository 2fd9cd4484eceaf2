// Package framework runs a topology: it joins the consumer group, makes the internal topics, moves records through the tasks and
// commits outputs, state and input positions in one Kafka transaction.
//
// An [App] runs Config.Workers workers. Each worker is one goroutine, one group member and one transactional producer, and runs the
// tasks that the group gives it. Start the same program again, anywhere, and the group spreads the tasks over both.
//
// # The guarantee
//
// Every input record has its effect exactly once in what the app writes to Kafka: outputs, sidelined records, changelogs and so
// state, and positions. Readers of the outputs must read committed. What a callback does elsewhere (an HTTP call, a foreign
// database) is outside: it happens again when a transaction is aborted and its records are processed anew.
//
// Nothing is produced before a transaction is about to commit, and nothing reaches a store before it has committed. When the answer
// to a commit is lost or unclear, the worker reads back what the group has as its position and compares the number of the
// transaction that is kept with it. Only then it goes on, from there.
//
// With Config.Guarantee AtLeastOnce there are no transactions: what was written and not committed is written again, so outputs repeat
// and totals may count twice, and nothing is lost.
//
// # What it tells
//
// [App.Snapshot] says where an app stands, for probes, metrics and progress displays; package ops serves it. An [Observer] hears of
// events. The log, Config.Logger, is for people, with keys that stay the same:
//
//	app, instance, worker       Config.AppID, the name of the process, and the number of the worker: on every line that is of one
//	task, store, operator       the task as Kafka Streams writes it, the store, and the node as in the topology's description
//	place, stack                where the program added the operator, and the stack of a panic or of a stuck worker
//	topic, partition, offset    a place in Kafka; brokers, group, partitions, inputs, outputs, changelog and missing name more of them
//	from, to, end, offsets      offsets: of a range, of its end, and how many
//	records, restored, waiting  how far a restore is, how many records a task has restored, and whether a transaction holds it up
//	err, reason, doing          what went wrong, as the counters name it, and at what
//	attempt, unsaid, doubtful   how often it was tried, how often a line was not logged since it last was, outputs that may be at fault
//	since, after, waited        a time, and durations: until now, or until it ended
//	timeout, again_in           durations: what it is measured by, and until the next try
//	transaction, committed      a transaction's number, and whether it has committed
//	workers, tasks, state       how many there are, and what a worker is doing
//	why, setting, consequence   the reason for a step, a topic's setting, and what follows from it
//	find, abort                 commands that help
//	member, fingerprint         a group member, and the topology's fingerprint; member_instance, member_worker and
//	                            member_fingerprint are those of another process
//
// Keys of the Kafka client's own lines, which begin with "kafka client: ", are the client's. Keys and values of records are never
// logged, but an error that the topology's own code returns is.
//
// # Kafka Streams
//
// App is KafkaStreams, Run is start and close in one, a worker is a stream thread, and Snapshot is metadataForLocalThreads. The
// group id, the names of the internal topics and the way keys find their partitions are the same.
package framework
