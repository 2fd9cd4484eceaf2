package state_test

import (
	"errors"
	"fmt"
	"iter"
	"testing"

	"github.com/headrace/headrace/state"
)

// behind hides what a backend is, so that the transaction treats it as it does one on disk, and counts the reads that reach it.
type behind struct {
	state.Backend
	reads int
	fail  error // of the next Apply
}

func (b *behind) Get(store int, key []byte) ([]byte, bool, error) {
	b.reads++
	return b.Backend.Get(store, key)
}

func (b *behind) Apply(ms iter.Seq[state.Mutation], at []*state.Position) error {
	if err := b.fail; err != nil {
		b.fail = nil
		return err
	}
	return b.Backend.Apply(ms, at)
}

func openMemory(t *testing.T) state.Backend {
	t.Helper()
	b, err := state.Memory().Open("0_0", twoStores)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// eachBackend runs a test on a backend whose cells the transaction shares, and on one that it has a cache in front of.
func eachBackend(t *testing.T, test func(t *testing.T, b state.Backend, txn *state.Txn)) {
	for _, name := range []string{"shared", "cached"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := openMemory(t)
			if name == "cached" {
				b = &behind{Backend: b}
			}
			test(t, b, state.NewTxn(b, twoStores))
		})
	}
}

func mustCommit(t testing.TB, txn *state.Txn) {
	t.Helper()
	if err := txn.Commit(make([]*state.Position, 2)); err != nil {
		t.Fatal(err)
	}
}

func mustExpire(t testing.TB, txn *state.Txn, floor string) {
	t.Helper()
	if err := txn.Expire(0, []byte(floor)); err != nil {
		t.Fatal(err)
	}
}

func mutations(txn *state.Txn) []string {
	var got []string
	for m := range txn.Mutations() {
		got = append(got, fmt.Sprintf("%d %s=%s", m.Store, m.Key, m.Value))
	}
	return got
}

// TestExpire: what lies below the floor is gone for every reader of the transaction at once, for readers of the backend with the commit,
// and for the changelog not at all.
func TestExpire(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b state.Backend, txn *state.Txn) {
		for _, k := range []string{"a", "b", "c", "d"} {
			mustPut(t, txn, 0, k, "1")
		}
		mustPut(t, txn, 1, "a", "1")
		mustCommit(t, txn)
		mustPut(t, txn, 0, "b", "2")
		mustPut(t, txn, 0, "d", "2")
		mustExpire(t, txn, "c")
		wantKeys(t, txn, 0, "c=1", "d=2")
		wantKeys(t, txn, 1, "a=1")
		wantKeys(t, b, 0, "a=1", "b=1", "c=1", "d=1")
		for _, k := range []string{"a", "b"} {
			if v, ok, err := txn.Get(0, []byte(k)); ok || err != nil {
				t.Errorf("Get(%s) below the floor: %q, %v, %v; want nothing", k, v, ok, err)
			}
			if err := txn.Put(0, []byte(k), nil); !errors.Is(err, state.ErrExpired) {
				t.Errorf("Put(%s) below the floor: %v, want ErrExpired", k, err)
			}
			if err := txn.Delete(0, []byte(k)); !errors.Is(err, state.ErrExpired) {
				t.Errorf("Delete(%s) below the floor: %v, want ErrExpired", k, err)
			}
		}
		if got, want := fmt.Sprint(mutations(txn)), "[0 d=2]"; got != want {
			t.Errorf("mutations %s, want %s", got, want)
		}
		mustCommit(t, txn)
		wantKeys(t, b, 0, "c=1", "d=2")
		wantKeys(t, b, 1, "a=1")
		mustExpire(t, txn, "b") // never goes back
		wantKeys(t, txn, 0, "c=1", "d=2")
		if got := string(txn.Floor(0)); got != "c" {
			t.Errorf("floor %q, want c", got)
		}
	})
}

// TestExpireRollback: the floor goes back with the unit that raised it, and with the transaction, but not over what was frozen.
func TestExpireRollback(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b state.Backend, txn *state.Txn) {
		for _, k := range []string{"a", "b", "c", "d"} {
			mustPut(t, txn, 0, k, "1")
		}
		mustCommit(t, txn)
		mustExpire(t, txn, "b")
		txn.Savepoint()
		mustExpire(t, txn, "c")
		mustExpire(t, txn, "d")
		txn.Rollback()
		wantKeys(t, txn, 0, "b=1", "c=1", "d=1")
		mustPut(t, txn, 0, "b", "2")

		txn.Freeze()
		mustExpire(t, txn, "d")
		wantKeys(t, txn, 0, "d=1")
		if got, want := fmt.Sprint(mutations(txn)), "[0 b=2]"; got != want {
			t.Errorf("mutations of what is frozen: %s, want %s", got, want)
		}
		mustCommit(t, txn)
		wantKeys(t, b, 0, "b=2", "c=1", "d=1")
		wantKeys(t, txn, 0, "d=1")

		txn.Drop()
		wantKeys(t, txn, 0, "b=2", "c=1", "d=1")
		if err := txn.Put(0, []byte("a"), nil); !errors.Is(err, state.ErrExpired) {
			t.Errorf("Put below the floor that was committed: %v, want ErrExpired", err)
		}
	})
}

