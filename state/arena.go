package state

const (
	firstChunk = 4 << 10
	maxChunk   = 64 << 10
)

// arena copies bytes into chunks, so that a write costs no allocation of its own. It never writes to a byte twice: what it
// returned stays unchanged for as long as somebody holds it, and the garbage collector takes a chunk when nobody does.
type arena struct {
	free []byte // what is left of the newest chunk
	size int    // size of the newest chunk
}

// copy returns an immutable copy of b. It is never nil.
func (a *arena) copy(b []byte) []byte {
	n := len(b)
	if n == 0 {
		return []byte{}
	}
	if n > maxChunk/4 { // would waste too much of a chunk
		return append(make([]byte, 0, n), b...)
	}
	if n > len(a.free) {
		a.size = min(max(2*a.size, firstChunk), maxChunk)
		for a.size < n {
			a.size *= 2
		}
		a.free = make([]byte, a.size)
	}
	c := a.free[:n:n]
	a.free = a.free[n:]
	copy(c, b)
	return c
}
