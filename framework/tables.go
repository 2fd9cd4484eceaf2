package framework

import (
	"context"
	"time"

	"github.com/headrace/headrace/internal/engine"
)

const (
	// tablePatience is how long a table that is still to be read may bring nothing before somebody looks whether anything is left.
	tablePatience = 500 * time.Millisecond
	// tableTimeout bounds that look.
	tableTimeout = 10 * time.Second
)

// gap is a stretch of an input in which there is nothing to read.
type gap struct {
	run      *engine.Task
	in       *input
	from, to int64
}

// lookForGaps looks for inputs that a task waits for in vain. The client delivers records and markers; where compaction has left none
// before the end that the input is known to have, it delivers nothing. The streams of the task would wait until somebody writes to the
// table, and the records of others until somebody writes to the input.
func (w *worker) lookForGaps(now time.Time) {
	for _, t := range w.running {
		for _, in := range t.inputs {
			to := in.readTo
			if in.pushed >= to {
				to = in.end
			}
			if in.pushed >= to || in.paused || now.Sub(in.heard) < tablePatience {
				continue
			}
			in.heard = now
			if queued, _ := t.run.Queued(in.source); queued == 0 {
				w.probe(t, in, to)
			}
		}
	}
}

// probe looks whether anything is left of an input before an offset, on a goroutine of its own.
func (w *worker) probe(t *task, in *input, to int64) {
	if in.probe != nil {
		in.probe()
	}
	ctx, cancel := context.WithTimeout(w.ctx, tableTimeout)
	in.probe = cancel
	g := gap{t.run, in, in.pushed, to}
	tp := in.topicPartition
	w.aside.Go(func() {
		defer cancel()
		next, err := w.app.restorer.Next(ctx, tp.topic, tp.partition, g.from, g.to)
		if err != nil {
			w.log.Debug("look for the rest of an input", "topic", tp.topic, "partition", tp.partition, "err", err)
			return
		}
		if next < g.to {
			return // the client will bring it
		}
		w.mu.Lock()
		w.gaps = append(w.gaps, g)
		w.mu.Unlock()
		w.wake()
	})
}

// takeGaps moves inputs on over what is not there. Nothing can have come there since: it is below an end that was stable.
func (w *worker) takeGaps() {
	w.mu.Lock()
	gaps := w.gaps
	w.gaps = nil
	w.mu.Unlock()
	for _, g := range gaps {
		if g.in.task.run == g.run && g.in.pushed == g.from {
			w.log.Info("nothing is left to read of an input", "topic", g.in.topic, "partition", g.in.partition, "from", g.from, "to", g.to)
			w.pass(g.in, g.to)
			w.position(g.in.task)
		}
	}
}
