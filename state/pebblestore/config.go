package pebblestore

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Config says where and how state is kept. The zero value of each field but Dir is a good choice.
type Config struct {
	// Dir is the directory of the app's state. It is made, readable by its owner only, if it does not exist. Required.
	Dir string

	// MemoryBudget bounds, in bytes, the block cache and the changes that wait to be flushed, of all tasks together. Half of it
	// may be taken by the latter. Default 256 MiB, at least 8 MiB.
	MemoryBudget int64

	// FlushBytes is how many bytes of keys and values a task gathers before they go to disk, and so about how much is
	// read again after a crash. Less is gathered if many tasks share the budget. Default 16 MiB.
	FlushBytes int64

	// FlushInterval is how old a change gets before it goes to disk. Default 5 s.
	FlushInterval time.Duration

	// StallTimeout is how long Apply waits for a disk that makes no progress at all, and Close for one that does not answer,
	// before the backend is given up. Keep it below the transaction timeout. Default 10 s.
	StallTimeout time.Duration

	// Logger is told when a task fails and what Pebble complains of. Default slog.Default().
	Logger *slog.Logger

	// FS is the file system. Tests give vfs.NewMem(). Default vfs.Default, the operating system's.
	FS vfs.FS
}

const (
	defaultBudget        = 256 << 20
	minBudget            = 8 << 20
	defaultFlushBytes    = 16 << 20
	defaultFlushInterval = 5 * time.Second
	defaultStallTimeout  = 10 * time.Second
)

// withDefaults returns the Config that is meant. An error names the field.
func (c Config) withDefaults() (Config, error) {
	if c.Dir == "" {
		return c, fmt.Errorf("pebblestore: no directory: give Config.Dir, or the argument of In")
	}
	for _, field := range []struct {
		name  string
		value int64
	}{
		{"MemoryBudget", c.MemoryBudget},
		{"FlushBytes", c.FlushBytes},
		{"FlushInterval", int64(c.FlushInterval)},
		{"StallTimeout", int64(c.StallTimeout)},
	} {
		if field.value < 0 {
			return c, fmt.Errorf("pebblestore: Config.%s is %d: give a positive number, or 0 for the default", field.name, field.value)
		}
	}
	if c.MemoryBudget > 0 && c.MemoryBudget < minBudget {
		return c, fmt.Errorf("pebblestore: Config.MemoryBudget is %s: give at least %s", bytesText(uint64(c.MemoryBudget)), bytesText(minBudget))
	}
	if c.MemoryBudget == 0 {
		c.MemoryBudget = defaultBudget
	}
	if c.FlushBytes == 0 {
		c.FlushBytes = defaultFlushBytes
	}
	if c.FlushInterval == 0 {
		c.FlushInterval = defaultFlushInterval
	}
	if c.StallTimeout == 0 {
		c.StallTimeout = defaultStallTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.FS == nil {
		c.FS = vfs.Default
		dir, err := filepath.Abs(c.Dir)
		if err != nil {
			return c, fmt.Errorf("pebblestore: state directory %s: %w", c.Dir, err)
		}
		c.Dir = dir
	}
	return c, nil
}
