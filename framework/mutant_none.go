//go:build !mutant_outputs_after_end && !mutant_keep_overlay && !mutant_moved_offsets_only && !mutant_trust_no && !mutant_trust_callbacks && !mutant_keep_queue && !mutant_offset_by_one && !mutant_clocks_forgotten

package framework

import (
	"github.com/headrace/headrace/internal/engine"
	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/state"
)

// planted names the bug that is built in, for proving that the checkers of exactly-once find it. Without a tag it is none, and what
// follows is what is right.
const planted = ""

func handOver(_ *task, outs []graph.Output) []graph.Output { return outs }

func overlay(_ engine.TaskID, b state.Backend, specs []state.Spec) *state.Txn {
	return state.NewTxn(b, specs)
}

func moved(*writer, offset) bool { return true }

func remember(*batch) {}

func believe(*batch) {}

func believed(map[topicPartition]committed) {}

func (*worker) forgetPushed() {}

func (*ownership) revoked(map[string][]int32) {}
