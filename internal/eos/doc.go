// Package eos proves exactly-once: the topologies that the proof runs, and checkers that say whether what was written and kept is
// what had to be.
//
// A checker is a function of what was read. It shares nothing with the code it checks but the layout of a few values, and each has a
// test that plants what it must find.
package eos
