package state_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
)

const benchKeys = 100_000

// filled returns a backend with benchKeys 8-byte keys, and the keys in a fixed shuffle.
func filled(b *testing.B) (state.Backend, []state.Spec, [][]byte) {
	b.Helper()
	specs := []state.Spec{{Name: "totals", Kind: state.KeyValueKind}}
	backend, err := state.Memory().Open("0_0", specs)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = backend.Close() })
	keys := make([][]byte, benchKeys)
	ms := make([]state.Mutation, benchKeys)
	for i := range keys {
		keys[i] = binary.BigEndian.AppendUint64(nil, uint64(i))
		ms[i] = state.Mutation{Key: keys[i], Value: make([]byte, 16)}
	}
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	if err := backend.Apply(slices.Values(ms), make([]*state.Position, 1)); err != nil {
		b.Fatal(err)
	}
	return backend, specs, keys
}

// BenchmarkTxnWritten is a record on a key that the transaction has written before.
func BenchmarkTxnWritten(b *testing.B) {
	backend, specs, keys := filled(b)
	txn := state.NewTxn(backend, specs)
	value := make([]byte, 16)
	keys = keys[:1000]
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		txn.Savepoint()
		k := keys[i%len(keys)]
		if _, _, err := txn.Get(0, k); err != nil {
			b.Fatal(err)
		}
		if err := txn.Put(0, k, value); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTxn is a count per key: read, write, and a commit after so many records.
func BenchmarkTxn(b *testing.B) {
	for _, records := range []int{100, 40_000} {
		b.Run(fmt.Sprintf("commit=%d", records), func(b *testing.B) {
			backend, specs, keys := filled(b)
			txn := state.NewTxn(backend, specs)
			value := make([]byte, 16)
			at := []*state.Position{{Offset: 1}}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				txn.Savepoint()
				k := keys[i%len(keys)]
				if _, _, err := txn.Get(0, k); err != nil {
					b.Fatal(err)
				}
				if err := txn.Put(0, k, value); err != nil {
					b.Fatal(err)
				}
				if txn.Len() == records {
					for range txn.Mutations() { // as the changelog does
					}
					if err := txn.Commit(at); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// BenchmarkMemoryRestore applies batches in the order of a changelog to a store of benchKeys.
func BenchmarkMemoryRestore(b *testing.B) {
	backend, _, keys := filled(b)
	ms := make([]state.Mutation, 0, 1000)
	at := []*state.Position{{Offset: 1}}
	value := make([]byte, 16)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		ms = append(ms, state.Mutation{Key: keys[i%len(keys)], Value: value})
		if len(ms) == cap(ms) {
			if err := backend.Apply(slices.Values(ms), at); err != nil {
				b.Fatal(err)
			}
			ms = ms[:0]
		}
	}
}

// BenchmarkTxnScan is a range of 10 entries, half of them in the overlay.
func BenchmarkTxnScan(b *testing.B) {
	backend, specs, keys := filled(b)
	slices.SortFunc(keys, slices.Compare)
	txn := state.NewTxn(backend, specs)
	for i := 0; i < len(keys); i += 2 {
		if err := txn.Put(0, keys[i], make([]byte, 16)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		from := i % (len(keys) - 10)
		n := 0
		for range txn.Scan(0, keys[from], keys[from+10]) {
			n++
		}
		if n != 10 {
			b.Fatal(n)
		}
	}
}

func BenchmarkKeyValueView(b *testing.B) {
	backend, specs, _ := filled(b)
	txn := state.NewTxn(backend, specs)
	totals, err := state.KeyValueOf("totals", serde.Int64(), serde.Int64()).Open(host{txn})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		txn.Savepoint()
		k := int64(i % 1000)
		n, _, err := totals.Get(k)
		if err != nil {
			b.Fatal(err)
		}
		if err := totals.Put(k, n+1); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTxnWindows is a tumbling count in which nearly each record opens a window for its key, and closed windows are
// scanned and deleted: 60,000 keys a window, a commit after 40,000 records.
func BenchmarkTxnWindows(b *testing.B) {
	specs := []state.Spec{{Name: "per-minute", Kind: state.WindowKind}}
	backend, err := state.Memory().Open("0_0", specs)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = backend.Close() })
	txn := state.NewTxn(backend, specs)
	value := make([]byte, 16)
	at := []*state.Position{{Offset: 1}}
	var key, inner []byte
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		start := int64(i/60_000) * 60_000
		inner = binary.BigEndian.AppendUint64(inner[:0], uint64(i)*7919%benchKeys)
		key = state.AppendWindowKey(key[:0], start, inner)
		txn.Savepoint()
		if _, _, err := txn.Get(0, key); err != nil {
			b.Fatal(err)
		}
		if err := txn.Put(0, key, value); err != nil {
			b.Fatal(err)
		}
		if i%60_000 == 59_999 {
			for e, err := range txn.Scan(0, state.AppendWindowStart(nil, start), nil) {
				if err != nil {
					b.Fatal(err)
				}
				if err := txn.Delete(0, e.Key); err != nil {
					b.Fatal(err)
				}
			}
		}
		if i%40_000 == 0 {
			for range txn.Mutations() { // as the changelog does
			}
			if err := txn.Commit(at); err != nil {
				b.Fatal(err)
			}
		}
	}
}
