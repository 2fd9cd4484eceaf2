package pebblestore

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Names in the state directory besides those of tasks.
const (
	lockName     = "LOCK"
	ownerName    = "owner"
	instanceName = "instance"
	tempName     = "instance.tmp"
)

// instanceForm is what an instance id looks like.
var instanceForm = regexp.MustCompile(`^[0-9a-f]{16}$`)

// lockDir makes the directory and takes its lock. Who holds it stands in a file of its own: the lock goes with any descriptor of the
// lock file that is closed in the process, so nothing may ever open that one to read it.
func lockDir(fsys vfs.FS, dir string) (io.Closer, error) {
	if err := makeDir(fsys, dir); err != nil {
		return nil, dirError(dir, err)
	}
	lock, err := fsys.Lock(fsys.PathJoin(dir, lockName))
	if err != nil {
		var path *fs.PathError // the lock file cannot be made; a lock that is held has no path
		if errors.As(err, &path) {
			return nil, dirError(dir, err)
		}
		who := "another process"
		if text, err := readFile(fsys, fsys.PathJoin(dir, ownerName)); err == nil && len(text) > 0 {
			who = strings.TrimSpace(string(text))
			if strings.HasPrefix(who, fmt.Sprintf("pid %d ", os.Getpid())) {
				who += ", this very process"
			}
		}
		return nil, fmt.Errorf("pebblestore: state directory %s is in use by %s: only one process at a time can have it; stop that one, or give this one a directory of its own (%w)", dir, who, err)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	owner := fmt.Sprintf("pid %d on %s since %s\n", os.Getpid(), host, time.Now().UTC().Format(time.RFC3339))
	if err := writeFile(fsys, fsys.PathJoin(dir, ownerName), owner); err != nil {
		return nil, errors.Join(dirError(dir, err), lock.Close())
	}
	return lock, nil
}

// makeDir makes the directory and those above it that are missing, so that they outlast a loss of power.
func makeDir(fsys vfs.FS, dir string) error {
	var above []string
	for at := dir; ; {
		if _, err := fsys.Stat(at); err == nil || !errors.Is(err, fs.ErrNotExist) {
			break
		}
		up := fsys.PathDir(at)
		above = append(above, up)
		if up == at {
			break
		}
		at = up
	}
	if err := fsys.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, at := range above {
		// A directory that may be written but not read cannot be synced, which is nothing to stop for.
		if err := syncDir(fsys, at); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return nil
}

// dirError is about a directory that cannot be used.
func dirError(dir string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("pebblestore: state directory %s: not allowed for uid %d: %w; change the directory's owner, or give another one", dir, os.Getuid(), err)
	}
	return fmt.Errorf("pebblestore: state directory %s cannot be used: %w", dir, err)
}

// instanceID reads the directory's id, and makes one if there is none. The lock is held.
func instanceID(fsys vfs.FS, dir string) (string, error) {
	name := fsys.PathJoin(dir, instanceName)
	text, err := readFile(fsys, name)
	if err == nil {
		id := strings.TrimSpace(string(text))
		if !instanceForm.MatchString(id) {
			return "", fmt.Errorf("pebblestore: %s holds %.40q, which is no instance id: delete the file, and this process counts as a new instance", name, text)
		}
		return id, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("pebblestore: read the instance id: %w", err)
	}
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	id := hex.EncodeToString(random[:])
	// First under another name, so that what is there under the right one is whole.
	temp := fsys.PathJoin(dir, tempName)
	if err = writeFile(fsys, temp, id+"\n"); err == nil {
		if err = fsys.Rename(temp, name); err == nil {
			err = syncDir(fsys, dir)
		}
	}
	if err != nil {
		return "", fmt.Errorf("pebblestore: keep the instance id in %s: %w", name, err)
	}
	return id, nil
}

func readFile(fsys vfs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, 4<<10))
	return text, errors.Join(err, f.Close())
}

func writeFile(fsys vfs.FS, name, text string) error {
	f, err := fsys.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if _, err = io.WriteString(f, text); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func syncDir(fsys vfs.FS, dir string) error {
	d, err := fsys.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
