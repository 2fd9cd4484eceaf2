//go:build kafka

package framework_test

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// childTold is the variable that tells a child process what it is to do, as JSON.
const childTold = "HEADRACE_TEST_TOLD"

// told reads what the parent process has told this one. Where there is none it skips the test: it is no test but what a child does.
func told(t *testing.T, what any) {
	t.Helper()
	text := os.Getenv(childTold)
	if text == "" {
		t.Skip("only a process that another test has started runs this")
	}
	if err := json.Unmarshal([]byte(text), what); err != nil {
		t.Fatal(err)
	}
}

// childProcess is this binary again, in a process of its own that can be killed.
type childProcess struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended, and all that it printed has been taken in

	ended time.Time // these two are set before done is closed
	last  []string  // lines that it printed
}

// spawn starts a process that runs one test function. Each line that it prints is passed to line, on one goroutine. It is killed when
// the test ends, if it has not ended before.
func (t onKafka) spawn(function string, tell any, line func(string)) *childProcess {
	t.Helper()
	text, err := json.Marshal(tell)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &childProcess{cmd: exec.Command(self, "-test.run", "^"+function+"$", "-test.count", "1"), done: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), childTold+"="+string(text))
	if os.Getenv("HEADRACE_LOG") != "" {
		c.cmd.Stderr = t.Output()
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			line(lines.Text())
			if c.last = append(c.last, lines.Text()); len(c.last) > 20 {
				c.last = c.last[1:]
			}
		}
		c.ended = time.Now()
		_ = c.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		<-c.done
	})
	return c
}

// awaitKilled waits until the process has been killed, by itself or another, and wants that it has not ended otherwise.
func (c *childProcess) awaitKilled(t onKafka) {
	t.Helper()
	select {
	case <-c.done:
	case <-time.After(time.Minute):
		t.Fatal("the process was to be killed, and goes on")
	}
	if status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Fatalf("the process ended by itself: %v\n%s", c.cmd.ProcessState, strings.Join(c.last, "\n"))
	}
}

// kill ends the process as kill -9 does.
func (c *childProcess) kill(t onKafka) {
	t.Helper()
	_ = c.cmd.Process.Kill()
	c.awaitKilled(t)
}

// stop tells the process to stop, and wants it to end well.
func (c *childProcess) stop(t onKafka) {
	t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-c.done
	if !c.cmd.ProcessState.Success() {
		t.Fatalf("told to stop, the process ended with %v\n%s", c.cmd.ProcessState, strings.Join(c.last, "\n"))
	}
}
