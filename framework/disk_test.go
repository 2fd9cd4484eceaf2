//go:build synctests && linux

package framework_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/internal/disktest"
	"github.com/headrace/headrace/internal/kafkatest"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/state/pebblestore"
)

// fill takes all the space that is left. Removing the file that it returns gives it back.
func fill(t *testing.T, dir string) (ballast string) {
	t.Helper()
	ballast = filepath.Join(dir, "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	return ballast
}

// storeTasks are the tasks that a member runs and that have a store, by partition.
func (m *member) storeTasks() []int32 {
	var parts []int32
	for _, task := range m.Snapshot().Tasks {
		if task.SubTopology == 1 {
			parts = append(parts, task.Partition)
		}
	}
	return parts
}

// countsOnDisk reads what the stores of tasks hold that nobody runs.
func countsOnDisk(t *testing.T, dir string, parts []int32) map[string]int64 {
	t.Helper()
	p := pebblestore.In(dir)
	counts := make(map[string]int64)
	for _, part := range parts {
		b, err := p.Open(fmt.Sprintf("1_%d", part), []state.Spec{{Name: "counts", Kind: state.KeyValueKind}})
		if err != nil {
			t.Fatal(err)
		}
		for e, err := range b.Scan(0, nil, nil) {
			if err != nil {
				t.Fatal(err)
			}
			_, v, err := state.SplitValue(e.Value)
			if err != nil {
				t.Fatal(err)
			}
			counts[string(e.Key)] = int64(binary.BigEndian.Uint64(v))
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	return counts
}

// changelog is what is committed in the changelogs of tasks.
func (w *world) changelog(parts []int32) []*kgo.Record {
	w.t.Helper()
	return slices.DeleteFunc(w.c.ReadCommitted(w.t, "words-counts-changelog"), func(r *kgo.Record) bool { return !slices.Contains(parts, r.Partition) })
}

// counted is what it says.
func (w *world) counted(parts []int32) map[string]int64 {
	w.t.Helper()
	counts := make(map[string]int64)
	for k, v := range kafkatest.Fold(w.changelog(parts)) {
		counts[k] = int64(binary.BigEndian.Uint64([]byte(v)))
	}
	return counts
}

// A real disk is full for some minutes: that of one of two members. Its tasks with stores stop, saying where and how little is free.
// Its other tasks and the other member go on, nobody is thrown out of the group, and when there is space again everything comes out
// as if nothing had happened.
func TestAppOnAFullDisk(t *testing.T) {
	small, large := disktest.Small(t), t.TempDir()
	dir := filepath.Join(small, "state")
	bubble(t, func(w *world) {
		j := newJournal()
		on := func(dir string) func(*framework.Config) {
			return j.into(func(c *framework.Config) {
				c.State = pebblestore.New(pebblestore.Config{Dir: dir, Logger: c.Logger})
			})
		}
		a := w.start("a", on(dir))
		a.runs(2 * partitions)
		b := w.start("b", on(large))
		w.await("each to have its half", func() bool {
			return len(a.Snapshot().Tasks) == partitions && len(b.Snapshot().Tasks) == partitions
		})
		w.write(1000)
		w.awaitOutputs()
		time.Sleep(10 * time.Second) // in a bubble: until that is on disk
		stops, goes := a.storeTasks(), b.storeTasks()
		flushed := len(w.changelog(stops))
		if len(stops) == 0 || len(goes) == 0 {
			t.Fatalf("a has the stores of %v, b those of %v", stops, goes)
		}
		before := map[*member]framework.Counters{a: a.Snapshot().Counters, b: b.Snapshot().Counters}

		ballast := fill(t, small)
		stopped := func() (n int, why error) {
			for _, r := range a.Snapshot().Restoring {
				if r.SubTopology == 1 && r.Err != nil {
					n, why = n+1, r.Err
				}
			}
			return n, why
		}
		w.await("the tasks on the full disk to say why they have stopped", func() bool {
			w.write(20) // a task with nothing to write does not notice
			n, _ := stopped()
			return n == len(stops)
		})
		_, why := stopped()
		names := func(what, text string) {
			t.Helper()
			for _, s := range []string{dir, "(0 bytes of 16 MiB free there)", syscall.ENOSPC.Error()} {
				if !strings.Contains(text, s) {
					t.Errorf("%s does not say %q: %s", what, s, text)
				}
			}
		}
		names("the snapshot", why.Error())
		if !errors.Is(why, syscall.ENOSPC) {
			t.Errorf("%v is not ENOSPC", why)
		}
		told := j.with("task takes no more changes")
		if len(told) < len(stops) {
			t.Errorf("%d tasks have stopped, and %d lines say so", len(stops), len(told))
		}
		for _, l := range told {
			names("the log", l.attrs["err"])
			if l.level != slog.LevelError {
				t.Errorf("a task that stops is logged as %v", l.level)
			}
		}
		names("the log of tries", j.with("task cannot be made yet")[0].attrs["err"])

		// What goes on while the disk is full, by the group's own account.
		at := func(topic string, parts []int32) (n int64) {
			committed := w.c.Committed(t, appID)
			for _, p := range parts {
				n += committed[fmt.Sprintf("%s[%d]", topic, p)]
			}
			return n
		}
		const repartition = "words-by-word-repartition"
		all := []int32{0, 1, 2, 3}
		still, moving := at(repartition, stops), at(repartition, goes)
		outputs, commits := w.outputs(), map[*member]int64{a: a.Snapshot().Counters.Commits, b: b.Snapshot().Counters.Commits}
		began := time.Now()
		for range 10 {
			w.write(200)
			w.await("the tasks that are on no disk to go on", func() bool { return at("in", all) >= int64(w.n) })
			time.Sleep(15 * time.Second) // in a bubble
		}
		if n, why := stopped(); n != len(stops) || !errors.Is(why, syscall.ENOSPC) {
			t.Errorf("%d tasks wait, because of %v; want %d, because the disk is still full", n, why, len(stops))
		}
		full := time.Since(began)
		tries := make(map[string][]line)
		for _, l := range j.with("task cannot be made yet") {
			tries[l.attrs["task"]] = append(tries[l.attrs["task"]], l)
		}
		for task, lines := range tries {
			if unsaid := lines[len(lines)-1].attrs["unsaid"]; len(lines) < 2 || unsaid == "" {
				t.Errorf("task %s is said %d times not to be made yet, the last time with %q unsaid before", task, len(lines), unsaid)
			}
			for i := range lines[1:] {
				if after := lines[i+1].at.Sub(lines[i].at); after < 10*time.Second {
					t.Errorf("task %s: the log says again after %v that it cannot be made yet", task, after)
				}
			}
		}
		if len(tries) != len(stops) {
			t.Errorf("the log names %d tasks that cannot be made yet, want %d", len(tries), len(stops))
		}
		if got := at(repartition, stops); got != still {
			t.Errorf("tasks on a full disk have committed %d offsets", got-still)
		}
		went, out := at(repartition, goes)-moving, w.outputs()-outputs
		ca, cb := a.Snapshot().Counters, b.Snapshot().Counters
		t.Logf("while the disk was full for %v, a made %d commits, b %d; tasks of b with stores committed %d offsets and %d outputs came",
			full, ca.Commits-commits[a], cb.Commits-commits[b], went, out)
		if ca.Commits-commits[a] < 10 || cb.Commits-commits[b] < 10 || went < 500 || out < 500 {
			t.Error("the others have not gone on")
		}
		for m, now := range map[*member]framework.Counters{a: ca, b: cb} {
			was := before[m]
			if now.Rebalances != was.Rebalances || now.TasksLost != was.TasksLost || now.Sessions != was.Sessions || now.Aborts != was.Aborts {
				t.Errorf("member %s: the full disk has reached the group: %+v, before %+v", m.name, now, was)
			}
		}

		unflushed := len(w.changelog(stops)) - flushed
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		a.runs(partitions)
		if got, want := a.Snapshot().Counters.RecordsRestored-before[a].RecordsRestored, int64(unflushed); got != want || want == 0 {
			t.Errorf("%d records were restored, want the %d that had not been flushed before the disk was full", got, want)
		}
		w.awaitOutputs()
		w.write(500)
		w.awaitOutputs()
		nb := b.stop()
		if diff := cmp.Diff(w.counted(goes), countsOnDisk(t, large, goes)); diff != "" {
			t.Errorf("b's stores are not their changelogs (-changelog +store):\n%s", diff)
		}
		a.runs(2 * partitions)
		w.write(500)
		w.awaitOutputs()
		na := a.stop()
		w.check(false)
		if diff := cmp.Diff(w.wrote, countsOnDisk(t, dir, all)); diff != "" {
			t.Errorf("the stores are not what was written (-written +stores):\n%s", diff)
		}
		if na.StatesDamaged+nb.StatesDamaged+na.StoresWiped+nb.StoresWiped > 0 {
			t.Errorf("a full disk is no damage: %+v, %+v", na, nb)
		}
	})
}
