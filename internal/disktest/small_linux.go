// Package disktest has what tests share that need a disk of their own.
package disktest

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"time"
)

// Small mounts a tmpfs of 16 MiB for the test. It skips the test without root.
func Small(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting a small tmpfs needs root")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=16m"); err != nil {
		t.Skipf("cannot mount a small tmpfs: %v", err)
	}
	t.Cleanup(func() {
		// It fails if a file is still open. A process that another test is just starting has ours open until it executes.
		err := syscall.Unmount(dir, 0)
		for n := 0; errors.Is(err, syscall.EBUSY) && n < 100; n++ {
			time.Sleep(20 * time.Millisecond) // nothing signals that a child has executed
			err = syscall.Unmount(dir, 0)
		}
		if err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}
