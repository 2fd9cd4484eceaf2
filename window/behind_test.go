package window_test

import (
	"testing"
	"time"

	"github.com/headrace/headrace/window"
)

func TestBehind(t *testing.T) {
	t.Parallel()
	const hour = int64(3_600_000)
	berlin := zone(t, "Europe/Berlin")
	hours := window.Tumbling(time.Hour)
	for _, c := range []struct {
		front, w      window.Windows
		horizon, want int64
	}{
		{hours, window.Daily(berlin), 3 * hour, 3 * hour},
		{hours, window.Monthly(berlin), 3 * hour, 3 * hour},
		{window.Daily(berlin), window.Monthly(berlin), hour, hour},
		{hours, hours, hour, hour},
		{hours, window.Global(), 3 * hour, 0},
		{window.Global(), hours, hour, hour}, // it sends none, as it never closes
		// The correction of an hour, for its first minute, comes when the hour behind it is the first that is open.
		{hours, window.Tumbling(time.Minute), hour / 2, hour - 60_000 + 1},
		{hours, window.Tumbling(time.Minute), hour, hour},
		{window.Hopping(2*time.Hour, time.Hour), window.Tumbling(time.Hour), hour / 2, hour / 2},
		// A month that ends within a week is corrected for a day: the week is over by then, and the next month is open.
		{window.Monthly(time.UTC), window.Weekly(time.UTC, time.Monday), 24 * hour, 30*24*hour + 1},
	} {
		if got := window.Behind(c.front, c.w, c.horizon); got != c.want {
			t.Errorf("%v in front of %v, corrected for %v: %v, want %v", c.front, c.w, time.Duration(c.horizon)*time.Millisecond,
				time.Duration(got)*time.Millisecond, time.Duration(c.want)*time.Millisecond)
		}
	}
}
