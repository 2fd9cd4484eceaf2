package state_test

import (
	"errors"
	"iter"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/state"
)

var twoStores = []state.Spec{{Name: "a", Kind: state.KeyValueKind}, {Name: "b", Kind: state.KeyValueKind}}

func openTwo(t *testing.T) (state.Backend, *state.Txn) {
	t.Helper()
	h := newHost(t, twoStores...)
	return h.txn.Backend(), h.txn
}

func mustPut(t testing.TB, txn *state.Txn, store int, key, value string) {
	t.Helper()
	if err := txn.Put(store, []byte(key), []byte(value)); err != nil {
		t.Fatal(err)
	}
}

func keys(t testing.TB, r state.Reader, store int) []string {
	t.Helper()
	var got []string
	for e, err := range r.Scan(store, nil, nil) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(e.Key)+"="+string(e.Value))
	}
	return got
}

func wantKeys(t testing.TB, r state.Reader, store int, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, keys(t, r, store)); diff != "" {
		t.Errorf("store %d (-want +got):\n%s", store, diff)
	}
}

func TestTxnKeepsWritesFromBackend(t *testing.T) {
	t.Parallel()
	b, txn := openTwo(t)
	mustPut(t, txn, 0, "k", "1")
	wantKeys(t, b, 0)
	wantKeys(t, txn, 0, "k=1")
	if err := txn.Commit([]*state.Position{{Offset: 5}, nil}); err != nil {
		t.Fatal(err)
	}
	wantKeys(t, b, 0, "k=1")
	if got := b.Position(0).Offset; got != 5 {
		t.Errorf("position %d, want 5", got)
	}
	if txn.Len() != 0 || txn.Bytes() != 0 {
		t.Errorf("after commit: Len %d, Bytes %d, want 0", txn.Len(), txn.Bytes())
	}

	if err := txn.Delete(0, []byte("k")); err != nil {
		t.Fatal(err)
	}
	mustPut(t, txn, 1, "k", "2")
	wantKeys(t, txn, 0)
	txn.Drop()
	wantKeys(t, txn, 0, "k=1")
	wantKeys(t, txn, 1)
}

// TestTxnRollbackWithoutSavepoint: a transaction begins with a savepoint, also the one after a commit.
func TestTxnRollbackWithoutSavepoint(t *testing.T) {
	t.Parallel()
	_, txn := openTwo(t)
	mustPut(t, txn, 0, "k", "1")
	txn.Rollback()
	wantKeys(t, txn, 0)

	mustPut(t, txn, 0, "k", "2")
	if err := txn.Commit(make([]*state.Position, 2)); err != nil {
		t.Fatal(err)
	}
	mustPut(t, txn, 0, "k", "3")
	txn.Rollback()
	txn.Rollback() // nothing left to undo
	wantKeys(t, txn, 0, "k=2")
}

// TestTxnBytesStay: what was read stays as it was, whatever becomes of the transaction.
func TestTxnBytesStay(t *testing.T) {
	t.Parallel()
	_, txn := openTwo(t)
	mustPut(t, txn, 0, "k", "first")
	got, _, err := txn.Get(0, []byte("k"))
	if err != nil {
		t.Fatal(err)
	}
	mustPut(t, txn, 0, "k", "other")
	_ = append(got, "grown"...) // must not reach into what was written next
	wantKeys(t, txn, 0, "k=other")
	txn.Rollback()
	mustPut(t, txn, 0, "k", "third")
	txn.Drop()
	for range 10_000 { // more than a chunk
		mustPut(t, txn, 0, "k", "fourth")
	}
	if string(got) != "first" {
		t.Errorf("value read before: %q, want %q", got, "first")
	}
	wantKeys(t, txn, 0, "k=fourth")
}

