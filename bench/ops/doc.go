// Command ops runs the micro-benchmarks of the hot paths and compares what they allocate with the figures that are checked in. Times are
// shown and never compared: they are another machine's.
package main
