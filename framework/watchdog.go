package framework

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Stall is a worker that has been at the same thing for longer than Config.TaskTimeout: the topology's own code does not return, or a
// disk does not answer. Nothing of the worker's tasks is processed meanwhile, and nobody else gets them, since the client goes on
// sending heartbeats: somebody has to look, or to restart the process.
type Stall struct {
	Worker int
	// Doing is what it is at: "step", processing records and what time has made due; "commit"; or "turn", anything else.
	Doing string
	// Task is the task that it steps, as Kafka Streams writes it.
	Task string
	// Since is when it began.
	Since time.Time
	// Stack is that of the worker's goroutine when the stall was found.
	Stack []byte
}

// Error says what does not go on, so that a Stall can be shown as one.
func (s *Stall) Error() string {
	what := s.Doing
	if s.Task != "" {
		what += " of task " + s.Task
	}
	return fmt.Sprintf("framework: worker %d: %s does not end, since %s", s.Worker, what, s.Since.UTC().Format(time.RFC3339))
}

type activity int32

const (
	resting activity = iota
	turning
	stepping
	committing
)

func (a activity) String() string { return [...]string{"rest", "turn", "step", "commit"}[a] }

// busy is what a worker is at: written by the worker, a few atomic stores for each step, and read by the watchdog.
type busy struct {
	goroutine atomic.Int64 // of the worker
	began     atomic.Int64 // in Unix nanoseconds; changes with each of the next
	doing     atomic.Int32
	task      atomic.Pointer[task]
	seen      int64 // began, when the watchdog last looked
}

func (b *busy) at(doing activity, t *task, now time.Time) {
	b.task.Store(t)
	b.doing.Store(int32(doing))
	b.began.Store(now.UnixNano())
}

func (b *busy) rest() { b.doing.Store(int32(resting)) }

// watchEvery is how often the watchdog looks at the most; a short timeout is looked at more often.
const watchEvery = time.Second

// watch finds workers that are stuck, until ctx is done: one goroutine for all of the app.
func (a *App) watch(ctx context.Context) {
	timeout := a.set.TaskTimeout
	if timeout <= 0 {
		return
	}
	ticker := time.NewTicker(min(watchEvery, max(timeout/4, time.Millisecond)))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			for _, w := range a.workers {
				w.watch(now, timeout)
			}
		}
	}
}

func (w *worker) watch(now time.Time, timeout time.Duration) {
	at := &w.app.stalls[w.id]
	known := at.Load()
	began, doing, t := w.busy.began.Load(), activity(w.busy.doing.Load()), w.busy.task.Load()
	since := time.Unix(0, began)
	// Seen twice, so that a clock that is set, or a machine that was asleep, makes nobody stuck.
	stuck := doing != resting && now.Sub(since) >= timeout && began == w.busy.seen && began == w.busy.began.Load()
	w.busy.seen = began
	switch {
	case known != nil && stuck && known.Since.Equal(since):
		return
	case known != nil:
		at.Store(nil)
		w.log.Warn("the worker goes on", "doing", known.Doing, "task", known.Task, "after", now.Sub(known.Since).Round(time.Millisecond))
	}
	if !stuck {
		return
	}
	s := &Stall{Worker: w.id, Doing: doing.String(), Since: since, Stack: stackOf(w.busy.goroutine.Load())}
	if t != nil {
		s.Task = t.id.String()
	}
	at.Store(s)
	w.log.Error("the worker is stuck: the topology's own code does not return, or a disk or a broker does not answer",
		"doing", s.Doing, "task", s.Task, "since", s.Since, "timeout", timeout, "stack", string(s.Stack))
	for i := range w.app.set.Observers {
		if f := w.app.set.Observers[i].Stalled; f != nil {
			f(*s)
		}
	}
}

// goroutineID is the number of the calling goroutine, by which its stack is found among all. Nothing else depends on it.
func goroutineID() int64 {
	var buf [64]byte
	head := string(buf[:runtime.Stack(buf[:], false)])
	number, _, _ := strings.Cut(strings.TrimPrefix(head, "goroutine "), " ")
	id, _ := strconv.ParseInt(number, 10, 64)
	return id
}

// maxStacks bounds what is read to find one stack.
const maxStacks = 16 << 20

// stackOf returns the stack of a goroutine, nil if it cannot be found. The program stands still while all stacks are written down.
func stackOf(goroutine int64) []byte {
	prefix := fmt.Appendf(nil, "goroutine %d [", goroutine)
	for size := 256 << 10; size <= maxStacks; size *= 4 {
		buf := make([]byte, size)
		n := runtime.Stack(buf, true)
		for stack := range bytes.SplitSeq(buf[:n], []byte("\n\n")) {
			if bytes.HasPrefix(stack, prefix) {
				return bytes.Clone(stack)
			}
		}
		if n < size {
			return nil
		}
	}
	return nil
}
