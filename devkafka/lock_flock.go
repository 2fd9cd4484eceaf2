//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package devkafka

import (
	"os"
	"syscall"
)

// lock waits until nobody else has the file locked, in this process or another. Closing it, or dying, ends that.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX) }
