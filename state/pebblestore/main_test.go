package pebblestore

import (
	"bytes"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/state/statetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestProvider(t *testing.T) {
	for name, fs := range map[string]func() vfs.FS{
		"memory": func() vfs.FS { return vfs.NewMem() },
		"disk":   func() vfs.FS { return vfs.Default },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			statetest.Run(t, func(t *testing.T) state.Provider {
				return provider(t, Config{FS: fs()})
			}, statetest.Options{Keeps: true})
		})
	}
}

// The same again with flushes all the time, so that what is read comes from files.
func TestProviderFlushing(t *testing.T) {
	t.Parallel()
	statetest.Run(t, func(t *testing.T) state.Provider {
		return provider(t, Config{FS: vfs.NewMem(), FlushBytes: 1})
	}, statetest.Options{Keeps: true})
}

const task = "1_3"

func specs() []state.Spec {
	return []state.Spec{
		{Name: "totals", Kind: state.KeyValueKind},
		{Name: "per-hour", Kind: state.WindowKind, Retention: 3_600_000},
	}
}

// provider returns one that is closed at the end of the test. It logs to the test.
func provider(t testing.TB, c Config) *Provider {
	t.Helper()
	if c.Dir == "" {
		c.Dir = t.TempDir()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	p := New(c)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close the provider: %v", err)
		}
	})
	return p
}

func open(t testing.TB, p *Provider, specs []state.Spec) *backend {
	t.Helper()
	b, err := p.Open(task, specs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b.(*backend)
}

func closeBackend(t testing.TB, b state.Backend) {
	t.Helper()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}

func put(store int, key, value string) state.Mutation {
	return state.Mutation{Store: store, Key: []byte(key), Value: []byte(value)}
}

// at is a position for each store.
func at(stores int, offset int64) []*state.Position {
	all := make([]*state.Position, stores)
	for i := range all {
		all[i] = &state.Position{TopicID: [16]byte{byte(i)}, Offset: offset, LeaderEpoch: 1, AppliedAt: offset * 10}
	}
	return all
}

func apply(t testing.TB, b state.Backend, offset int64, ms ...state.Mutation) {
	t.Helper()
	if err := b.Apply(slices.Values(ms), at(len(b.(*backend).stores), offset)); err != nil {
		t.Fatal(err)
	}
}

// contents of one store.
func contents(t testing.TB, r state.Reader, store int) map[string]string {
	t.Helper()
	all := map[string]string{}
	for e, err := range r.Scan(store, nil, nil) {
		if err != nil {
			t.Fatal(err)
		}
		all[string(e.Key)] = string(e.Value)
	}
	return all
}

func want(t testing.TB, r state.Reader, store int, all map[string]string) {
	t.Helper()
	if got := contents(t, r, store); !maps.Equal(got, all) {
		t.Errorf("store %d holds %s, want %s", store, show(got), show(all))
	}
}

func show(all map[string]string) string {
	var s bytes.Buffer
	for i, k := range slices.Sorted(maps.Keys(all)) {
		if i == 5 {
			fmt.Fprintf(&s, " … %d in all", len(all))
			break
		}
		fmt.Fprintf(&s, " %q:%.20q", k, all[k])
	}
	return "{" + s.String() + " }"
}

// flush brings everything to disk, as time or bytes would.
func flush(t testing.TB, b *backend) {
	t.Helper()
	done, err := b.db.AsyncFlush()
	if err != nil {
		t.Fatal(err)
	}
	<-done
}

func repeat(n int, m func(i int) state.Mutation) iter.Seq[state.Mutation] {
	return func(yield func(state.Mutation) bool) {
		for i := range n {
			if !yield(m(i)) {
				return
			}
		}
	}
}
