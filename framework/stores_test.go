//go:build synctests

package framework_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/state"
)

// disk is a provider that keeps its tasks on a disk, as far as the app can tell, and the disk has faults.
type disk struct {
	state.Provider
	fault func(op, task string) error // nil: none. op is open, get, apply or close

	mu      sync.Mutex
	open    map[string]bool
	removed []string
}

func (w *world) disk(fault func(op, task string) error) *disk {
	return &disk{Provider: w.stores.provider(), fault: fault, open: make(map[string]bool)}
}

func (d *disk) Instance() (string, error) { return "disk", nil }

func (d *disk) Remove(task string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open[task] {
		return fmt.Errorf("task %s is open", task)
	}
	d.removed = append(d.removed, task)
	return nil
}

func (d *disk) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.open) > 0 {
		return fmt.Errorf("%d tasks are open", len(d.open))
	}
	return nil
}

func (d *disk) Open(task string, specs []state.Spec) (state.Backend, error) {
	if err := d.fault("open", task); err != nil {
		return nil, err
	}
	b, err := d.Provider.Open(task, specs)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open[task] = true
	return &onDisk{Backend: b, task: task, disk: d}, nil
}

// onDisk fails for good once it has failed, as a backend does.
type onDisk struct {
	state.Backend
	task string
	disk *disk
	err  error
}

func (b *onDisk) Get(store int, key []byte) ([]byte, bool, error) {
	if b.err == nil {
		b.err = b.disk.fault("get", b.task)
	}
	if b.err != nil {
		return nil, false, b.err
	}
	return b.Backend.Get(store, key)
}

func (b *onDisk) Apply(m iter.Seq[state.Mutation], p []*state.Position) error {
	if b.err == nil {
		b.err = b.disk.fault("apply", b.task)
	}
	if b.err != nil {
		return b.err
	}
	return b.Backend.Apply(m, p)
}

func (b *onDisk) Close() error {
	_ = b.disk.fault("close", b.task)
	b.disk.mu.Lock()
	delete(b.disk.open, b.task)
	b.disk.mu.Unlock()
	return b.Backend.Close()
}

// warnings collects what is logged as a warning.
type warnings struct {
	slog.Handler
	mu   sync.Mutex
	text []string
}

func (h *warnings) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		h.mu.Lock()
		h.text = append(h.text, r.Message)
		h.mu.Unlock()
	}
	return h.Handler.Handle(ctx, r)
}
func (h *warnings) Enabled(context.Context, slog.Level) bool { return true }
func (h *warnings) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h *warnings) WithGroup(string) slog.Handler            { return h }

func (h *warnings) about(what string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, m := range h.text {
		if strings.Contains(m, what) {
			n++
		}
	}
	return n
}

// Damage on disk, wherever it shows, costs a restore and nothing else: the task's state is thrown away once, with one warning.
func TestDamagedStateIsRestored(t *testing.T) {
	for _, op := range []string{"open", "get", "apply", "restore"} {
		t.Run(op, func(t *testing.T) {
			bubble(t, func(w *world) {
				const task = "1_2"
				var mu sync.Mutex
				armed, hit := false, 0
				arm := func() {
					mu.Lock()
					defer mu.Unlock()
					armed = true
				}
				d := w.disk(func(at, of string) error {
					mu.Lock()
					defer mu.Unlock()
					want := op
					if op == "restore" { // the first apply after a start
						want = "apply"
					}
					if !armed || at != want || of != task {
						return nil
					}
					armed = false
					hit++
					return fmt.Errorf("block 7 of /disk/%s: %w", of, state.ErrCorrupt)
				})
				seen := &warnings{Handler: slog.DiscardHandler}
				config := func(c *framework.Config) { c.State, c.Logger = d, slog.New(seen) }
				a := w.start("a", config)
				a.runs(2 * partitions)
				w.write(600)
				w.awaitOutputs()
				var before int64
				if op == "open" || op == "restore" {
					before = a.stop().Records
					arm()
					a = w.start("again", config)
				} else {
					arm()
				}
				w.write(600)
				w.awaitOutputs()
				a.runs(2 * partitions)
				n := a.stop()
				w.check(true)
				if got, want := before+n.Records, 2*int64(w.n); got != want {
					t.Errorf("%d records are counted as processed, want %d: each word twice, whatever became of stores", got, want)
				}
				if hit != 1 || n.StatesDamaged != 1 || !slices.Equal(d.removed, []string{task}) || seen.about("damaged") != 1 {
					t.Errorf("%d faults, %d counted, removed %v, %d warnings, want one of each: %v", hit, n.StatesDamaged, d.removed, seen.about("damaged"), seen.text)
				}
			})
		})
	}
}

