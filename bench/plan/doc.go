// Package plan says what the bench measures: the works, the peers that do them, the records that they are given, what must come out,
// and what is to be reached.
//
// A new work is an entry in [Works], and what does it in each peer: a topology in peer/headrace.go, a case in Bench.java, and, if the
// loop without a framework is to be compared, a case in peer/raw.go.
package plan
