package window_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/window"
)

type event struct{ ts, amount int64 }

type result struct{ start, sum, ts, atW int64 }

type missed struct{ ts, start, w, by int64 }

// totals is the plainest operator there is: it sums per window, emits a window
// when it closes, and reports what was late.
func totals(f window.Fixed, m window.Watermarks, in []event) (out []result, late []missed) {
	open := map[int64]result{}
	maxTs := window.Unknown
	for _, e := range in {
		w := m.After(maxTs)
		for start := range window.Starts(f, e.ts) {
			if window.Closed(f, start, w) {
				late = append(late, missed{ts: e.ts, start: start, w: w, by: w - f.End(start) - f.GraceMillis()})
				continue
			}
			r := open[start]
			open[start] = result{start: start, sum: r.sum + e.amount, ts: max(r.ts, e.ts)}
		}
		maxTs = max(maxTs, e.ts)
		w = m.After(maxTs)
		var closed []result
		for start, r := range open {
			// Both forms of the question have one answer.
			if window.Closed(f, start, w) != (start < window.Hold(f, w)) {
				panic("Closed and Hold disagree")
			}
			if window.Closed(f, start, w) {
				r.atW = w
				closed = append(closed, r)
				delete(open, start)
			}
		}
		slices.SortFunc(closed, func(a, b result) int { return int(a.start - b.start) })
		out = append(out, closed...)
	}
	return out, late
}

func counts(ts ...int64) []event {
	var in []event
	for _, t := range ts {
		in = append(in, event{t, 1})
	}
	return in
}

// The first four are cases of Kafka Streams and ksqlDB for final results.
func TestFinalResults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		f    window.Fixed
		in   []event
		out  []result
		late []missed
	}{
		{
			"immediately at the end", hopping(2, 2, 0), counts(0, 1, 2),
			[]result{{0, 2, 1, 2}},
			nil,
		},
		{
			"grace takes what is out of order", hopping(2, 2, 1), counts(0, 1, 2, 1, 0, 5),
			[]result{{0, 4, 1, 5}, {2, 1, 2, 5}},
			nil,
		},
		{
			"a large jump loses no window", hopping(2, 2, 2), counts(0, 1, 2, 0, 3, 0, 10, 0, 30),
			[]result{{0, 4, 1, 10}, {2, 2, 3, 10}, {10, 1, 10, 30}},
			[]missed{{ts: 0, start: 0, w: 10, by: 6}},
		},
		{
			"hopping", hopping(5, 2, 1), counts(0, 1, 2, 1, 6, 5, 10),
			[]result{{0, 4, 2, 6}, {2, 3, 6, 10}, {4, 2, 6, 10}},
			nil,
		},
		{
			"late for some of its windows", hopping(5, 2, 0), counts(6, 4),
			nil,
			[]missed{{ts: 4, start: 0, w: 6, by: 1}},
		},
	} {
		out, late := totals(c.f, window.Monotonic(), c.in)
		if diff := cmp.Diff(c.out, out, cmp.AllowUnexported(result{})); diff != "" {
			t.Errorf("%s: results (-want +got):\n%s", c.name, diff)
		}
		if diff := cmp.Diff(c.late, late, cmp.AllowUnexported(missed{})); diff != "" {
			t.Errorf("%s: late (-want +got):\n%s", c.name, diff)
		}
	}
}

