//go:build kafka

package framework_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/internal/kafkatest"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/state/pebblestore"
	"github.com/headrace/headrace/topology"
)

// What the tests have in common that kill processes while they count: an application with two operators that count per key, the second
// one behind a repartition topic, two processes that run it, and what feeds and kills them.

const (
	tallyParts   = 4
	tallyRecords = 100_000
	tallyKeys    = 1000
	tallyGroups  = 100
	tallyRate    = 5000 // records a second

	// The last word of a value says where the record is taken, and where it makes the operator panic.
	good      = "good"
	badKey    = "bad-at-by-key"
	badGroup  = "bad-at-by-group"
	copyTopic = "copy"
)

// counter is one of the two operators.
type counter struct {
	name   string // its own, and its store's
	in     string // the topic that it reads
	out    string
	dead   string // where its dead letters go
	panics string // on values that end with this
}

// counters are the two.
func counters(app string) (byKey, byGroup counter) {
	return counter{"by-key", "in", "keys", "dead", badKey},
		counter{"by-group", app + "-grouped-repartition", "groups", "dead-groups", badGroup}
}

func (c counter) changelog(app string) string { return app + "-" + c.name + "-changelog" }

// tally is a Processor that counts the records of each key, and those of its partition, and passes each on with its count and with the
// place at which it was read. Only then does it find out that it cannot take a record.
type tally struct {
	panics string
	counts state.KeyValue[string, int64]
	view   *state.KeyValueView[string, int64]
}

func (p *tally) Init(t *topology.Task, _ topology.Emitter[string, string]) (err error) {
	p.view, err = p.counts.Open(t)
	return err
}

func (p *tally) Process(r topology.Record[string, string], out topology.Emitter[string, string]) error {
	_, partition, offset, _ := r.Origin()
	var n int64
	for _, key := range []string{partitionTotal(partition), r.Key} {
		was, _, err := p.view.Get(key)
		if err != nil {
			return err
		}
		n = was + 1
		if err := p.view.Put(key, n); err != nil {
			return err
		}
	}
	if err := out(topology.With(r, r.Key, counted(n, partition, offset, identity(r.Value)))); err != nil {
		return err
	}
	if strings.HasSuffix(r.Value, p.panics) {
		panic("cannot take " + identity(r.Value))
	}
	return nil
}

func partitionTotal(partition int32) string { return fmt.Sprintf("all-of-%d", partition) }

// counted is the value of an output: how many of its key there have been with it, where it was read, and what it is.
func counted(n int64, partition int32, offset int64, identity string) string {
	return fmt.Sprintf("%d %d %d %s", n, partition, offset, identity)
}

// parse takes such a value apart.
func parse(value []byte) (n int64, partition int32, offset int64, id string, err error) {
	_, err = fmt.Sscanf(string(value), "%d %d %d", &n, &partition, &offset)
	return n, partition, offset, identity(string(value)), err
}

// identity is what stays of a value from operator to operator: its last two words, a number of its own and where it is taken.
func identity(value string) string {
	words := strings.Fields(value)
	return strings.Join(words[max(0, len(words)-2):], " ")
}

// tallyTopology counts in the input by key, and then by group, that is by the last two digits of the key.
func tallyTopology(c tallyChild) (*topology.Topology, error) {
	byKey, byGroup := counters(c.App)
	text := serde.String()
	process := func(in topology.Stream[string, string], c counter) topology.Stream[string, string] {
		counts := state.KeyValueOf(c.name, text, serde.Int64())
		return topology.Process(in, c.name, func() *tally { return &tally{panics: c.panics, counts: counts} }, counts)
	}
	b := topology.NewBuilder()
	in := topology.From(b, topology.Topic(byKey.in, text, text))
	keys := process(in, byKey)
	keys.To(topology.Topic(byKey.out, text, text))
	groups := process(topology.GroupBy(keys, "grouped", func(key, _ string) string { return "g" + key[len(key)-2:] }, text, text).Stream(), byGroup)
	if c.Letters {
		// That of the first operator is the application's.
		groups = groups.OnError(topology.DeadLetter(byGroup.dead).WithStack())
	} else {
		in.To(topology.Topic(copyTopic, text, text))
	}
	groups.To(topology.Topic(byGroup.out, text, text))
	return b.Build()
}

