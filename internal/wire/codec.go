package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// ErrFormat is wrapped by the error for bytes whose format number is not known here: a newer program has written them.
var ErrFormat = errors.New("unknown format")

// ErrCorrupt is wrapped by the error for bytes that their format does not allow.
var ErrCorrupt = errors.New("corrupt bytes")

// appendTime writes any int64 in 1 to 10 bytes. It is zigzag plus one, so that math.MinInt64, which says "none" and is common,
// wraps to a single zero byte.
func appendTime(dst []byte, t int64) []byte {
	return binary.AppendUvarint(dst, uint64(t)<<1^uint64(t>>63)+1)
}

func appendTimes(dst []byte, times []int64) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(times)))
	for _, t := range times {
		dst = appendTime(dst, t)
	}
	return dst
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// reader takes values off bytes that nobody has vouched for. The first failure stays; after it every value is zero.
type reader struct {
	what   string
	format byte
	b      []byte
	err    error
}

// read starts on b, whose first byte must be one of the format numbers known.
func read(what string, b []byte, known ...byte) reader {
	r := reader{what: what, b: b}
	if len(b) == 0 {
		r.fail("there are none")
		return r
	}
	if !slices.Contains(known, b[0]) {
		r.err = fmt.Errorf("wire: %s: %w %d: this program knows format %s only; a newer one has written it, so run that or a newer one",
			what, ErrFormat, b[0], formats(known))
		r.b = nil
		return r
	}
	r.format, r.b = b[0], b[1:]
	return r
}

// formats are numbers for people: "1", "1 and 2".
func formats(known []byte) string {
	var names []string
	for _, n := range known {
		names = append(names, strconv.Itoa(int(n)))
	}
	return strings.Join(names, " and ")
}

func (r *reader) fail(why string) {
	if r.err == nil {
		r.err = fmt.Errorf("wire: %s: %w: %s", r.what, ErrCorrupt, why)
	}
	r.b = nil
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail("a number is cut off or too long")
		return 0
	}
	r.b = r.b[n:]
	return v
}

// int32 reads a number from 0 to math.MaxInt32.
func (r *reader) int32() int32 {
	v := r.uvarint()
	if v > math.MaxInt32 {
		r.fail("a number does not fit in 31 bits")
		return 0
	}
	return int32(v)
}

func (r *reader) time() int64 {
	v := r.uvarint() - 1
	return int64(v>>1) ^ -int64(v&1)
}

// times reads what appendTimes appended, nil for none.
func (r *reader) times() []int64 {
	n := r.count(1)
	if n == 0 {
		return nil
	}
	out := make([]int64, n)
	for i := range out {
		out[i] = r.time()
	}
	return out
}

// count reads how many elements follow. As each takes at least least bytes, no count makes us allocate more than the input is
// worth.
func (r *reader) count(least int) int {
	v := r.uvarint()
	if v > uint64(len(r.b)/least) {
		r.fail("a count promises more than there is")
		return 0
	}
	return int(v)
}

func (r *reader) string() string {
	n := r.count(1)
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

func (r *reader) uint64() uint64 {
	if len(r.b) < 8 {
		r.fail("a number is cut off")
		return 0
	}
	v := binary.LittleEndian.Uint64(r.b)
	r.b = r.b[8:]
	return v
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail("they end too early")
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

// end returns the first failure; bytes left over are one.
func (r *reader) end() error {
	if r.err == nil && len(r.b) > 0 {
		r.fail("there are bytes behind the end")
	}
	return r.err
}
