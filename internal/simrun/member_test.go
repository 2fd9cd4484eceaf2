//go:build synctests

package simrun_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/internal/simrun"
	"github.com/headrace/headrace/internal/wiretap"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/state/pebblestore"
	"github.com/headrace/headrace/topology"
)

// member is a place for an app: its name, its disk and what befalls its network. It outlives its processes, which are lives.
type member struct {
	w       *world
	name    string
	rules   *rules
	trouble *trouble
	now     *life // nil if it has never run
	lives   int

	mu   sync.Mutex
	disk *vfs.MemFS // as the last life that died has left it
}

// life is one process of a member.
type life struct {
	*framework.App
	w       *world
	m       *member
	cancel  context.CancelFunc
	done    chan struct{} // Run has returned
	returns atomic.Int64
	err     error // of Run, once done is closed
	stopped bool  // somebody told it to stop

	dead  atomic.Bool // nobody hears of it any more
	armed atomic.Pointer[simrun.Event]
	// asked: the last end of a transaction that it asked for has no answer yet.
	asked atomic.Bool

	mu       sync.Mutex
	making   map[string]bool // tasks that are being made
	old      map[string]bool // tasks whose backend has been somewhere
	outdated map[string]bool // those of them that are being made
}

// start starts a life. One that is told to stop has to have ended before; one that was killed has not.
func (m *member) start() {
	w := m.w
	l := &life{
		w: w, m: m, done: make(chan struct{}),
		making: make(map[string]bool), old: make(map[string]bool), outdated: make(map[string]bool),
	}
	m.lives++
	cfg := framework.Config{
		AppID: w.appID(), Brokers: w.c.ListenAddrs(), Topology: topologyOf(w.t, w.trace.App, w.trace.Away), Workers: w.trace.Workers,
		Kafka:          w.c.Through(&wiretap.Wire{Request: l.request, Response: l.response}),
		SessionTimeout: simrun.SessionTimeout, TransactionTimeout: simrun.TransactionTimeout, TopicTimeout: 10 * time.Minute,
		MaxPendingBytes: w.trace.Pending, KeepMembership: w.trace.Keep, OnRecordError: topology.DeadLetter(deadLetters),
		Logger:    slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: w.level})).With("member", fmt.Sprintf("%s.%d", m.name, m.lives)),
		Observers: []framework.Observer{l.observer()},
	}
	if w.log == io.Discard {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if w.trace.Skip {
		cfg.OnRecordError = topology.Skip()
	}
	if w.trace.Static {
		cfg.Instance = m.name
	}
	cfg.State = provider{state.Memory(), l}
	if w.trace.Disk {
		m.mu.Lock()
		disk := m.disk
		m.mu.Unlock()
		store := pebblestore.New(pebblestore.Config{
			Dir: "state", FS: errorfs.Wrap(disk, m.trouble), MemoryBudget: 8 << 20, FlushInterval: 2 * time.Second, Logger: cfg.Logger,
		})
		cfg.State = durable{provider{store, l}, store}
	}
	app, err := framework.New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	l.App = app
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	m.now = l
	w.lives = append(w.lives, l)
	go func() {
		err := app.Run(ctx)
		if l.returns.Add(1) == 1 {
			l.err = err
			close(l.done)
		}
	}()
}

// runs says that the member has a process that is alive.
func (m *member) runs() bool {
	return m.now != nil && !m.now.stopped && !m.now.dead.Load() && !m.now.ended()
}

func (l *life) ended() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// die ends a life without its being able to say anything to anybody, and leaves its member the disk as it is at this moment.
func (l *life) die(keep int) {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if !l.dead.CompareAndSwap(false, true) {
		return
	}
	if l.w.trace.Disk {
		l.m.disk = l.m.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: keep, RNG: rand.New(rand.NewPCG(l.w.trace.Seed, uint64(l.m.lives)))})
		if keep < 100 {
			l.w.met.add(simrun.PowerLoss)
		}
	}
	l.cancel()
}

// reach is called where the life can be told to die.
func (l *life) reach(point string) {
	e := l.armed.Load()
	if e == nil || e.Point != point || !l.armed.CompareAndSwap(e, nil) || l.dead.Load() {
		return
	}
	if point != simrun.AtFetch && point != simrun.AtRestore {
		l.w.met.add(simrun.CrashInCommit)
	}
	l.w.say("%s dies at %s", l.m.name, point)
	l.die(e.Keep)
}

func (l *life) request(f wiretap.Frame) bool {
	switch f.Key {
	case produce:
		l.reach(simrun.AtProduce)
	case offsets:
		l.reach(simrun.AtOffsets)
	case endTxn:
		l.reach(simrun.AtEnd)
		l.asked.Store(true)
	}
	return !l.dead.Load() && l.m.rules.pass(f, false) && !l.dead.Load()
}

func (l *life) response(f wiretap.Frame) bool {
	switch f.Key {
	case fetch:
		l.reach(simrun.AtFetch)
		if e := l.armed.Load(); e != nil && e.Point == simrun.AtRestore && len(l.Snapshot().Restoring) > 0 {
			l.reach(simrun.AtRestore)
		}
	case produce:
		l.reach(simrun.AtProduced)
	case offsets:
		l.reach(simrun.AtOffsetsDone)
	case endTxn:
		l.reach(simrun.AtEnded)
	}
	if l.dead.Load() || !l.m.rules.pass(f, true) || l.dead.Load() {
		return false
	}
	if f.Key == endTxn {
		l.asked.Store(false)
	}
	return true
}

// observer watches what the app says of itself.
func (l *life) observer() framework.Observer {
	return framework.Observer{
		Task: func(e framework.TaskEvent) {
			l.mu.Lock()
			defer l.mu.Unlock()
			switch e.State {
			case framework.TaskRestoring:
				l.making[e.Task], l.outdated[e.Task] = true, l.old[e.Task]
			case framework.TaskRunning:
				if e.Restored > 0 && l.outdated[e.Task] {
					l.w.met.add(simrun.StaleRestore)
				}
				l.making[e.Task] = false
			}
		},
		Rebalanced: func(framework.Rebalance) {
			if l.w.disturbed.Load() {
				l.w.met.add(simrun.Rebalance)
			}
		},
		LeftOut: func(*framework.RecordError, framework.Outcome) { l.w.met.add(simrun.PolicyAction) },
	}
}

// stale notes that a task's backend has been somewhere; opened says that it comes from a disk.
func (l *life) stale(task string, opened bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.old[task] = true
	if opened {
		l.outdated[task] = true
	}
}

func (l *life) makes(task string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.making[task]
}
