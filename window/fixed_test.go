package window_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/window"
)

func hopping(size, advance, grace int64) window.Fixed {
	return window.Hopping(ms(size), ms(advance)).Grace(ms(grace))
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// everyShape calls f for all small sizes, advances and graces.
func everyShape(f func(w window.Fixed, size, advance, grace int64)) {
	for size := int64(1); size <= 7; size++ {
		for advance := int64(1); advance <= size; advance++ {
			for _, grace := range []int64{0, 1, 2, 5, 11} {
				f(hopping(size, advance, grace), size, advance, grace)
			}
		}
	}
}

func TestStartsAreTheWindowsThatHoldTheTimestamp(t *testing.T) {
	t.Parallel()
	everyShape(func(w window.Fixed, size, advance, _ int64) {
		for ts := int64(-25); ts <= 40; ts++ {
			var want []int64
			for start := -100 * advance; start <= 100*advance; start += advance {
				if start <= ts && ts < start+size && (start >= 0 || ts < 0) {
					want = append(want, start)
				}
			}
			got := slices.Collect(window.Starts(w, ts))
			if !slices.Equal(got, want) {
				t.Fatalf("%v: Starts(%d) = %v, want %v", w, ts, got, want)
			}
			// With advance ≤ size every timestamp has a window.
			if first := w.First(ts); first != want[0] {
				t.Fatalf("%v: First(%d) = %d, want %d", w, ts, first, want[0])
			}
		}
	})
}

func TestHoldIsTheEarliestWindowNotClosed(t *testing.T) {
	t.Parallel()
	everyShape(func(f window.Fixed, size, advance, grace int64) {
		last := int64(math.MinInt64)
		for w := int64(-60); w <= 80; w++ {
			want := -100 * advance // far below: closed at every w tried
			for want+size+grace <= w {
				want += advance
			}
			if w >= grace { // what is not negative has no window that is
				want = max(want, 0)
			}
			got := window.Hold(f, w)
			if got != want {
				t.Fatalf("%v: Hold(%d) = %d, want %d", f, w, got, want)
			}
			if window.Closed(f, got, w) || got != 0 && !window.Closed(f, got-advance, w) {
				t.Fatalf("%v: Hold(%d) = %d does not divide open from closed", f, w, got)
			}
			if got < last || got > w {
				t.Fatalf("%v: Hold(%d) = %d after %d", f, w, got, last)
			}
			last = got
		}
	})
}

// A record that is not late has no window below the hold: what an operator passes
// on as its watermark is true.
func TestNothingInTimeFallsBelowTheHold(t *testing.T) {
	t.Parallel()
	everyShape(func(f window.Fixed, _, _, _ int64) {
		for w := int64(0); w <= 40; w++ {
			for ts := int64(0); ts <= 60; ts++ {
				for start := range window.Starts(f, ts) {
					if !window.Closed(f, start, w) && start < window.Hold(f, w) {
						t.Fatalf("%v: at W %d the window at %d is open, Hold is %d", f, w, start, window.Hold(f, w))
					}
				}
			}
		}
	})
}

func TestHoldExamples(t *testing.T) {
	t.Parallel()
	sixty := window.Tumbling(60 * time.Millisecond)
	for _, c := range []struct {
		f       window.Fixed
		w, want int64
	}{
		{sixty.Grace(ms(60)), 100, 0},
		{sixty.Grace(ms(60)), 119, 0},
		{sixty.Grace(ms(60)), 120, 60},
		{sixty.Grace(ms(60)), 0, -60},
		{sixty, 59, 0},
		{sixty, 60, 60},
		{sixty, -1, -60},
		{hopping(5, 2, 1), 5, 0},
		{hopping(5, 2, 1), 6, 2},
		{hopping(5, 2, 1), 7, 2},
		{hopping(5, 2, 1), 8, 4},
		{sixty, window.Unknown, window.Unknown},
		{sixty, math.MinInt64 + 10, math.MinInt64 + 8},
		{sixty.Grace(math.MaxInt64 / 1e6 * 1e6), math.MinInt64 + 100, math.MinInt64},
		{sixty, math.MaxInt64, math.MaxInt64},
		{sixty, math.MaxInt64 - 1, (math.MaxInt64 - 1) / 60 * 60},
	} {
		if got := window.Hold(c.f, c.w); got != c.want {
			t.Errorf("%v: Hold(%d) = %d, want %d", c.f, c.w, got, c.want)
		}
	}
}

// Kafka Streams 4.3.1, TimeWindows.windowsFor, gave these.
func TestStartsLikeKafkaStreams(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ts, size, advance int64
		want              []int64
	}{
		{10345, 5000, 1000, []int64{6000, 7000, 8000, 9000, 10000}},
		{13251, 5000, 1000, []int64{9000, 10000, 11000, 12000, 13000}},
		{0, 5, 2, []int64{0}},
		{1, 5, 2, []int64{0}},
		{3, 5, 2, []int64{0, 2}},
		{6, 5, 2, []int64{2, 4, 6}},
		{10, 5, 2, []int64{6, 8, 10}},
		{59, 60, 60, []int64{0}},
		{60, 60, 60, []int64{60}},
		{100, 10, 3, []int64{93, 96, 99}},
	} {
		got := slices.Collect(window.Starts(hopping(c.size, c.advance, 0), c.ts))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("Starts(%d) of size %d by %d (-Kafka Streams +got):\n%s", c.ts, c.size, c.advance, diff)
		}
	}
}

