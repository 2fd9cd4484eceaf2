package topology_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/topology/topologytest"
	"github.com/headrace/headrace/window"
)

// An input that falls idle moves the watermark on between two steps, while a closing or a round of early results is going on. No window
// is passed over by that, and none has an early result behind that on closing.
func TestTheWatermarkMovesWhileWindowsClose(tt *testing.T) {
	tt.Parallel()
	for _, c := range []struct {
		name string
		late window.Late
		opts []topology.AggregateOption
	}{
		{"on close", dropLate, []topology.AggregateOption{topology.EmitOnClose()}},
		{"corrected", window.CorrectWithin(500 * ms).Otherwise(window.Drop()), []topology.AggregateOption{topology.EmitOnClose()}},
		{"early", dropLate, []topology.AggregateOption{topology.EmitEarlyEvery(50 * ms)}},
		{"early, corrected", window.CorrectWithin(500 * ms).Otherwise(window.Drop()), []topology.AggregateOption{topology.EmitEarlyEvery(50 * ms)}},
		{"early parts", window.CorrectWithin(500 * ms).Otherwise(window.Drop()), []topology.AggregateOption{topology.EmitEarlyEvery(50 * ms), topology.Discarding()}},
	} {
		for budget := 1; budget < 60; budget++ {
			for _, crash := range []bool{false, true} {
				b := topology.NewBuilder()
				in := topology.From(b, s).Merge(topology.From(b, t))
				topology.Count(topology.Windowed(in.GroupByKey(), window.Tumbling(10*ms).Grace(5*ms), c.late), "c", c.opts...).To(outWindows(10 * ms))
				d := topologytest.New(tt, topologytest.Build(tt, b.Build), topologytest.Manual())
				out := topologytest.Output(d, outWindows(10*ms))
				fast, slow := topologytest.Input(d, s), topologytest.Input(d, t)
				slow.Pipe(at(0), "slow", "x")
				for i := range int64(25) {
					fast.Pipe(at(i*10), "fast", "x")
				}
				d.Settle()
				slow.Pipe(at(95), "slow", "x") // W 95: nine windows are over
				d.Step(budget)
				if crash {
					d.Commit()
					d.Crash()
				}
				d.Idle("t") // W 240
				d.Settle()
				sums, last := map[string]int64{}, map[string]string{}
				for _, r := range out.All() {
					pane, _ := r.Header("x-pane")
					k := fmt.Sprint(r.Key)
					if last[k] == "closed" {
						tt.Fatalf("%s, budget %d: %v (%s) behind its result on closing", c.name, budget, r, pane)
					}
					if last[k] = "closed"; pane == "early" {
						last[k] = pane
					}
					sums[k] = max(sums[k], r.Value)
				}
				want := map[string]int64{"[slow@0/10]": 1, "[slow@90/100]": 1}
				for i := range int64(25) {
					if i < 23 || strings.HasPrefix(c.name, "early") { // [230,240) is not over at W 240, for its grace
						want[fmt.Sprintf("[fast@%d/%d]", i*10, i*10+10)] = 1
					}
				}
				if diff := cmp.Diff(want, sums); diff != "" {
					tt.Fatalf("%s, budget %d, crash %v (-want +got):\n%s", c.name, budget, crash, diff)
				}
			}
		}
	}
}
