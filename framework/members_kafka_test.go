//go:build kafka

package framework_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/devkafka"
	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/topology"
)

const (
	gapPartitions = 8
	gapKeys       = 1000
	gapPerSecond  = 10_000
)

// whoAmI counts records per key, in a store, and writes for each record who has processed it.
func whoAmI(who string) (*topology.Topology, error) {
	b := topology.NewBuilder()
	in := topology.From(b, topology.Topic("in", serde.String(), serde.String()))
	topology.MapValues(topology.Count(in.GroupByKey(), "counts").Stream(), func(int64) string { return who }).
		To(topology.Topic("out", serde.String(), serde.String()))
	return b.Build()
}

// child is what a process of its own is told.
type child struct {
	Brokers  []string
	Name     string // who it says it is
	Instance string // "": a random name
	Session  time.Duration
}

const childVariable = "HEADRACE_TEST_CHILD"

// TestKafkaChildProcess is no test: it is the process that others start, kill and start again.
func TestKafkaChildProcess(t *testing.T) {
	text := os.Getenv(childVariable)
	if text == "" {
		t.Skip("only a process that another test has started runs this")
	}
	var c child
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	top, err := whoAmI(c.Name)
	if err != nil {
		t.Fatal(err)
	}
	app, err := framework.New(framework.Config{
		AppID: "gaps", Brokers: c.Brokers, Topology: top, State: state.Memory(), Instance: c.Instance,
		SessionTimeout: c.Session, TransactionTimeout: 10 * time.Second, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := app.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

// process starts a child. It is killed when the test ends, if it has not ended before.
func (t onKafka) process(c child) *exec.Cmd {
	t.Helper()
	c.Brokers = t.Brokers
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run", "^TestKafkaChildProcess$", "-test.count", "1")
	cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	if os.Getenv("HEADRACE_LOG") != "" {
		cmd.Stderr = t.Output()
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return cmd
}

// gaps is a read-committed reader of the output that knows who wrote last to each partition, and how long the pauses between commits
// are: what comes in never pauses.
type gaps struct {
	mu      sync.Mutex
	last    map[int32]time.Time
	writer  map[int32]string
	longest map[string]time.Duration // by writer: between two commits of a task that it kept
	moved   time.Duration            // between the last commit of one and the first of another
	records int
}

// load writes 10,000 records a second, evenly over keys and partitions, and reads what becomes of them, until stop is called.
func (t onKafka) load() (g *gaps, stop func()) {
	t.Helper()
	g = &gaps{last: make(map[int32]time.Time), writer: make(map[int32]string), longest: make(map[string]time.Duration)}
	ctx, cancel := context.WithCancel(context.Background())
	// Partitions by key, as the app does it: a record's partition in the output is that in the input, and so its task's.
	producer := t.Client(t, kgo.ProducerLinger(0))
	reader := t.Client(t, kgo.ConsumeTopics("out"), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(10*time.Millisecond))
	var wg sync.WaitGroup
	wg.Go(func() {
		const perTick = gapPerSecond / 200
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ctx.Err() == nil; <-tick.C {
			for range perTick {
				producer.Produce(context.Background(), &kgo.Record{
					Topic: "in", Key: fmt.Appendf(nil, "k%04d", n%gapKeys), Value: []byte("x"),
				}, nil)
				n++
			}
		}
	})
	wg.Go(func() {
		for ctx.Err() == nil {
			fetches := reader.PollFetches(ctx)
			now := time.Now()
			g.mu.Lock()
			fetches.EachRecord(func(r *kgo.Record) {
				g.records++
				gap := now.Sub(g.last[r.Partition])
				switch who := string(r.Value); {
				case g.writer[r.Partition] == who:
					g.longest[who] = max(g.longest[who], gap)
				case g.writer[r.Partition] != "":
					g.moved = max(g.moved, gap)
					fallthrough
				default:
					g.writer[r.Partition] = who
				}
				g.last[r.Partition] = now
			})
			g.mu.Unlock()
		}
	})
	return g, func() {
		cancel()
		wg.Wait()
	}
}

// reset begins to measure.
func (g *gaps) reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.longest)
	g.moved = 0
}

// of returns the longest gap of a writer, the one to now included.
func (g *gaps) of(who string) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	longest := g.longest[who]
	for p, w := range g.writer {
		if w == who {
			longest = max(longest, time.Since(g.last[p]))
		}
	}
	return longest
}

// writers counts the partitions of each writer.
func (g *gaps) writers() map[string]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := make(map[string]int)
	for _, w := range g.writer {
		n[w]++
	}
	return n
}