// A disk is full for a minute. The tasks on it stop, say why, and go on when there is room; those of the other sub-topology, which
// has no stores, never stop, the group is not held up, and the result is right.
func TestFullDiskStopsOnlyTheTasksOnIt(t *testing.T) {
	bubble(t, func(w *world) {
		var mu sync.Mutex
		var full bool
		fill := func(f bool) {
			mu.Lock()
			defer mu.Unlock()
			full = f
		}
		errFull := errors.New("/disk: no space left on device, 0 bytes free")
		d := w.disk(func(op, task string) error {
			if !strings.HasPrefix(task, "1_") {
				return nil
			}
			mu.Lock()
			f := full
			mu.Unlock()
			switch {
			case f && op == "apply":
				return errFull
			case f && op == "close":
				time.Sleep(10 * time.Second) // in a bubble: a disk that does not answer
			}
			return nil
		})
		a := w.start("a", func(c *framework.Config) { c.State = d })
		a.runs(2 * partitions)
		w.write(200)
		w.awaitOutputs()

		fill(true)
		w.write(200)
		var stopped framework.Snapshot
		w.await("a task to say why it stopped", func() bool {
			stopped = a.Snapshot()
			return slices.ContainsFunc(stopped.Restoring, func(r framework.RestoreStatus) bool {
				return r.SubTopology == 1 && r.Err != nil && strings.Contains(r.Err.Error(), errFull.Error())
			})
		})
		began := time.Now()
		input := func() int64 {
			n := int64(0)
			for tp, at := range w.c.Committed(t, appID) {
				if strings.HasPrefix(tp, "in[") {
					n += at
				}
			}
			return n
		}
		w.write(200)
		w.await("the tasks without stores to go on", func() bool { return input() >= int64(w.n) })
		b := w.start("b", nil)
		b.runs(partitions)
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("with a full disk, others took %v to go on and to join", took)
		}
		time.Sleep(time.Minute) // in a bubble
		fill(false)
		w.awaitOutputs()
		a.runs(1)
		w.write(200)
		w.awaitOutputs()
		b.stop()
		a.runs(2 * partitions)
		n := a.stop()
		w.check(true)
		if len(d.removed) > 0 || n.StatesDamaged > 0 {
			t.Errorf("a full disk is no damage, but %v was thrown away", d.removed)
		}
	})
}

// While a store is restored the snapshot tells how far it is, and the other tasks run.
func TestSnapshotShowsARestore(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.start("a", nil)
		a.runs(2 * partitions)
		w.write(4000)
		w.awaitOutputs()
		a.stop()

		// Somebody's open transaction in a changelog has the end of a restore wait.
		other := w.c.Client(w.t, kgo.TransactionalID("somebody"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		if err := other.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		open := &kgo.Record{Topic: "words-counts-changelog", Partition: 2, Key: []byte("never"), Value: []byte("seen")}
		if err := other.ProduceSync(context.Background(), open).FirstErr(); err != nil {
			t.Fatal(err)
		}

		b := w.start("b", nil)
		var got []framework.RestoreStatus
		w.await("the restore to be seen, and the other tasks to run", func() bool {
			s := b.Snapshot()
			got = s.Restoring
			return len(s.Tasks) == 2*partitions-1 && len(got) == 1 && len(got[0].Stores) == 1 && got[0].Stores[0].Waiting
		})
		if s := b.Snapshot().Workers[0].State; s != framework.Restoring {
			t.Errorf("the worker is %s", s)
		}
		for i := range got {
			st := &got[i].Stores[0]
			if got[i].Since.IsZero() || st.End <= 0 || st.Offset <= 0 || st.Offset > st.End || st.Records <= 0 {
				t.Errorf("a restore that says nothing: %+v", got[i])
			}
			got[i].Since, st.Offset, st.End, st.Records = time.Time{}, 0, 0, 0
		}
		want := []framework.RestoreStatus{
			{SubTopology: 1, Partition: 2, ID: "1_2", Attempt: 1, Stores: []framework.StoreProgress{{Store: "counts", Topic: "words-counts-changelog", Partition: 2, Waiting: true}}},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("restores (-want +got):\n%s", diff)
		}
		if err := other.EndTransaction(context.Background(), kgo.TryAbort); err != nil {
			t.Fatal(err)
		}
		b.runs(2 * partitions)
		if r := b.Snapshot().Restoring; len(r) > 0 {
			t.Errorf("all tasks run, but restores are shown: %+v", r)
		}
		b.stop()
	})
}