// tallyChild is what the process is told.
type tallyChild struct {
	Brokers   []string
	App, Dir  string
	Guarantee framework.Guarantee
	Letters   bool // bad records go to the dead letters
}

// TestKafkaTallyChild is no test: it is the process that is killed. What it prints is for its parent.
func TestKafkaTallyChild(t *testing.T) {
	var c tallyChild
	told(t, &c)
	top, err := tallyTopology(c)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	var app *framework.App
	dam := &dam{last: kmsg.EndTxn}
	if c.Guarantee == framework.AtLeastOnce {
		dam.last = kmsg.OffsetCommit
	}
	config := framework.Config{
		AppID: c.App, Brokers: c.Brokers, Topology: top, Logger: log, Guarantee: c.Guarantee,
		SessionTimeout: 6 * time.Second, TransactionTimeout: 10 * time.Second,
		State: pebblestore.New(pebblestore.Config{Dir: c.Dir, Logger: log}),
		Observers: []framework.Observer{{
			Task: func(e framework.TaskEvent) { fmt.Println("task", e.Task, e.State, e.Restored) },
			Transaction: func(txn framework.Transaction) {
				if txn.Reason == "" && txn.Records > 0 {
					n := app.Snapshot().Counters
					fmt.Println("committed", txn.Records, n.StoresWiped+n.StatesDamaged)
				}
			},
		}},
		Kafka: []kgo.Opt{kgo.Dialer(dam.dial), kgo.WithHooks(dam)},
	}
	if c.Letters {
		byKey, _ := counters(c.App)
		config.OnRecordError = topology.DeadLetter(byKey.dead)
	}
	if app, err = framework.New(config); err != nil {
		t.Fatal(err)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		for s := range signals {
			dam.close(s == syscall.SIGUSR1)
		}
	}()
	defer func() {
		signal.Stop(signals)
		close(signals)
		<-heard
	}()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := app.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

// dam is between a process and the brokers. Once it is closed, requests of one kind do not pass any more, and with the first that comes
// the process has a moment to live. What it may do before that request is answered it does in that moment; and if it commits positions
// in it, without a transaction, it dies as soon as it knows that they are.
type dam struct {
	last   kmsg.Key     // the request that makes a commit lasting
	key    atomic.Int32 // that does not pass, plus one
	closed atomic.Bool  // something has come
}

const damMoment = 300 * time.Millisecond

// close holds back what is produced, or else the request that makes it lasting.
func (d *dam) close(produced bool) {
	key := d.last
	if produced {
		key = kmsg.Produce
	}
	d.key.Store(int32(key) + 1)
}

func (d *dam) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return dammed{c, d}, nil
}

// OnBrokerRead is called with each response.
func (d *dam) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if err == nil && kmsg.Key(key) == kmsg.OffsetCommit && d.closed.Load() {
		die()
	}
}

func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

type dammed struct {
	net.Conn
	dam *dam
}

// Write gets a request at a time.
func (c dammed) Write(request []byte) (int, error) {
	if held := c.dam.key.Load(); held > 0 && len(request) > 6 && int32(binary.BigEndian.Uint16(request[4:])) == held-1 {
		if !c.dam.closed.Swap(true) {
			time.AfterFunc(damMoment, die) // where all is right there is nothing to wait for
		}
		select {}
	}
	return c.Conn.Write(request)
}

// tallyProcess is one of the processes, over its lives.
type tallyProcess struct {
	*childProcess
	t    onKafka
	tell tallyChild

	mu        sync.Mutex // guards what follows
	life      int
	running   map[string]bool // tasks, in this life
	committed int             // transactions, in this life
	restored  int             // records, in all
}

// start begins a life.
func (p *tallyProcess) start() {
	p.t.Helper()
	p.mu.Lock()
	p.life++
	life := p.life
	p.running, p.committed = make(map[string]bool), 0
	p.mu.Unlock()
	p.childProcess = p.t.spawn("TestKafkaTallyChild", p.tell, func(line string) { p.read(life, line) })
}

