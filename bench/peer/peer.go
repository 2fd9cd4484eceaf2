// Package peer is what runs in a peer's process: this project, and the loop without a framework that sets the bound. It uses nothing
// but the public packages of the library, as any service does.
package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/bench/plan"
)

// Main does a peer's work until in ends, and says on out what plan.Spec tells of.
func Main(s plan.Spec, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, in) // whoever holds the other end says nothing; it ends, or is gone
		cancel()
	}()
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	stop, err := profile(s.Profiles)
	if err != nil {
		return err
	}
	say := &speaker{out: out}
	if s.Peer == plan.Raw {
		err = raw(ctx, &s, say)
	} else {
		err = headrace(ctx, &s, say)
	}
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = nil
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	say.line(plan.Allocd, m.Mallocs, m.TotalAlloc)
	return errors.Join(err, stop())
}

// speaker writes lines for whoever measures.
type speaker struct {
	mu    sync.Mutex
	out   io.Writer
	first atomic.Bool
}

func (s *speaker) line(words ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintln(s.out, words...)
}

func (s *speaker) now(what string, more ...any) {
	s.line(append([]any{what, time.Now().UnixNano()}, more...)...)
}

// emptyFetch is what no answer to a fetch exceeds that has no records in it, but with very many partitions, in bytes.
const emptyFetch = 4 << 10

// OnBrokerE2E is a hook of the client: it tells when the first records began to arrive. It sees what is fetched to restore stores, too,
// which the hooks for batches do not.
func (s *speaker) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e kgo.BrokerE2E) {
	const fetch = 1
	if key == fetch && e.BytesRead > emptyFetch && !s.first.Load() && s.first.CompareAndSwap(false, true) {
		s.line(plan.First, time.Now().Add(-e.TimeToRead).UnixNano())
	}
}

// settings tells what people should know of how the peer is set.
func (s *speaker) settings(format string, args ...any) {
	var env []string
	for _, name := range []string{"GOGC", "GOMEMLIMIT", "GOMAXPROCS", "GOEXPERIMENT"} {
		if v := os.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	if env == nil {
		env = []string{"Go's own settings"}
	}
	s.line(plan.Settings, fmt.Sprintf(format, args...)+"; "+strings.Join(env, " "))
}
