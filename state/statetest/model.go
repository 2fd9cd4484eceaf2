package statetest

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/headrace/headrace/state"
)

var seeds = []uint64{1, 2, 3, 4}

// model is what stores hold: a plain map for each.
type model []map[string]string

func newModel() model {
	m := make(model, len(specs()))
	for i := range m {
		m[i] = map[string]string{}
	}
	return m
}

func (m model) clone() model {
	c := make(model, len(m))
	for i := range m {
		c[i] = maps.Clone(m[i])
	}
	return c
}

// become makes m hold what other holds.
func (m model) become(other model) {
	for i := range m {
		m[i] = maps.Clone(other[i])
	}
}

func (m model) apply(mu state.Mutation) {
	if mu.Below {
		maps.DeleteFunc(m[mu.Store], func(k, _ string) bool { return k < string(mu.Key) })
		return
	}
	if mu.Value == nil {
		delete(m[mu.Store], string(mu.Key))
		return
	}
	m[mu.Store][string(mu.Key)] = string(mu.Value)
}

func (m model) scan(store int, from, to []byte) []pair {
	var all []pair
	for _, k := range slices.Sorted(maps.Keys(m[store])) {
		if k >= string(from) && (to == nil || k < string(to)) {
			all = append(all, pair{k, m[store][k]})
		}
	}
	return all
}

// after returns the first entry beyond key, or from the start of the range on if there is no key yet.
func (m model) after(store int, key *string, from, to []byte) (pair, bool) {
	for _, p := range m.scan(store, from, to) {
		if key == nil || p.Key > *key {
			return p, true
		}
	}
	return pair{}, false
}

// source draws operations. Keys are few and short, and full of the bytes at which orderings break.
type source struct{ *rand.Rand }

func newSource(t *testing.T, seed uint64) source {
	t.Helper()
	t.Logf("seed %d", seed)
	return source{rand.New(rand.NewPCG(seed, 0))}
}

func (s source) key() []byte {
	const alphabet = "\x00a\xff"
	k := make([]byte, s.IntN(4))
	if s.IntN(8) == 0 { // around the length at which a key's first bytes say it all
		k = make([]byte, 8*(1+s.IntN(2))-1+s.IntN(3))
	}
	for i := range k {
		k[i] = alphabet[s.IntN(len(alphabet))]
	}
	return k
}

func (s source) bound() []byte {
	if s.IntN(4) == 0 {
		return nil
	}
	return s.key()
}

func (s source) value() []byte {
	v := make([]byte, s.IntN(20))
	for i := range v {
		v[i] = byte(s.Uint32())
	}
	return v
}

func (s source) store() int { return s.IntN(len(specs())) }

func (s source) mutation() state.Mutation {
	m := state.Mutation{Store: s.store(), Key: s.key()}
	if s.IntN(3) > 0 {
		m.Value = s.value()
	}
	return m
}

// change is a mutation, and now and then one that deletes all keys below another.
func (s source) change() state.Mutation {
	if s.IntN(12) > 0 {
		return s.mutation()
	}
	return state.Mutation{Store: s.store(), Key: s.key(), Below: true}
}

// checkReads compares reads at random places, and whole stores.
func checkReads(t *testing.T, s source, r state.Reader, m model) {
	t.Helper()
	store, key := s.store(), s.key()
	got, ok, err := r.Get(store, key)
	want, wantOK := m[store][string(key)]
	if err != nil || ok != wantOK || string(got) != want {
		t.Fatalf("get %q from store %d: %q, %v, %v; want %q, %v", key, store, got, ok, err, want, wantOK)
	}
	from, to := s.bound(), s.bound()
	if diff := difference(m.scan(store, from, to), collect(t, r.Scan(store, from, to))); diff != "" {
		t.Fatalf("scan store %d from %q to %q %s", store, from, to, diff)
	}
}

func checkAll(t *testing.T, r state.Reader, m model) {
	t.Helper()
	for store := range m {
		if diff := difference(m.scan(store, nil, nil), collect(t, r.Scan(store, nil, nil))); diff != "" {
			t.Fatalf("store %d %s", store, diff)
		}
	}
}