func TestTxnScanEndsWithTransaction(t *testing.T) {
	t.Parallel()
	end := map[string]func(*state.Txn) error{
		"commit": func(txn *state.Txn) error { return txn.Commit(make([]*state.Position, 2)) },
		"drop":   func(txn *state.Txn) error { txn.Drop(); return nil },
	}
	for name, end := range end {
		for _, committed := range []bool{true, false} {
			_, txn := openTwo(t)
			mustPut(t, txn, 0, "k", "1")
			mustPut(t, txn, 0, "l", "1")
			if committed {
				if err := txn.Commit(make([]*state.Position, 2)); err != nil {
					t.Fatal(err)
				}
			}
			n, failed := 0, false
			for _, err := range txn.Scan(0, nil, nil) {
				if n++; err != nil {
					failed = true
					continue
				}
				if err := end(txn); err != nil {
					t.Fatal(err)
				}
			}
			if n != 2 || !failed {
				t.Errorf("%s, committed %v: %d steps, failed %v; want one entry and then the error", name, committed, n, failed)
			}
			if err := txn.Backend().Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

var errDisk = errors.New("disk is gone")

// broken is a backend that fails.
type broken struct{ state.Backend }

func (broken) Get(int, []byte) ([]byte, bool, error) { return nil, false, errDisk }

func (b broken) Scan(store int, from, to []byte) iter.Seq2[state.Entry, error] {
	return func(yield func(state.Entry, error) bool) {
		for e := range b.Backend.Scan(store, from, to) {
			if !yield(e, nil) {
				return
			}
			break
		}
		yield(state.Entry{}, errDisk)
	}
}

func (broken) Apply(iter.Seq[state.Mutation], []*state.Position) error { return errDisk }

func TestTxnBackendFails(t *testing.T) {
	t.Parallel()
	b, txn := openTwo(t)
	mustPut(t, txn, 0, "k", "1")
	mustPut(t, txn, 0, "m", "1")
	if err := txn.Commit(make([]*state.Position, 2)); err != nil {
		t.Fatal(err)
	}
	txn = state.NewTxn(broken{b}, twoStores)
	mustPut(t, txn, 0, "a", "2")
	mustPut(t, txn, 0, "z", "2")

	if _, _, err := txn.Get(0, []byte("k")); !errors.Is(err, errDisk) {
		t.Errorf("get: %v, want %v", err, errDisk)
	}
	var got []string
	var last error
	for e, err := range txn.Scan(0, nil, nil) {
		if last != nil {
			t.Error("the scan went on after its error")
		}
		got, last = append(got, string(e.Key)), err
	}
	if diff := cmp.Diff([]string{"a", "k", ""}, got); diff != "" || !errors.Is(last, errDisk) {
		t.Errorf("scan: error %v, keys (-want +got):\n%s", last, diff)
	}

	// A failed commit keeps the overlay: whether it happened is for the caller to find out.
	if err := txn.Commit(make([]*state.Position, 2)); !errors.Is(err, errDisk) {
		t.Errorf("commit: %v, want %v", err, errDisk)
	}
	if txn.Len() != 2 {
		t.Errorf("%d mutations after a failed commit, want 2", txn.Len())
	}
}

// TestTxnSmallAfterHuge: the overlay works on after it gave up the memory of a huge transaction.
func TestTxnSmallAfterHuge(t *testing.T) {
	t.Parallel()
	b, txn := openTwo(t)
	for i := range 5000 {
		mustPut(t, txn, 0, string([]byte{byte(i >> 8), byte(i)}), "1")
	}
	wantCount := len(keys(t, txn, 0)) // makes the order as well
	if wantCount != 5000 {
		t.Fatalf("%d keys, want 5000", wantCount)
	}
	txn.Drop()
	for range 3 {
		mustPut(t, txn, 0, "b", "1")
		mustPut(t, txn, 0, "a", "1")
		wantKeys(t, txn, 0, "a=1", "b=1")
		txn.Drop()
		wantKeys(t, txn, 0)
	}
	wantKeys(t, b, 0)
}

func TestTxnAllocations(t *testing.T) {
	_, txn := openTwo(t)
	key, value := []byte("key"), make([]byte, 16)
	mustPut(t, txn, 0, "key", "")
	n := testing.AllocsPerRun(1000, func() {
		txn.Savepoint()
		if _, ok, err := txn.Get(0, key); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if err := txn.Put(0, key, value); err != nil {
			t.Fatal(err)
		}
	})
	if n > 0 { // chunks come to less than one a write, which AllocsPerRun rounds down
		t.Errorf("%v allocations a write, want none", n)
	}
}
