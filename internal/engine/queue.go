package engine

import "github.com/headrace/headrace/internal/graph"

// queue holds the records of one partition that have been polled and not yet taken, in offset order.
type queue struct {
	buf   []graph.Raw
	head  int
	bytes int
}

func (q *queue) len() int { return len(q.buf) - q.head }

func (q *queue) push(r graph.Raw) {
	// Move to the front before growing, but only when that frees half: each record is then moved once on average.
	if len(q.buf) == cap(q.buf) && q.head > len(q.buf)/2 {
		n := copy(q.buf, q.buf[q.head:])
		clear(q.buf[n:])
		q.buf, q.head = q.buf[:n], 0
	}
	q.buf = append(q.buf, r)
	q.bytes += size(&r)
}

func (q *queue) front() *graph.Raw { return &q.buf[q.head] }

// pop moves the front into dst, so that the queue keeps no reference to its bytes.
func (q *queue) pop(dst *graph.Raw) {
	*dst = q.buf[q.head]
	q.buf[q.head] = graph.Raw{}
	q.head++
	q.bytes -= size(dst)
	if q.head == len(q.buf) {
		q.buf, q.head = q.buf[:0], 0
	}
}

// size is what a queued record costs, roughly.
func size(r *graph.Raw) int {
	n := 128 + len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += 40 + len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return n
}
