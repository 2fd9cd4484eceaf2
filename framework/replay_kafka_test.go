//go:build kafka

package framework_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/devkafka"
	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/state/pebblestore"
	"github.com/headrace/headrace/topology"
)

const (
	replayApp       = "replay"
	replayStore     = "latest"
	replayChangelog = replayApp + "-" + replayStore + "-changelog"

	// What the store on disk promises: pebblestore's defaults.
	flushBytes    = 16 << 20
	flushInterval = 5 * time.Second
)

// replayChild is what the process is told.
type replayChild struct {
	Brokers []string
	Dir     string
	// AtFlush, if not empty, is the task at the beginning of whose next flush, KillAfter from the start, the process kills itself: the
	// moment at which as much waits for the disk as ever does.
	AtFlush   string
	KillAfter time.Duration
}

// countLatest keeps, per key, how many values there were, and the last one.
func countLatest() (*topology.Topology, error) {
	b := topology.NewBuilder()
	topology.Aggregate(topology.From(b, topology.Topic("in", serde.String(), serde.Bytes())).GroupByKey(), replayStore, serde.Bytes(),
		func(old, v []byte) []byte {
			n := uint64(0)
			if len(old) > 0 {
				n = binary.BigEndian.Uint64(old)
			}
			return append(binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(v)), n+1), v...)
		})
	return b.Build()
}

// TestKafkaReplayChild is no test: it is the process that TestKafkaReplayAfterKill starts and kills. What it prints is for its parent.
func TestKafkaReplayChild(t *testing.T) {
	var c replayChild
	told(t, &c)
	top, err := countLatest()
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	disk := &watchedDisk{FS: vfs.Default, dir: c.Dir, atFlush: c.AtFlush, armed: time.Now().Add(c.KillAfter), running: make(map[string]bool), closed: make(map[string]bool)}
	app, err := framework.New(framework.Config{
		AppID: replayApp, Brokers: c.Brokers, Topology: top, Logger: log, TransactionTimeout: 15 * time.Second,
		// With the default budget Pebble flushes on its own before the bound in bytes is reached.
		State: pebblestore.New(pebblestore.Config{Dir: c.Dir, FS: disk, Logger: log, MemoryBudget: 1 << 30}),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		for ctx.Err() == nil {
			if s := app.Snapshot(); len(s.Expected) > 0 && len(s.Tasks) == s.Expected[0] {
				n := s.Counters
				fmt.Println("runs", n.RecordsRestored, n.StoresWiped, n.StatesDamaged)
				return
			}
			time.Sleep(5 * time.Millisecond) // a snapshot gives no signal
		}
	}()
	if err := app.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

// watchedDisk prints when flushes begin and end: from the first table that Pebble makes for one until the manifest that names its
// tables has been written.
type watchedDisk struct {
	vfs.FS
	dir     string
	atFlush string
	armed   time.Time

	mu      sync.Mutex
	running map[string]bool // by task
	closed  map[string]bool // a table of the running flush is done
}

func (d *watchedDisk) task(name string) string {
	rel, err := filepath.Rel(d.dir, filepath.Dir(name))
	if err != nil {
		return ""
	}
	return rel
}

func (d *watchedDisk) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, category)
	task := d.task(name)
	switch {
	case err != nil:
		return nil, err
	case category == "pebble-memtable-flush":
		d.mu.Lock()
		defer d.mu.Unlock()
		if !d.running[task] {
			d.running[task], d.closed[task] = true, false
			fmt.Println("flush-begins", task, time.Now().UnixNano())
			if task == d.atFlush && time.Now().After(d.armed) {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		}
		return watchedFile{f, func() { d.closed[task] = true }, nil, &d.mu}, nil
	case strings.HasPrefix(filepath.Base(name), "MANIFEST-"):
		return watchedFile{f, nil, func() {
			if d.running[task] && d.closed[task] {
				d.running[task] = false
				fmt.Println("flush-ends", task, time.Now().UnixNano())
			}
		}, &d.mu}, nil
	}
	return f, nil
}

type watchedFile struct {
	vfs.File
	closes, syncs func()
	mu            *sync.Mutex
}

func (f watchedFile) Close() error {
	err := f.File.Close()
	if f.closes != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.closes()
	}
	return err
}

