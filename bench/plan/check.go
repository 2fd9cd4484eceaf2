package plan

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// Checker judges what a peer has written. Outputs of one partition come in their order.
type Checker interface {
	Output(key, value []byte)
	// Err returns what is wrong once all outputs have been given.
	Err() error
	// Count returns how many outputs there were.
	Count() int
}

// complaints are the first few things that are wrong.
type complaints struct {
	n     int
	first []string
}

func (c *complaints) add(format string, args ...any) {
	c.n++
	if len(c.first) < 5 {
		c.first = append(c.first, fmt.Sprintf(format, args...))
	}
}

func (c *complaints) err() error {
	if c.n == 0 {
		return nil
	}
	return fmt.Errorf("wrong output, %d times; first: %s", c.n, strings.Join(c.first, "; "))
}

// fold is the number of outputs, and sums of their indexes and of the squares of those: what is missing is not hidden by what is
// there twice.
type fold struct {
	n                int
	sum, squares     uint64
	expect           int
	wantSum, wantSqr uint64
	complaints
}

func (f *fold) want(index uint64) {
	f.expect++
	f.wantSum += index
	f.wantSqr += index * index
}

func (f *fold) got(index uint64) {
	f.n++
	f.sum += index
	f.squares += index * index
}

func (f *fold) Count() int { return f.n }

func (f *fold) Err() error {
	if f.n != f.expect {
		f.add("%d outputs, want %d", f.n, f.expect)
	}
	if f.sum != f.wantSum || f.squares != f.wantSqr {
		f.add("sums of indexes %d and of their squares %d (mod 2^64), want %d and %d", f.sum, f.squares, f.wantSum, f.wantSqr)
	}
	return f.err()
}

// copies checks outputs that have the input's value in front.
type copies struct {
	fold
	each func(c *complaints, key, value []byte)
}

func newCopies(r Run, keep func([]byte) bool, each func(*complaints, []byte, []byte)) *copies {
	c := &copies{each: each}
	var value []byte
	for i := range r.Records {
		value = AppendValue(value[:0], i)
		if keep == nil || keep(value) {
			c.want(uint64(i))
		}
	}
	return c
}

func (c *copies) Output(key, value []byte) {
	if len(key) != 8 || len(value) < ValueSize {
		c.add("output of %d and %d bytes, want a key of 8 and a value of at least %d", len(key), len(value), ValueSize)
		return
	}
	c.got(Index(value))
	if c.each != nil {
		c.each(&c.complaints, key, value)
	}
}

func marked(c *complaints, _, value []byte) {
	if value[len(value)-1] != Mark {
		c.add("value %d ends in %q, want %q", Index(value), value[len(value)-1], Mark)
	}
}

func joined(c *complaints, key, value []byte) {
	k := uint32(binary.BigEndian.Uint64(key))
	if len(value) != ValueSize+8 {
		c.add("value %d has %d bytes, want %d", Index(value), len(value), ValueSize+8)
		return
	}
	if got := binary.BigEndian.Uint64(value[ValueSize:]); got != row(k) {
		c.add("value %d of key %d is joined with %d, want %d", Index(value), k, got, row(k))
	}
}

// indexes checks outputs that are the inputs' indexes: those of the loop that only writes what a count would.
type indexes struct{ fold }

func newIndexes(r Run) *indexes {
	c := &indexes{}
	for i := range r.Records {
		c.want(uint64(i))
	}
	return c
}

func (c *indexes) Output(_, value []byte) {
	if len(value) != 8 {
		c.add("output of %d bytes, want 8", len(value))
		return
	}
	c.got(Index(value))
}

// updates checks counts, of keys or of keys and windows, as a stream of updates: each one more than the one before.
type updates struct {
	complaints
	keys     int
	base     int64
	windowed bool
	// merges: the peer may leave out updates that the same transaction supersedes.
	merges  bool
	n       int
	sum     uint64
	records int
	wantSum uint64
	seen    []int32
	want    []int32
}

func newUpdates(r Run, windowed, merges bool) *updates {
	c := &updates{keys: len(r.perm), base: r.Base, windowed: windowed, merges: merges, records: r.Records}
	windows := 1
	if windowed {
		windows = (r.Records-1)/Window + 1
	}
	c.seen, c.want = make([]int32, windows*c.keys), make([]int32, windows*c.keys)
	for i := range r.Records {
		slot := int(r.Key(i))
		if windowed {
			slot += i / Window * c.keys
		}
		c.want[slot]++
		c.wantSum += uint64(c.want[slot])
	}
	return c
}

func (c *updates) name(slot int) string {
	if c.windowed {
		return fmt.Sprintf("key %d in window %d", slot%c.keys, slot/c.keys)
	}
	return fmt.Sprintf("key %d", slot)
}

func (c *updates) slot(key []byte) int {
	if c.windowed {
		if len(key) != 16 {
			return -1
		}
		start := int64(binary.BigEndian.Uint64(key[8:])) - c.base
		if start < 0 || start%Window != 0 {
			return -1
		}
		return int(start)/Window*c.keys + int(binary.BigEndian.Uint64(key))
	}
	if len(key) != 8 {
		return -1
	}
	return int(binary.BigEndian.Uint64(key))
}

func (c *updates) Output(key, value []byte) {
	c.n++
	slot := c.slot(key)
	if slot < 0 || slot >= len(c.seen) || len(value) != 8 {
		c.add("output %x = %x is of no key and window that there are", key, value)
		return
	}
	got := int32(binary.BigEndian.Uint64(value))
	c.sum += uint64(got)
	before := c.seen[slot]
	if got != before+1 && (!c.merges || got <= before) {
		c.add("%s: %d follows %d", c.name(slot), got, before)
	}
	c.seen[slot] = got
}

func (c *updates) Count() int { return c.n }

func (c *updates) Err() error {
	for slot, want := range c.want {
		if got := c.seen[slot]; got != want {
			c.add("%s: the last count is %d, want %d", c.name(slot), got, want)
		}
	}
	if !c.merges && (c.n != c.records || c.sum != c.wantSum) {
		c.add("%d outputs with the sum %d, want %d with the sum %d", c.n, c.sum, c.records, c.wantSum)
	}
	return c.err()
}

// restored checks the counts that come for one more record of each key after a restore.
type restored struct {
	complaints
	n    int
	seen []bool
	want []int64
}

func newRestored(r Run) *restored {
	c := &restored{seen: make([]bool, len(r.perm)), want: make([]int64, len(r.perm))}
	for i := range r.Records {
		c.want[r.Key(i)]++
	}
	return c
}

func (c *restored) Output(key, value []byte) {
	c.n++
	if len(key) != 8 || len(value) != 8 || binary.BigEndian.Uint64(key) >= uint64(len(c.want)) {
		c.add("output %x = %x is of no key that there is", key, value)
		return
	}
	k := binary.BigEndian.Uint64(key)
	if c.seen[k] {
		c.add("key %d comes twice, want it once", k)
	}
	c.seen[k] = true
	if got := int64(binary.BigEndian.Uint64(value)); got != c.want[k]+1 {
		c.add("key %d: %d, want %d and one more", k, got, c.want[k])
	}
}

func (c *restored) Count() int { return c.n }

func (c *restored) Err() error {
	if c.n != len(c.want) {
		c.add("%d outputs, want one for each of %d keys", c.n, len(c.want))
	}
	return c.err()
}
