package state

import "unsafe"

// cell is a key of a store, and all that is known of its value: what is committed, and where the overlays have what is not. A record that
// reads a key and then writes it finds its cell once.
type cell struct {
	key   string // never changes
	value []byte // committed; nil if there is none
	epoch uint64 // of a backend in memory: the snapshots that can know value are older ones, if it is the newest
	// at are the places in the entries of the two overlays, plus one; 0 for none.
	at    [2]int32
	known bool // of a cache: value is what the backend has, nil if it has none
	used  bool // of a cache: value was asked for since the last sweep
}

// idle says that no overlay has the cell.
func (c *cell) idle() bool { return c.at == [2]int32{} }

// cells are the cells of one store. They belong to its writer.
type cells struct {
	index map[string]*cell
	last  *cell // that find found: a write mostly follows a read of its key
}

func newCells() *cells { return &cells{index: make(map[string]*cell)} }

// find returns the cell of key, nil if there is none.
func (s *cells) find(key []byte) *cell {
	if c := s.last; c != nil && c.key == alias(key) {
		return c
	}
	c := s.index[alias(key)]
	if c != nil {
		s.last = c
	}
	return c
}

// add makes the cell of a key that has none. It copies key.
func (s *cells) add(key []byte) *cell {
	c := &cell{key: string(key)}
	s.index[c.key] = c
	s.last = c
	return c
}

// renew puts a copy in the place of a cell whose value others may still read.
func (s *cells) renew(c *cell) *cell {
	n := *c
	s.index[n.key] = &n
	s.last = &n
	return &n
}

func (s *cells) remove(c *cell) {
	delete(s.index, c.key)
	if s.last == c {
		s.last = nil
	}
}

func (s *cells) clear() {
	clear(s.index)
	s.last = nil
}

// cellCost is what a cell in a cache costs besides key and value, about.
const cellCost = 120

// cache bounds the cells that a transaction keeps of what it has read from its backend, and written to it.
type cache struct {
	limit int
	cost  int // of all cells that are known
}

func (c *cache) keep(k *cell, value []byte) {
	c.forget(k)
	k.value, k.known = value, true
	c.cost += len(k.key) + len(value) + cellCost
}

func (c *cache) forget(k *cell) {
	if k.known {
		c.cost -= len(k.key) + len(k.value) + cellCost
		k.value, k.known = nil, false
	}
}

// sweep makes room when the cache is full: first what has expired or was not asked for since the last time goes, and if that is too
// little, all.
func (c *cache) sweep(stores []*cells, overlays []overlay) {
	if c.cost <= c.limit {
		return
	}
	for _, all := range []bool{false, true} {
		for i, s := range stores {
			for _, k := range s.index {
				switch {
				case !k.known:
				case k.used && !all && !overlays[i].expired(bytesOf(k.key)):
					k.used = false
				default:
					c.forget(k)
					if k.idle() {
						s.remove(k)
					}
				}
			}
		}
		if c.cost <= c.limit/4*3 {
			return
		}
	}
}

// clone copies b to the byte. It is never nil.
func clone(b []byte) []byte { return append(make([]byte, 0, len(b)), b...) }

// bytesOf is the reverse of alias: nobody may write to what it returns.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