func (f watchedFile) Sync() error {
	err := f.File.Sync()
	f.synced()
	return err
}

func (f watchedFile) SyncData() error {
	err := f.File.SyncData()
	f.synced()
	return err
}

func (f watchedFile) synced() {
	if f.syncs != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.syncs()
	}
}

// replaying is a child that runs.
type replaying struct {
	*childProcess
	runs chan [3]int64 // records restored, stores wiped, states damaged

	began   map[string]time.Time // flushes that have not ended
	flushes map[string][]time.Duration
}

func (t onKafka) replaying(c replayChild) *replaying {
	t.Helper()
	c.Brokers = t.Brokers
	r := &replaying{runs: make(chan [3]int64, 1), began: make(map[string]time.Time), flushes: make(map[string][]time.Duration)}
	r.childProcess = t.spawn("TestKafkaReplayChild", c, r.read)
	return r
}

// read takes in a line that the child has printed.
func (r *replaying) read(line string) {
	var n [3]int64
	var task string
	var at int64
	if _, err := fmt.Sscanf(line, "runs %d %d %d", &n[0], &n[1], &n[2]); err == nil {
		r.runs <- n
	}
	if _, err := fmt.Sscanf(line, "flush-begins %s %d", &task, &at); err == nil {
		r.began[task] = time.Unix(0, at)
	}
	if _, err := fmt.Sscanf(line, "flush-ends %s %d", &task, &at); err == nil {
		r.flushes[task] = append(r.flushes[task], time.Unix(0, at).Sub(r.began[task]))
		delete(r.began, task)
	}
}

// longest is how long the longest flush of a task took, the one included in which the process was killed.
func (r *replaying) longest(task string) time.Duration {
	longest := time.Duration(0)
	for _, d := range r.flushes[task] {
		longest = max(longest, d)
	}
	if began, ok := r.began[task]; ok {
		longest = max(longest, r.ended.Sub(began))
	}
	return longest
}

// awaitRuns waits until all tasks run, and returns what was restored for it.
func (r *replaying) awaitRuns(t onKafka) int64 {
	t.Helper()
	select {
	case n := <-r.runs:
		if n[1] > 0 || n[2] > 0 {
			t.Errorf("%d stores wiped and %d states damaged: what was on disk was not used", n[1], n[2])
		}
		return n[0]
	case <-r.done:
		t.Fatalf("the process ended early: %v\n%s", r.cmd.ProcessState, strings.Join(r.last, "\n"))
	case <-time.After(time.Minute):
		t.Fatal("the process does not get its tasks to run")
	}
	return 0
}

// logged is what is known of an offset of the changelog.
type logged struct {
	offset int64
	at     time.Time // when it was appended, as a reader saw it that waited for it
	bytes  int
	marker bool
}

// replayLog follows one partition of the changelog.
type replayLog struct {
	entries []logged // committed records, and markers
	fold    map[string][]byte
	next    int64
}

// arrivals knows when each offset of the changelog was appended: its records have event times, and its topic has to.
type arrivals struct {
	mu sync.Mutex
	at [][]time.Time // by partition and offset
}

// watch reads the changelog, committed or not, from its beginning until the test ends.
func (t onKafka) watch(partitions int) *arrivals {
	t.Helper()
	a := &arrivals{at: make([][]time.Time, partitions)}
	from := make(map[int32]kgo.Offset)
	for p := range partitions {
		from[int32(p)] = kgo.NewOffset().At(0)
	}
	cl := t.Client(t, kgo.KeepControlRecords(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{replayChangelog: from}))
	ctx, stop := context.WithCancel(context.Background())
	var reading sync.WaitGroup
	reading.Go(func() {
		for ctx.Err() == nil {
			fetches, now := cl.PollFetches(ctx), time.Now()
			a.mu.Lock()
			fetches.EachRecord(func(r *kgo.Record) {
				for int64(len(a.at[r.Partition])) <= r.Offset {
					a.at[r.Partition] = append(a.at[r.Partition], now)
				}
			})
			a.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		stop()
		reading.Wait()
	})
	return a
}

// until says whether everything before the offsets has been seen.
func (a *arrivals) until(offsets map[int32]int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for p, offset := range offsets {
		if int64(len(a.at[p])) < offset {
			return false
		}
	}
	return true
}

func (a *arrivals) of(r *kgo.Record) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.at[r.Partition][r.Offset]
}

