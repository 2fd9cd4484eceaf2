package state

import (
	"fmt"
	"iter"
	"time"

	"github.com/headrace/headrace/serde"
)

// Windows is the typed handle of a window store: one value for each window and key. It holds no state, is safe for concurrent
// use and usually a package variable. Kafka Streams: a StoreBuilder of a timestamped window store without duplicates.
type Windows[K, V any] struct {
	name      string
	key       serde.Serde[K]
	value     serde.Serde[V]
	retention time.Duration
}

// WindowsOf returns the handle of the window store of that name. A window is kept for retention after its start, as event time
// goes, to the millisecond: its size and its grace at least.
//
// The store orders windows by their start and then by the bytes of their key.
func WindowsOf[K, V any](name string, k serde.Serde[K], v serde.Serde[V], retention time.Duration) Windows[K, V] {
	return Windows[K, V]{name: name, key: k, value: v, retention: retention}
}

// Spec returns what a topology needs to know of the store.
func (s Windows[K, V]) Spec() Spec {
	return Spec{Name: s.name, Kind: WindowKind, Retention: s.retention.Milliseconds()}
}

// Open returns the view of the store that host lends. It belongs to the goroutine of the host.
func (s Windows[K, V]) Open(host Host) (*WindowsView[K, V], error) {
	st, err := host.OpenStore(s.name, WindowKind)
	if err != nil {
		return nil, fmt.Errorf("state: open store %q: %w", s.name, err)
	}
	return &WindowsView[K, V]{codec: codec[K, V]{name: s.name, key: s.key, value: s.value}, store: st}, nil
}

// WindowsView reads and writes a window store in its own types.
//
// In a task it sees what the open transaction wrote, and its writes commit, or vanish, with that transaction. It belongs to
// one goroutine. A window is named by its start, in Unix milliseconds. Keys and values are encoded at once: the view keeps
// nothing of what it is given.
type WindowsView[K, V any] struct {
	codec[K, V]
	store Store
}

// WindowItem is an entry of a window store.
type WindowItem[K, V any] struct {
	Start int64 // of the window, in Unix milliseconds
	Key   K
	Value V
	At    int64 // event time of the value, in Unix milliseconds
}

// Get returns the value of k in the window that starts at start, and whether there is one.
func (w *WindowsView[K, V]) Get(k K, start int64) (V, bool, error) {
	v, _, ok, err := w.GetAt(k, start)
	return v, ok, err
}

// GetAt is Get with the event time of the value, in Unix milliseconds.
func (w *WindowsView[K, V]) GetAt(k K, start int64) (v V, at int64, ok bool, err error) {
	kb, err := w.encodeWindowKey(start, k)
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

// Put sets the value of k in the window that starts at start; its event time is that of the record in process.
func (w *WindowsView[K, V]) Put(k K, start int64, v V) error {
	return w.PutAt(k, start, v, w.store.Time())
}

// PutAt sets the value of k in the window that starts at start, and its event time, in Unix milliseconds.
func (w *WindowsView[K, V]) PutAt(k K, start int64, v V, at int64) error {
	kb, err := w.encodeWindowKey(start, k)
	if err != nil {
		return err
	}
	vb, err := w.encodeValue(v, at)
	if err != nil {
		return err
	}
	return w.wrap("put", w.store.Put(kb, vb))
}

// Delete deletes k in the window that starts at start. It is no error if there is nothing.
func (w *WindowsView[K, V]) Delete(k K, start int64) error {
	kb, err := w.encodeWindowKey(start, k)
	if err != nil {
		return err
	}
	return w.wrap("delete", w.store.Delete(kb))
}

// Between returns the entries of all windows with from <= start < to, by start and then by the bytes of the key. An error comes
// last, with the zero WindowItem. The loop body may use the view, and write; what is beyond the entry reached shows what the
// store holds when the scan gets there.
func (w *WindowsView[K, V]) Between(from, to int64) iter.Seq2[WindowItem[K, V], error] {
	return func(yield func(WindowItem[K, V], error) bool) {
		w.scan(AppendWindowStart(nil, from), AppendWindowStart(nil, to), yield)
	}
}

// All returns all entries, otherwise as Between does.
func (w *WindowsView[K, V]) All() iter.Seq2[WindowItem[K, V], error] {
	return func(yield func(WindowItem[K, V], error) bool) { w.scan(nil, nil, yield) }
}

func (w *WindowsView[K, V]) scan(from, to []byte, yield func(WindowItem[K, V], error) bool) {
	for e, err := range w.store.Scan(from, to) {
		it, err := w.item(e, err)
		if err != nil {
			yield(WindowItem[K, V]{}, err)
			return
		}
		if !yield(it, nil) {
			return
		}
	}
}

func (w *WindowsView[K, V]) item(e Entry, err error) (it WindowItem[K, V], _ error) {
	if err != nil {
		return it, w.wrap("scan", err)
	}
	start, kb, ok := SplitWindowKey(e.Key)
	if !ok {
		return it, fmt.Errorf("state: store %q: malformed key: %d bytes are too few for the start of its window", w.name, len(e.Key))
	}
	it.Start = start
	if it.Key, err = w.decodeKey(kb); err == nil {
		it.Value, it.At, err = w.decodeValue(e.Value)
	}
	return it, err
}
