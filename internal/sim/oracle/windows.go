package oracle

import (
	"math"
	"time"
)

// The windows that are not multiples of a size. Gaps begin every Advance, which is more than their Size.
const (
	Daily   = "daily"
	Weekly  = "weekly"
	Monthly = "monthly"
	Global  = "global"
	Gaps    = "gaps"
)

// windows are the intervals of a node, each named by its start.
type windows interface {
	// of are those that hold t, ascending.
	of(t int64) []int64
	// end is exclusive.
	end(start int64) int64
	// open is the start of the earliest that ends behind t.
	open(t int64) int64
}

func (b *batch) windows(node int) windows {
	if b.divides[node] == nil {
		b.divides[node] = windowsOf(b.node(node))
	}
	return b.divides[node]
}

func windowsOf(n *Node) windows {
	switch n.Win {
	case Global:
		return global{}
	case Daily, Weekly, Monthly:
		loc, err := time.LoadLocation(n.Zone)
		if err != nil {
			loc = time.UTC // the topology could not have been built
		}
		return &calendar{unit: n.Win, first: time.Weekday(n.First), loc: loc, begins: map[[3]int]int64{}}
	}
	return every{size: n.Size, advance: n.Advance}
}

// every are [k·advance, k·advance+size) for all k. What is not before 0 belongs to those from 0 on.
type every struct{ size, advance int64 }

func (e every) end(start int64) int64 { return start + e.size }

func (e every) open(t int64) int64 {
	start := (t - e.size) / e.advance * e.advance
	for e.end(start) > t {
		start -= e.advance
	}
	for e.end(start) <= t || start < 0 && t >= 0 {
		start += e.advance
	}
	return start
}

func (e every) of(t int64) (starts []int64) {
	for start := e.open(t); start <= t; start += e.advance {
		starts = append(starts, start)
	}
	return starts
}

// global is [0, the end of all time).
type global struct{}

func (global) of(int64) []int64   { return []int64{0} }
func (global) end(int64) int64    { return math.MaxInt64 }
func (global) open(t int64) int64 { return 0 }

// calendar are the dates of a zone, each from the first instant at which a clock there shows it or a later one.
type calendar struct {
	unit   string
	first  time.Weekday
	loc    *time.Location
	begins map[[3]int]int64
}

func (c *calendar) of(t int64) []int64 { return []int64{c.open(t)} }

func (c *calendar) open(t int64) int64 {
	y, m, d := time.UnixMilli(t).In(c.loc).Date()
	switch c.unit {
	case Monthly:
		d = 1
	case Weekly:
		for time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Weekday() != c.first {
			d--
		}
	}
	return c.begin(y, m, d)
}

func (c *calendar) end(start int64) int64 {
	y, m, d := time.UnixMilli(start).In(c.loc).Date()
	for {
		switch c.unit {
		case Daily:
			d++
		case Weekly:
			d += 7
		case Monthly:
			m, d = m+1, 1
		}
		if end := c.begin(y, m, d); end > start {
			return end
		}
	}
}

// begin looks at the clock every quarter of an hour.
func (c *calendar) begin(y int, m time.Month, d int) int64 {
	noon := time.Date(y, m, d, 12, 0, 0, 0, time.UTC)
	y, m, d = noon.Date()
	key := [3]int{y, int(m), d}
	at, ok := c.begins[key]
	if !ok {
		t := noon.Add(-48 * time.Hour)
		for {
			ty, tm, td := t.In(c.loc).Date()
			if ty > y || ty == y && (tm > m || tm == m && td >= d) {
				break
			}
			t = t.Add(15 * time.Minute)
		}
		at = t.UnixMilli()
		c.begins[key] = at
	}
	return at
}

// plus is the end of a stretch of time, at most that of all time.
func plus(t, d int64) int64 {
	if t > math.MaxInt64-d {
		return math.MaxInt64
	}
	return t + d
}
