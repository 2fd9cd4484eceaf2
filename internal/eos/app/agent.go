package main

import (
	"encoding/json"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/headrace/headrace/internal/eos"
)

// agent tells what happens and does to its own process what it was told to, at the next chance. It is safe for concurrent use.
type agent struct {
	armed atomic.Pointer[order]

	mu  sync.Mutex // a line is written whole
	out io.Writer
}

// order is what the process has to do to itself.
type order struct{ verb, point, app string }

func newAgent(out io.Writer) *agent { return &agent{out: out} }

// command takes "kill after-flush eos-totals-app". A line that is none of those disarms.
func (a *agent) command(line string) {
	f := strings.Fields(line)
	if len(f) != 3 || f[0] != "kill" && f[0] != "stop" {
		a.armed.Store(nil)
		return
	}
	a.armed.Store(&order{f[0], f[1], f[2]})
}

// tell writes at once: what follows may be the end.
func (a *agent) tell(h eos.Happening) {
	h.At = time.Now().UnixMilli()
	line, err := json.Marshal(h)
	if err != nil {
		return // it has no field that cannot be encoded
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	_, _ = a.out.Write(append(line, '\n')) // who does not listen does not learn it
}

// at is called at a point. It does not return if the order is to kill.
func (a *agent) at(point, app string, evidence func() eos.Happening) {
	o := a.armed.Load()
	if o == nil || o.point != point || o.app != app || !a.armed.CompareAndSwap(o, nil) {
		return
	}
	h := evidence()
	h.Point, h.What = point, eos.Killing
	if o.verb == "stop" {
		h.What = eos.Stopping
	}
	a.tell(h)
	if o.verb == "kill" {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // it is on its way
	}
	stopped := time.Now()
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	for time.Since(stopped) < 500*time.Millisecond { // the signal may take its time to reach the thread
		time.Sleep(10 * time.Millisecond)
	}
	h.What = eos.Continued
	a.tell(h)
}
