package graph

// arenaChunk is large enough that a growing chunk is rare, and small enough that an idle task keeps little.
const arenaChunk = 64 << 10

// Arena is where the outputs of one transaction are encoded, so that a record costs no allocation of its own. What it hands out
// stays valid until Reset.
//
// Use: b, err := serde.Append(a.Free(), v); key := a.Keep(b).
type Arena struct {
	cur  []byte   // the chunk in use: len is what is taken
	full [][]byte // chunks that are full and still referred to
	idle [][]byte // chunks to use again
	held int
}

// Free returns an empty slice with whatever capacity the chunk has left. Appending to it does not touch what was kept.
func (a *Arena) Free() []byte {
	if cap(a.cur)-len(a.cur) < 512 {
		a.grow()
	}
	return a.cur[len(a.cur):len(a.cur):cap(a.cur)]
}

// Keep takes b, which was appended to the last Free, and returns it as a slice that stays valid until Reset.
func (a *Arena) Keep(b []byte) []byte {
	n := len(b)
	a.held += n
	if n == 0 {
		return []byte{} // empty, which is not null, whatever the serde made of it
	}
	if n <= cap(a.cur)-len(a.cur) {
		next := a.cur[len(a.cur) : len(a.cur)+1]
		if &next[0] == &b[0] { // grew in place
			a.cur = a.cur[:len(a.cur)+n]
			return b[:n:n]
		}
	} else if n <= arenaChunk/4 {
		a.grow() // or every value of this size, up to Reset, would be one too many for the chunk and be allocated
	}
	return b[:n:n]
}

// Mark is where Rewind goes back to.
func (a *Arena) Mark() (chunk, at int) { return len(a.full), len(a.cur) }

// Rewind gives up what was kept since Mark, for others to be put there.
func (a *Arena) Rewind(chunk, at int) {
	if chunk < len(a.full) {
		a.idle = append(append(a.idle, a.cur), a.full[chunk+1:]...)
		a.cur = a.full[chunk]
		clear(a.full[chunk:])
		a.full = a.full[:chunk]
	}
	a.cur = a.cur[:at]
}

// Held is the number of bytes kept since Reset, those given up included.
func (a *Arena) Held() int { return a.held }

// Reset gives up everything. The caller must be sure that nobody reads it any more.
func (a *Arena) Reset() {
	a.idle = append(a.idle, a.full...)
	clear(a.full)
	a.full = a.full[:0]
	const keep = 16 // 1 MiB
	if len(a.idle) > keep {
		clear(a.idle[keep:])
		a.idle = a.idle[:keep]
	}
	a.cur = a.cur[:0]
	a.held = 0
}

func (a *Arena) grow() {
	if cap(a.cur) > 0 {
		a.full = append(a.full, a.cur)
	}
	if n := len(a.idle); n > 0 {
		a.cur = a.idle[n-1][:0]
		a.idle = a.idle[:n-1]
		return
	}
	a.cur = make([]byte, 0, arenaChunk)
}
