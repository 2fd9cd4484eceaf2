//go:build kafka

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/devkafka"
)

// cluster is a real Kafka, and the program as it is built.
type cluster struct {
	*testing.T
	program string
	brokers string
	adm     *kadm.Client
}

func startCluster(t *testing.T) cluster {
	t.Helper()
	c := cluster{T: t, program: filepath.Join(t.TempDir(), "sample-app")}
	if out, err := exec.Command("go", "build", "-o", c.program, ".").CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v\n%s", err, out)
	}
	kafka, err := devkafka.StartKafka(devkafka.KafkaConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kafka.Close)
	c.brokers = strings.Join(kafka.Addrs(), ",")
	c.adm = kadm.NewClient(newClient(t, kgo.SeedBrokers(kafka.Addrs()...)))
	return c
}

// await waits until something holds.
func (c cluster) await(what string, holds func() bool) {
	c.Helper()
	deadline := time.NewTimer(90 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline.C:
			c.Fatalf("waited in vain for %s", what)
		case <-tick.C:
		}
	}
}

// running is a process of the program.
type running struct {
	cluster
	name string
	cmd  *exec.Cmd
	out  bytes.Buffer
	done chan struct{} // closed when it has ended and everything that it wrote is here

	mu   sync.Mutex
	log  []string
	last map[string]logLine // by message
}

// logLine is what the tests want to know of a line of the log.
type logLine struct {
	Msg                        string
	Tasks                      []string
	Records, Commits, Restored int64
}

// start starts the program. It is killed when the test ends, if it has not ended before.
func (c cluster) start(name string, env []string, args ...string) *running {
	c.Helper()
	r := &running{cluster: c, name: name, cmd: exec.Command(c.program, args...), done: make(chan struct{}), last: map[string]logLine{}}
	r.cmd.Env = append(slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, envPrefix) }), envPrefix+"BROKERS="+c.brokers)
	r.cmd.Env = append(r.cmd.Env, env...)
	r.cmd.Stdout = &r.out
	read, write := io.Pipe()
	r.cmd.Stderr = write
	if err := r.cmd.Start(); err != nil {
		c.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines := bufio.NewScanner(read); lines.Scan(); {
			var l logLine
			err := json.Unmarshal(lines.Bytes(), &l)
			r.mu.Lock()
			r.log = append(r.log, lines.Text())
			if err == nil {
				r.last[l.Msg] = l
			}
			r.mu.Unlock()
		}
	})
	go func() {
		_ = r.cmd.Wait() // its code is in the ProcessState
		_ = write.Close()
		reading.Wait()
		close(r.done)
	}()
	c.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		<-r.done
		if c.Failed() {
			c.Logf("%s wrote:\n%s\n%s", name, r.out.String(), strings.Join(r.log[max(0, len(r.log)-20):], "\n"))
		}
	})
	return r
}

// said is the last line of the log with a message.
func (r *running) said(msg string) logLine {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last[msg]
}

func (r *running) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// code waits for the end.
func (r *running) code() int {
	r.Helper()
	r.await(r.name+" to end", r.ended)
	return r.cmd.ProcessState.ExitCode()
}

// flightsDone is how many records of the topic of the flights the app has committed.
func (c cluster) flightsDone() (n int64) {
	offsets, err := c.adm.FetchOffsetsForTopics(context.Background(), appID, flightsTopic)
	if err != nil {
		return 0 // no group yet
	}
	offsets.Each(func(o kadm.OffsetResponse) { n += max(o.At, 0) })
	return n
}

// TestKafkaThreeProcessesOneKilled feeds 20,000 flights to three processes, kills one of them in the middle of its work, and wants all
// windows to equal the batch answer: the other two take its tasks over. Then one stops in order, and the last one starts again on its
// directory: it reads nothing again.
func TestKafkaThreeProcessesOneKilled(tt *testing.T) {
	c := startCluster(tt)
	const records = 20_000
	run := func(name string, workers int) *running {
		return c.start(name, []string{
			"HEADRACE_STATE=pebble", "HEADRACE_STATE_DIR=" + filepath.Join(tt.TempDir(), "state"), fmt.Sprintf("HEADRACE_WORKERS=%d", workers),
			"HEADRACE_SESSION_TIMEOUT=6s", "HEADRACE_TRANSACTION_TIMEOUT=10s", "HEADRACE_LOG_PROGRESS=100ms",
		}, "run")
	}
	feed := c.start("feed", nil, "feed", "--rate", "1500")
	all := []*running{run("a", 1), run("b", 2), run("c", 1)}
	killed := all[1]
	c.await("all three to have tasks, and a third of the flights to be done", func() bool {
		for _, r := range all {
			if len(r.said("tasks").Tasks) == 0 || r.said("progress").Commits == 0 {
				return false
			}
		}
		return c.flightsDone() > records/3
	})
	if err := killed.cmd.Process.Kill(); err != nil {
		tt.Fatal(err)
	}
	inTheMiddle := !feed.ended()
	<-killed.done
	had, did := killed.said("tasks").Tasks, killed.said("progress")
	tt.Logf("killed the process of tasks %v after %d records and %d commits of its own; the app had done %d records", had, did.Records, did.Commits, c.flightsDone())
	if !inTheMiddle {
		tt.Error("the feed was over before anything was killed")
	}
	if code := feed.code(); code != exitOK {
		tt.Fatalf("feed ended with %d", code)
	}
	tt.Log(strings.TrimSpace(feed.out.String()))

	verify := c.start("verify", nil, "verify")
	code := verify.code()
	tt.Log(strings.TrimSpace(verify.out.String()))
	if line := regexp.MustCompile(`^verified: [1-9]\d+ windows equal the batch answer, .*; 0 missing, 0 extra, 0 wrong\n$`); code != exitOK || !line.MatchString(verify.out.String()) {
		tt.Errorf("verify ended with %d and said %q, want one line that all windows of the %d flights equal the batch answer", code, verify.out.String(), records)
	}
	tasksOf := func(rs ...*running) (ids []string) {
		for _, r := range rs {
			ids = append(ids, r.said("tasks").Tasks...)
		}
		slices.Sort(ids)
		return ids
	}
	var every []string
	for p := range 4 {
		every = append(every, fmt.Sprintf("0_%d", p), fmt.Sprintf("1_%d", p))
	}
	slices.Sort(every)
	c.await("two processes to have all tasks", func() bool { return slices.Equal(tasksOf(all[0], all[2]), every) })

	// The end in order, and the start after it.
	stop := func(r *running) {
		if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			tt.Fatal(err)
		}
		began := time.Now()
		if code := r.code(); code != exitOK || r.said("stopped").Msg == "" {
			tt.Errorf("after SIGTERM process %s ended with %d, want %d and a last line that says stopped", r.name, code, exitOK)
		}
		tt.Logf("process %s stopped in %v", r.name, time.Since(began).Round(time.Millisecond))
	}
	stop(all[2])
	c.await("the last process to have all tasks", func() bool { return slices.Equal(tasksOf(all[0]), every) })
	stop(all[0])
	again := c.start("a again", slices.DeleteFunc(slices.Clone(all[0].cmd.Env), func(e string) bool { return strings.HasPrefix(e, envPrefix+"BROKERS") }), "run")
	c.await("the process to have all its tasks again", func() bool { return slices.Equal(tasksOf(again), every) })
	stop(again)
	if n := again.said("stopped").Restored; n != 0 {
		tt.Errorf("after an orderly end, %d records were restored, want none", n)
	}
	if n := all[0].said("stopped").Restored; n == 0 {
		tt.Error("the first start restored nothing: then it says nothing that the second did neither")
	}
}
