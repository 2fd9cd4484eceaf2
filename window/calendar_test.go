package window_test

import (
	"math"
	"slices"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/headrace/headrace/window"
)

func zone(tb testing.TB, name string) *time.Location {
	tb.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		tb.Fatal(err)
	}
	return loc
}

func TestCalendarWindows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		w    window.Calendar
		at   string   // RFC 3339
		want []string // the start of its window and of the next two
	}{
		{"a day", window.Daily(time.UTC), "2013-09-09T12:00:00Z", []string{"2013-09-09T00:00:00Z", "2013-09-10T00:00:00Z", "2013-09-11T00:00:00Z"}},
		{"its first instant", window.Daily(time.UTC), "2013-09-09T00:00:00Z", []string{"2013-09-09T00:00:00Z", "2013-09-10T00:00:00Z", "2013-09-11T00:00:00Z"}},
		{"its last", window.Daily(time.UTC), "2013-09-08T23:59:59.999Z", []string{"2013-09-08T00:00:00Z", "2013-09-09T00:00:00Z", "2013-09-10T00:00:00Z"}},
		{"before 1970", window.Daily(time.UTC), "1969-12-31T12:00:00Z", []string{"1969-12-31T00:00:00Z", "1970-01-01T00:00:00Z", "1970-01-02T00:00:00Z"}},
		{
			"23 hours: clocks go on", window.Daily(zone(t, "Europe/Berlin")), "2024-03-31T12:00:00+02:00",
			[]string{"2024-03-31T00:00:00+01:00", "2024-04-01T00:00:00+02:00", "2024-04-02T00:00:00+02:00"},
		},
		{
			"25 hours: clocks go back", window.Daily(zone(t, "Europe/Berlin")), "2024-10-27T02:30:00+01:00",
			[]string{"2024-10-27T00:00:00+02:00", "2024-10-28T00:00:00+01:00", "2024-10-29T00:00:00+01:00"},
		},
		{
			"no midnight", window.Daily(zone(t, "America/Sao_Paulo")), "2018-11-04T12:00:00-02:00",
			[]string{"2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00", "2018-11-06T00:00:00-02:00"},
		},
		{
			"no midnight to come", window.Daily(zone(t, "Africa/Cairo")), "2024-04-25T12:00:00+02:00",
			[]string{"2024-04-25T00:00:00+02:00", "2024-04-26T01:00:00+03:00", "2024-04-27T00:00:00+03:00"},
		},
		{
			"midnight twice", window.Daily(zone(t, "America/Havana")), "2024-11-03T12:00:00-05:00",
			[]string{"2024-11-03T00:00:00-04:00", "2024-11-04T00:00:00-05:00", "2024-11-05T00:00:00-05:00"},
		},
		{
			"between the two midnights", window.Daily(zone(t, "America/Havana")), "2024-11-03T00:30:00-04:00",
			[]string{"2024-11-03T00:00:00-04:00", "2024-11-04T00:00:00-05:00", "2024-11-05T00:00:00-05:00"},
		},
		{
			"a date left out", window.Daily(zone(t, "Pacific/Apia")), "2011-12-29T12:00:00-10:00",
			[]string{"2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00", "2012-01-01T00:00:00+14:00"},
		},
		{
			"a week whose first date is left out", window.Weekly(zone(t, "Pacific/Apia"), time.Friday), "2011-12-29T12:00:00-10:00",
			[]string{"2011-12-23T00:00:00-10:00", "2011-12-31T00:00:00+14:00", "2012-01-06T00:00:00+14:00"},
		},
		{"a week from Monday", window.Weekly(time.UTC, time.Monday), "2013-09-08T12:00:00Z", []string{"2013-09-02T00:00:00Z", "2013-09-09T00:00:00Z", "2013-09-16T00:00:00Z"}},
		{"a week from Sunday", window.Weekly(time.UTC, time.Sunday), "2013-09-08T12:00:00Z", []string{"2013-09-08T00:00:00Z", "2013-09-15T00:00:00Z", "2013-09-22T00:00:00Z"}},
		{
			"a week with a change of clocks", window.Weekly(zone(t, "Europe/Berlin"), time.Monday), "2024-03-30T12:00:00+01:00",
			[]string{"2024-03-25T00:00:00+01:00", "2024-04-01T00:00:00+02:00", "2024-04-08T00:00:00+02:00"},
		},
		{"a month", window.Monthly(time.UTC), "2024-02-29T12:00:00Z", []string{"2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z", "2024-04-01T00:00:00Z"}},
		{"December", window.Monthly(time.UTC), "2023-12-31T12:00:00Z", []string{"2023-12-01T00:00:00Z", "2024-01-01T00:00:00Z", "2024-02-01T00:00:00Z"}},
		{
			"a month of a zone", window.Monthly(zone(t, "Asia/Kolkata")), "2024-02-29T20:00:00Z",
			[]string{"2024-03-01T00:00:00+05:30", "2024-04-01T00:00:00+05:30", "2024-05-01T00:00:00+05:30"},
		},
	} {
		parse := func(s string) int64 {
			at, err := time.Parse(time.RFC3339, s)
			if err != nil {
				t.Fatal(err)
			}
			return at.UnixMilli()
		}
		first := c.w.First(parse(c.at))
		got := []int64{first, c.w.Next(first), c.w.Next(c.w.Next(first))}
		var want []int64
		for _, s := range c.want {
			want = append(want, parse(s))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s, %v at %s: windows begin at %v, want %v", c.name, c.w, c.at, times(got), times(want))
		}
		if end := c.w.End(first); end != got[1] {
			t.Errorf("%s: a window ends at %v and the next begins at %v", c.name, end, got[1])
		}
	}
}

