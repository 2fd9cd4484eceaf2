// Package timeline draws how records, a watermark and windows met: event time goes across and the order of processing upwards. Each
// record is a dot, the watermark a line, each window a band that ends where it closes, and each correction an arrow.
//
// The same picture can be had as SVG, as PNG and for a terminal. The package draws what it is told; it knows no broker and decides
// nothing about time.
package timeline

import (
	"errors"
	"fmt"
	"math"
)

// Unknown is the watermark before there is one.
const Unknown int64 = math.MinInt64

// A Timeline is what happened, in the order of processing. Times are Unix milliseconds.
type Timeline struct {
	// Title stands above the picture, Subtitle smaller below it.
	Title, Subtitle string
	// Clock says that times are shown as dates and times of day, in UTC. Otherwise they are seconds since 0.
	Clock bool
	// Records are in the order of processing, the first at the bottom of the picture.
	Records []Record
	// Windows are in the order of their starts. They may overlap.
	Windows []Window
}

// A Record is a dot of the picture.
type Record struct {
	Time int64
	// Watermark is that of the operator behind this record, Unknown if there is none yet.
	Watermark int64
	// Label is what stands beside the dot, and may be empty; Note what is said of it besides.
	Label, Note string
	Fate        Fate
}

// Fate is what became of a record.
type Fate int

const (
	// InTime is a record that all its windows took.
	InTime Fate = iota
	// OutOfOrder is one that they took although a later one had come before.
	OutOfOrder
	// Corrected is one that came when its window had closed, and changed its result.
	Corrected
	// Sidelined is one that came too late and was put into another topic.
	Sidelined
	// Dropped is one that came too late and was dropped.
	Dropped
	fates
)

func (f Fate) String() string {
	switch f {
	case InTime:
		return "in time"
	case OutOfOrder:
		return "out of order, in time"
	case Corrected:
		return "late, corrects a result"
	case Sidelined:
		return "late, set aside"
	case Dropped:
		return "late, dropped"
	}
	return fmt.Sprintf("Fate(%d)", int(f))
}

// Never is the place of what has not happened within the picture.
const Never = -1

// A Window is a band of the picture.
type Window struct {
	Start, End int64
	// Closed and Gone are the records, by their index, behind which the watermark closed the window and behind which it could not
	// be corrected any more; Never if it did not come to that. A window without corrections is gone when it is closed.
	Closed, Gone int
	// Results are what was put out for it, in order.
	Results []Result
	// Open is what it holds at the end of the picture, if it has not closed.
	Open string
}

// A Result is what was put out for a window.
type Result struct {
	// After is the record, by its index, behind which it came.
	After int
	// Key is whose result it is, where a window has several; Value is what is shown.
	Key, Value string
	// Revision is 0 for the first result. A later one is drawn as an arrow from the one before.
	Revision int
	// Retraction takes back what was put out before.
	Retraction bool
}

// furthest is how far from 1970 an event time may be: differences of such times are numbers, too.
const furthest = math.MaxInt64 / 4

// check finds what cannot be drawn.
func (t *Timeline) check() error {
	if len(t.Records) == 0 {
		return errors.New("timeline: there is no record to draw")
	}
	for i, r := range t.Records {
		if r.Fate < 0 || r.Fate >= fates {
			return fmt.Errorf("timeline: record %d has an unknown %v", i, r.Fate)
		}
		if i > 0 && r.Watermark < t.Records[i-1].Watermark {
			return fmt.Errorf("timeline: the watermark goes back at record %d, from %d to %d", i, t.Records[i-1].Watermark, r.Watermark)
		}
	}
	if from, to := t.span(); from < -furthest || to > furthest {
		return fmt.Errorf("timeline: event times from %d to %d cannot be drawn", from, to)
	}
	for i, w := range t.Windows {
		if w.End <= w.Start {
			return fmt.Errorf("timeline: window %d ends at %d, which is not behind its start %d", i, w.End, w.Start)
		}
		places := []int{w.Closed, w.Gone}
		for _, r := range w.Results {
			places = append(places, max(r.After, 0))
		}
		for _, p := range places {
			if p < Never || p >= len(t.Records) {
				return fmt.Errorf("timeline: window %d refers to record %d of %d", i, p, len(t.Records))
			}
		}
	}
	return nil
}

// span is the part of event time that is drawn: all records and windows, and the watermark where it is within or near.
func (t *Timeline) span() (from, to int64) {
	from, to = int64(math.MaxInt64), int64(math.MinInt64)
	for _, r := range t.Records {
		from, to = min(from, r.Time), max(to, r.Time)
	}
	for _, w := range t.Windows {
		from, to = min(from, w.Start), max(to, w.End)
	}
	if to <= from {
		to = from + 1
	}
	return from, to
}

// used are the fates that occur, in their order.
func (t *Timeline) used() []Fate {
	var has [fates]bool
	for _, r := range t.Records {
		has[r.Fate] = true
	}
	var out []Fate
	for f := range fates {
		if has[f] {
			out = append(out, f)
		}
	}
	return out
}

// lanes says in which row its label stands, for each window, so that those of overlapping windows stand one above the other.
func (t *Timeline) lanes() (lane []int, n int) {
	var ends []int64
	for _, w := range t.Windows {
		at := 0
		for at < len(ends) && ends[at] > w.Start {
			at++
		}
		if at == len(ends) {
			ends = append(ends, 0)
		}
		ends[at] = w.End
		lane = append(lane, at)
	}
	return lane, len(ends)
}
