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
// # Kafka Streams
//
// App is KafkaStreams, Run is start and close in one, a worker is a stream thread, and Snapshot is metadataForLocalThreads. The
// group id, the names of the internal topics and the way keys find their partitions are the same.
package framework
