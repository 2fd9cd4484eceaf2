package pebblestore

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
)

const (
	// pebbleFormat is the format of Pebble's files. A newer one cannot be read by an older version of ours, so it is not raised
	// without need.
	pebbleFormat = pebble.FormatTableFormatV6

	// Waiting is our own business (see room): Pebble's would hold locks that Close needs, for ever if the disk is full.
	neverStop = 1 << 20

	maxOpenFiles = 512
	minMemTable  = 1 << 20
	maxMemTable  = 64 << 20
)

// options are those of one task's Pebble. memTable is a size in bytes.
func (b *backend) options(caches *caches, memTable int64) *pebble.Options {
	o := &pebble.Options{
		FS:                          b.files,
		Cache:                       caches.blocks,
		FileCache:                   caches.files,
		DisableWAL:                  true,
		FormatMajorVersion:          pebbleFormat,
		MemTableSize:                uint64(memTable),
		MemTableStopWritesThreshold: neverStop,
		L0StopWritesThreshold:       neverStop,
		L0CompactionThreshold:       4,
		LBaseMaxBytes:               64 << 20,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 2 },
		Logger:                      logger{b},
		EventListener: &pebble.EventListener{
			BackgroundError: func(err error) { b.fail(err, pebble.IsCorruptionError(err)) },
			DataCorruption:  func(info pebble.DataCorruptionInfo) { b.fail(fmt.Errorf("%s: %w", info.Path, info.Details), true) },
			CompactionEnd: func(pebble.CompactionInfo) {
				select {
				case b.compacted <- struct{}{}:
				default:
				}
			},
		},
	}
	// Sampling reads to find what to compact costs every read, and what it finds is rarely worth it in stores of this size.
	o.Experimental.ReadSamplingMultiplier = -1
	for i := range o.Levels {
		l := &o.Levels[i]
		l.BlockSize = 8 << 10
		l.IndexBlockSize = 64 << 10
		l.FilterPolicy = bloom.FilterPolicy(10) // also at the bottom: a store is asked for keys that are new
		l.Compression = func() *sstable.CompressionProfile { return sstable.FastestCompression }
	}
	// Young files are soon written again.
	o.Levels[0].Compression = func() *sstable.CompressionProfile { return sstable.NoCompression }
	for i := range o.TargetFileSizes {
		o.TargetFileSizes[i] = 4 << 20 << min(i, 3)
	}
	return o
}

// logger takes what Pebble says. Pebble's own ends the process in Fatalf.
type logger struct{ b *backend }

func (logger) Infof(string, ...any) {}

func (l logger) Errorf(format string, args ...any) {
	l.b.log.Warn("pebble complains", "err", fmt.Sprintf(format, args...))
}

// Fatalf is called where Pebble sees no way on: where something is wrong with Pebble, since failures of the disk do not get here (see
// gate). It may be called with Pebble's locks held, so it can neither end the goroutine nor wait. It shuts the disk off for good and
// returns. What runs on then, in memory, is not trusted any more (see sound), and is thrown away with the backend.
func (l logger) Fatalf(format string, args ...any) {
	defer l.b.files.sealed.Store(true) // after the failure is known
	defer l.b.unsound.Store(true)
	// An error among the arguments is the cause, and callers may look for it.
	for _, a := range args {
		if err, ok := a.(error); ok {
			l.b.fail(fmt.Errorf("pebble cannot go on: %w", err), pebble.IsCorruptionError(err))
			return
		}
	}
	l.b.fail(fmt.Errorf("pebble cannot go on: %s", strings.TrimSpace(fmt.Sprintf(format, args...))), false)
}

var _ pebble.Logger = logger{}

func taskLogger(l *slog.Logger, task string) *slog.Logger {
	return l.With("store", "pebble", "task", task)
}
