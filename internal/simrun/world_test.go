//go:build synctests

package simrun_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/internal/eos"
	"github.com/headrace/headrace/internal/kafkatest"
	"github.com/headrace/headrace/internal/simrun"
)

const (
	// patience is how long everything may take once all is healed, and stopping how long a Run that was told to stop.
	patience = 5 * time.Minute
	stopping = 2 * time.Minute
	// rest is for how long nothing may happen before all counts as done. It is longer than a worker waits before it tries anything again.
	rest = 8 * time.Second
	// latency is that of the network when all is well.
	latency = 200 * time.Microsecond
)

// met gathers the situations that a schedule met.
type met struct {
	mu  sync.Mutex
	all map[string]bool
}

func (m *met) add(situation string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all[situation] = true
}

// world is a schedule that runs: a cluster and members in a bubble.
type world struct {
	t     *testing.T
	c     *kafkatest.Cluster
	trace simrun.Trace
	began time.Time
	log   io.Writer
	level slog.Level

	members []*member
	lives   []*life
	feed    *feed
	live    *reader
	copies  *copies
	met     *met
	// disturbed: faults have begun.
	disturbed atomic.Bool
	wrong     []*kfake.FaultHandle
	gone      time.Time // until then a broker is
	compacted bool

	mu       sync.Mutex
	problems []string
}

// result is what became of a schedule.
type result struct {
	Seed       uint64
	Violations []string
	Met        []string
	Took       time.Duration

	log string
}

// runTrace runs a schedule in a bubble of its own.
func runTrace(t *testing.T, trace simrun.Trace, log io.Writer, level slog.Level) result {
	t.Helper()
	res := result{Seed: trace.Seed}
	ended := false
	t.Run(fmt.Sprintf("seed=%d", trace.Seed), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, trace, log, level)
			w.run()
			res.Violations = w.problems
			for s := range w.met.all {
				res.Met = append(res.Met, s)
			}
			ended = true
		})
	})
	if !ended {
		res.Violations = append(res.Violations, "the schedule was given up: the log says why")
	}
	return res
}

func newWorld(t *testing.T, trace simrun.Trace, log io.Writer, level slog.Level) *world {
	w := &world{t: t, trace: trace, log: log, level: level, began: time.Now(), met: &met{all: make(map[string]bool)}}
	w.copies = &copies{of: make(map[string][]eos.StoreCopy)}
	w.c = kafkatest.Start(t, kfake.NumBrokers(2), kfake.Ports(9092, 9093), kfake.SeedTopics(eos.Partitions, w.topics()...))
	w.c.SetLatency(latency)
	w.feed = newFeed(w)
	w.live = w.read()
	for i := range simrun.MaxMembers {
		m := &member{w: w, name: fmt.Sprintf("m%d", i), rules: &rules{met: w.met}, trouble: &trouble{met: w.met}}
		if trace.Disk {
			m.disk = vfs.NewCrashableMem()
		}
		w.members = append(w.members, m)
	}
	return w
}

func (w *world) appID() string { return "sim-" + w.trace.App }

// topics are those that exist from the start.
func (w *world) topics() []string {
	out := append(w.inputs(), w.outputs()...)
	if w.trace.App == simrun.Windows {
		out = append(out, eos.Groups)
	}
	return out
}

func (w *world) inputs() []string {
	if w.trace.App == simrun.Ticks {
		return []string{eos.Clock}
	}
	return []string{eos.Input}
}

// outputs are read while things fail.
func (w *world) outputs() []string {
	switch w.trace.App {
	case simrun.Fold:
		return []string{eos.Totals, deadLetters}
	case simrun.Windows:
		return []string{eos.Windows, eos.Late, eos.Revised, eos.Sums, deadLetters}
	default:
		return []string{eos.Ticks, deadLetters}
	}
}

// internal are the topics that the app makes.
func (w *world) internal() (repartition, changelogs []string) {
	id := w.appID()
	switch w.trace.App {
	case simrun.Fold:
		return []string{id + "-by-key-repartition"}, []string{id + "-" + eos.TotalsStore + "-changelog"}
	case simrun.Windows:
		return []string{id + "-by-group-repartition", id + "-results-repartition", id + "-revised-by-group-repartition"}, []string{
			id + "-" + eos.WindowsStore + "-changelog", id + "-" + eos.RevisedStore + "-changelog",
			id + "-" + eos.RevisedStore + "-panes-changelog", id + "-" + eos.SumsStore + "-changelog",
		}
	default:
		return nil, []string{id + "-" + eos.TicksStore + "-changelog"}
	}
}

func (w *world) say(format string, args ...any) {
	fmt.Fprintf(w.log, "%8.3fs %s\n", time.Since(w.began).Seconds(), fmt.Sprintf(format, args...))
}