func (p *tallyProcess) read(life int, line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var task, state string
	var n, wiped int
	if life != p.life {
		return
	}
	if _, err := fmt.Sscanf(line, "task %s %s %d", &task, &state, &n); err == nil {
		p.restored += n
		if delete(p.running, task); state == string(framework.TaskRunning) {
			p.running[task] = true
		}
	}
	if _, err := fmt.Sscanf(line, "committed %d %d", &n, &wiped); err == nil {
		if p.committed++; wiped > 0 {
			p.t.Errorf("%d stores were wiped or damaged: what was on disk was not used", wiped)
		}
	}
}

// now says how many tasks run and how many transactions were committed in this life.
func (p *tallyProcess) now() (tasks, committed int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.running), p.committed
}

// tallies is a run: two processes, and what was written.
type tallies struct {
	t            onKafka
	app          string
	rng          *rand.Rand
	procs        []*tallyProcess
	input        []*kgo.Record // with the places at which they are
	regrouped    *topicReader  // what the second operator reads
	dirty, clean *topicReader  // the first one's outputs, those that were aborted too and those that were not

	mu          sync.Mutex // guards what follows
	sent, limit int        // of the input
}

// tally starts the processes, and waits until both have committed something.
func (t onKafka) tally(tell tallyChild, rng *rand.Rand, input []*kgo.Record) *tallies {
	t.Helper()
	tell.Brokers = t.Brokers
	r := &tallies{t: t, app: tell.App, rng: rng, input: input}
	byKey, byGroup := counters(r.app)
	for _, name := range []string{"one", "two"} {
		p := &tallyProcess{t: t, tell: tell}
		p.tell.Dir = filepath.Join(t.TempDir(), name)
		p.start()
		r.procs = append(r.procs, p)
	}
	// Internal topics are made at start. Read while they are written: later they may be trimmed.
	adm := kadm.NewClient(t.Client(t))
	t.await("the repartition topic", func() bool {
		listed, err := adm.ListTopics(context.Background(), byGroup.in)
		return err == nil && len(listed[byGroup.in].Partitions) == tallyParts
	})
	r.regrouped = t.read(byGroup.in, kgo.ReadCommitted())
	r.dirty, r.clean = t.read(byKey.out, kgo.ReadUncommitted()), t.read(byKey.out, kgo.ReadCommitted())
	t.await("both processes to have tasks", func() bool {
		one, _ := r.procs[0].now()
		two, _ := r.procs[1].now()
		return one > 0 && two > 0 && one+two == 2*tallyParts
	})
	return r
}

// feed writes the input, at a steady rate, up to the limit.
func (r *tallies) feed(cl *kgo.Client, done chan<- struct{}) {
	defer close(done)
	const tick = 10 * time.Millisecond
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for n := 0; n < len(r.input); <-ticker.C {
		r.mu.Lock()
		to := min(n+tallyRate*int(tick/time.Millisecond)/1000, r.limit)
		r.sent = to
		r.mu.Unlock()
		for ; n < to; n++ {
			cl.Produce(context.Background(), r.input[n], func(_ *kgo.Record, err error) {
				if err != nil {
					r.t.Error(err)
				}
			})
		}
	}
	if err := cl.Flush(context.Background()); err != nil {
		r.t.Error(err)
	}
}

func (r *tallies) allow(limit int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limit = limit
}

func (r *tallies) fed() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sent
}

// kill is a way to end a process: it returns when the process is dead.
type kill struct {
	name string
	do   func(onKafka, *tallyProcess)
}

var (
	atRandom = kill{"at a random moment", func(t onKafka, p *tallyProcess) { p.kill(t) }}
	// What is produced does not get out, but everything else does.
	beforeProduce = kill{"with its outputs held back", func(t onKafka, p *tallyProcess) { p.holding(t, syscall.SIGUSR1) }}
	// Everything is written, and not committed.
	beforeCommit = kill{"with its commit held back", func(t onKafka, p *tallyProcess) { p.holding(t, syscall.SIGUSR2) }}
)

func (p *tallyProcess) holding(t onKafka, s syscall.Signal) {
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	p.awaitKilled(t)
}

