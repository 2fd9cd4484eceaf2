package state

import (
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/headrace/headrace/serde"
)

// Sessions is the typed handle of a session store: one value for each key and session, which is a stretch of event time from its start
// to its end, both inclusive. It holds no state, is safe for concurrent use and usually a package variable. Kafka Streams: a
// StoreBuilder of a session store.
type Sessions[K, V any] struct {
	name      string
	key       serde.Serde[K]
	value     serde.Serde[V]
	retention time.Duration
}

// SessionsOf returns the handle of the session store of that name. A session is kept for retention after its end, as event time goes,
// to the millisecond.
//
// The store orders sessions by their end, by their start and then by the bytes of their key, and finds those of one key.
func SessionsOf[K, V any](name string, k serde.Serde[K], v serde.Serde[V], retention time.Duration) Sessions[K, V] {
	return Sessions[K, V]{name: name, key: k, value: v, retention: retention}
}

// Spec returns what a topology needs to know of the store.
func (s Sessions[K, V]) Spec() Spec {
	return Spec{Name: s.name, Kind: SessionKind, Retention: s.retention.Milliseconds()}
}

// Open returns the view of the store that host lends. It belongs to the goroutine of the host.
func (s Sessions[K, V]) Open(host Host) (*SessionsView[K, V], error) {
	st, err := host.OpenStore(s.name, SessionKind)
	if err != nil {
		return nil, fmt.Errorf("state: open store %q: %w", s.name, err)
	}
	return &SessionsView[K, V]{codec: codec[K, V]{name: s.name, key: s.key, value: s.value}, store: st}, nil
}

// SessionsView reads and writes a session store in its own types.
//
// In a task it sees what the open transaction wrote, and its writes commit, or vanish, with that transaction. It belongs to one
// goroutine. A session is named by its key, its start and its end, in Unix milliseconds: one that grows is deleted and put anew. Keys
// and values are encoded at once: the view keeps nothing of what it is given.
type SessionsView[K, V any] struct {
	codec[K, V]
	store    Store
	entry    []byte
	indexKey []byte
}

// SessionItem is an entry of a session store.
type SessionItem[K, V any] struct {
	Start, End int64 // of the session, inclusive, in Unix milliseconds
	Key        K
	Value      V
	At         int64 // event time of the value, in Unix milliseconds
}

// Get returns the value of k in the session from start to end, and whether there is one.
func (w *SessionsView[K, V]) Get(k K, start, end int64) (v V, ok bool, err error) {
	if err := w.encode(k, start, end); err != nil {
		return v, false, err
	}
	b, ok, err := w.store.Get(w.entry)
	if err != nil || !ok {
		return v, false, w.wrap("get", err)
	}
	v, _, err = w.decodeValue(b)
	return v, err == nil, err
}

// Put sets the value of k in the session from start to end; its event time is the end. A session that ends before it starts is an error.
func (w *SessionsView[K, V]) Put(k K, start, end int64, v V) error {
	if end < start {
		return fmt.Errorf("state: store %q: put: the session from %d to %d ends before it starts", w.name, start, end)
	}
	if err := w.encode(k, start, end); err != nil {
		return err
	}
	vb, err := w.encodeValue(v, end)
	if err != nil {
		return err
	}
	if err := w.store.Put(w.entry, vb); err != nil {
		return w.wrap("put", err)
	}
	return w.wrap("put", w.store.Put(w.indexKey, nil))
}

// Delete deletes k in the session from start to end. It is no error if there is nothing.
func (w *SessionsView[K, V]) Delete(k K, start, end int64) error {
	if err := w.encode(k, start, end); err != nil {
		return err
	}
	if err := w.store.Delete(w.entry); err != nil {
		return w.wrap("delete", err)
	}
	return w.wrap("delete", w.store.Delete(w.indexKey))
}

func (w *SessionsView[K, V]) encode(k K, start, end int64) error {
	kb, err := w.encodeKey(k)
	if err != nil {
		return err
	}
	w.entry = AppendSessionKey(w.entry[:0], start, end, kb)
	w.indexKey = AppendSessionIndex(w.indexKey[:0], start, end, kb)
	return nil
}

// Of returns the sessions of k that share a moment with the stretch from from to to, both inclusive, by their end and then by their start.
// An error comes last, with the zero SessionItem. The loop body may use the view, and write; what is beyond the session reached shows
// what the store holds when the scan gets there. Kafka Streams: findSessions.
func (w *SessionsView[K, V]) Of(k K, from, to int64) iter.Seq2[SessionItem[K, V], error] {
	return func(yield func(SessionItem[K, V], error) bool) {
		kb, err := w.appendKey([]byte{}, k)
		if err != nil {
			yield(SessionItem[K, V]{}, err)
			return
		}
		behind := append(AppendSessionIndex(nil, math.MaxInt64, math.MaxInt64, kb), 0)
		for e, err := range w.store.Scan(AppendSessionsOf(nil, kb, from), behind) {
			var it SessionItem[K, V]
			start, end, ok := int64(0), int64(0), false
			if err = w.wrap("scan", err); err == nil {
				if start, end, _, ok = SplitSessionIndex(e.Key); !ok {
					err = fmt.Errorf("state: store %q: malformed key of %d bytes in the index", w.name, len(e.Key))
				}
			}
			if err == nil && start > to {
				continue
			}
			var b []byte
			if err == nil {
				b, ok, err = w.store.Get(AppendSessionKey(nil, start, end, kb))
				if err = w.wrap("get", err); err == nil && !ok {
					err = fmt.Errorf("state: store %q: the index has a session from %d to %d that is not there", w.name, start, end)
				}
			}
			if err == nil {
				it, err = w.item(start, end, kb, b)
			}
			if err != nil {
				yield(SessionItem[K, V]{}, err)
				return
			}
			if !yield(it, nil) {
				return
			}
		}
	}
}

// Ending returns the entries of all sessions with from <= end < to, by end, by start and then by the bytes of the key, otherwise as Of
// does.
func (w *SessionsView[K, V]) Ending(from, to int64) iter.Seq2[SessionItem[K, V], error] {
	return func(yield func(SessionItem[K, V], error) bool) {
		w.scan(SessionKind.AppendTime(nil, from), SessionKind.AppendTime(nil, to), yield)
	}
}

// All returns all entries, otherwise as Ending does.
func (w *SessionsView[K, V]) All() iter.Seq2[SessionItem[K, V], error] {
	return func(yield func(SessionItem[K, V], error) bool) {
		from, to := SessionKind.Entries()
		w.scan(from, to, yield)
	}
}

func (w *SessionsView[K, V]) scan(from, to []byte, yield func(SessionItem[K, V], error) bool) {
	for e, err := range w.store.Scan(from, to) {
		var it SessionItem[K, V]
		if err = w.wrap("scan", err); err == nil {
			start, end, kb, ok := SplitSessionKey(e.Key)
			if !ok {
				err = fmt.Errorf("state: store %q: malformed key of %d bytes, which is no session's", w.name, len(e.Key))
			} else {
				it, err = w.item(start, end, kb, e.Value)
			}
		}
		if err != nil {
			yield(SessionItem[K, V]{}, err)
			return
		}
		if !yield(it, nil) {
			return
		}
	}
}

func (w *SessionsView[K, V]) item(start, end int64, kb, value []byte) (SessionItem[K, V], error) {
	it := SessionItem[K, V]{Start: start, End: end}
	var err error
	if it.Key, err = w.decodeKey(kb); err == nil {
		it.Value, it.At, err = w.decodeValue(value)
	}
	if err != nil {
		return SessionItem[K, V]{}, err
	}
	return it, nil
}