// problem is a violation that no checker of eos knows.
func (w *world) problem(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	fmt.Fprintf(w.log, "%8.3fs VIOLATION %s\n", time.Since(w.began).Seconds(), text)
	w.problems = append(w.problems, text)
}

func (w *world) run() {
	for _, m := range w.members[:w.trace.Members] {
		m.start()
	}
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		for _, e := range w.trace.Events {
			if e.Do == simrun.Write {
				time.Sleep(time.Until(w.began.Add(time.Duration(e.At)))) // in a bubble
				w.feed.write(e)
			}
		}
	}()
	for i, e := range w.trace.Events {
		if e.Do == simrun.Write {
			continue
		}
		w.until(w.began.Add(time.Duration(e.At)))
		w.disturbed.Store(true)
		w.say("event %d: %s of m%d %+v", i, e.Do, e.Member, e)
		w.do(e)
	}
	<-fed
	w.heal()
	w.feed.finish()
	if w.settled() {
		w.stopAll()
		w.check()
	} else {
		w.stopAll()
	}
	w.live.stop()
	w.c.Close()
}

// until lets time pass, with a look now and then at who has ended.
func (w *world) until(end time.Time) {
	for time.Now().Before(end) {
		time.Sleep(min(time.Until(end), 200*time.Millisecond)) // in a bubble
		w.tend()
	}
}

// tend looks at lives that have ended by themselves, brings a broker back when it is time, and starts who gave up for a good reason.
func (w *world) tend() {
	if !w.gone.IsZero() && !time.Now().Before(w.gone) {
		w.back()
	}
	for _, m := range w.members {
		l := m.now
		if l == nil || !l.ended() || l.stopped || l.dead.Load() {
			continue
		}
		l.stopped = true
		if w.mayEnd(l) {
			w.say("%s gives up and is started anew: %v", m.name, l.err)
			m.start()
			continue
		}
		w.problem("%s has ended by itself: %v", m.name, l.err)
		m.start()
	}
}

// mayEnd says that a life has ended as it says it does: others take its place again and again, or its disk has failed when it began.
func (w *world) mayEnd(l *life) bool {
	if errors.Is(l.err, errDisk) && l.Snapshot().Expected == nil {
		return true
	}
	return errors.Is(l.err, framework.ErrFenced) && w.disturbed.Load()
}

func (w *world) do(e simrun.Event) {
	m := w.members[e.Member]
	until := time.Now().Add(time.Duration(e.For))
	switch e.Do {
	case simrun.Start:
		if m.runs() {
			return
		}
		if m.now != nil && !m.now.dead.Load() {
			w.await(m.now, stopping)
		}
		w.met.add(simrun.JoinOrLeave)
		m.start()
	case simrun.Stop:
		if m.runs() {
			w.met.add(simrun.JoinOrLeave)
			m.now.stopped = true
			m.now.cancel()
		}
	case simrun.Kill:
		switch {
		case !m.runs():
		case e.Point == "":
			m.now.die(e.Keep)
		default:
			m.now.armed.Store(&e)
		}
	case simrun.Stall, simrun.Cut:
		m.rules.add(&rule{do: e.Do, key: keyOf(w.t, e.Key), response: e.Response, both: e.Key == "", until: until})
	case simrun.Slow:
		m.rules.add(&rule{do: e.Do, key: keyOf(w.t, e.Key), both: true, until: until, delay: time.Duration(e.Delay)})
	case simrun.Forge:
		m.rules.add(&rule{do: e.Do, key: endTxn, response: true, left: e.N})
	case simrun.Garble:
		m.rules.add(&rule{do: e.Do, key: keyOf(w.t, e.Key), response: true, left: e.N})
	case simrun.Wrong:
		w.refuse(e)
	case simrun.Hijack:
		if m.runs() {
			w.hijack(m.now.Snapshot().Instance)
		}
	case simrun.Move:
		w.met.add(simrun.Moved)
		w.c.ShufflePartitionLeaders()
		w.c.RehashCoordinators()
	case simrun.Gone:
		if !w.gone.IsZero() {
			return
		}
		if err := w.c.RemoveNode(1); err != nil {
			w.t.Fatal(err)
		}
		w.gone = until
		w.c.Disconnect("9093")
		w.met.add(simrun.CutConnection)
	case simrun.Disk:
		m.trouble.set(e.Op)
		time.AfterFunc(time.Duration(e.For), func() { m.trouble.set("") })
	case simrun.Compact:
		w.compacted = true
		w.c.Compact()
	}
}

// back brings the broker back.
func (w *world) back() {
	if w.gone.IsZero() {
		return
	}
	w.gone = time.Time{}
	if _, _, err := w.c.AddNode(1, 9093); err != nil {
		w.t.Fatal(err)
	}
	w.met.add(simrun.BrokerGone)
}

// hijack takes the transactional ids of an instance, once.
func (w *world) hijack(instance string) {
	for worker := range w.trace.Workers {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID = kmsg.StringPtr(fmt.Sprintf("%s-%s-%d", w.appID(), instance, worker))
		req.TransactionTimeoutMillis = int32(simrun.TransactionTimeout.Milliseconds())
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		resp, err := req.RequestWith(ctx, w.feed.cl)
		cancel()
		w.say("hijack %s: %v %v", *req.TransactionalID, resp, err)
	}
}

// refuse makes the broker refuse requests.
func (w *world) refuse(e simrun.Event) {
	f := kfake.Fault{Keys: []kmsg.Key{kmsg.Key(keyOf(w.t, e.Key))}, Err: errorOf(w.t, e.Error), Count: e.N, Topic: e.Topic}
	if e.N == 0 {
		f.Count = -1
	}
	f.When = func(req kmsg.Request) bool {
		init, ok := req.(*kmsg.InitProducerIDRequest)
		return !ok || init.TransactionalID != nil // the feed has none
	}
	h := w.c.Fault(f)
	w.wrong = append(w.wrong, h)
	if e.N == 0 {
		time.AfterFunc(time.Duration(e.For), h.Remove)
	}
}

// heal ends all faults, and has everybody run.
func (w *world) heal() {
	w.tend()
	w.say("heal")
	for _, h := range w.wrong {
		h.Remove()
		if h.Hits() > 0 {
			w.met.add(simrun.WrongAnswer)
		}
	}
	w.back()
	for _, m := range w.members {
		m.rules.end()
		m.trouble.set("")
		if m.now != nil {
			m.now.armed.Store(nil)
		}
	}
	for _, m := range w.members[:w.trace.Members] {
		if !m.runs() {
			if m.now != nil && !m.now.dead.Load() {
				w.await(m.now, stopping)
			}
			m.start()
		}
	}
}

// await waits until a Run has returned.
func (w *world) await(l *life, patience time.Duration) {
	select {
	case <-l.done:
		// A store that had failed says so when it is closed.
		if l.err != nil && !l.dead.Load() && !errors.Is(l.err, framework.ErrFenced) && !errors.Is(l.err, errDisk) {
			w.problem("%s was told to stop, and its Run returned %v", l.m.name, l.err)
		}
	case <-time.After(patience):
		w.problem("%s was told to stop, and its Run has not returned after %v", l.m.name, patience)
		w.stacks()
		w.t.Fatal("nothing can be said of a schedule that hangs")
	}
}

// settled waits until everything written has been worked off and nothing happens any more.
func (w *world) settled() bool {
	deadline := time.Now().Add(patience)
	still, last, why := time.Now(), "", ""
	for time.Now().Before(deadline) {
		time.Sleep(250 * time.Millisecond) // in a bubble
		w.tend()
		if why = w.unfinished(); why != "" {
			still = time.Now()
			continue
		}
		if now := w.ends(); now != last && w.trace.App != simrun.Ticks {
			still, last = time.Now(), now
		}
		if time.Since(still) >= rest {
			return true
		}
	}
	if why == "" {
		why = "logs still grow"
	}
	w.problem("everything is healed, and after %v not everything is done: %s", patience, why)
	w.stacks()
	return false
}

// unfinished says what is missing, nothing if it seems that nothing is.
func (w *world) unfinished() string {
	tasks, expected := 0, 0
	for _, m := range w.members {
		if !m.runs() {
			continue
		}
		s := m.now.Snapshot()
		for _, ws := range s.Workers {
			if ws.State != framework.Running {
				return fmt.Sprintf("worker %d of %s is %s since %v: %v", ws.ID, m.name, ws.State, ws.Since.Sub(w.began), ws.Err)
			}
		}
		expected = 0
		for _, n := range s.Expected {
			expected += n
		}
		for _, task := range s.Tasks {
			tasks++
			for _, o := range task.Operators {
				if o.Due && w.trace.App != simrun.Ticks {
					return fmt.Sprintf("operator %s of task %s of %s is due", o.Name, task.ID, m.name)
				}
			}
			for _, src := range task.Sources {
				if src.Queued > 0 {
					return fmt.Sprintf("%d records of %s[%d] are queued at %s", src.Queued, src.Topic, src.Partition, m.name)
				}
			}
		}
	}
	if tasks != expected || expected == 0 {
		return fmt.Sprintf("%d tasks run, want %d", tasks, expected)
	}
	committed := map[string]map[int32]kfake.GroupCommit{}
	if g := w.c.GroupInfo(w.appID()); g != nil {
		committed = g.Commits
	}
	for p, end := range w.feed.ends() {
		if got := committed[eos.Input][p].Offset; got < end {
			return fmt.Sprintf("offset %d of %s[%d] is committed, want %d", got, eos.Input, p, end)
		}
	}
	return ""
}

