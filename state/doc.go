// Package state keeps what operators remember: the contracts of a task's stores, the overlay of its open transaction, typed
// views over both, and a backend in memory.
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
// Windows sort by start, so that closing, expiry and look-ups of neighbours are range scans.
package state