// execute feeds all input while it kills processes, one after the other, each when it has committed something since it was started and
// a random number of records have been written since. It returns when everything has been processed and both processes have ended, the
// second one with all tasks.
func (r *tallies) execute(kills []kill) {
	t := r.t
	t.Helper()
	done := make(chan struct{})
	// To partitions by key, as Kafka's own clients do.
	cl := t.Client(t, kgo.MaxBufferedRecords(1<<20))
	go r.feed(cl, done)
	defer func() { // or it would write on when the test is over
		r.allow(len(r.input))
		<-done
	}()
	adm := kadm.NewClient(t.Client(t))
	share := len(r.input) / (len(kills) + 1)
	for i, k := range kills {
		which := r.rng.IntN(len(r.procs))
		victim := r.procs[which]
		r.allow(i*share + share/2)
		t.await("a process to commit", func() bool { _, n := victim.now(); return n > 0 })
		at := max(r.fed(), i*share) + 1 + r.rng.IntN(share/3)
		r.allow((i + 1) * share)
		t.await("the moment of the kill", func() bool { return r.fed() >= at })
		k.do(t, victim)
		tasks, committed := victim.now()
		position := int64(0)
		got, err := adm.FetchOffsets(context.Background(), r.app)
		if err != nil {
			t.Fatal(err)
		}
		for p := range int32(tallyParts) {
			o, _ := got.Lookup("in", p)
			position += max(o.At, 0)
		}
		victim.start()
		t.Logf("kill %d, %s: process %d, life %d, had %d tasks and had committed %d times; the group is at %d of %d records, %d are written",
			i+1, k.name, which+1, victim.life-1, tasks, committed, position, len(r.input), r.fed())
		if committed == 0 || position >= int64(len(r.input)) {
			t.Error("that kill tested nothing")
		}
	}
	r.allow(len(r.input))
	<-done
	if t.Failed() {
		t.FailNow()
	}
	_, byGroup := counters(r.app)
	t.committed(r.app, "in")
	t.committed(r.app, byGroup.in)
	r.procs[0].stop(t)
	t.await("the other process to have all tasks", func() bool { n, _ := r.procs[1].now(); return n == 2*tallyParts })
	r.procs[1].stop(t)
	t.Logf("%d records restored", r.procs[0].restored+r.procs[1].restored)
}

