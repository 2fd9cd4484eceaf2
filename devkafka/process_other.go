//go:build !unix

package devkafka

import (
	"os"
	"syscall"
)

func attributes() *syscall.SysProcAttr { return nil }

func killAll(p *os.Process) { _ = p.Kill() } // one that has ended is what was wanted

func terminate(p *os.Process) error { return p.Signal(os.Interrupt) }
