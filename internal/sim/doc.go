// Package sim runs applications through thousands of schedules of faults, each from a seed, and holds what they write, keep and count to
// package oracle, a batch that shares nothing with the library.
//
// A [Case] has all that happens in a simulation: a topology, and the list of what befalls it. [Draw] makes one of a seed, [Run] carries it
// out and says what is not as it should be, [Shrink] takes from it what the difference does not need, and its text ([Case.String], [Parse]) is
// a script that can be kept and run again.
//
// The tasks, the DSL, the overlay, the changelog encoding, the restorer and the stores are the real ones. The logs are this package's: with
// transactions, markers, aborted records, compaction and trimming. So is what the framework does between them (freeze, write, commit, apply,
// abort, move), in its simplest form and on one goroutine. Clients, groups, timeouts and the network are not here.
package sim
