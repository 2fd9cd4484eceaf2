package pebblestore

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/headrace/headrace/state"
)

var errClosed = errors.New("the backend is closed")

// isDiskError says whether the operating system refused something: no space, no permission, an input or output error. A file that
// is missing is not one of those: it was there once.
func isDiskError(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) && !errors.Is(err, fs.ErrNotExist)
}

// openError says what is wrong with a task's directory.
func openError(fsys vfs.FS, task, path string, err error) error {
	switch {
	case strings.Contains(err.Error(), "format major version"):
		return fmt.Errorf("pebblestore: open task %s: %w; run the version that wrote it, or delete %s: the task is then restored from its changelog", task, err, path)
	case isDiskError(err) && !pebble.IsCorruptionError(err):
		return fmt.Errorf("pebblestore: open task %s in %s%s: %w", task, path, freeText(fsys, path), err)
	default:
		return corruptError(task, path, err)
	}
}

func corruptError(task, path string, cause error) error {
	return fmt.Errorf("pebblestore: task %s in %s: %w: %w; remove the directory, and the task is restored from its changelog", task, path, state.ErrCorrupt, cause)
}

// readError is about a Get or Scan.
func (b *backend) readError(err error) error {
	if pebble.IsCorruptionError(err) {
		return corruptError(b.task, b.path, err)
	}
	return fmt.Errorf("pebblestore: read task %s in %s: %w", b.task, b.path, err)
}

// failure is why a backend takes no more changes.
type failure struct {
	cause   error
	corrupt bool
}

func (b *backend) failureError(f *failure) error {
	if f.corrupt {
		return corruptError(b.task, b.path, f.cause)
	}
	return fmt.Errorf("pebblestore: task %s in %s takes no more changes%s: %w; make room or mend the disk, and open the task anew: it goes on from its last flush",
		b.task, b.path, freeText(b.files.FS, b.path), f.cause)
}

// freeText tells how much space is left where path is, if that can be told.
func freeText(fsys vfs.FS, path string) string {
	u, err := fsys.GetDiskUsage(path)
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (%s of %s free there)", bytesText(u.AvailBytes), bytesText(u.TotalBytes))
}

func bytesText(n uint64) string {
	switch {
	case n < 10<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 10<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}
