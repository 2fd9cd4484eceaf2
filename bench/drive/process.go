package drive

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/headrace/headrace/bench/plan"
)

// GoSettings are what a container of 256 MiB is best told: to collect garbage when it comes near that, and not before. The
// environment of the bench goes before.
var GoSettings = []string{"GOGC=off", "GOMEMLIMIT=220MiB"}

// process is a peer's process.
type process struct {
	cmd     *exec.Cmd
	stdin   io.Closer
	log     string
	started time.Time
	done    chan struct{} // closed when it has ended
	err     error         // set before done is closed

	mu   sync.Mutex
	said map[string][]string // the words of the first line of each kind
	told *sync.Cond
}

// start starts a peer. dir is for its log.
func start(java *Java, s plan.Spec, dir string) (*process, error) {
	var cmd *exec.Cmd
	if s.Peer.Java() {
		cmd = java.Command(s.Params.HeapMB, "headrace.bench.Bench", s.Args()...)
	} else {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		spec, err := json.Marshal(s)
		if err != nil {
			return nil, err
		}
		cmd = exec.Command(self, "peer", string(spec))
		cmd.Env = append(slices.Clone(GoSettings), os.Environ()...) // what comes last counts
	}
	p := &process{cmd: cmd, log: filepath.Join(dir, fmt.Sprintf("%s-%d.log", s.App, s.Instance)), done: make(chan struct{}), said: make(map[string][]string)}
	p.told = sync.NewCond(&p.mu)
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	began := make(chan error)
	p.started = time.Now()
	go func() {
		// Linux takes the thread that started the child for its parent, so that thread has to live as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		began <- err
		if err != nil {
			return
		}
		p.listen(out)
		p.err = cmd.Wait()
		close(p.done)
		p.wake()
	}()
	if err := <-began; err != nil {
		return nil, fmt.Errorf("drive: start %s: %w", s.Peer, err)
	}
	return p, nil
}

func (p *process) listen(out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) == 0 {
			continue
		}
		p.mu.Lock()
		if _, ok := p.said[words[0]]; !ok {
			p.said[words[0]] = words[1:]
		}
		p.mu.Unlock()
		p.wake()
	}
	_, _ = io.Copy(io.Discard, out) // a line that was too long
}

// wake has await look again. It takes the lock so that no look is missed.
func (p *process) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told.Broadcast()
}

// line returns what the process has said of a kind.
func (p *process) line(kind string) ([]string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	words, ok := p.said[kind]
	return words, ok
}

// at returns the time that the process has said with a kind of line.
func (p *process) at(kind string) (time.Time, bool) {
	words, ok := p.line(kind)
	if !ok || len(words) == 0 {
		return time.Time{}, false
	}
	nanos, err := strconv.ParseInt(words[0], 10, 64)
	return time.Unix(0, nanos), err == nil
}

// number returns the nth number that the process has said with a kind of line.
func (p *process) number(kind string, n int) (float64, bool) {
	words, ok := p.line(kind)
	if !ok || len(words) <= n {
		return 0, false
	}
	f, err := strconv.ParseFloat(words[n], 64)
	return f, err == nil
}

// await waits until the process has said a line of that kind.
func (p *process) await(kind string, patience time.Duration) error {
	timer := time.AfterFunc(patience, p.wake)
	defer timer.Stop()
	end := time.Now().Add(patience)
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if _, ok := p.said[kind]; ok {
			return nil
		}
		if err := p.ended(); err != nil {
			return err
		}
		if !time.Now().Before(end) {
			return fmt.Errorf("drive: the peer did not say %q within %v\n%s", kind, patience, p.tail())
		}
		p.told.Wait()
	}
}

// ended returns an error if the process has ended, which it must not before it is told to.
func (p *process) ended() error {
	select {
	case <-p.done:
		return fmt.Errorf("drive: the peer ended too early (%v)\n%s", p.cmd.ProcessState, p.tail())
	default:
		return nil
	}
}

func (p *process) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return tail(text)
}

// stop has the process end in order.
func (p *process) stop() error {
	_ = p.stdin.Close()
	select {
	case <-p.done:
		if p.err != nil {
			return fmt.Errorf("drive: the peer ended with %w\n%s", p.err, p.tail())
		}
		return nil
	case <-time.After(40 * time.Second):
		p.kill()
		return fmt.Errorf("drive: the peer did not end within 40 s and was killed\n%s", p.tail())
	}
}

// kill ends the process at once, if it runs.
func (p *process) kill() {
	select {
	case <-p.done:
	default:
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // a group of its own; one that has ended is what was wanted
		<-p.done
	}
}

// usage is what the process has used up to now.
type usage struct {
	cpu  time.Duration
	peak float64 // MiB resident, at its highest
}

func (p *process) usage() (u usage, err error) {
	proc := fmt.Sprintf("/proc/%d/", p.cmd.Process.Pid)
	stat, err := os.ReadFile(proc + "stat")
	if err != nil {
		return u, err
	}
	// Behind the name in parentheses, which may have anything in it: field 3 is the first.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 13 {
		return u, errors.New("drive: /proc/…/stat is not as it is known")
	}
	for _, f := range fields[11:13] { // utime and stime, in hundredths of a second
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return u, err
		}
		u.cpu += time.Duration(n) * 10 * time.Millisecond
	}
	status, err := os.ReadFile(proc + "status")
	if err != nil {
		return u, err
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			u.peak = kib / 1024
			return u, err
		}
	}
	return u, errors.New("drive: /proc/…/status has no VmHWM")
}
