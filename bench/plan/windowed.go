package plan

import (
	"encoding/binary"
	"fmt"
)

// The windows of the works that are measured only where they are asked for, in milliseconds.
const (
	Advance = 15_000 // of hopping windows, which are Window long
	Gap     = 15_000 // of sessions
	Diff    = 20_000 // of sliding windows
	Day     = 86_400_000
)

// windowedKeys make a key come again within a window, every ten seconds.
const windowedKeys = 10_000

// KeepSession says whether the work session takes a value: five records of each key, and then none for longer than the gap.
func KeepSession(value []byte) bool { return inSession(int(Index(value))) }

func inSession(i int) bool { return i/windowedKeys%8 < 5 }

// windowed are the works that WORK=windowed names, tumbling apart.
var windowed = []Work{
	{
		Name: "hopping", Group: "windowed", What: "count per key and window of 60 s, one every 15 s, every update written",
		Input: Uniform, Store: "windows", Peers: all[1:], Metrics: []Metric{Rate, Peak}, Keys: windowedKeys, Apart: true,
		Check: func(r Run, p Peer) Checker { return newHops(r, p.merges()) },
	},
	{
		Name: "session", Group: "windowed", What: "count per key and session with a gap of 15 s, five records each, every update and tombstone written",
		Input: Uniform, Store: "windows", Peers: all[1:], Metrics: []Metric{Rate, Peak}, Keys: windowedKeys, Apart: true,
		Check: func(r Run, p Peer) Checker { return newVisits(r, p.merges()) },
	},
	{
		Name: "sliding", Group: "windowed", What: "count per key and sliding window of 20 s, every update written",
		Input: Uniform, Store: "windows", Peers: all[1:], Metrics: []Metric{Rate, Peak}, Keys: windowedKeys, Apart: true,
		Check: func(r Run, p Peer) Checker { return newSlides(r, p.merges()) },
	},
	{
		Name: "jump", What: "a window of each record's own key, all open, and then a jump of a day that closes them, results on close",
		Kind: Jump, Input: Apiece, Store: "windows", Peers: []Peer{Memory, Pebble}, Metrics: []Metric{Rate, Peak, Largest, LongestGap}, Apart: true,
		Check: func(r Run, _ Peer) Checker { return newClosed(r) },
	},
}

// slots are counts that come as updates, each in a place of its own: where it stands, and where it has to end.
type slots struct {
	complaints
	r      Run
	merges bool
	of     func(key []byte) int // negative if there is no such place
	name   func(slot int) string
	seen   []int32
	want   []int32
	n      int
	expect int // outputs, unless some are merged
}

func (c *slots) Output(key, value []byte) {
	c.n++
	slot := c.of(key)
	if slot < 0 || slot >= len(c.seen) || c.want[slot] == 0 || len(value) != 8 {
		c.add("output %x = %x is of no key and window that there are", key, value)
		return
	}
	got, before := int32(binary.BigEndian.Uint64(value)), c.seen[slot]
	if got <= before || got > c.want[slot] {
		c.add("%s: %d follows %d", c.name(slot), got, before)
	}
	c.seen[slot] = got
}

func (c *slots) Count() int { return c.n }

func (c *slots) Err() error {
	for slot, want := range c.want {
		if got := c.seen[slot]; got != want {
			c.add("%s: the last count is %d, want %d", c.name(slot), got, want)
		}
	}
	if !c.merges && c.n != c.expect {
		c.add("%d outputs, want %d", c.n, c.expect)
	}
	return c.err()
}

// newHops checks counts in hopping windows. A slot is a key in the window of a number.
func newHops(r Run, merges bool) *slots {
	keys := len(r.perm)
	first := r.Base - Window + Advance // of windows that may hold a record
	c := &slots{r: r, merges: merges}
	c.want = make([]int32, ((r.Records-1)/Advance+Window/Advance)*keys)
	c.seen = make([]int32, len(c.want))
	for i := range r.Records {
		for n := range Window / Advance {
			c.want[(i/Advance+n)*keys+int(r.Key(i))]++
			c.expect++
		}
	}
	c.of = func(key []byte) int {
		if len(key) != 16 {
			return -1
		}
		start := int64(binary.BigEndian.Uint64(key[8:])) - first
		if start < 0 || start%Advance != 0 {
			return -1
		}
		return int(start/Advance)*keys + int(binary.BigEndian.Uint64(key))
	}
	c.name = func(slot int) string { return fmt.Sprintf("key %d in window %d", slot%keys, slot/keys) }
	return c
}

