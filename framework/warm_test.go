//go:build synctests

package framework_test

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/state/pebblestore"
)

// A process that was stopped goes on from its disk and reads nothing again. One that was killed reads what had not been flushed, and
// no more.
func TestWarmRestart(t *testing.T) {
	bubble(t, func(w *world) {
		disk := vfs.NewCrashableMem()
		on := func(disk *vfs.MemFS) func(c *framework.Config) {
			return func(c *framework.Config) {
				c.State = pebblestore.New(pebblestore.Config{Dir: "/state", FS: disk, Logger: c.Logger})
			}
		}
		a := w.start("a", on(disk))
		a.runs(2 * partitions)
		if got := w.staticMembers(); len(got) != 1 {
			t.Errorf("static members %v, want the one that the directory names", got)
		}
		w.write(3000)
		w.awaitOutputs()
		a.stop()

		b := w.start("stopped", on(disk))
		b.runs(2 * partitions)
		w.write(500)
		w.awaitOutputs()
		time.Sleep(20 * time.Second) // in a bubble: everything is flushed
		const tail = 200
		w.write(tail)
		w.awaitOutputs()
		killed := disk.CrashClone(vfs.CrashCloneCfg{})
		if n := b.stop(); n.RecordsRestored > 0 || n.TasksBuilt != 2*partitions {
			t.Errorf("after a clean stop, %d records were restored for %d tasks, want none", n.RecordsRestored, n.TasksBuilt)
		}

		c := w.start("killed", on(killed))
		c.runs(2 * partitions)
		w.write(300)
		w.awaitOutputs()
		n := c.stop()
		if n.RecordsRestored < tail/2 || n.RecordsRestored > tail {
			t.Errorf("after a kill, %d records were restored, want the %d at most that were not flushed", n.RecordsRestored, tail)
		}
		if n.StoresWiped > 0 || n.StatesDamaged > 0 {
			t.Errorf("the state was not used: %+v", n)
		}
		w.check(false)
	})
}