func times(ms []int64) (out []string) {
	for _, m := range ms {
		out = append(out, time.UnixMilli(m).UTC().Format(time.RFC3339))
	}
	return out
}

// In every zone and at every change of its clocks: the windows are one behind the other, and each is that of the dates in it.
func TestCalendarInEveryZone(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "America/Havana", "Africa/Cairo", "Asia/Kolkata", "Pacific/Apia",
		"Asia/Beirut", "Asia/Gaza", "Australia/Lord_Howe", "Pacific/Kwajalein", "Atlantic/Azores", "America/Asuncion", "Asia/Tehran", "Antarctica/Troll",
	} {
		loc := zone(t, name)
		for _, w := range []window.Calendar{window.Daily(loc), window.Weekly(loc, time.Monday), window.Monthly(loc)} {
			from := time.Date(1985, 1, 1, 0, 0, 0, 0, loc).UnixMilli()
			to := time.Date(2027, 1, 1, 0, 0, 0, 0, loc).UnixMilli()
			for s := w.First(from); s < to; {
				e := w.End(s)
				if e <= s || w.Next(s) != e {
					t.Fatalf("%v: a window at %v ends at %v, and the next begins at %v", w, times([]int64{s}), times([]int64{e}), times([]int64{w.Next(s)}))
				}
				for _, at := range []int64{s, s + 1, s + (e-s)/2, s + 3_600_000, e - 3_600_000, e - 1} {
					if got := w.First(at); got != s {
						t.Fatalf("%v: %v is in the window of %v, want %v", w, times([]int64{at}), times([]int64{got}), times([]int64{s}))
					}
				}
				// The last instant has another date than the first of the next window.
				last, next := time.UnixMilli(e-1).In(loc), time.UnixMilli(e).In(loc)
				if last.Day() == next.Day() {
					t.Fatalf("%v: %v and %v are parted", w, last, next)
				}
				s = e
			}
		}
	}
}

func TestCalendarEndsOfTime(t *testing.T) {
	t.Parallel()
	for _, w := range []window.Calendar{window.Daily(time.UTC), window.Weekly(time.UTC, time.Monday), window.Monthly(time.UTC), {}} {
		for _, at := range []int64{math.MinInt64, math.MinInt64 + 1, -1 << 47, 1<<47 - 1, 1 << 47, math.MaxInt64 - 1, math.MaxInt64} {
			n := 0
			for s := range window.Starts(w, at) {
				if n++; n > 1 || s > at {
					t.Fatalf("%v: %d is in the window at %d", w, at, s)
				}
			}
			if h := window.Hold(w, at); h > at {
				t.Errorf("%v: Hold(%d) = %d", w, at, h)
			}
		}
	}
	last := window.Unknown
	w := window.Daily(time.UTC).Grace(time.Hour)
	for _, at := range []int64{math.MinInt64 + 5, -1 << 50, -1 << 47, -1 << 40, 0, 1 << 40, 1 << 47, 1 << 50, math.MaxInt64} {
		h := window.Hold(w, at)
		if h < last {
			t.Errorf("Hold(%d) = %d, behind %d", at, h, last)
		}
		last = h
	}
}

func TestCalendarMistakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		w          window.Calendar
		name, want string
	}{
		{window.Daily(time.UTC), "daily(UTC)", ""},
		{window.Weekly(time.UTC, time.Monday).Grace(time.Hour), "weekly(UTC, Monday) grace 1h0m0s", ""},
		{window.Monthly(time.UTC), "monthly(UTC)", ""},
		{window.Daily(nil), "daily(no zone)", "window: daily(no zone): no time zone; give time.UTC or one of time.LoadLocation"},
		{window.Calendar{}, "calendar", "window: calendar: no unit; use Daily, Weekly or Monthly"},
		{window.Weekly(time.UTC, 7), "weekly(UTC, %!Weekday(7))", "window: weekly(UTC, %!Weekday(7)): a week cannot begin with day 7; use time.Sunday to time.Saturday"},
		{window.Daily(time.UTC).Grace(-1), "daily(UTC) grace -1ns", "window: daily(UTC) grace -1ns: grace is -1ns, want 0 or more"},
	} {
		got := ""
		if err := c.w.Validate(); err != nil {
			got = err.Error()
		}
		if c.w.String() != c.name || got != c.want {
			t.Errorf("%v: %q, want %q, %q", c.w, got, c.name, c.want)
		}
	}
}

func TestGlobal(t *testing.T) {
	t.Parallel()
	w := window.Global()
	for _, at := range []int64{0, 5, math.MaxInt64} {
		if got := slices.Collect(window.Starts(w, at)); !slices.Equal(got, []int64{0}) {
			t.Errorf("%d is in %v", at, got)
		}
	}
	if window.Closed(w, 0, math.MaxInt64-1) || !window.Closed(w, 0, math.MaxInt64) || window.Hold(w, 1<<60) != 0 || w.Validate() != nil || w.String() != "global" {
		t.Error("a global window closes, or is no window")
	}
}
