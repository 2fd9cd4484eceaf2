package window

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Calendar describes windows that are days, weeks or months of a time zone. A
// window begins with the first instant of its first date there: a day is 23 or 25
// hours long where clocks are changed, begins at one o'clock where midnight is
// skipped, and a date that a zone has left out has no window. [Daily], [Weekly]
// and [Monthly] make it. It is a value and safe for concurrent use; what it
// knows of a zone is what the program's time zone database does.
//
// The zero Calendar is not valid. Kafka Streams has none.
type Calendar struct {
	loc     *time.Location
	unit    calendarUnit
	first   time.Weekday
	grace   time.Duration
	graceMs int64
}

type calendarUnit uint8

const (
	noUnit calendarUnit = iota
	day
	week
	month
)

// Daily makes windows of one date each in a time zone, without grace.
func Daily(loc *time.Location) Calendar { return Calendar{loc: loc, unit: day} }

// Weekly makes windows of seven dates that begin with this day of the week in a
// time zone, without grace.
func Weekly(loc *time.Location, first time.Weekday) Calendar {
	return Calendar{loc: loc, unit: week, first: first}
}

// Monthly makes windows of a month each in a time zone, without grace.
func Monthly(loc *time.Location) Calendar { return Calendar{loc: loc, unit: month} }

// Grace returns the same windows, closing d after the watermark has reached
// their end. The default is 0.
func (c Calendar) Grace(d time.Duration) Calendar {
	c.grace, c.graceMs = d, millis(d)
	return c
}

// First implements [Windows].
func (c Calendar) First(t int64) int64 {
	if c.loc == nil || c.unit == noUnit {
		return 0
	}
	if t < firstMilli || t > lastMilli {
		return min(max(t, firstMilli), lastMilli)
	}
	return c.start(time.UnixMilli(t).In(c.loc), 0)
}

// Next implements [Windows].
func (c Calendar) Next(start int64) int64 {
	end := c.End(start)
	if end > lastMilli {
		return start
	}
	return end
}

// End implements [Windows].
func (c Calendar) End(start int64) int64 {
	if c.loc == nil || c.unit == noUnit || start >= lastMilli {
		return math.MaxInt64
	}
	at := time.UnixMilli(max(start, firstMilli)).In(c.loc)
	for n := 1; ; n++ {
		if end := c.start(at, n); end > start { // a date that the zone has left out begins and ends at once
			return end
		}
	}
}

// The times for which there are calendar windows: what is earlier belongs to none, and what is later to the last. Within them nothing
// overflows.
const (
	firstMilli = -1 << 47 // the year −2490
	lastMilli  = 1 << 47  // the year 6429
)

// start is the first instant of the window n units behind the one that holds at.
func (c Calendar) start(at time.Time, n int) int64 {
	y, m, d := at.Date()
	switch c.unit {
	case week:
		back := (int(at.Weekday()) - int(c.first) + 7) % 7
		return firstInstant(y, m, d-back+7*n, c.loc)
	case month:
		return firstInstant(y, m+time.Month(n), 1, c.loc)
	}
	return firstInstant(y, m, d+n, c.loc)
}

// firstInstant is when a date begins in a zone, in Unix milliseconds. Midnight may not be there, or twice.
func firstInstant(y int, m time.Month, d int, loc *time.Location) int64 {
	t := time.Date(y, m, d, 0, 0, 0, 0, loc)
	want := time.Date(y, m, d, 12, 0, 0, 0, time.UTC)
	has := time.Date(t.Year(), t.Month(), t.Day(), 12, 0, 0, 0, time.UTC)
	from, to := t.ZoneBounds()
	switch {
	case has.Before(want): // clocks went on over midnight, or over the whole date, and Date gave a time before
		return to.UnixMilli()
	case has.After(want) || t.Hour() != 0 || t.Minute() != 0 || t.Second() != 0: // or one behind
		return from.UnixMilli()
	}
	// Clocks may have been set back to midnight: then the same date began once before.
	if !from.IsZero() {
		_, now := t.Zone()
		_, was := from.Add(-time.Nanosecond).Zone()
		if earlier := t.Add(-time.Duration(was-now) * time.Second); was > now && earlier.Before(from) {
			return earlier.UnixMilli()
		}
	}
	return t.UnixMilli()
}

// GraceMillis implements [Definition].
func (c Calendar) GraceMillis() int64 { return c.graceMs }

// Validate reports a missing time zone, a day that no week has, and a grace that
// is negative or not in whole milliseconds.
func (c Calendar) Validate() error {
	var errs []error
	switch {
	case c.unit == noUnit:
		errs = append(errs, errors.New("no unit; use Daily, Weekly or Monthly"))
	case c.loc == nil:
		errs = append(errs, errors.New("no time zone; give time.UTC or one of time.LoadLocation"))
	}
	if c.first < time.Sunday || c.first > time.Saturday {
		errs = append(errs, fmt.Errorf("a week cannot begin with day %d; use time.Sunday to time.Saturday", c.first))
	}
	errs = append(errs, checkMillis("grace", c.grace, 0))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("window: %v: %w", c, err)
	}
	return nil
}

// String returns, for example, "daily(Europe/Berlin)" or "weekly(UTC, Monday) grace 1h0m0s".
func (c Calendar) String() string {
	zone := "no zone"
	if c.loc != nil {
		zone = c.loc.String()
	}
	s := "calendar"
	switch c.unit {
	case day:
		s = fmt.Sprintf("daily(%s)", zone)
	case week:
		s = fmt.Sprintf("weekly(%s, %v)", zone, c.first)
	case month:
		s = fmt.Sprintf("monthly(%s)", zone)
	}
	if c.grace != 0 {
		s += fmt.Sprintf(" grace %v", c.grace)
	}
	return s
}
