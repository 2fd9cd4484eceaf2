package state

import (
	"fmt"
	"iter"

	"github.com/headrace/headrace/serde"
)

// KeyValue is the typed handle of a key-value store: its name and how its keys and values are encoded. It holds no state, is
// safe for concurrent use and usually a package variable. Kafka Streams: a StoreBuilder of a timestamped key-value store.
type KeyValue[K, V any] struct {
	name  string
	key   serde.Serde[K]
	value serde.Serde[V]
}

// KeyValueOf returns the handle of the key-value store of that name.
//
// Scans go in the order of the keys' bytes. Where that order matters, k must be one of the serdes that keep it, such as
// serde.OrderedInt64.
func KeyValueOf[K, V any](name string, k serde.Serde[K], v serde.Serde[V]) KeyValue[K, V] {
	return KeyValue[K, V]{name: name, key: k, value: v}
}

// Spec returns what a topology needs to know of the store.
func (s KeyValue[K, V]) Spec() Spec { return Spec{Name: s.name, Kind: KeyValueKind} }

// Open returns the view of the store that host lends. It belongs to the goroutine of the host.
func (s KeyValue[K, V]) Open(host Host) (*KeyValueView[K, V], error) {
	st, err := host.OpenStore(s.name, KeyValueKind)
	if err != nil {
		return nil, fmt.Errorf("state: open store %q: %w", s.name, err)
	}
	return &KeyValueView[K, V]{codec: codec[K, V]{name: s.name, key: s.key, value: s.value}, store: st}, nil
}

// KeyValueView reads and writes a key-value store in its own types.
//
// In a task it sees what the open transaction wrote, and its writes commit, or vanish, with that transaction. It belongs to
// one goroutine. Keys and values are encoded at once: the view keeps nothing of what it is given. Absent and empty are
// different things; there is no null, Delete is the way to have no value.
type KeyValueView[K, V any] struct {
	codec[K, V]
	store Store
}

// Item is an entry of a key-value store.
type Item[K, V any] struct {
	Key   K
	Value V
	At    int64 // event time of the value, in Unix milliseconds
}

// Get returns the value of k, and whether there is one.
func (w *KeyValueView[K, V]) Get(k K) (V, bool, error) {
	v, _, ok, err := w.GetAt(k)
	return v, ok, err
}

// GetAt is Get with the event time of the value, in Unix milliseconds.
func (w *KeyValueView[K, V]) GetAt(k K) (v V, at int64, ok bool, err error) {
	kb, err := w.encodeKey(k)
	if err != nil {
		return v, 0, false, err
	}
	b, ok, err := w.store.Get(kb)
	if err != nil || !ok {
		return v, 0, false, w.wrap("get", err)
	}
	v, at, err = w.decodeValue(b)
	return v, at, err == nil, err
}

// Put sets the value of k; its event time is that of the record in process.
func (w *KeyValueView[K, V]) Put(k K, v V) error { return w.PutAt(k, v, w.store.Time()) }

// PutAt sets the value of k and its event time, in Unix milliseconds.
func (w *KeyValueView[K, V]) PutAt(k K, v V, at int64) error {
	kb, err := w.encodeKey(k)
	if err != nil {
		return err
	}
	vb, err := w.encodeValue(v, at)
	if err != nil {
		return err
	}
	return w.wrap("put", w.store.Put(kb, vb))
}

// Delete deletes k. It is no error if there is no such key.
func (w *KeyValueView[K, V]) Delete(k K) error {
	kb, err := w.encodeKey(k)
	if err != nil {
		return err
	}
	return w.wrap("delete", w.store.Delete(kb))
}

// Scan returns the entries with from <= key < to in the order of the keys' bytes. An error comes last, with the zero Item.
// The loop body may use the view, and write; keys beyond the one reached show what the store holds when the scan gets there.
func (w *KeyValueView[K, V]) Scan(from, to K) iter.Seq2[Item[K, V], error] {
	return func(yield func(Item[K, V], error) bool) {
		// Not in the scratch buffers: the loop body may need those.
		lo, err := w.appendKey([]byte{}, from)
		if err != nil {
			yield(Item[K, V]{}, err)
			return
		}
		hi, err := w.appendKey([]byte{}, to)
		if err != nil {
			yield(Item[K, V]{}, err)
			return
		}
		w.scan(lo, hi, yield)
	}
}

// All returns all entries, otherwise as Scan does.
func (w *KeyValueView[K, V]) All() iter.Seq2[Item[K, V], error] {
	return func(yield func(Item[K, V], error) bool) { w.scan(nil, nil, yield) }
}

func (w *KeyValueView[K, V]) scan(from, to []byte, yield func(Item[K, V], error) bool) {
	for e, err := range w.store.Scan(from, to) {
		var it Item[K, V]
		if err = w.wrap("scan", err); err == nil {
			it.Key, err = w.decodeKey(e.Key)
		}
		if err == nil {
			it.Value, it.At, err = w.decodeValue(e.Value)
		}
		if err != nil {
			yield(Item[K, V]{}, err)
			return
		}
		if !yield(it, nil) {
			return
		}
	}
}
