// Package oracle says what a topology has to write, keep and count: a batch over what it has read, from definitions and with nothing of
// the library. It has no transactions, no overlays, no savepoints to disk and no restarts; it goes through the records once, in the order in
// which the tasks took them.
//
// It does not know that order, nor when commits fell: where several sources meet the order depends on what had come in, and behind a
// repartition topic the watermark moves once per commit. Both are inputs, as [Event] and [Cut], and are checked for what they may be.
package oracle
