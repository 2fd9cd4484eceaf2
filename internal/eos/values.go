package eos

import (
	"encoding/binary"
	"fmt"

	"github.com/headrace/headrace/serde"
)

// The topics of the applications.
const (
	Input   = "eos-in"       // events, by key
	Groups  = "eos-groups"   // the table: the weight of each group
	Totals  = "eos-totals"   // every intermediate total of each key
	Windows = "eos-windows"  // the result of each window, joined with its group
	Late    = "eos-late"     // events set aside
	Revised = "eos-revised"  // the results of windows that are corrected
	Sums    = "eos-sums"     // their sum for each group
	Clock   = "eos-clock-in" // what gives the tasks of the timers their partitions
	Ticks   = "eos-ticks"    // what the timers say
)

// Partitions is how many partitions each of them has.
const Partitions = 4

// Event is a value of Input.
type Event struct {
	Source int64 // the number of its key
	N      int64 // 1, 2, 3, … for each key
	Amount int64
	At     int64 // event time in Unix milliseconds
	End    bool  // a mark behind all events of its partition: it moves event time, and counts for nothing
}

// ID names an event.
type ID struct{ Source, N int64 }

// ID returns the event's.
func (e Event) ID() ID { return ID{e.Source, e.N} }

// Group is the key by which windows are kept.
func (e Event) Group() string { return fmt.Sprintf("g%02d", e.Source%GroupCount) }

// GroupCount is how many groups there are.
const GroupCount = 100

// Weight is what the table says of a group: something that no other source of numbers has.
func Weight(group int64) int64 { return 1_000_003 * (group + 1) }

// Total is a value of Totals: the fold over a key's events so far.
type Total struct {
	Count, Sum int64
	Last       int64 // N of the last event
}

// Add is the fold.
func (t Total) Add(e Event) Total { return Total{t.Count + 1, t.Sum + e.Amount, e.N} }

// Cell is what a window holds.
type Cell struct{ Count, Sum int64 }

// Add is the fold of a window.
func (c Cell) Add(e Event) Cell { return Cell{c.Count + 1, c.Sum + e.Amount} }

// Plus and Minus are the folds of windows.
func (c Cell) Plus(o Cell) Cell { return Cell{c.Count + o.Count, c.Sum + o.Sum} }

// Minus takes back what Plus added.
func (c Cell) Minus(o Cell) Cell { return Cell{c.Count - o.Count, c.Sum - o.Sum} }

// Result is a value of Windows.
type Result struct {
	Start int64
	Cell
	Weight int64
}

// fields is a serde for values that are a fixed row of numbers.
type fields[T any] struct {
	name string
	n    int
	to   func(T) []int64
	from func([]int64) T
}

func (f fields[T]) Append(dst []byte, v T) ([]byte, error) {
	for _, n := range f.to(v) {
		dst = binary.BigEndian.AppendUint64(dst, uint64(n))
	}
	return dst, nil
}

func (f fields[T]) Decode(b []byte) (T, error) {
	if len(b) != 8*f.n {
		var zero T
		return zero, fmt.Errorf("eos: %d bytes are no %s, which has %d", len(b), f.name, 8*f.n)
	}
	row := make([]int64, f.n)
	for i := range row {
		row[i] = int64(binary.BigEndian.Uint64(b[8*i:]))
	}
	return f.from(row), nil
}

// The serdes of the values.
var (
	EventSerde serde.Serde[Event] = fields[Event]{
		"event", 5,
		func(e Event) []int64 { return []int64{e.Source, e.N, e.Amount, e.At, flag(e.End)} },
		func(v []int64) Event { return Event{v[0], v[1], v[2], v[3], v[4] != 0} },
	}
	TotalSerde serde.Serde[Total] = fields[Total]{
		"total", 3,
		func(t Total) []int64 { return []int64{t.Count, t.Sum, t.Last} },
		func(v []int64) Total { return Total{v[0], v[1], v[2]} },
	}
	CellSerde serde.Serde[Cell] = fields[Cell]{
		"cell", 2,
		func(c Cell) []int64 { return []int64{c.Count, c.Sum} },
		func(v []int64) Cell { return Cell{v[0], v[1]} },
	}
	ResultSerde serde.Serde[Result] = fields[Result]{
		"result", 4,
		func(r Result) []int64 { return []int64{r.Start, r.Count, r.Sum, r.Weight} },
		func(v []int64) Result { return Result{v[0], Cell{v[1], v[2]}, v[3]} },
	}
)

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
