//go:build unix

package devkafka

import (
	"os"
	"syscall"
)

// killAll kills the group, since java may be a script that starts the program.
func killAll(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) } // one that has ended is what was wanted

func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }
