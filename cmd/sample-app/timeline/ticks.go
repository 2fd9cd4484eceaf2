package timeline

import (
	"fmt"
	"strconv"
	"time"
)

const (
	second = int64(1000)
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour
)

// steps are distances between ticks, in milliseconds, that people can count in.
var steps = []int64{
	1, 2, 5, 10, 20, 50, 100, 200, 500,
	second, 2 * second, 5 * second, 10 * second, 15 * second, 30 * second,
	minute, 2 * minute, 5 * minute, 10 * minute, 15 * minute, 30 * minute,
	hour, 2 * hour, 3 * hour, 6 * hour, 12 * hour,
	day, 2 * day, 7 * day, 14 * day, 30 * day, 90 * day, 365 * day,
}

// step is the smallest distance with which no more than most ticks are needed.
func step(from, to int64, most int) int64 {
	for _, s := range steps {
		if (to-from)/s < int64(most) {
			return s
		}
	}
	last := steps[len(steps)-1]
	for (to-from)/last >= int64(most) {
		last *= 2
	}
	return last
}

// ticks are the multiples of every within the bounds.
func ticks(from, to, every int64) []int64 {
	t := from - from%every
	if t < from {
		t += every
	}
	var out []int64
	for ; t <= to; t += every {
		out = append(out, t)
	}
	return out
}

// instant writes a time. Where seconds or dates are all the same within the picture, it leaves them out.
func (t *Timeline) instant(ms int64, every int64) string {
	if !t.Clock {
		return seconds(ms)
	}
	at := time.UnixMilli(ms).UTC()
	switch {
	case every >= day:
		return at.Format("2 Jan 2006")
	case every >= minute && at.Hour() == 0 && at.Minute() == 0 && every >= hour:
		return at.Format("2 Jan 15:04")
	case every >= minute:
		return at.Format("15:04")
	case every >= second:
		return at.Format("15:04:05")
	}
	return at.Format("15:04:05.000")
}

// full writes a time with all that tells it from others.
func (t *Timeline) full(ms int64) string {
	if !t.Clock {
		return seconds(ms) + " s"
	}
	at := time.UnixMilli(ms).UTC()
	if ms%1000 != 0 {
		return at.Format("2006-01-02 15:04:05.000")
	}
	return at.Format("2006-01-02 15:04:05")
}

func seconds(ms int64) string {
	return strconv.FormatFloat(float64(ms)/1000, 'f', -1, 64)
}

// interval names a window.
func (t *Timeline) interval(w Window, every int64) string {
	if t.Clock && every >= day {
		every = hour
	}
	return fmt.Sprintf("[%s, %s)", t.instant(w.Start, every), t.instant(w.End, every))
}
