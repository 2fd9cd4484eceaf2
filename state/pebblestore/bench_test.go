package pebblestore

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/headrace/headrace/state"
)

const benchKeys = 100_000

// backends are what is measured: memory to compare with, and Pebble with its entries on disk, in files and block cache.
var backends = []struct {
	name string
	open func(b *testing.B) state.Backend
}{
	{"memory", func(b *testing.B) state.Backend {
		m, err := state.Memory().Open(task, specs())
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = m.Close() })
		return m
	}},
	{"pebble", func(b *testing.B) state.Backend { return open(b, provider(b, Config{}), specs()) }},
}

func benchKey(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)) }

// filled holds benchKeys entries of 100 bytes, written in a random order.
func filled(b *testing.B, open func(b *testing.B) state.Backend) state.Backend {
	b.Helper()
	backend := open(b)
	order := rand.New(rand.NewPCG(1, 1)).Perm(benchKeys)
	value := make([]byte, 100)
	for len(order) > 0 {
		err := backend.Apply(func(yield func(state.Mutation) bool) {
			for _, i := range order[:1000] {
				if !yield(state.Mutation{Key: benchKey(i), Value: value}) {
					return
				}
			}
		}, at(2, 1))
		if err != nil {
			b.Fatal(err)
		}
		order = order[1000:]
	}
	if p, ok := backend.(*onDisk); ok {
		flush(b, p)
	}
	return backend
}

// onDisk is a name for the type where a variable takes its own.
type onDisk = backend

func BenchmarkGet(b *testing.B) {
	for _, kind := range backends {
		b.Run(kind.name, func(b *testing.B) {
			backend := filled(b, kind.open)
			r := rand.New(rand.NewPCG(2, 2))
			key := make([]byte, 8)
			b.ReportAllocs()
			for b.Loop() {
				binary.BigEndian.PutUint64(key, r.Uint64N(benchKeys))
				if _, ok, err := backend.Get(0, key); !ok || err != nil {
					b.Fatal(ok, err)
				}
			}
		})
	}
}

func BenchmarkGetAbsent(b *testing.B) {
	for _, kind := range backends {
		b.Run(kind.name, func(b *testing.B) {
			backend := filled(b, kind.open)
			r := rand.New(rand.NewPCG(2, 2))
			key := make([]byte, 9)
			b.ReportAllocs()
			for b.Loop() {
				binary.BigEndian.PutUint64(key, r.Uint64N(benchKeys))
				if _, ok, err := backend.Get(0, key); ok || err != nil {
					b.Fatal(ok, err)
				}
			}
		})
	}
}

// One Apply of 1000 changes of random keys, with all that it costs later: the time of each change, flushes and compactions included.
func BenchmarkApply(b *testing.B) {
	for _, kind := range backends {
		b.Run(kind.name, func(b *testing.B) {
			backend := filled(b, kind.open)
			r := rand.New(rand.NewPCG(2, 2))
			value := make([]byte, 100)
			keys := make([]byte, 8*1000)
			positions := at(2, 1)
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				err := backend.Apply(func(yield func(state.Mutation) bool) {
					for i := range 1000 {
						key := keys[8*i : 8*i+8]
						binary.BigEndian.PutUint64(key, r.Uint64N(benchKeys))
						if !yield(state.Mutation{Key: key, Value: value}) {
							return
						}
					}
				}, positions)
				if err != nil {
					b.Fatal(err)
				}
				n += 1000
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/change")
		})
	}
}

// A scan of 10 entries from a random key on, as closing a window is one.
func BenchmarkScan(b *testing.B) {
	for _, kind := range backends {
		b.Run(kind.name, func(b *testing.B) {
			backend := filled(b, kind.open)
			r := rand.New(rand.NewPCG(2, 2))
			b.ReportAllocs()
			for b.Loop() {
				i := r.IntN(benchKeys - 10)
				n := 0
				for _, err := range backend.Scan(0, benchKey(i), benchKey(i+10)) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
				if n != 10 {
					b.Fatal(n)
				}
			}
		})
	}
}

// The whole store, entry by entry.
func BenchmarkScanAll(b *testing.B) {
	for _, kind := range backends {
		b.Run(kind.name, func(b *testing.B) {
			backend := filled(b, kind.open)
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				for _, err := range backend.Scan(0, nil, nil) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/entry")
		})
	}
}
