// Package topology is the language in which a stream application is written: sources, operators, sinks.
//
// A topology reads records from topics, changes and combines them, and writes results to topics:
//
//	b := topology.NewBuilder()
//	flights := topology.From(b, topology.Topic("flights", serde.String(), serde.JSON[Flight]()))
//	byOrigin := topology.GroupBy(flights, "by-origin", Flight.OriginKey, serde.String(), serde.JSON[Flight]())
//	topology.Count(byOrigin, "flights-per-origin").To(topology.Topic("counts", serde.String(), serde.Int64()))
//	t, err := b.Build()
//
// The examples below run as tests, without a broker: see package topologytest.
//
// A verb that keeps the types of its stream is a method (Filter, Peek, Merge, To); a verb that changes them is a function whose
// first argument is the stream (Map, GroupBy, Aggregate, JoinTable, LeftJoinTable), because a Go method has no type parameters of its own.
//
// # Names
//
// Whatever brings a topic or a store into being takes a name, which becomes part of the topic's name and must not change while
// the application lives: GroupBy, Repartition, Aggregate, Count, Reduce, TableFrom. Nothing durable is named by its position.
//
// # Keys
//
// What is done per key needs all records of a key on one partition. After an operator that may change the key (Map, FlatMap,
// Process) a keyed operator is a mistake that Build reports with its line; GroupBy and Repartition send the records through a
// topic, where they meet again. There is no implicit repartition.
//
// # Null
//
// A null value never reaches a callback of a stream: From drops and counts it, or KeepNulls passes it on, to Process and To only.
// In tables it deletes. A null key passes the operators that need no state and is dropped and counted before those that do.
//
// # Time
//
// Each record has an event time, from its topic's EventTime or else from the broker's timestamp. Every operator has a watermark:
// no record older than it is expected any more. It closes windows and decides what is late. See package window.
//
// A watermark is the smallest over all partitions that feed the operator, and a partition of which no record has come yet is at
// minus infinity. So one empty input partition keeps windows from closing, whatever the others bring: windows that emit on close
// give nothing, and nothing is late. The same holds, from where it stands, for a partition that falls quiet. Both hold until the
// partition is idle: until the broker has had nothing for framework's Config.IdleAfter. Kafka Streams takes the largest time
// instead, task by task.
//
// Processors are told of time by punctuations, for all keys at once, and by timers, for each key: Task.EveryStreamTime, EventTimers
// and their kin for the wall clock.
//
// # Building
//
// Build reports what is wrong with all of it at once, each with the place. One thing that Kafka Streams allows is an error here: a
// topology that writes a topic which it reads.
//
// A Builder and the streams made from it belong to one goroutine. The Topology that Build returns is immutable and safe for
// concurrent use: each task makes closures of its own from it. Callbacks are called by one task at a time, but all tasks share
// them, so they must not share mutable state.
package topology
