// Package topologytest runs a topology in a unit test: no broker, no network, no waiting, the same every time.
//
//	func TestCount(t *testing.T) {
//		d := topologytest.New(t, topologytest.Build(t, Clicks)) // func Clicks() (*topology.Topology, error)
//		in, out := topologytest.Input(d, clicks), topologytest.Output(d, counts)
//		in.Pipe(noon, "ann", Click{})
//		if r := out.Read(); r.Key != "ann" || r.Value != 1 {
//			t.Errorf("got %v", r)
//		}
//	}
//
// The tasks are those that a running application has: one for each partition of each sub-topology, driven by the same engine.
// Only what is around them is simulated: topics are slices, records are routed to partitions as Kafka does, a commit writes
// outputs, changelog records, watermark reports and offsets together, and readers see what is committed.
//
// # Two ways to drive
//
// By default Pipe processes what it was given, and everything that follows from it, and commits. With [Manual] it only queues:
// [Driver.Step] and [Driver.Run] process, [Driver.Commit] commits, and [Driver.Crash] loses what was not committed, as a killed
// process does. After a crash the stores come back from their encoded changelog records, and event time from the metadata of the
// committed offsets, so a test that crashes at a random place sees what a user would.
//
// # Time
//
// Event time stands still until every input partition has a record, as it does in an application: see package topology. A test of
// windows with several partitions writes to all of them, with [In.PipeTo], or ends with [Driver.End].
//
// # Mistakes
//
// Whatever goes wrong fails the test at once: a name that the topology does not have, a value that cannot be encoded, an error or
// a panic in a callback. A test that wants to see the failure wraps the call in [Driver.Try]. Kafka Streams: TopologyTestDriver.
//
// The examples of package topology show every verb with a test that runs.
package topologytest
