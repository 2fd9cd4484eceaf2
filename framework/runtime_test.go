//go:build synctests

package framework_test

import (
	"testing"

	"github.com/headrace/headrace/framework"
)

func TestOneMemberWithTwoWorkers(t *testing.T) {
	bubble(t, func(w *world) {
		m := w.start("a", func(c *framework.Config) { c.Workers = 2 })
		w.write(400)
		m.runs(2 * partitions)
		w.awaitOutputs()
		w.write(400)
		w.awaitOutputs()
		n := m.stop()
		w.check(true)
		if n.TasksBuilt < 2*partitions || n.Aborts != 0 || n.ReadBacks != 0 || n.Commits == 0 {
			t.Errorf("nothing went wrong, but the counters say %+v", n)
		}
		if n.Records != 1600 {
			t.Errorf("processed %d records, want 800 words and 800 repartitioned", n.Records)
		}
	})
}
