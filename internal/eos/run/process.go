package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/headrace/headrace/internal/eos"
)

// line is what a process said.
type line struct {
	process string
	life    int // which of the process's lives, from 1
	eos.Happening
}

// hub has what all processes say, in the order in which it came.
type hub struct {
	mu    sync.Mutex
	lines []line
	more  chan struct{} // closed when there is more
}

func newHub() *hub { return &hub{more: make(chan struct{})} }

func (h *hub) add(l line) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, l)
	close(h.more)
	h.more = make(chan struct{})
}

// now is where the next line will be.
func (h *hub) now() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.lines)
}

func (h *hub) all() []line {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lines[:len(h.lines):len(h.lines)]
}

// await waits for a line from a place on.
func (h *hub) await(from int, limit time.Duration, is func(line) bool) (line, bool) {
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	for {
		h.mu.Lock()
		lines, more := h.lines, h.more
		h.mu.Unlock()
		for ; from < len(lines); from++ {
			if is(lines[from]) {
				return lines[from], true
			}
		}
		select {
		case <-more:
		case <-timeout.C:
			return line{}, false
		}
	}
}

// process is one of the two test processes, over its lives.
type process struct {
	name string
	hub  *hub
	cfg  config
	addr []string

	life   int
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	exited chan struct{}
	state  *os.ProcessState // once it has
	told   bool             // its end was asked for
}

func (p *process) dir() string { return filepath.Join(p.cfg.dir, p.name) }

// start begins a life. arm is its first command, if it has one.
func (p *process) start(arm string) error {
	log, err := os.OpenFile(filepath.Join(p.cfg.dir, p.name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	args := []string{
		"-brokers", strings.Join(p.addr, ","), "-name", p.name, "-dir", p.dir(),
		"-session", p.cfg.session.String(), "-transaction", p.cfg.transaction.String(),
	}
	if arm != "" {
		args = append(args, "-arm", arm)
	}
	cmd := exec.Command(p.cfg.app, args...)
	cmd.Stderr = log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start process %s: %w", p.name, err)
	}
	p.life++
	p.cmd, p.stdin, p.exited, p.told = cmd, stdin, make(chan struct{}), false
	go p.follow(p.life, cmd, stdout, p.exited)
	return nil
}

// follow reads what a life says until it ends.
func (p *process) follow(life int, cmd *exec.Cmd, stdout io.Reader, exited chan struct{}) {
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		l := line{process: p.name, life: life}
		if json.Unmarshal(lines.Bytes(), &l.Happening) == nil { // the last line of a life may be torn
			p.hub.add(l)
		}
	}
	_ = cmd.Wait() // the state says it all
	p.state = cmd.ProcessState
	close(exited)
}

func (p *process) send(command string) error {
	_, err := fmt.Fprintln(p.stdin, command)
	return err
}

func (p *process) signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// awaitExit waits until the life is over, and says whether it was killed.
func (p *process) awaitExit(limit time.Duration) (killed bool, err error) {
	select {
	case <-p.exited:
	case <-time.After(limit):
		return false, fmt.Errorf("process %s has not ended within %v", p.name, limit)
	}
	ws, _ := p.state.Sys().(syscall.WaitStatus)
	return ws.Signaled() && ws.Signal() == syscall.SIGKILL, nil
}

func (p *process) alive() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}
