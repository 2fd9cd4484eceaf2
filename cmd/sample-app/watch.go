package main

import (
	"math"

	"github.com/headrace/headrace/framework"
)

// windows is how far the window tasks are, all together.
type windows struct {
	all       bool  // every one of them is in the snapshot
	watermark int64 // the smallest, in milliseconds
	due       bool  // some window waits to be closed
}

// windowsOf finds the window tasks in a snapshot: those that have the operator of the store delayStats.
func windowsOf(s framework.Snapshot, partitions int) windows {
	w := windows{watermark: math.MaxInt64}
	seen := map[int32]bool{}
	for _, t := range s.Tasks {
		for _, op := range t.Operators {
			if op.Name == delayStats {
				seen[t.Partition] = true
				w.watermark = min(w.watermark, op.Watermark)
				w.due = w.due || op.Due
			}
		}
	}
	w.all = len(seen) == partitions
	return w
}
