// Package pebblestore keeps state on disk, in Pebble, a log-structured merge tree. Kafka Streams: RocksDB stores.
//
// [In] is all that most apps need:
//
//	framework.Config{ /* … */ State: pebblestore.In("/var/lib/flights")}
//
// # What survives
//
// The changelog topic is the write-ahead log; Pebble's own is off. What has been applied is in memory at first and goes to disk in
// the background: when [Config.FlushBytes] have gathered, when the first of it is [Config.FlushInterval] old, and when a task is
// closed. A process that is closed finds everything again. One that is killed, or loses power, finds each task as it was after
// some earlier Apply, with the positions of exactly that Apply, never half of one: the rest is read again from the changelog. So a
// crash costs a bounded replay and never a store.
//
// # Layout
//
// The directory belongs to one app. It holds the lock file LOCK, the file owner, which says which process holds it, the file
// instance with the id of [state.Durable], and one directory for each task. A task's directory is one Pebble, which holds all the
// task's stores: a store has a number, given once and never again, which is the prefix of its keys; a table in the same Pebble
// says which name and kind a number stands for. So specs may be ordered anew without touching data; a store that no spec claims
// any more is dropped when the task is opened. Data and positions change in one batch.
//
// # Failure
//
// A backend whose disk is full, slow beyond [Config.StallTimeout] or failing takes no more changes: Apply returns an error that
// names path, free bytes and cause, at once and every time; nothing more reaches its files. Close it and open it anew, and it goes
// on from its last flush. Damage that a checksum finds is an error that wraps [state.ErrCorrupt]. Other tasks are not touched by
// either, and the process never ends because of it.
//
// # Memory and files
//
// [Config.MemoryBudget] covers the block cache that all tasks share and what waits to be flushed. At most about 512 files of all
// tasks are open at a time.
package pebblestore