// follow reads on to where committed records end.
func (t onKafka) follow(logs []replayLog, seen *arrivals) {
	t.Helper()
	ends, err := kadm.NewClient(t.Client(t)).ListCommittedOffsets(context.Background(), replayChangelog)
	if err != nil {
		t.Fatal(err)
	}
	from, left := make(map[int32]kgo.Offset), make(map[int32]int64)
	for p := range logs {
		end, _ := ends.Lookup(replayChangelog, int32(p))
		if logs[p].next < end.Offset {
			from[int32(p)], left[int32(p)] = kgo.NewOffset().At(logs[p].next), end.Offset
		}
	}
	t.await("the changelog to be seen", func() bool { return seen.until(left) })
	cl := t.Client(t, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{replayChangelog: from}))
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			l := &logs[r.Partition]
			l.next = r.Offset + 1
			if l.next >= left[r.Partition] {
				delete(left, r.Partition)
			}
			e := logged{offset: r.Offset, at: seen.of(r), bytes: len(r.Key) + len(r.Value), marker: r.Attrs.IsControl()}
			if !e.marker {
				l.fold[string(r.Key)] = bytes.Clone(r.Value)
			}
			l.entries = append(l.entries, e)
		})
	}
}

// between returns the entries from one offset up to another.
func (l *replayLog) between(from, to int64) []logged {
	at := func(offset int64) int {
		i, _ := slices.BinarySearchFunc(l.entries, offset, func(e logged, o int64) int { return int(e.offset - o) })
		return i
	}
	return l.entries[at(from):at(to)]
}

// volume is what a stretch of the changelog amounts to.
type volume struct {
	records     int64
	bytes       int
	span        time.Duration // between its first and last records
	transaction int           // bytes of the largest transaction
	pause       time.Duration // the longest between two transactions
}

func measure(entries []logged) (v volume) {
	var first, last, began time.Time
	transaction := 0
	for _, e := range entries {
		if e.marker {
			transaction = 0
			continue
		}
		if first.IsZero() {
			first = e.at
		}
		if transaction == 0 {
			if !began.IsZero() {
				v.pause = max(v.pause, e.at.Sub(began))
			}
			began = e.at
		}
		last = e.at
		v.records++
		v.bytes += e.bytes
		transaction += e.bytes
		v.transaction = max(v.transaction, transaction)
	}
	v.span = last.Sub(first)
	return v
}

// most returns the most bytes that were appended within a time.
func most(entries []logged, within time.Duration) int {
	sum, top, from := 0, 0, 0
	for _, e := range entries {
		if e.marker {
			continue
		}
		sum += e.bytes
		for e.at.Sub(entries[from].at) > within {
			if !entries[from].marker {
				sum -= entries[from].bytes
			}
			from++
		}
		top = max(top, sum)
	}
	return top
}

// ends returns where the partitions end when nothing is appended any more: what a process has sent that was killed may still arrive.
func (t onKafka) ends(partitions int) []int64 {
	t.Helper()
	adm := kadm.NewClient(t.Client(t))
	var ends []int64
	since := time.Now()
	t.await("the changelog to be at rest", func() bool {
		listed, err := adm.ListEndOffsets(context.Background(), replayChangelog)
		if err != nil {
			t.Fatal(err)
		}
		now := make([]int64, partitions)
		for p := range now {
			end, _ := listed.Lookup(replayChangelog, int32(p))
			now[p] = end.Offset
		}
		if !slices.Equal(now, ends) {
			ends, since = now, time.Now()
		}
		return time.Since(since) > 500*time.Millisecond
	})
	return ends
}

// onDisk opens the state of a task, or a copy of it.
func (t onKafka) onDisk(dir, task string, look func(state.Backend)) {
	t.Helper()
	p := pebblestore.In(dir)
	b, err := p.Open(task, []state.Spec{{Name: replayStore, Kind: state.KeyValueKind}})
	if err != nil {
		t.Fatal(err)
	}
	look(b)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}

// feeder writes at a steady rate for each partition, values that are all different.
type feeder struct {
	t     onKafka
	cl    *kgo.Client
	rng   *rand.Rand
	rates []int // records a second
	keys  []int
	n     []int
	wrote map[string][]byte // what the store has to hold
}

