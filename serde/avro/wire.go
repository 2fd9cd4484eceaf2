package avro

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// limits bound what bytes from outside may cost.
type limits struct{ depth, size int }

// errShort is the error for a value that goes on where the bytes end.
var errShort = errors.New("the value ends too early")

// writer appends to b.
type writer struct {
	b     []byte
	depth int // how much deeper it may get
}

func (w *writer) long(n int64) {
	w.b = binary.AppendUvarint(w.b, uint64(n)<<1^uint64(n>>63))
}

func (w *writer) bytes(b []byte) {
	w.long(int64(len(b)))
	w.b = append(w.b, b...)
}

// enter counts a record, an array or a map. leave ends it.
func (w *writer) enter() error {
	if w.depth--; w.depth < 0 {
		return errDepth
	}
	return nil
}

func (w *writer) leave() { w.depth++ }

var errDepth = errors.New("nested deeper than the limit; MaxDepth sets it")

// reader takes from b.
type reader struct {
	b     []byte
	off   int
	depth int // how much deeper it may get
	left  int // how many bytes of memory the value may still take
}

func (r *reader) enter() error {
	if r.depth--; r.depth < 0 {
		return errDepth
	}
	return nil
}

func (r *reader) leave() { r.depth++ }

// charge pays for n values of size bytes of memory each, before they are allocated.
func (r *reader) charge(n, size int) error {
	if size > 0 && n > r.left/size {
		return errors.New("takes more memory than the limit; MaxSize sets it")
	}
	r.left -= n * size
	return nil
}

func (r *reader) long() (int64, error) {
	u, n := binary.Uvarint(r.b[r.off:])
	if n <= 0 {
		if n == 0 && len(r.b)-r.off < binary.MaxVarintLen64 {
			return 0, errShort
		}
		return 0, errors.New("a number is longer than 64 bits")
	}
	r.off += n
	return int64(u>>1) ^ -int64(u&1), nil
}

func (r *reader) int() (int64, error) {
	n, err := r.long()
	if err == nil && int64(int32(n)) != n {
		return 0, fmt.Errorf("%d is no int of 32 bits", n)
	}
	return n, err
}

func (r *reader) take(n int) ([]byte, error) {
	if n < 0 || n > len(r.b)-r.off {
		return nil, errShort
	}
	r.off += n
	return r.b[r.off-n : r.off : r.off], nil
}

// bytes reads a length and that many bytes, which alias the input.
func (r *reader) bytes() ([]byte, error) {
	n, err := r.long()
	if err != nil {
		return nil, err
	}
	if n < 0 || n > int64(len(r.b)-r.off) {
		return nil, fmt.Errorf("a length of %d, and %d bytes are left", n, len(r.b)-r.off)
	}
	return r.take(int(n))
}

func (r *reader) bool() (bool, error) {
	b, err := r.take(1)
	if err != nil {
		return false, err
	}
	if b[0] > 1 {
		return false, fmt.Errorf("0x%02x is no boolean", b[0])
	}
	return b[0] == 1, nil
}

func (r *reader) float() (float32, error) {
	b, err := r.take(4)
	if err != nil {
		return 0, err
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(b)), nil
}

func (r *reader) double() (float64, error) {
	b, err := r.take(8)
	if err != nil {
		return 0, err
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(b)), nil
}

// index reads the number of a symbol or a branch, of which there are n.
func (r *reader) index(n int, what string) (int, error) {
	i, err := r.long()
	if err == nil && (i < 0 || i >= int64(n)) {
		return 0, fmt.Errorf("%s %d of %d", what, i, n)
	}
	return int(i), err
}

// block begins a block of an array or a map, whose items take at least least bytes. n is 0 at the end. end is where the block must end, or -1.
func (r *reader) block(least int) (n, end int, err error) {
	count, err := r.long()
	if err != nil || count == 0 {
		return 0, -1, err
	}
	end = -1
	if count < 0 {
		size, err := r.long()
		if err != nil {
			return 0, -1, err
		}
		if size < 0 || size > int64(len(r.b)-r.off) {
			return 0, -1, fmt.Errorf("a block of %d bytes, and %d are left", size, len(r.b)-r.off)
		}
		count, end = -count, r.off+int(size)
	}
	if count < 0 || count > math.MaxInt32 || least > 0 && count > int64((len(r.b)-r.off)/least) {
		return 0, -1, fmt.Errorf("a block of %d items, and %d bytes are left", uint64(count), len(r.b)-r.off)
	}
	return int(count), end, nil
}

// ended checks that a block with a size ends where it said.
func (r *reader) ended(end int) error {
	if end >= 0 && r.off != end {
		return fmt.Errorf("a block ends at byte %d and said %d", r.off, end)
	}
	return nil
}

// located is an error in a part of a value.
type located struct {
	path []string // innermost first
	err  error
}

func (e *located) Error() string {
	n := 0
	for _, p := range e.path {
		n += len(p) + 1
	}
	b := make([]byte, 0, n+1)
	for i := len(e.path) - 1; i >= 0; i-- {
		if b = append(b, e.path[i]...); i > 0 {
			b = append(b, '.')
		}
	}
	return string(b) + ": " + e.err.Error()
}

func (e *located) Unwrap() error { return e.err }

// What an error names of a path: parts, and bytes of each, since map keys come from outside.
const (
	maxPath = 16
	maxPart = 64
)

// within says that err happened in part of something.
func within(part string, err error) error {
	if len(part) > maxPart {
		part = part[:maxPart] + "…"
	}
	l, ok := err.(*located) //nolint:errorlint // only what within itself has made
	if !ok {
		return &located{path: []string{part}, err: err}
	}
	switch {
	case len(l.path) < maxPath:
		l.path = append(l.path, part)
	default:
		l.path[maxPath-2], l.path[maxPath-1] = "…", part
	}
	return l
}
