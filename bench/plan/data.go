package plan

import (
	"encoding/binary"
	"math/rand/v2"
)

// ValueSize is the size of input values, in bytes.
const ValueSize = 100

// Data are records that are the same whenever they are made. It is immutable.
type Data struct {
	Base int64 // timestamp of record 0, a multiple of Window; record i is i ms later, or less

	perm []uint32 // the shuffle of keys
	zipf []uint32 // the key of each record before the shuffle; nil if they go round
	near bool     // all records are within a window
}

// NewData makes n records with so many keys. Their last timestamp is not after end, in Unix milliseconds, so that no broker finds
// them from the future.
func NewData(in Input, n, keys int, end int64) *Data {
	d := &Data{Base: (end - int64(n)) / Window * Window, perm: make([]uint32, keys)}
	for i := range d.perm {
		d.perm[i] = uint32(i)
	}
	if in == Apiece {
		d.Base, d.near = (end-Window-Day)/Window*Window, true
	}
	r := rand.New(rand.NewPCG(1, 2))
	r.Shuffle(keys, func(i, j int) { d.perm[i], d.perm[j] = d.perm[j], d.perm[i] })
	if in == Zipf {
		z := rand.NewZipf(r, 1.1, 1, uint64(keys-1))
		d.zipf = make([]uint32, n)
		for i := range d.zipf {
			d.zipf[i] = uint32(z.Uint64())
		}
	}
	return d
}

// Key returns the number of record i's key.
func (d *Data) Key(i int) uint32 {
	if d.zipf != nil {
		return d.perm[d.zipf[i]]
	}
	return d.perm[i%len(d.perm)]
}

// At returns the timestamp of record i.
func (d *Data) At(i int) int64 {
	if d.near {
		i %= Window
	}
	return d.Base + int64(i)
}

// AppendKey appends a key's eight bytes.
func AppendKey(dst []byte, key uint32) []byte { return binary.BigEndian.AppendUint64(dst, uint64(key)) }

const letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"

// AppendValue appends record i's value: its index in eight bytes, and text that does not compress well.
func AppendValue(dst []byte, i int) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(i))
	x := uint64(i)*0x9e3779b97f4a7c15 + 1
	for n := 8; n < ValueSize; n++ {
		if n%8 == 0 {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
		}
		dst = append(dst, letters[x>>(n%8*8)&63])
	}
	return dst
}

// Index returns the index in a value.
func Index(value []byte) uint64 { return binary.BigEndian.Uint64(value) }

// Keep says whether the filter of the work map keeps a value.
func Keep(value []byte) bool { return value[7]%10 != 0 }

// Mark is the last byte of what the work map makes of a value.
const Mark = '!'

// AppendRow appends the row of a key in the table: ValueSize bytes, of which the join takes the first eight.
func AppendRow(dst []byte, key uint32) []byte {
	from := len(dst)
	dst = AppendValue(dst, int(key))
	binary.BigEndian.PutUint64(dst[from:], row(key))
	return dst
}

func row(key uint32) uint64 { return uint64(key)*7 + 3 }
