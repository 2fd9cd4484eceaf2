package topology

import (
	"errors"
	"math"
	"time"

	"github.com/headrace/headrace/internal/graph"
)

// punctuation fires at multiples of every: of the epoch for event time, of when it was scheduled for wall time.
type punctuation struct {
	every int64
	start int64
	due   int64
	f     func(time.Time) error
}

// never is when a punctuation is due whose next time would be past the end of time.
const never = math.MaxInt64

// onAdvance moves the watermark. The next operator hears of it when what it made due has fired.
func (t *Task) onAdvance(w int64) {
	t.w = max(t.w, w)
	t.forward()
}

// forward tells the next operator how far event time is, unless something is due that may emit what is older.
func (t *Task) forward() {
	if t.dueTimers(false) != nil || t.pending() != nil {
		return
	}
	if w := t.outgoing(); w > t.sent {
		t.sent = w
		t.advance(w)
	}
}

// outgoing is the watermark behind the operator: its own, or what timers hold.
func (t *Task) outgoing() int64 {
	w := t.w
	for _, q := range t.timers {
		if !q.holds.none {
			w = min(w, q.holds.low)
		}
	}
	return w
}

// time is the clock that timers go by.
func (t *Task) time(wall bool) int64 {
	if wall {
		return t.rt.Now()
	}
	return t.w
}

// dueTimers are the timers of one clock that have the first thing to do, if any has.
func (t *Task) dueTimers(wall bool) *timerQueue {
	limit := t.time(wall)
	if limit == graph.Unknown {
		return nil
	}
	var first *timerQueue
	var low int64
	for _, q := range t.timers {
		if at, ok := q.next(); q.wall == wall && ok && at <= limit && (first == nil || at < low) {
			first, low = q, at
		}
	}
	return first
}

// unsure are timers that hold the watermark back, and may do so by mistake: at a time that nobody holds any more.
func (t *Task) unsure() *timerQueue {
	for _, q := range t.timers {
		if h := &q.holds; !h.none && !h.exact && h.low < t.w {
			return q
		}
	}
	return nil
}

// pending is the first punctuation that event time has made due.
func (t *Task) pending() *punctuation {
	if t.w == graph.Unknown {
		return nil
	}
	for i := range t.stream {
		if due := t.stream[i].due; t.w >= due && due != never {
			return &t.stream[i]
		}
	}
	return nil
}

func (t *Task) ticked(now int64) *punctuation {
	for i := range t.wall {
		if now >= t.wall[i].due {
			return &t.wall[i]
		}
	}
	return nil
}

// taskClock is a processor's clock as the engine sees it.
type taskClock struct {
	t *Task

	firing *punctuation
	at     int64
	timers *timerQueue
}

func (c *taskClock) Name() string     { return c.t.m.name }
func (c *taskClock) Node() int        { return c.t.m.local }
func (c *taskClock) Watermark() int64 { return c.t.w }

func (c *taskClock) Due(now int64) bool {
	t := c.t
	return t.dueTimers(false) != nil || t.pending() != nil || t.dueTimers(true) != nil || t.ticked(now) != nil || t.unsure() != nil
}

// Fire does what event time has made due before what wall time has, and timers before punctuations. What is held is asked only then.
func (c *taskClock) Fire(now int64) error {
	t := c.t
	c.firing, c.timers = nil, nil
	if c.timers = t.dueTimers(false); c.timers != nil {
		return c.timers.do()
	}
	if p := t.pending(); p != nil {
		return c.punctuate(p, t.w)
	}
	if c.timers = t.dueTimers(true); c.timers != nil {
		return c.timers.do()
	}
	if p := t.ticked(now); p != nil {
		return c.punctuate(p, now)
	}
	if q := t.unsure(); q != nil {
		return q.holds.settle(q.store)
	}
	return nil
}

func (c *taskClock) punctuate(p *punctuation, at int64) error {
	c.firing, c.at = p, at
	c.t.rt.SetTime(at)
	c.t.failed = nil
	return c.t.whole(p.f(time.UnixMilli(at).UTC()))
}

// Fired moves the punctuation to the next multiple behind the time at which it fired, whether it failed or not. A timer that failed is
// over.
func (c *taskClock) Fired(failed bool) error {
	if p := c.firing; p != nil {
		p.due = never
		past := (c.at - p.start) % p.every
		if past < 0 {
			past += p.every
		}
		if left := p.every - past; c.at <= math.MaxInt64-left {
			p.due = c.at + left
		}
		c.firing = nil
	}
	if q := c.timers; q != nil {
		c.timers = nil
		if err := q.fired(failed); err != nil {
			return err
		}
	}
	c.t.forward()
	return nil
}

// Save keeps the watermark and when each event-time punctuation fires next. Timers are in their stores.
func (c *taskClock) Save(dst []int64) []int64 {
	dst = append(dst, c.t.w)
	for i := range c.t.stream {
		dst = append(dst, c.t.stream[i].due)
	}
	return dst
}

// Load takes what Save gave. Where the number of punctuations has changed since, they start anew.
func (c *taskClock) Load(v []int64) error {
	if len(v) == 0 {
		return errors.New("no values, want the watermark at least")
	}
	c.t.w = v[0]
	if len(v) == 1+len(c.t.stream) && !timersForgotten {
		for i := range c.t.stream {
			c.t.stream[i].due = v[1+i]
		}
	}
	return nil
}