// store returns what the stores of an operator have in the end.
func (r *tallies) store(sub int, c counter) map[string]int64 {
	t := r.t
	t.Helper()
	p := pebblestore.In(r.procs[1].tell.Dir)
	held := make(map[string]int64)
	for part := range tallyParts {
		b, err := p.Open(fmt.Sprintf("%d_%d", sub, part), []state.Spec{{Name: c.name, Kind: state.KeyValueKind}})
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
			if _, twice := held[string(e.Key)]; twice {
				t.Errorf("%s is in two stores of %s", e.Key, c.name)
			}
			held[string(e.Key)] = int64(binary.BigEndian.Uint64(v))
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	return held
}

// logged returns what the changelog of an operator says.
func (r *tallies) logged(c counter) map[string]int64 {
	r.t.Helper()
	said := make(map[string]int64)
	for k, v := range kafkatest.Fold(r.t.ReadCommitted(r.t, c.changelog(r.app))) {
		said[k] = int64(binary.BigEndian.Uint64([]byte(v)))
	}
	return said
}

// tallyInput makes the input: one record in a hundred is bad for the first operator, as many are for the second, if any are to be.
func tallyInput(rng *rand.Rand, bad bool) []*kgo.Record {
	marks := slices.Repeat([]string{good}, tallyRecords)
	if bad {
		for i := range tallyRecords / 100 {
			marks[i], marks[tallyRecords-1-i] = badKey, badGroup
		}
		rng.Shuffle(len(marks), func(i, j int) { marks[i], marks[j] = marks[j], marks[i] })
	}
	now := time.Now().UnixMilli()
	input := make([]*kgo.Record, tallyRecords)
	for i := range input {
		input[i] = &kgo.Record{
			Topic: "in", Key: fmt.Appendf(nil, "k%04d", rng.IntN(tallyKeys)), Value: fmt.Appendf(nil, "%d %s", i, marks[i]),
			Headers: []kgo.RecordHeader{{Key: "trace", Value: fmt.Appendf(nil, "t%d", i)}}, Timestamp: time.UnixMilli(now - tallyRecords + int64(i)),
		}
	}
	return input
}

// placed sorts records by partition and offset.
func placed(records []*kgo.Record) []*kgo.Record {
	records = slices.Clone(records)
	slices.SortFunc(records, func(a, b *kgo.Record) int {
		return int(1<<40*int64(a.Partition-b.Partition) + a.Offset - b.Offset)
	})
	return records
}

// perKey sorts records into their keys, in the order of partition and offset.
func perKey(records []*kgo.Record) map[string][]*kgo.Record {
	of := make(map[string][]*kgo.Record)
	for _, r := range placed(records) {
		of[string(r.Key)] = append(of[string(r.Key)], r)
	}
	return of
}

// complaints reports the first three of a kind of mistake, and how many there are.
type complaints struct {
	t    onKafka
	n    map[string]int
	what string
}

func (t onKafka) complaints(what string) *complaints {
	return &complaints{t: t, n: make(map[string]int), what: what}
}

func (c *complaints) add(kind, format string, args ...any) {
	c.t.Helper()
	if c.n[kind]++; c.n[kind] <= 3 {
		c.t.Errorf("%s: %s: "+format, append([]any{c.what, kind}, args...)...)
	}
}

func (c *complaints) end() {
	c.t.Helper()
	for _, kind := range slices.Sorted(maps.Keys(c.n)) {
		c.t.Errorf("%s: %s, %d times in all", c.what, kind, c.n[kind])
	}
}

// same wants two maps to be the same.
func (c *complaints) same(kind string, want, got map[string]int64) {
	c.t.Helper()
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if n, ok := got[key]; n != want[key] || !ok {
			c.add(kind, "it has %d for %s, want %d", n, key, want[key])
		}
	}
	for key := range got {
		if _, ok := want[key]; !ok {
			c.add(kind, "it has %s, which it should not", key)
		}
	}
}

// topicReader reads a topic from its beginning while it is written.
type topicReader struct {
	t     onKafka
	topic string
	err   error // set before done is closed
	stop  context.CancelFunc
	done  chan struct{}

	mu      sync.Mutex // guards what follows
	records []*kgo.Record
	next    [tallyParts]int64
}

func (t onKafka) read(topic string, isolation kgo.IsolationLevel) *topicReader {
	t.Helper()
	from := make(map[int32]kgo.Offset)
	for p := range int32(tallyParts) {
		from[p] = kgo.NewOffset().At(0)
	}
	cl := t.Client(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}), kgo.FetchIsolationLevel(isolation),
		kgo.KeepControlRecords(), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	ctx, stop := context.WithCancel(context.Background())
	r := &topicReader{t: t, topic: topic, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		for ctx.Err() == nil && r.err == nil {
			fetches := cl.PollFetches(ctx)
			r.mu.Lock()
			fetches.EachRecord(func(rec *kgo.Record) {
				r.next[rec.Partition] = rec.Offset + 1
				if report := rec.Key == nil && rec.Value == nil; !rec.Attrs.IsControl() && !report {
					r.records = append(r.records, rec)
				}
			})
			r.mu.Unlock()
			if err := fetches.Err(); err != nil && ctx.Err() == nil {
				r.err = err
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		<-r.done
	})
	return r
}

// all returns what is in the topic. There must be no open transaction any more.
func (r *topicReader) all() []*kgo.Record {
	r.t.Helper()
	ends, err := kadm.NewClient(r.t.Client(r.t)).ListEndOffsets(context.Background(), r.topic)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.await("topic "+r.topic+" to be read", func() bool {
		select {
		case <-r.done:
			r.t.Fatalf("read %s: %v", r.topic, r.err)
		default:
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		behind := false
		ends.Each(func(end kadm.ListedOffset) { behind = behind || r.next[end.Partition] < end.Offset })
		return !behind
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	return placed(r.records)
}
