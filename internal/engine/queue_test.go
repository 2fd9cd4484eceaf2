package engine

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/headrace/headrace/internal/graph"
)

func raw(i int) graph.Raw {
	return graph.Raw{Offset: int64(i), Value: make([]byte, i%50), Headers: make([]graph.Header, i%3)}
}

// What is pushed comes out in that order, whatever the mix of pushes and pops; the byte count is that of what is in.
func TestQueueKeepsOrderAndCounts(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var q queue
		in, out, bytes := 0, 0, 0
		for range 5000 {
			// Long stretches of growing and of shrinking, so that the front is at every place when the buffer is full.
			if rng.IntN(10) < 3+4*(in/700%2) {
				r := raw(in)
				q.push(r)
				bytes += size(&r)
				in++
			} else if q.len() > 0 {
				front := q.front().Offset
				var r graph.Raw
				q.pop(&r)
				bytes -= size(&r)
				if r.Offset != int64(out) || front != r.Offset {
					t.Fatalf("seed %d: got record %d (front %d), want %d", seed, r.Offset, front, out)
				}
				out++
			}
			if q.len() != in-out || q.bytes != bytes {
				t.Fatalf("seed %d: %d records and %d bytes, want %d and %d", seed, q.len(), q.bytes, in-out, bytes)
			}
		}
	}
}

// What has been popped is not kept alive.
func TestQueueLetsGo(t *testing.T) {
	t.Parallel()
	var q queue
	var r graph.Raw
	for i := range 1000 {
		q.push(raw(i + 1))
		if i%3 > 0 {
			q.pop(&r)
		}
		all := q.buf[:cap(q.buf)]
		for k := range all {
			if queued := k >= q.head && k < len(q.buf); !queued && all[k].Value != nil {
				t.Fatalf("after %d records place %d still refers to record %d", i, k, all[k].Offset)
			}
		}
	}
}

// A queue that stays nearly full must not move all its records for each one that goes through. The buffer is then as long as
// twice the records at most.
func TestQueueDoesNotMoveEverythingForOne(t *testing.T) {
	t.Parallel()
	var q queue
	for i := range 1000 {
		q.push(raw(i))
	}
	moves, head := 0, q.head
	var r graph.Raw
	for i := range 100_000 {
		q.pop(&r)
		q.push(raw(i))
		if q.head < head {
			moves++
		}
		head = q.head
	}
	if moves > 100_000/500 {
		t.Errorf("moved its records to the front %d times for 100,000 records through 1,000 queued", moves)
	}
	if cap(q.buf) > 4096 {
		t.Errorf("room for %d records with 1,000 in", cap(q.buf))
	}
}

func BenchmarkQueue(b *testing.B) {
	for _, n := range []int{1, 1000} {
		b.Run("queued="+strconv.Itoa(n), func(b *testing.B) {
			var q queue
			r := raw(1)
			for range n {
				q.push(r)
			}
			b.ReportAllocs()
			for b.Loop() {
				q.push(r)
				q.pop(&r)
			}
		})
	}
}