func testModelBackend(t *testing.T, open func(*testing.T) state.Provider, o Options) {
	for _, seed := range seeds {
		s := newSource(t, seed)
		p := open(t)
		b := openTask(t, p, specs())
		m, positions := newModel(), make([]state.Position, len(specs()))

		type kept struct {
			snapshot state.Snapshot
			model    model
		}
		var snapshots []kept
		release := func() {
			for _, k := range snapshots {
				checkAll(t, k.snapshot, k.model)
				k.snapshot.Release()
			}
			snapshots = nil
		}
		for range 400 {
			switch op := s.IntN(40); {
			case op < 20:
				ms := make([]state.Mutation, s.IntN(12))
				for i := range ms {
					ms[i] = s.change()
					m.apply(ms[i])
				}
				at := make([]*state.Position, len(positions))
				for i := range at {
					if s.IntN(2) == 0 {
						positions[i] = state.Position{Offset: s.Int64(), LeaderEpoch: s.Int32(), AppliedAt: s.Int64()}
						p := positions[i]
						at[i] = &p
					}
				}
				applyAt(t, b, at, ms...)
			case op < 35:
				checkReads(t, s, b, m)
			case op < 37:
				snap, err := b.Snapshot()
				if err != nil {
					t.Fatal(err)
				}
				snapshots = append(snapshots, kept{snap, m.clone()})
			case op < 38:
				release()
			case op < 39:
				store := s.store()
				if err := b.Wipe(store); err != nil {
					t.Fatal(err)
				}
				clear(m[store])
				positions[store] = state.Position{}
			default:
				release()
				if err := b.Close(); err != nil {
					t.Fatal(err)
				}
				b = openTask(t, p, specs())
				if !o.Keeps {
					m, positions = newModel(), make([]state.Position, len(specs()))
				}
			}
			for i, want := range positions {
				if got := b.Position(i); got != want {
					t.Fatalf("position of store %d: %+v, want %+v", i, got, want)
				}
			}
		}
		release()
		checkAll(t, b, m)
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// testModelTxn drives a transaction's overlay over the backend: whatever the backend does, the two together must look like one
// store.
func testModelTxn(t *testing.T, open func(*testing.T) state.Provider, _ Options) {
	for _, seed := range seeds {
		s := newSource(t, seed)
		b := openTask(t, open(t), specs())
		txn := state.NewTxn(b, specs())
		committed := newModel()
		now, saved := newModel(), newModel()
		write := func() {
			mu := s.mutation()
			key := slices.Clone(mu.Key)
			value := slices.Clone(mu.Value)
			var err error
			if mu.Value == nil {
				err = txn.Delete(mu.Store, key)
			} else {
				err = txn.Put(mu.Store, key, value)
			}
			if err != nil {
				t.Fatal(err)
			}
			now.apply(mu)
			clear(key) // the transaction has copied both
			clear(value)
		}
		var ice model // what is frozen gives with what is committed, nil if nothing is
		savepoint := func() {
			txn.Savepoint()
			saved.become(now)
		}
		rollback := func() {
			txn.Rollback()
			now.become(saved)
		}
		for range 1500 {
			switch op := s.IntN(100); {
			case op < 50:
				write()
			case op < 75:
				checkReads(t, s, txn, now)
			case op < 83:
				scanWriting(t, s, txn, now, func() {
					switch s.IntN(20) {
					case 0:
						savepoint()
					case 1:
						rollback()
					default:
						write()
					}
				})
			case op < 89:
				savepoint()
			case op < 95:
				rollback()
			case op < 96:
				checkMutations(t, txn, committed, now, ice)
			case op < 97:
				txn.Freeze()
				if ice == nil {
					ice = now.clone()
					saved.become(now)
				}
			case op < 99:
				checkMutations(t, txn, committed, now, ice)
				at := state.Position{Offset: s.Int64()}
				if err := txn.Commit([]*state.Position{&at, nil, &at}); err != nil {
					t.Fatal(err)
				}
				if ice != nil {
					committed.become(ice)
					ice = nil
				} else {
					committed.become(now)
					saved.become(now)
				}
				checkAll(t, b, committed)
				checkAll(t, txn, now)
			default:
				txn.Drop()
				now.become(committed)
				saved.become(committed)
				ice = nil
				checkMutations(t, txn, committed, now, ice)
				checkAll(t, b, committed)
			}
		}
		checkAll(t, txn, now)
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// scanWriting scans while the loop body writes and rolls back: each step must show the first entry beyond the last one, as of now.
func scanWriting(t *testing.T, s source, txn *state.Txn, now model, write func()) {
	t.Helper()
	store, from, to := s.store(), s.bound(), s.bound()
	var cursor *string
	left := -1
	if s.IntN(4) == 0 {
		left = s.IntN(5)
	}
	for e, err := range txn.Scan(store, from, to) {
		if err != nil {
			t.Fatal(err)
		}
		want, ok := now.after(store, cursor, from, to)
		if got := (pair{string(e.Key), string(e.Value)}); !ok || got != want {
			t.Fatalf("scan of store %d is at %q, want %q, %v", store, got, want, ok)
		}
		key := string(e.Key)
		cursor = &key
		for range s.IntN(3) {
			write()
		}
		if left--; left == 0 {
			return
		}
	}
	if want, ok := now.after(store, cursor, from, to); ok {
		t.Fatalf("scan of store %d ended before %q", store, want)
	}
}

// checkMutations: applied to what is committed, the mutations give what the transaction shows, or showed when it was frozen; they come
// store by store, each key once, and are counted if nothing is frozen.
func checkMutations(t *testing.T, txn *state.Txn, committed, now, ice model) {
	t.Helper()
	if ice != nil {
		now = ice
	}
	got := committed.clone()
	n, size := 0, 0
	last, seen := 0, make(map[string]bool)
	for mu := range txn.Mutations() {
		if mu.Store < last {
			t.Fatalf("mutation of store %d after one of store %d", mu.Store, last)
		}
		if mu.Store > last {
			last = mu.Store
			clear(seen)
		}
		if seen[string(mu.Key)] {
			t.Fatalf("two mutations of store %d, key %q", mu.Store, mu.Key)
		}
		seen[string(mu.Key)] = true
		n++
		size += len(mu.Key) + len(mu.Value)
		got.apply(mu)
	}
	if ice == nil && (n != txn.Len() || size != txn.Bytes()) {
		t.Fatalf("%d mutations of %d bytes, but Len %d and Bytes %d", n, size, txn.Len(), txn.Bytes())
	}
	for store := range now {
		if diff := difference(now.scan(store, nil, nil), got.scan(store, nil, nil)); diff != "" {
			t.Fatalf("store %d with the mutations %s", store, diff)
		}
	}
}
