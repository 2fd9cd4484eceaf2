//go:build mutant_outputs_after_end || mutant_keep_overlay || mutant_moved_offsets_only || mutant_trust_no || mutant_trust_callbacks || mutant_keep_queue || mutant_offset_by_one || mutant_clocks_forgotten

package framework

import (
	"bytes"
	"sync"

	"github.com/headrace/headrace/internal/engine"
	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/state"
)

var (
	mutant   sync.Mutex
	held     = make(map[*task][]graph.Output)
	overlays = make(map[engine.TaskID]*state.Txn)
	under    = make(map[engine.TaskID]state.Backend)
	at       = make(map[*writer]map[topicPartition]int64)
	known    = make(map[topicPartition]committed)
	forced   = make(map[topicPartition]committed)
)

// handOver keeps the outputs for the transaction behind theirs.
func handOver(t *task, outs []graph.Output) []graph.Output {
	if planted != outputsAfterEnd {
		return outs
	}
	mutant.Lock()
	defer mutant.Unlock()
	due := held[t]
	kept := make([]graph.Output, len(outs))
	for i, o := range outs {
		o.Key, o.Value, o.PartitionKey = bytes.Clone(o.Key), bytes.Clone(o.Value), bytes.Clone(o.PartitionKey)
		kept[i] = o
	}
	held[t] = kept
	return due
}

// overlay gives a task that is made anew what it had, if its backend is still the same.
func overlay(id engine.TaskID, b state.Backend, specs []state.Spec) *state.Txn {
	mutant.Lock()
	defer mutant.Unlock()
	if planted == keepOverlay && under[id] == b {
		return overlays[id]
	}
	overlays[id], under[id] = state.NewTxn(b, specs), b
	return overlays[id]
}

func moved(w *writer, o offset) bool {
	mutant.Lock()
	defer mutant.Unlock()
	if at[w] == nil {
		at[w] = make(map[topicPartition]int64)
	}
	last, ok := at[w][o.topicPartition]
	at[w][o.topicPartition] = o.offset
	return !ok || last != o.offset
}

// remember notes what has surely been committed, believe goes back to it, and believed makes a task begin there.
func remember(b *batch) {
	mutant.Lock()
	defer mutant.Unlock()
	for _, o := range b.offsets {
		c := committed{offset: o.offset}
		if c.decode(o.metadata) == nil {
			known[o.topicPartition] = c
		}
	}
}

func believe(b *batch) {
	mutant.Lock()
	defer mutant.Unlock()
	for _, o := range b.offsets {
		if c, ok := known[o.topicPartition]; ok {
			forced[o.topicPartition] = c
		}
	}
}

func believed(position map[topicPartition]committed) {
	mutant.Lock()
	defer mutant.Unlock()
	for tp := range position {
		if c, ok := forced[tp]; ok {
			position[tp] = c
			delete(forced, tp)
		}
	}
}

func (w *worker) forgetPushed() {
	for _, t := range w.running {
		for _, in := range t.inputs {
			in.pushed = 0
		}
	}
}

func (o *ownership) revoked(parts map[string][]int32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.syncs++
	for tp := range flatten(parts) {
		delete(o.since, tp)
	}
}