const replayValue = 1000

// feed writes until the channel is closed, and returns when all has arrived.
func (f *feeder) feed(until <-chan struct{}) {
	f.t.Helper()
	const tick = 10 * time.Millisecond
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for begin, made := time.Now(), make([]int, len(f.rates)); ; {
		select {
		case <-until:
			if err := f.cl.Flush(context.Background()); err != nil {
				f.t.Error(err)
			}
			return
		case <-ticker.C:
		}
		for p, rate := range f.rates {
			for due := int(time.Since(begin).Seconds() * float64(rate)); made[p] < due; made[p]++ {
				key := fmt.Sprintf("p%d-%05d", p, f.n[p]%f.keys[p])
				f.n[p]++
				value := make([]byte, replayValue)
				for i := 0; i < len(value); i += 8 {
					binary.LittleEndian.PutUint64(value[i:], f.rng.Uint64())
				}
				n := uint64(1)
				if old := f.wrote[key]; old != nil {
					n += binary.BigEndian.Uint64(old)
				}
				f.wrote[key] = append(binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(value)), n), value...)
				f.cl.Produce(context.Background(), &kgo.Record{Topic: "in", Partition: int32(p), Key: []byte(key), Value: value}, func(_ *kgo.Record, err error) {
					if err != nil {
						f.t.Error(err)
					}
				})
			}
		}
	}
}

