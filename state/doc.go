// Package state keeps what operators remember.
//
// Who writes a topology needs three things of it. A provider goes into the configuration of the application: [Memory] keeps stores
// in memory, and a restart reads them from Kafka again. A typed handle names a store and says how its keys and values are encoded:
// [KeyValueOf], [WindowsOf] or [SessionsOf], which topology.Process takes. Opened, by a processor in its Init or by a test, it is a
// view, [KeyValueView], [WindowsView] or [SessionsView], with Get, Put, Delete and iteration.
//
// The rest is for those who write a provider, and for the engine: the contracts of a task's stores and the overlay of its open
// transaction.
//
// A task's stores live in one [Backend]. While a transaction is open the task reads and writes through a [Txn]: reads look in
// the overlay first and then in the backend, writes go to the overlay alone. When the transaction is known to have committed,
// the overlay is applied to the backend together with the changelog positions, in one batch; after an abort it is dropped.
// So a backend only ever holds committed state, and the changelog topic is its write-ahead log.
//
// # Layout
//
// Keys and values inside a backend are in store layout, which is not the layout of the changelog topic (package changelog
// maps one to the other):
//
//	key-value store   key                       → 8-byte big-endian timestamp ‖ value
//	window store      ordered 8-byte start ‖ key → 8-byte big-endian timestamp ‖ value
//
//	session store     0 ‖ ordered 8-byte end ‖ ordered 8-byte start ‖ key → 8-byte big-endian timestamp ‖ value
//	sliding windows   0 ‖ ordered 8-byte start ‖ key                      → 8-byte big-endian timestamp ‖ value
//
// Windows sort by start and sessions by end, so that closing and expiry are range scans. Stores of sessions and of sliding windows
// have an index behind their entries, by which those of one key are found; its values are empty:
//
//	session store     1 ‖ 4-byte big-endian length of key ‖ key ‖ ordered 8-byte end ‖ ordered 8-byte start
//	sliding windows   1 ‖ 4-byte big-endian length of key ‖ key ‖ ordered 8-byte start
//
// The index stays in the store: [Txn.Mutations] leaves it out, so no changelog knows of it, and a restore makes it again with
// [Kind.Index]. Whoever writes such a store in store layout writes both.
package state
