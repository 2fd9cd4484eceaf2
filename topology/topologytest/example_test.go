package topologytest_test

import (
	"fmt"

	"github.com/headrace/headrace/topology/topologytest"
)

func Example() {
	// In a test, pass t instead of nil.
	d := topologytest.New(nil, topologytest.Build(nil, visits), topologytest.Partitions(4))
	in, out := topologytest.Input(d, clicks), topologytest.Output(d, pages)
	in.Pipe(at(1), "ann", "/home")
	in.Pipe(at(2), "bob", "/home")
	fmt.Println(out.Read())
	fmt.Println(out.Read())
	// Output:
	// /home: 1 @ 1970-01-01T00:00:00.001Z
	// /home: 2 @ 1970-01-01T00:00:00.002Z
}

func ExampleDriver_Crash() {
	d := topologytest.New(nil, topologytest.Build(nil, visits), topologytest.Manual())
	in, out := topologytest.Input(d, clicks), topologytest.Output(d, counts)
	in.Pipe(at(1), "ann", "/home")
	d.Run()
	d.Commit()
	in.Pipe(at(2), "ann", "/home")
	d.Run()
	d.Crash() // the second click was counted, but not committed
	fmt.Println(topologytest.Latest(out))
	d.Settle() // so it is counted again
	fmt.Println(topologytest.Latest(out))
	// Output:
	// map[ann:1]
	// map[ann:2]
}

func ExampleDriver_Try() {
	d := topologytest.New(nil, topologytest.Build(nil, visits))
	in := topologytest.Input(d, clicks)
	fmt.Println(d.Try(func() { in.PipeTo(3, at(1), "ann", "/home") }))
	// Output:
	// topologytest: topic clicks has partitions 0 to 0, not 3
}