// TestExpireWhatIsFrozen: a key that was written and frozen, and has expired since, is committed, and gone with the commit behind.
func TestExpireWhatIsFrozen(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b state.Backend, txn *state.Txn) {
		mustPut(t, txn, 0, "a", "1")
		txn.Freeze()
		mustPut(t, txn, 0, "a", "2")
		mustExpire(t, txn, "b")
		mustCommit(t, txn)
		wantKeys(t, b, 0, "a=1")
		wantKeys(t, txn, 0)
		mustPut(t, txn, 0, "c", "3")
		mustCommit(t, txn)
		wantKeys(t, b, 0, "c=3")
		wantKeys(t, txn, 0, "c=3")
	})
}

// TestSnapshotOverExpire: a snapshot keeps what has expired since.
func TestSnapshotOverExpire(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b state.Backend, txn *state.Txn) {
		mustPut(t, txn, 0, "a", "1")
		mustPut(t, txn, 0, "b", "1")
		mustCommit(t, txn)
		s, err := b.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		defer s.Release()
		mustPut(t, txn, 0, "b", "2")
		mustExpire(t, txn, "b")
		mustCommit(t, txn)
		wantKeys(t, s, 0, "a=1", "b=1")
		wantKeys(t, b, 0, "b=2")
	})
}

// TestTxnCache: a key is read from the backend once, whether it is there or not, and what was committed needs no reading.
func TestTxnCache(t *testing.T) {
	t.Parallel()
	b := &behind{Backend: openMemory(t)}
	want := func(txn *state.Txn, key, value string, reads int) {
		t.Helper()
		b.reads = 0
		for range 2 {
			v, ok, err := txn.Get(0, []byte(key))
			if err != nil || ok != (value != "") || string(v) != value {
				t.Errorf("Get(%s) = %q, %v, %v; want %q", key, v, ok, err, value)
			}
		}
		if b.reads != reads {
			t.Errorf("Get(%s) twice read the backend %d times, want %d", key, b.reads, reads)
		}
	}
	txn := state.NewTxn(b, twoStores)
	mustPut(t, txn, 0, "a", "1")
	mustPut(t, txn, 0, "b", "1")
	mustCommit(t, txn)
	want(txn, "a", "1", 0)
	want(txn, "x", "", 1)
	want(txn, "x", "", 0)

	txn = state.NewTxn(b, twoStores)
	want(txn, "a", "1", 1)
	mustPut(t, txn, 0, "a", "2")
	if err := txn.Delete(0, []byte("b")); err != nil {
		t.Fatal(err)
	}
	mustPut(t, txn, 0, "x", "2")
	txn.Rollback()
	want(txn, "a", "1", 0)
	want(txn, "x", "", 1)
	mustPut(t, txn, 0, "a", "2")
	if err := txn.Delete(0, []byte("b")); err != nil {
		t.Fatal(err)
	}
	txn.Freeze()
	mustPut(t, txn, 0, "a", "3")
	full := errors.New("disk full")
	b.fail = full
	if err := txn.Commit(make([]*state.Position, 2)); !errors.Is(err, full) {
		t.Errorf("Commit: %v, want the backend's error", err)
	}
	want(txn, "a", "3", 0)
	mustCommit(t, txn)
	want(txn, "a", "3", 0)
	txn.Drop()
	want(txn, "a", "2", 0)
	want(txn, "b", "", 0)
	txn.CacheBytes(0)
	want(txn, "a", "2", 2)
}

// TestTxnCacheIsBounded: however many keys are read and written, few stay, and all are right.
func TestTxnCacheIsBounded(t *testing.T) {
	t.Parallel()
	b := &behind{Backend: openMemory(t)}
	txn := state.NewTxn(b, twoStores)
	txn.CacheBytes(10_000)
	key := func(i int) string { return fmt.Sprintf("key %d", i) }
	for i := range 10_000 {
		mustPut(t, txn, 0, key(i), "1")
		if i%100 == 99 {
			mustCommit(t, txn)
		}
	}
	b.reads = 0
	for i := range 10_000 {
		if v, ok, err := txn.Get(0, []byte(key(i))); !ok || err != nil || string(v) != "1" {
			t.Fatalf("Get(%d) = %q, %v, %v", i, v, ok, err)
		}
		if i%100 == 99 {
			mustCommit(t, txn)
		}
	}
	if b.reads < 9_900 {
		t.Errorf("%d of 10,000 reads reached the backend: the cache holds more than 10,000 bytes", b.reads)
	}
}

// TestOneTxnAtATime: a backend in memory has one transaction, and what the one before held is gone.
func TestOneTxnAtATime(t *testing.T) {
	t.Parallel()
	b, old := openTwo(t)
	mustPut(t, old, 0, "a", "1")
	mustCommit(t, old)
	mustPut(t, old, 0, "a", "2")
	old.Freeze()
	mustPut(t, old, 0, "a", "3")
	mustPut(t, old, 0, "b", "3")
	txn := state.NewTxn(b, twoStores)
	wantKeys(t, txn, 0, "a=1")
	if _, _, err := old.Get(0, []byte("a")); err == nil {
		t.Error("Get of the transaction before: no error")
	}
	if err := old.Commit(make([]*state.Position, 2)); err == nil {
		t.Error("Commit of the transaction before: no error")
	}
	mustPut(t, old, 0, "a", "4")
	mustPut(t, txn, 0, "a", "5")
	mustCommit(t, txn)
	wantKeys(t, b, 0, "a=5")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := txn.Get(0, []byte("a")); err == nil {
		t.Error("Get after Close: no error")
	}
}
