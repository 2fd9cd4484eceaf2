package pebblestore

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headrace/headrace/internal/disktest"
	"github.com/headrace/headrace/state"
)

// A real disk that is full: 16 MiB of tmpfs, most of it taken.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := disktest.Small(t)
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 11<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	const timeout = 5 * time.Second
	p := provider(t, Config{Dir: filepath.Join(dir, "state"), FlushBytes: 512 << 10, StallTimeout: timeout})
	b := open(t, p, specs())
	h := history{{put(0, "first", noise(0, 10))}}
	apply(t, b, 1, h[0]...)
	flush(t, b)

	for err := error(nil); ; {
		// Values that do not compress, under ever new keys.
		ms := []state.Mutation{put(0, time.Now().String(), noise(len(h), 50_000)), put(1, "n", noise(len(h), 10))}
		began := time.Now()
		err = b.Apply(func(yield func(state.Mutation) bool) { _ = yield(ms[0]) && yield(ms[1]) }, at(2, int64(len(h)+1)))
		if took := time.Since(began); took > timeout+time.Second {
			t.Errorf("Apply took %v", took)
		}
		if err == nil {
			if h = append(h, ms); len(h) > 2000 {
				t.Fatal("100 MB went onto a disk of 5 MiB")
			}
			continue
		}
		t.Logf("after %d applies: %v", len(h), err)
		for _, s := range []string{b.path, "free there", "no space left on device"} {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("error %q does not say %q", err, s)
			}
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("error %v, want ENOSPC", err)
		}
		break
	}
	if err := b.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	b = open(t, p, specs())
	offset := checkPrefix(t, 0, b, h)
	t.Logf("goes on from position %d of %d", offset, len(h))
	if offset == 0 {
		t.Error("what was flushed is gone")
	}
	for i := range 20 {
		apply(t, b, offset+int64(i)+1, put(0, "again", noise(i, 50_000)))
	}
	closeBackend(t, b)
}

func noise(seed, n int) string {
	b := make([]byte, n)
	x := uint64(seed)*2654435761 + 88172645463325252
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
	return string(b)
}