func TestNothingWrapsAtTheEndsOfTime(t *testing.T) {
	t.Parallel()
	const most = int64(math.MaxInt64)
	longest := time.Duration(math.MaxInt64).Truncate(time.Millisecond)
	f := window.Tumbling(time.Second).Grace(longest)

	ts := most - 1750
	start := f.First(ts)
	if start > ts || start < ts-999 {
		t.Fatalf("First(%d) = %d", ts, start)
	}
	if got := f.End(most - 5); got != most {
		t.Errorf("End(MaxInt64-5) = %d, want MaxInt64", got)
	}
	if window.Closed(f, start, most-1) {
		t.Error("the window with an end + grace past MaxInt64 is closed at MaxInt64-1")
	}
	if !window.Closed(f, start, most) {
		t.Error("a window is open at MaxInt64, the end of all streams")
	}

	for _, f := range []window.Fixed{hopping(7, 3, 0), hopping(8, 1, 0), hopping(7, 7, 0), window.Tumbling(longest)} {
		for ts := most - 9; ; ts++ {
			n := 0
			for s := range window.Starts(f, ts) {
				if s > ts || s%f.AdvanceMillis() != 0 || s < ts-f.SizeMillis() {
					t.Fatalf("%v: Starts(%d) has %d", f, ts, s)
				}
				n++
			}
			if n == 0 || int64(n) > (f.SizeMillis()+f.AdvanceMillis()-1)/f.AdvanceMillis() {
				t.Fatalf("%v: Starts(%d) has %d windows", f, ts, n)
			}
			if ts == most {
				break
			}
		}
		for ts := int64(math.MinInt64); ts < math.MinInt64+20; ts++ {
			for s := range window.Starts(f, ts) {
				if s > ts {
					t.Fatalf("%v: Starts(%d) has %d", f, ts, s)
				}
			}
			if h := window.Hold(f, ts); h > ts {
				t.Fatalf("%v: Hold(%d) = %d", f, ts, h)
			}
		}
	}
}

func TestStartsEndsWhenTheLoopDoes(t *testing.T) {
	t.Parallel()
	var got []int64
	for s := range window.Starts(hopping(5, 1, 0), 100) {
		got = append(got, s)
		if len(got) == 2 {
			break
		}
	}
	if diff := cmp.Diff([]int64{96, 97}, got); diff != "" {
		t.Errorf("two starts (-want +got):\n%s", diff)
	}
}

func TestFixedValidate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		f    window.Fixed
		want string // "" is valid
	}{
		{window.Tumbling(time.Minute), ""},
		{window.Tumbling(time.Millisecond), ""},
		{window.Hopping(time.Minute, time.Second).Grace(time.Hour), ""},
		{window.Fixed{}, "window: tumbling(0s): size is 0s, want at least 1ms\nadvance is 0s, want at least 1ms"},
		{window.Tumbling(-time.Second), "window: tumbling(-1s): size is -1s, want at least 1ms\nadvance is -1s, want at least 1ms"},
		{window.Hopping(time.Second, 0), "window: hopping(1s, 0s): advance is 0s, want at least 1ms"},
		{window.Hopping(time.Second, 2*time.Second), "window: hopping(1s, 2s): advance 2s is larger than size 1s, and would leave gaps between the windows"},
		{window.Hopping(time.Second+1, time.Second), "window: hopping(1.000000001s, 1s): size is 1.000000001s, want whole milliseconds"},
		{window.Hopping(time.Second, 1500*time.Microsecond), "window: hopping(1s, 1.5ms): advance is 1.5ms, want whole milliseconds"},
		{window.Tumbling(time.Second).Grace(-1), "window: tumbling(1s) grace -1ns: grace is -1ns, want 0 or more"},
		{window.Tumbling(time.Second).Grace(1), "window: tumbling(1s) grace 1ns: grace is 1ns, want whole milliseconds"},
	} {
		got := ""
		if err := c.f.Validate(); err != nil {
			got = err.Error()
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%v: Validate (-want +got):\n%s", c.f, diff)
		}
	}
}

// What Validate refuses must still end, and not panic.
func TestInvalidFixedDoesNotPanic(t *testing.T) {
	t.Parallel()
	for _, f := range []window.Fixed{{}, window.Tumbling(-1), window.Hopping(time.Second, 0), window.Hopping(0, time.Second)} {
		if f.Validate() == nil {
			t.Fatalf("%v is valid", f)
		}
		for _, ts := range []int64{math.MinInt64, -1, 0, 1, math.MaxInt64} {
			n := 0
			for range window.Starts(f, ts) {
				if n++; n > 1 {
					t.Fatalf("%v: Starts(%d) has many", f, ts)
				}
			}
			_, _, _ = window.Hold(f, ts), f.End(ts), window.Closed(f, ts, ts)
		}
	}
}

// Not parallel: it counts allocations.
func TestStartsDoesNotAllocate(t *testing.T) {
	var f window.Windows = hopping(5000, 1000, 0)
	var sum int64
	if n := testing.AllocsPerRun(100, func() {
		for s := range window.Starts(f, 10345) {
			sum += s
		}
	}); n != 0 {
		t.Errorf("%v allocations for one timestamp, want 0", n)
	}
	if sum == 0 {
		t.Error("no windows")
	}
}

func BenchmarkStarts(b *testing.B) {
	for _, f := range []window.Windows{window.Tumbling(time.Minute), window.Hopping(time.Minute, 10*time.Second)} {
		b.Run(f.String(), func(b *testing.B) {
			b.ReportAllocs()
			var sum, ts int64
			for b.Loop() {
				ts += 7
				for s := range window.Starts(f, ts) {
					sum += s
				}
			}
			_ = sum
		})
	}
}