// newSlides checks counts in sliding windows. Slots are the window that a record ends, and the one behind it.
func newSlides(r Run, merges bool) *slots {
	keys := len(r.perm)
	c := &slots{r: r, merges: merges, want: make([]int32, 2*r.Records), seen: make([]int32, 2*r.Records)}
	for i := range r.Records { // i is a record's time, too; records of a key are so many apart as there are keys
		left, right := int32(min(i, Diff)/keys)+1, int32(min(r.Records-1-i, Diff+1)/keys)
		c.want[2*i], c.want[2*i+1] = left, right
		c.expect += 1 + int(right)
	}
	is := func(t int64, key []byte) bool {
		return t >= 0 && t < int64(r.Records) && uint64(r.Key(int(t))) == binary.BigEndian.Uint64(key)
	}
	c.of = func(key []byte) int {
		if len(key) != 16 {
			return -1
		}
		start := int64(binary.BigEndian.Uint64(key[8:])) - r.Base
		switch {
		case is(start+Diff, key):
			return 2 * int(start+Diff)
		case is(start-1, key):
			return 2*int(start-1) + 1
		}
		return -1
	}
	c.name = func(slot int) string {
		if slot%2 == 0 {
			return fmt.Sprintf("the window that ends at record %d", slot/2)
		}
		return fmt.Sprintf("the window behind record %d", slot/2)
	}
	return c
}

// visits checks sessions. Each record makes a session that ends at it, in place of the one that ended at the record of the key before
// it, whose tombstone comes.
type visits struct {
	complaints
	r      Run
	merges bool
	starts []int32 // of the session that ends at a record; -1 if the record is not taken
	counts []int32
	last   []bool // no record follows in the session
	seen   []int8 // how often: results 1, tombstones 2
	n      int
	expect int
}

func newVisits(r Run, merges bool) *visits {
	n, keys := r.Records, len(r.perm)
	c := &visits{r: r, merges: merges, starts: make([]int32, n), counts: make([]int32, n), last: make([]bool, n), seen: make([]int8, n)}
	for i := range n {
		if !inSession(i) {
			c.starts[i] = -1
			continue
		}
		c.starts[i], c.counts[i], c.last[i] = int32(i), 1, true
		c.expect++
		// The record before it of its key: there may be some between that are not taken.
		for j := i - keys; j >= 0 && i-j <= Gap; j -= keys {
			if c.starts[j] >= 0 {
				c.starts[i], c.counts[i], c.last[j] = c.starts[j], c.counts[j]+1, false
				c.expect++
				break
			}
		}
	}
	return c
}

func (c *visits) Output(key, value []byte) {
	c.n++
	if len(key) != 24 || len(value) != 8 && value != nil {
		c.add("output %x = %x is of no session", key, value)
		return
	}
	end, start := int64(binary.BigEndian.Uint64(key[8:]))-c.r.Base, int64(binary.BigEndian.Uint64(key[16:]))-c.r.Base
	if end < 0 || end >= int64(len(c.starts)) || start != int64(c.starts[end]) || uint64(c.r.Key(int(end))) != binary.BigEndian.Uint64(key) {
		c.add("output %x = %x is of no session that there is", key, value)
		return
	}
	if value == nil {
		if c.last[end] {
			c.add("the session that ends at record %d has a tombstone, want none", end)
		}
		if c.seen[end]&1 == 0 && !c.merges || c.seen[end]&2 != 0 {
			c.add("the session that ends at record %d: a tombstone follows %d", end, c.seen[end])
		}
		c.seen[end] |= 2
		return
	}
	if got := int32(binary.BigEndian.Uint64(value)); got != c.counts[end] {
		c.add("the session that ends at record %d: %d, want %d", end, got, c.counts[end])
	}
	if c.seen[end] != 0 {
		c.add("the session that ends at record %d: a result follows %d", end, c.seen[end])
	}
	c.seen[end] |= 1
}

func (c *visits) Count() int { return c.n }

func (c *visits) Err() error {
	for i, last := range c.last {
		switch {
		case c.starts[i] < 0:
		case last && c.seen[i] != 1:
			c.add("the session that ends at record %d has no result at the end, want one", i)
		case !last && c.seen[i] == 1:
			c.add("the session that ended at record %d has no tombstone, want one", i)
		}
	}
	if !c.merges && c.n != c.expect {
		c.add("%d outputs, want %d", c.n, c.expect)
	}
	return c.err()
}

// newClosed checks the results of windows that have one record each.
func newClosed(r Run) *slots {
	c := &slots{r: r, want: make([]int32, r.Records), seen: make([]int32, r.Records), expect: r.Records}
	for i := range c.want {
		c.want[i] = 1
	}
	c.of = func(key []byte) int {
		if len(key) != 16 || int64(binary.BigEndian.Uint64(key[8:])) != r.Base {
			return -1
		}
		return int(binary.BigEndian.Uint64(key))
	}
	c.name = func(slot int) string { return fmt.Sprintf("key %d", slot) }
	return c
}
