package verify

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
)

// noWatermark is the watermark of a partition that has had no record.
const noWatermark = math.MinInt64

// judge walks through the flights in the order of the feed and marks which may and which must be late, and so late that they are
// sidelined. flights is in file order and stays so.
func judge(flights []flight, partitions int) {
	order := make([]int, len(flights))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(flights[a].heard, flights[b].heard) })

	own := slices.Repeat([]int64{noWatermark}, partitions)
	waited := int64(noWatermark) // the last event time that the feeder waited for
	for _, i := range order {
		f := &flights[i]
		end := f.window().end()
		p := partitionOf([]byte(f.key()), partitions)
		// A flight is judged before it moves the watermark.
		f.seen = own[p]
		f.mayLate, f.mustLate = own[p] >= end, waited >= end
		f.may, f.must = own[p] >= end+horizon, waited >= end+horizon
		own[p] = max(own[p], f.scheduled-disorder)
		if low := slices.Min(own); low != noWatermark {
			waited = max(waited, floor(low, windowSize), floor(low-horizon, windowSize)+horizon)
		}
	}
}

// floor returns the largest multiple of size that is not above t.
func floor(t, size int64) int64 {
	q := t / size
	if t%size < 0 {
		q--
	}
	return q * size
}

// partitionOf says where Kafka's default partitioner puts a key: the positive part of murmur2, modulo the number of partitions.
func partitionOf(key []byte, partitions int) int {
	return int(murmur2(key)&math.MaxInt32) % partitions
}

// murmur2 is Kafka's variant of the hash, with its seed.
func murmur2(b []byte) uint32 {
	const (
		seed = 0x9747b28c
		m    = 0x5bd1e995
		r    = 24
	)
	h := uint32(seed) ^ uint32(len(b))
	for ; len(b) >= 4; b = b[4:] {
		k := binary.LittleEndian.Uint32(b) * m
		k = (k ^ k>>r) * m
		h = h*m ^ k
	}
	for i := len(b) - 1; i >= 0; i-- {
		h ^= uint32(b[i]) << (8 * i)
	}
	if len(b) > 0 {
		h *= m
	}
	h = (h ^ h>>13) * m
	return h ^ h>>15
}
