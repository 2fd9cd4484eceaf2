package devkafka

import (
	"bytes"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// process is a program that runs, or has run. A nil process is one that never did.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // of Wait; set before done is closed
}

// spawn starts a program that ends with this one where the system can do that.
func spawn(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	cmd.SysProcAttr = attributes()
	started := make(chan error)
	go func() {
		// Linux takes the thread that started the child for its parent, so that thread has to live as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// run runs a program to its end and returns what it wrote.
func run(cmd *exec.Cmd) ([]byte, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	p, err := spawn(cmd)
	if err != nil {
		return nil, err
	}
	<-p.done
	return out.Bytes(), p.err
}

// kill ends the process at once, and returns when it has ended.
func (p *process) kill() {
	if p == nil {
		return
	}
	select {
	case <-p.done: // its id may be another's by now
		return
	default:
	}
	killAll(p.cmd.Process)
	<-p.done
}

// stop asks the process to end, and kills it if it does not. It says whether it has ended as it was asked to.
func (p *process) stop(patience time.Duration) bool {
	if p == nil {
		return false
	}
	if terminate(p.cmd.Process) == nil {
		select {
		case <-p.done:
			return true
		case <-time.After(patience):
		}
	}
	p.kill()
	return false
}

// tail returns the last lines of a log.
func tail(out []byte) string {
	const most = 25
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}