// Payments of one account: one event is moved over a window's end, and comes late.
func TestPaymentsPerMinute(t *testing.T) {
	t.Parallel()
	s := func(n int64) int64 { return n * 1000 }
	run := func(events ...event) []event {
		for i := range events {
			events[i].ts *= 1000
		}
		return events
	}
	minute := window.Tumbling(time.Minute)
	for _, c := range []struct {
		name string
		f    window.Fixed
		in   []event
		out  []result
		late []missed
	}{
		{
			"out of order, not late", minute,
			run(event{10, 5}, event{50, 7}, event{62, 11}, event{59, 3}, event{70, 2}, event{125, 1}),
			[]result{{0, 15, s(59), s(65)}, {s(60), 13, s(70), s(120)}},
			nil,
		},
		{
			"exactly at the end is in the next window", minute,
			run(event{10, 5}, event{50, 7}, event{62, 11}, event{60, 3}, event{70, 2}, event{125, 1}),
			[]result{{0, 12, s(50), s(65)}, {s(60), 16, s(70), s(120)}},
			nil,
		},
		{
			"late", minute,
			run(event{10, 5}, event{50, 7}, event{62, 11}, event{70, 2}, event{59, 3}, event{125, 1}),
			[]result{{0, 12, s(50), s(65)}, {s(60), 13, s(70), s(120)}},
			[]missed{{ts: s(59), start: 0, w: s(65), by: s(5)}},
		},
		{
			"in time with grace", minute.Grace(30 * time.Second),
			run(event{10, 5}, event{50, 7}, event{62, 11}, event{70, 2}, event{59, 3}, event{125, 1}),
			[]result{{0, 15, s(59), s(120)}},
			nil,
		},
		{
			"beyond the grace", minute.Grace(30 * time.Second),
			run(event{10, 5}, event{50, 7}, event{62, 11}, event{70, 2}, event{125, 1}, event{59, 3}),
			[]result{{0, 12, s(50), s(120)}},
			[]missed{{ts: s(59), start: 0, w: s(120), by: s(30)}},
		},
	} {
		out, late := totals(c.f, window.BoundedDisorder(5*time.Second), c.in)
		if diff := cmp.Diff(c.out, out, cmp.AllowUnexported(result{})); diff != "" {
			t.Errorf("%s: results (-want +got):\n%s", c.name, diff)
		}
		if diff := cmp.Diff(c.late, late, cmp.AllowUnexported(missed{})); diff != "" {
			t.Errorf("%s: late (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestClosedAtTheVeryInstant(t *testing.T) {
	t.Parallel()
	minute := window.Tumbling(time.Minute)
	for _, c := range []struct {
		f    window.Fixed
		w    int64
		want bool
	}{
		{minute, window.Unknown, false},
		{minute, 59_999, false},
		{minute, 60_000, true},
		{minute.Grace(30 * time.Second), 89_999, false},
		{minute.Grace(30 * time.Second), 90_000, true},
	} {
		if got := window.Closed(c.f, 0, c.w); got != c.want {
			t.Errorf("%v: Closed(0, %d) = %v", c.f, c.w, got)
		}
	}
}

func TestWatermarks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		m           window.Watermarks
		maxTs, want int64
	}{
		{window.Watermarks{}, 62_000, 62_000},
		{window.Monotonic(), 62_000, 62_000},
		{window.BoundedDisorder(5 * time.Second), 62_000, 57_000},
		{window.BoundedDisorder(5 * time.Second), 0, -5_000},
		{window.BoundedDisorder(5 * time.Second), window.Unknown, window.Unknown},
		{window.BoundedDisorder(5 * time.Second), math.MinInt64 + 4_999, window.Unknown},
		{window.BoundedDisorder(5 * time.Second), math.MaxInt64, math.MaxInt64 - 5_000},
		{window.Monotonic(), window.Unknown, window.Unknown},
	} {
		if got := c.m.After(c.maxTs); got != c.want {
			t.Errorf("%v: After(%d) = %d, want %d", c.m, c.maxTs, got, c.want)
		}
	}
	if window.BoundedDisorder(0) != window.Monotonic() || window.Monotonic() != (window.Watermarks{}) {
		t.Error("Monotonic is not BoundedDisorder(0) and the zero value")
	}
	for _, c := range []struct {
		m    window.Watermarks
		want string
	}{
		{window.Monotonic(), ""},
		{window.BoundedDisorder(15 * time.Minute), ""},
		{window.BoundedDisorder(-1), "window: watermarks: disorder is -1ns, want 0 or more"},
		{window.BoundedDisorder(1500 * time.Microsecond), "window: watermarks: disorder is 1.5ms, want whole milliseconds"},
	} {
		got := ""
		if err := c.m.Validate(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%v: Validate = %q, want %q", c.m, got, c.want)
		}
	}
}

func TestLate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		l        window.Late
		topic    string
		sideline bool
		name     string
		invalid  string
	}{
		{window.Drop(), "", false, "drop", ""},
		{window.Sideline("flights-late"), "flights-late", true, "sideline(flights-late)", ""},
		{window.Sideline(""), "", true, "sideline()", "window: Sideline: the topic has no name"},
		{window.Late{}, "", false, "unset", "window: no late policy: choose window.Drop(), window.Sideline(topic) or window.CorrectWithin(d).Otherwise(…)"},
		{window.CorrectWithin(time.Hour).Otherwise(window.Drop()), "", false, "correct(1h0m0s, upsert) else drop", ""},
		{window.Drop().LateBy(window.Channel), "", false, "drop, late by channel", ""},
		{window.CorrectWithin(time.Hour).Otherwise(window.Drop().LateBy(window.Channel)), "", false, "correct(1h0m0s, upsert) else drop, late by channel", ""},
		{
			window.CorrectWithin(time.Hour).Retract().Otherwise(window.Sideline("l")), "l", true,
			"correct(1h0m0s, retract) else sideline(l)", "",
		},
		{
			window.CorrectWithin(time.Hour).Otherwise(window.Late{}), "", false, "correct(1h0m0s, upsert) else unset",
			"window: CorrectWithin: no policy beyond the horizon: give window.Drop() or window.Sideline(topic) to Otherwise",
		},
		{
			window.CorrectWithin(time.Hour).Otherwise(window.CorrectWithin(time.Hour).Otherwise(window.Drop())), "", false,
			"correct(1h0m0s, upsert) else unset",
			"window: CorrectWithin: Otherwise got a policy that corrects, too: give it window.Drop() or window.Sideline(topic)",
		},
		{
			window.CorrectWithin(0).Otherwise(window.Drop()), "", false, "correct(0s, upsert) else drop",
			"window: CorrectWithin: the horizon is 0s, want at least 1ms",
		},
	} {
		topic, ok := c.l.Topic()
		if topic != c.topic || ok != c.sideline {
			t.Errorf("%v: Topic() = %q, %v, want %q, %v", c.l, topic, ok, c.topic, c.sideline)
		}
		if got := c.l.String(); got != c.name {
			t.Errorf("String() = %q, want %q", got, c.name)
		}
		got := ""
		if err := c.l.Validate(); err != nil {
			got = err.Error()
		}
		if got != c.invalid {
			t.Errorf("%v: Validate = %q, want %q", c.l, got, c.invalid)
		}
	}
	if l := window.CorrectWithin(time.Second).Otherwise(window.Drop()); l.CorrectMillis() != 1000 || !l.Corrects() || l.Retracts() {
		t.Errorf("%v: %d ms, corrects %v, retracts %v", l, l.CorrectMillis(), l.Corrects(), l.Retracts())
	}
	if l := window.Drop(); l.CorrectMillis() != 0 || l.Corrects() || l.Retracts() {
		t.Errorf("%v: %d ms, corrects %v, retracts %v", l, l.CorrectMillis(), l.Corrects(), l.Retracts())
	}
}