// TestKafkaKilledAndRestarted kills one of two processes with SIGKILL and starts it again at once, under names that last and under
// random ones, and prints how long the other one's commits pause. With names that last it must be far below the session timeout.
func TestKafkaKilledAndRestarted(tt *testing.T) {
	const session = 6 * time.Second
	for _, names := range []string{"lasting", "random"} {
		tt.Run(names, func(tt *testing.T) {
			t := kafka(tt, devkafka.KafkaConfig{Topics: map[string]int32{"in": gapPartitions, "out": gapPartitions}})
			g, stop := t.load()
			defer stop()
			tell := func(name string) child {
				c := child{Name: name, Session: session}
				if names == "lasting" {
					c.Instance = name
				}
				return c
			}
			running := map[string]*exec.Cmd{"one": t.process(tell("one"))}
			t.await("one to be the group's leader", func() bool { return g.writers()["one"] == gapPartitions })
			running["two"] = t.process(tell("two"))
			half := func() bool {
				w := g.writers()
				return w["one"] == gapPartitions/2 && w["two"] == gapPartitions/2
			}
			t.await("each to have its half", half)
			time.Sleep(3 * time.Second) // until Java is warm, of which nothing tells
			g.reset()
			time.Sleep(3 * time.Second) // to measure what is when nothing happens
			quiet := g.of("one")
			for round := range map[string]int{"lasting": 3, "random": 1}[names] {
				g.reset()
				victim, other := "two", "one"
				if round == 1 { // the leader: it gets its old assignment back and is not asked to balance
					victim, other = "one", "two"
				}
				_ = running[victim].Process.Kill()
				_ = running[victim].Wait()
				killed := time.Now()
				running[victim] = t.process(tell(victim))
				g.mu.Lock()
				before := maps.Clone(g.last)
				g.mu.Unlock()
				t.await("the killed one to be back", func() bool {
					g.mu.Lock()
					defer g.mu.Unlock()
					for p, w := range g.writer {
						if w == victim && g.last[p].Sub(before[p]) > 50*time.Millisecond && g.last[p].After(killed.Add(100*time.Millisecond)) {
							return true
						}
					}
					return false
				})
				back := time.Since(killed)
				time.Sleep(2 * session) // or what the group still has to do would not be seen
				t.await("each to have its half again", half)
				gap := g.of(other)
				t.Logf("names: %s, round %d, %s killed: the other's longest gap between commits %v (%v when nothing happens); the killed one committed again after %v, longest gap of its tasks that came back %v, that moved %v",
					names, round+1, victim, gap.Round(time.Millisecond), quiet.Round(time.Millisecond), back.Round(time.Millisecond),
					g.of(victim).Round(time.Millisecond), g.moved.Round(time.Millisecond))
				if names == "lasting" && gap > session/2 {
					t.Errorf("the other's commits paused for %v: it was to notice nothing", gap)
				}
			}
		})
	}
}

// TestKafkaJoinAndLeaveUnderLoad lets a second member join and leave ten times, under 10,000 records a second, and prints how long
// the commits of tasks pause that the first member keeps all the time.
func TestKafkaJoinAndLeaveUnderLoad(tt *testing.T) {
	const rounds = 10
	t := kafka(tt, devkafka.KafkaConfig{Topics: map[string]int32{"in": gapPartitions, "out": gapPartitions}})
	g, stop := t.load()
	defer stop()
	run := func(name string) *instance {
		top, err := whoAmI(name)
		if err != nil {
			t.Fatal(err)
		}
		return t.run(framework.Config{AppID: "gaps", Topology: top})
	}
	one := run("one")
	one.runs(gapPartitions)
	t.await("all to be processed by one", func() bool { return g.writers()["one"] == gapPartitions })
	time.Sleep(3 * time.Second) // until Java is warm, of which nothing tells
	g.reset()
	time.Sleep(3 * time.Second) // to measure what is when nothing happens
	t.Logf("when nothing happens: longest gap %v", g.of("one").Round(time.Millisecond))
	var worst time.Duration
	for round := range rounds {
		g.reset()
		two := run("two")
		two.runs(gapPartitions / 2)
		t.await("two to have its half", func() bool { return g.writers()["two"] == gapPartitions/2 })
		joined, movedThere := g.of("one"), g.moved
		g.reset()
		two.end()
		t.await("one to have all again", func() bool { return g.writers()["one"] == gapPartitions })
		left, movedBack := g.of("one"), g.moved
		worst = max(worst, joined, left)
		t.Logf("round %d: longest gap of kept tasks %v when the other joins, %v when it leaves; of tasks that moved %v and %v", round+1,
			joined.Round(time.Millisecond), left.Round(time.Millisecond), movedThere.Round(time.Millisecond), movedBack.Round(time.Millisecond))
	}
	c := one.end()
	t.Logf("%d rebalances, %d commits, %d aborts; longest gap between commits of kept tasks: %v", c.Rebalances, c.Commits, c.Aborts, worst.Round(time.Millisecond))
}