// TestKafkaReplayAfterKill kills a process with SIGKILL, at a random moment and at those when most waits for the disk, and wants each
// task's restart to read again no more than the store on disk promises: 16 MiB and 5 s of changelog, and what came while one flush ran.
// The first partition writes that many bytes in three seconds, the second in over a minute, so each has its own bound to keep.
func TestKafkaReplayAfterKill(tt *testing.T) {
	tasks := []string{"0_0", "0_1"}
	t := kafka(tt, devkafka.KafkaConfig{Topics: map[string]int32{"in": int32(len(tasks))}})
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, seed))
	f := &feeder{
		t: t, cl: t.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(1<<20)), rng: rng,
		rates: []int{6000, 200}, keys: []int{20_000, 1_000}, n: make([]int, len(tasks)), wrote: make(map[string][]byte),
	}
	logs := make([]replayLog, len(tasks))
	for p := range logs {
		logs[p].fold = make(map[string][]byte)
	}
	dir := filepath.Join(tt.TempDir(), "state")

	rounds := []struct {
		name  string
		kill  replayChild
		after time.Duration // without kill
	}{
		{"at a random moment", replayChild{}, 12*time.Second + time.Duration(rng.Int64N(int64(5*time.Second)))},
		{"when the first task begins to flush", replayChild{AtFlush: tasks[0], KillAfter: 12 * time.Second}, 0},
		{"when the second task begins to flush", replayChild{AtFlush: tasks[1], KillAfter: 12 * time.Second}, 0},
	}
	start := func(c replayChild) *replaying {
		c.Dir = dir
		return t.replaying(c)
	}
	child := start(rounds[0].kill)
	if n := child.awaitRuns(t); n != 0 {
		t.Errorf("%d records restored at the first start", n)
	}
	seen := t.watch(len(tasks))
	for i, round := range rounds {
		began := []int64{logs[0].next, logs[1].next}
		fed := make(chan struct{})
		var feeding sync.WaitGroup
		feeding.Go(func() { f.feed(fed) })
		if round.after > 0 {
			time.Sleep(round.after) // the moment is the test's to choose
			_ = child.cmd.Process.Kill()
		}
		select { // it is fed until it is dead
		case <-child.done:
		case <-time.After(time.Minute):
		}
		close(fed)
		feeding.Wait()
		child.awaitKilled(t)
		ends := t.ends(len(tasks))
		image := filepath.Join(tt.TempDir(), "image")
		if err := os.CopyFS(image, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		positions := make([]int64, len(tasks))
		for p, task := range tasks {
			t.onDisk(image, task, func(b state.Backend) { positions[p] = b.Position(0).Offset })
		}
		if err := os.RemoveAll(image); err != nil {
			t.Fatal(err)
		}

		killed := child
		next := replayChild{}
		if i+1 < len(rounds) {
			next = rounds[i+1].kill
		}
		child = start(next)
		restored := child.awaitRuns(t)
		t.follow(logs, seen) // what the killed process had left open is aborted by now
		records := int64(0)
		for p, task := range tasks {
			run, replayed := measure(logs[p].between(began[p], ends[p])), measure(logs[p].between(positions[p], ends[p]))
			records += replayed.records
			flush := killed.longest(task)
			during := most(logs[p].between(began[p], ends[p]), flush)
			t.Logf("killed %s, task %s: %.1f MiB of changelog, %d flushes, the longest %v, in which up to %.2f MiB came; replayed %d records, %.2f MiB, %v",
				round.name, task, mib(run.bytes), len(killed.flushes[task]), flush.Round(time.Millisecond), mib(during), replayed.records, mib(replayed.bytes), replayed.span)
			// What passes the bound is a whole transaction, and another may have been committed and not yet applied.
			if limit := flushBytes + during + 2*run.transaction; replayed.bytes > limit {
				t.Errorf("task %s, killed %s, replayed %.2f MiB, want at most %.2f MiB: 16, %.2f that came during one flush, and two transactions of up to %.2f",
					task, round.name, mib(replayed.bytes), mib(limit), mib(during), mib(run.transaction))
			}
			// A transaction takes its time from the append until it is applied, less than from one to the next; and the machine is busy.
			if limit := flushInterval + flush + run.pause + 500*time.Millisecond; replayed.span > limit {
				t.Errorf("task %s, killed %s, replayed %v of changelog, want at most %v: 5 s, a flush of %v, and %v between two transactions",
					task, round.name, replayed.span, limit, flush, run.pause)
			}
		}
		if restored != records {
			t.Errorf("killed %s: %d records were restored, want the %d from the positions on disk to the end of the log", round.name, restored, records)
		}
		// That there was more to replay, and that what was to be kept was kept to, and not by chance.
		if all := measure(logs[0].between(began[0], ends[0])).bytes; all < 40<<20 {
			t.Errorf("only %.1f MiB of changelog: nothing was tested", mib(all))
		}
		if got := measure(logs[0].between(positions[0], ends[0])).bytes; round.kill.AtFlush == tasks[0] && got < flushBytes/4*3 {
			t.Errorf("at the beginning of a flush only %.2f MiB were not on disk", mib(got))
		}
		if got := measure(logs[1].between(positions[1], ends[1])).span; round.kill.AtFlush == tasks[1] && got < flushInterval/4*3 {
			t.Errorf("at the beginning of a flush only %v were not on disk", got)
		}
	}

	t.committed(replayApp, "in")
	child.stop(t)
	child = start(replayChild{})
	if n := child.awaitRuns(t); n != 0 {
		t.Errorf("%d records restored after a clean stop, want none", n)
	}
	child.stop(t)

	t.follow(logs, seen)
	kept, fold := make(map[string][]byte), make(map[string][]byte)
	for p, task := range tasks {
		for k, v := range logs[p].fold {
			fold[k] = v
		}
		t.onDisk(dir, task, func(b state.Backend) {
			for e, err := range b.Scan(0, nil, nil) {
				if err != nil {
					t.Fatal(err)
				}
				_, v, err := state.SplitValue(e.Value)
				if err != nil {
					t.Fatal(err)
				}
				kept[string(e.Key)] = bytes.Clone(v)
			}
		})
	}
	t.Logf("%d records of %d keys", f.n[0]+f.n[1], len(f.wrote))
	for name, got := range map[string]map[string][]byte{"store": kept, "changelog": fold} {
		if len(got) != len(f.wrote) {
			t.Errorf("the %s has %d keys, want %d", name, len(got), len(f.wrote))
		}
		wrong := 0
		for k, want := range f.wrote {
			if v := got[k]; !bytes.Equal(v, want) {
				if wrong++; wrong <= 3 {
					t.Errorf("the %s has %.8x… for %s, want %.8x…: a count and the last value", name, v, k, want)
				}
			}
		}
		if wrong > 3 {
			t.Errorf("the %s has %d wrong values in all", name, wrong)
		}
	}
}

func mib(bytes int) float64 { return float64(bytes) / (1 << 20) }