// ends is where all logs end. It differs while anything is written. Repartition topics do not count: into them watermarks are reported again and again, and what else comes there leads to something.
func (w *world) ends() string {
	_, changelogs := w.internal()
	text := ""
	for _, topic := range append(w.outputs(), changelogs...) {
		for _, p := range w.c.PartitionInfos(topic) {
			text += fmt.Sprint(p.HighWatermark, p.LastStableOffset, " ")
		}
	}
	return text
}

// stopAll stops everybody in an orderly way, and wants every Run to have returned once.
func (w *world) stopAll() {
	w.copies.begin()
	for _, m := range w.members {
		if m.now != nil {
			m.now.stopped = true
			m.now.cancel()
		}
	}
	for _, l := range w.lives {
		w.await(l, stopping)
		if n := l.returns.Load(); n != 1 {
			w.problem("Run of %s has returned %d times", l.m.name, n)
		}
	}
}

// feed writes the input.
type feed struct {
	w  *world
	cl *kgo.Client
	*rand.Rand
	n      int64 // events so far
	jumped time.Duration
	next   map[int64]int64
	newest [eos.Partitions]int64
	end    map[int32]int64 // behind the last record, by partition

	events [eos.Partitions][]eos.Event // what was written, by partition
	poison []string
}

const eventBase = 1_700_000_000_000

func newFeed(w *world) *feed {
	f := &feed{w: w, Rand: rand.New(rand.NewPCG(w.trace.Seed, 2)), next: make(map[int64]int64), end: make(map[int32]int64)}
	f.cl = w.c.Client(w.t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.MetadataMinAge(100*time.Millisecond))
	if w.trace.App == simrun.Windows {
		var weights []*kgo.Record
		for g := range int64(8) {
			weights = append(weights, weight(w.t, g))
		}
		f.produce(weights)
	}
	return f
}

// source draws the number of a key: each group has keys in all partitions.
func (f *feed) source() (source int64, partition int32) {
	for {
		g, p := f.Int64N(8), f.Int32N(eos.Partitions)
		if p != f.w.trace.Idle {
			return g + 100*int64(p), p
		}
	}
}

func (f *feed) write(e simrun.Event) {
	f.jumped += time.Duration(e.Jump)
	if e.Jump > 0 {
		f.w.met.add(simrun.TimeJump)
	}
	if f.w.trace.Idle >= 0 {
		f.w.met.add(simrun.IdlePartition)
	}
	now := int64(eventBase) + (time.Duration(e.At) + f.jumped).Milliseconds()
	var records []*kgo.Record
	for i := range e.N {
		source, p := f.source()
		at := now - f.Int64N(eos.Disorder.Milliseconds())
		if i >= e.N-e.Late {
			at = now - 20_000
		}
		records = append(records, f.event(source, p, max(at, eventBase), false))
	}
	for range e.Poison {
		_, p := f.source()
		text := fmt.Sprintf("poison %d", len(f.poison))
		f.poison = append(f.poison, text)
		records = append(records, &kgo.Record{Topic: eos.Input, Partition: p, Key: []byte("poison"), Value: []byte(text), Timestamp: time.UnixMilli(now)})
		f.end[p]++
	}
	f.produce(records)
}

func (f *feed) event(source int64, p int32, at int64, end bool) *kgo.Record {
	e := eos.Event{Source: source, Amount: 1 + f.n%13, At: at, End: end}
	if !end {
		f.next[source]++
		e.N = f.next[source]
		f.n++
	}
	f.events[p] = append(f.events[p], e)
	f.newest[p] = max(f.newest[p], at)
	f.end[p]++
	return &kgo.Record{Topic: eos.Input, Partition: p, Key: fmt.Appendf(nil, "k%d", source), Value: encode(f.w.t, eos.EventSerde, e), Timestamp: time.UnixMilli(at)}
}

// finish marks the end of every partition, so that every window closes.
func (f *feed) finish() {
	if f.w.trace.App == simrun.Ticks {
		return
	}
	var marks []*kgo.Record
	for p := range int32(eos.Partitions) {
		at := int64(eventBase) + (100 * time.Hour).Milliseconds()
		marks = append(marks, f.event(100*int64(p), p, at, true))
	}
	f.produce(marks)
}

func (f *feed) ends() map[int32]int64 { return f.end }

func (f *feed) produce(records []*kgo.Record) {
	if err := f.cl.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
		f.w.t.Errorf("the feed cannot write: %v", err)
	}
}
