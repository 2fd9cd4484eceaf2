//go:build synctests

package framework_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headrace/headrace/framework"
)

// A step that does not return shows in the Snapshot, once in the log and with the observers, with the place in the user's code, and not
// any more when it has returned.
func TestStall(t *testing.T) {
	bubble(t, func(w *world) {
		stuck := make(chan struct{})
		var block, inside atomic.Bool
		var mu sync.Mutex
		var told []framework.Stall
		log := newJournal()
		m := w.start("a", log.into(func(c *framework.Config) {
			c.TaskTimeout = 40 * time.Second
			c.Observers = []framework.Observer{{}, {Stalled: func(s framework.Stall) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, s)
			}}}
			c.Topology = countWords(t, func(string) {
				if block.CompareAndSwap(true, false) {
					inside.Store(true)
					waitForever(stuck)
				}
			})
		}))
		m.runs(8)
		w.write(100)
		w.awaitOutputs()
		block.Store(true)
		w.write(1)
		w.await("the step to hang", inside.Load)
		time.Sleep(39 * time.Second) // of the bubble's time
		if s := m.Snapshot().Workers[0].Stall; s != nil {
			t.Errorf("stalled before the timeout: %v", s)
		}
		time.Sleep(4 * time.Second) // of the bubble, as well
		s := m.Snapshot().Workers[0].Stall
		if s == nil {
			t.Fatal("no Stall after the timeout")
		}
		if s.Doing != "step" || !strings.HasPrefix(s.Task, "0_") || time.Since(s.Since) < 40*time.Second || !strings.Contains(string(s.Stack), "waitForever") {
			t.Errorf("got the stall %v with the stack\n%s\nwant a step of sub-topology 0, in waitForever", s, s.Stack)
		}
		if strings.Contains(string(s.Stack), "\n\n") {
			t.Errorf("the stack has those of other goroutines, too:\n%s", s.Stack)
		}
		time.Sleep(time.Minute) // it is told once, however long it lasts
		close(stuck)
		w.await("the worker to go on", func() bool { return m.Snapshot().Workers[0].Stall == nil })
		w.awaitOutputs()
		m.stop()
		w.check(true)
		mu.Lock()
		defer mu.Unlock()
		if stuck, on := log.with("the worker is stuck"), log.with("the worker goes on"); len(told) != 1 || len(stuck) != 1 || len(on) != 1 {
			t.Errorf("told %d times; the log has %d lines of it and %d of its end, want one of each", len(told), len(stuck), len(on))
		} else if !strings.Contains(stuck[0].attrs["stack"], "waitForever") || stuck[0].attrs["task"] != s.Task {
			t.Errorf("the log has %v, want the task and the stack", stuck[0].attrs)
		}
	})
}

func waitForever(c chan struct{}) { <-c }

// An app without brokers is not stuck: it waits, and says so elsewhere. Nor is one that has nothing to do.
func TestNoStall(t *testing.T) {
	bubble(t, func(w *world) {
		m := w.start("a", func(c *framework.Config) { c.TaskTimeout = time.Second })
		m.runs(8)
		time.Sleep(10 * time.Second) // with nothing to do, in a bubble
		if s := m.Snapshot().Workers[0].Stall; s != nil {
			t.Errorf("idle, and yet: %v", s)
		}
		w.c.Close()
		for range 100 {
			time.Sleep(time.Second) // without brokers, in a bubble
			synctest.Wait()
			if s := m.Snapshot().Workers[0].Stall; s != nil {
				t.Fatalf("without brokers: %v\n%s", s, s.Stack)
			}
		}
	})
}
