//go:build failpoints

package framework

import (
	"fmt"
	"strings"

	"github.com/headrace/headrace/internal/restore"
)

// FailpointHit is a step that has been reached, and the transaction in hand.
type FailpointHit struct {
	Point, App  string
	Transaction string
	Sequence    uint64
	// Offsets are those to be committed, or where the tasks stand.
	Offsets func() string
}

// Failpoint, if not nil, is called at each step that may be the last of a process: after-poll, after-flush, before-apply,
// during-apply, during-restore. It is called from the goroutines of workers and restores. Set it before New.
var Failpoint func(FailpointHit)

func (w *worker) failpoint(point string, b *batch) {
	if Failpoint == nil {
		return
	}
	m := mark{w.transactionalID(), w.sequence + 1}
	if b != nil {
		m = b.mark
	}
	Failpoint(FailpointHit{
		Point: point, App: w.app.set.AppID, Transaction: m.transactionalID, Sequence: m.sequence,
		Offsets: func() string {
			var at []string
			if b != nil {
				for _, o := range b.offsets {
					at = append(at, fmt.Sprintf("%s[%d]@%d", o.topic, o.partition, o.offset))
				}
				return strings.Join(at, " ")
			}
			for _, t := range w.running {
				for _, s := range t.run.Status().Sources {
					at = append(at, fmt.Sprintf("%s[%d]@%d+%d", s.Topic, s.Partition, s.Offset, s.Queued))
				}
			}
			return strings.Join(at, " ")
		},
	})
}

func (a *App) restoreFailpoint(p restore.Progress) {
	if Failpoint == nil || p.Records == 0 {
		return
	}
	Failpoint(FailpointHit{Point: "during-restore", App: a.set.AppID, Offsets: func() string {
		return fmt.Sprintf("%s[%d]@%d of %d", p.Topic, p.Partition, p.Offset, p.End)
	}})
}
