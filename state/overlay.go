package state

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"unsafe"

	"github.com/tidwall/btree"
)

// overlay holds what the transaction wrote to one store.
type overlay struct {
	entries []write // in the order in which the keys were first written
	// tree orders the entries. It is made by the first scan in a transaction and kept up from then on: a store that is never
	// scanned does not pay for it.
	tree    *btree.BTreeG[ordered]
	ordered bool
	// sorted is the order of entries, valid while it has as many elements.
	sorted []sortKey
	peak   int // most keys since entries was made
	// floor is below all keys that there are: those below it have expired, here and in everything below the overlay. nil if there is none.
	floor []byte
	// version changes with every change of the set of keys: open scans look for their place again.
	version uint64
}

// write is the last write of a key. A nil value deletes it.
type write struct {
	cell  *cell
	value []byte
}

func (w *write) key() []byte { return bytesOf(w.cell.key) }

func (w *write) mutation(store int) Mutation {
	return Mutation{Store: store, Key: w.key(), Value: w.value}
}

type ordered struct {
	key   string
	entry int32
}

// sortKey starts with what decides most comparisons without a look at the key: its first 8 bytes, and, as those are the same for
// all keys of a window, the 8 after them.
type sortKey struct {
	first, second uint64
	entry         int32
}

func (o *overlay) expired(key []byte) bool { return o.floor != nil && bytes.Compare(key, o.floor) < 0 }

// add makes the entry of a key that has none.
func (o *overlay) add(c *cell, value []byte) {
	i := int32(len(o.entries))
	o.entries = append(o.entries, write{c, value})
	o.version++
	if o.ordered {
		o.tree.Set(ordered{c.key, i})
	}
}

func (o *overlay) removeLast() {
	last := len(o.entries) - 1
	if o.ordered {
		o.tree.Delete(ordered{key: o.entries[last].cell.key})
	}
	o.entries[last] = write{}
	o.entries = o.entries[:last]
	o.version++
	// A key written next may make the lengths equal again.
	o.sorted = o.sorted[:0]
}

func (o *overlay) reset() {
	if len(o.entries) == 0 {
		return
	}
	// What one huge transaction needed is not kept for all small ones after it.
	o.peak = max(o.peak, len(o.entries))
	if o.peak > 1024 && len(o.entries) < o.peak/16 {
		*o = overlay{floor: o.floor, version: o.version + 1}
		return
	}
	clear(o.entries)
	o.entries = o.entries[:0]
	o.sorted = o.sorted[:0]
	if o.ordered {
		o.tree.Clear()
		o.ordered = false
	}
	o.version++
}

// sort brings sorted up to date.
func (o *overlay) sort() {
	if len(o.sorted) == len(o.entries) {
		return
	}
	o.sorted = slices.Grow(o.sorted[:0], len(o.entries))
	for i := range o.entries {
		key := o.entries[i].key()
		o.sorted = append(o.sorted, sortKey{prefix(key), prefix(key[min(8, len(key)):]), int32(i)})
	}
	slices.SortFunc(o.sorted, func(a, b sortKey) int {
		if a.first != b.first {
			return cmp.Compare(a.first, b.first)
		}
		if a.second != b.second {
			return cmp.Compare(a.second, b.second)
		}
		return bytes.Compare(o.entries[a.entry].key(), o.entries[b.entry].key())
	})
}

// order makes the tree, if the transaction has none yet.
func (o *overlay) order() {
	if o.ordered {
		return
	}
	if o.tree == nil {
		o.tree = btree.NewBTreeGOptions(func(a, b ordered) bool { return a.key < b.key }, btree.Options{NoLocks: true})
	}
	o.sort()
	for _, k := range o.sorted {
		o.tree.Load(ordered{o.entries[k.entry].cell.key, k.entry})
	}
	o.ordered = true
}

// prefix returns the first 8 bytes of key as a number that sorts as they do; a shorter key counts as followed by zeros.
func prefix(key []byte) uint64 {
	if len(key) >= 8 {
		return binary.BigEndian.Uint64(key)
	}
	var p uint64
	for i, c := range key {
		p |= uint64(c) << (56 - 8*i)
	}
	return p
}

// alias returns b as a string without copying. It is for bytes that never change, and for look-ups that keep nothing.
func alias(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
