package devkafka

import "syscall"

// attributes: an own process group keeps the terminal's signals away, and the death signal comes however the parent ends.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
