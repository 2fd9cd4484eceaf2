package window_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/window"
)

// slid is a window with what is in it, by index.
type slid struct {
	start, latest int64
	in            []int
}

// slide does with a record what Place says. It returns the starts of the windows that it changed or made.
func slide(s window.SlidingWindows, all map[int64]*slid, i int, ts int64) (touched []int64) {
	var near []window.Slide
	var of []*slid
	for _, start := range slices.Sorted(maps.Keys(all)) {
		if start >= s.From(ts) && start <= ts+1 {
			near = append(near, window.Slide{Start: start, Latest: all[start].latest})
			of = append(of, all[start])
		}
	}
	p := s.Place(near, ts)
	if p.NewRight {
		all[p.Right] = &slid{p.Right, of[p.RightOf].latest, slices.Clone(of[p.RightOf].in)}
		touched = append(touched, p.Right)
	}
	if p.NewLeft {
		n := &slid{start: p.Left, latest: ts}
		if p.LeftOf >= 0 {
			n.in = slices.Clone(of[p.LeftOf].in)
		}
		n.in = append(n.in, i)
		all[p.Left] = n
		touched = append(touched, p.Left)
	}
	if p.NewBefore {
		all[p.Before] = &slid{p.Before, ts, []int{i}}
		touched = append(touched, p.Before)
	}
	for _, w := range of[p.From:p.To] {
		w.in = append(w.in, i)
		w.latest = max(w.latest, ts)
		touched = append(touched, w.start)
	}
	return touched
}

// TestSlidingEqualsTheBatch: over 20,000 streams, the windows that close are those that the definition gives for all records together,
// where each record is in the windows that were not closed when it came; and what has closed is not touched any more.
func TestSlidingEqualsTheBatch(t *testing.T) {
	t.Parallel()
	closings, late, partly := 0, 0, 0
	for seed := range uint64(20_000) {
		r := rand.New(rand.NewPCG(seed, 9))
		diff, grace, disorder := 1+r.Int64N(7), r.Int64N(6), r.Int64N(6)
		s := window.Sliding(ms(diff)).Grace(ms(grace))
		begin := []int64{0, 0, -10, 1000}[r.IntN(4)]
		type rec struct{ ts, w int64 }
		in := make([]rec, 2+r.IntN(16))
		now, most := begin, window.Unknown
		for i := range in {
			now += r.Int64N(3)
			if r.IntN(8) == 0 {
				now += r.Int64N(3 * diff)
			}
			ts := now - r.Int64N(1+r.Int64N(6*diff))
			if begin >= 0 {
				ts = max(ts, 0)
			}
			in[i] = rec{ts, window.Unknown}
			if i > 0 {
				in[i].w = most - disorder
			}
			most = max(most, ts)
		}

		all := map[int64]*slid{}
		got := map[int64][]int{}
		closedTo := window.Unknown
		finish := func(w int64) {
			to := s.ClosedBelow(w)
			for start, o := range all {
				if start >= closedTo && start < to {
					got[start] = slices.Sorted(slices.Values(o.in))
				}
				if start < s.KeptFrom(w) {
					delete(all, start)
				}
			}
			closedTo = to
		}
		accepted := map[int]bool{}
		for i, v := range in {
			finish(v.w)
			if s.Late(v.ts, v.w) {
				late++
				continue
			}
			accepted[i] = true
			for _, start := range slide(s, all, i, v.ts) {
				if s.Closed(start, v.w) != (start < s.ClosedBelow(v.w)) {
					t.Fatalf("%v: Closed(%d, %d) and ClosedBelow disagree", s, start, v.w)
				}
				if s.Closed(start, v.w) {
					partly++
				}
			}
		}
		finish(math.MaxInt64)

		want := map[int64][]int{}
		for c := range in {
			if !accepted[c] {
				continue
			}
			for _, start := range []int64{s.Start(in[c].ts), in[c].ts + 1} {
				var members []int
				exists := false
				for i := range in {
					if accepted[i] && in[i].ts >= start && in[i].ts <= start+diff && !s.Closed(start, in[i].w) && (start >= 0 || in[i].ts < 0) {
						members = append(members, i)
						exists = exists || in[i].ts == start+diff || s.Start(in[i].ts) == start
					}
				}
				// A window that ends at a record is there because of it: it must have been open when that came. Any other is there for
				// the record before it.
				if len(members) > 0 && (exists || start == in[c].ts+1) {
					want[start] = members
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d: %v, %v (-batch +streamed):\n%s", seed, s, in, diff)
		}
		closings += len(got)
	}
	t.Logf("%d windows, %d late, %d times a closed window was touched for the sake of others", closings, late, partly)
	if closings < 20_000 || late < 10_000 || partly < 5_000 {
		t.Errorf("%d windows, %d late, %d partly: too few to show anything", closings, late, partly)
	}
}

// The cases of Kafka Streams, in the order in which it makes the windows.
func TestSlidingLikeKafkaStreams(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		diff int64
		in   []int64
		want map[int64][]int
	}{
		{5000, []int64{8000, 9200, 12400}, map[int64][]int{3000: {0}, 8001: {1, 2}, 4200: {0, 1}, 9201: {2}, 7400: {0, 1, 2}}},
		{10, []int64{100, 95}, map[int64][]int{90: {0, 1}, 85: {1}, 96: {0}}},
		{10, []int64{3, 0, 7}, map[int64][]int{0: {0, 1, 2}, 1: {0, 2}, 4: {2}}},
		{10, []int64{5, 5}, map[int64][]int{0: {0, 1}}},
	} {
		all := map[int64]*slid{}
		for i, ts := range c.in {
			slide(window.Sliding(ms(c.diff)), all, i, ts)
		}
		got := map[int64][]int{}
		for start, w := range all {
			got[start] = slices.Sorted(slices.Values(w.in))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("difference %d, %v (-want +got):\n%s", c.diff, c.in, diff)
		}
	}
}

// The instants at which anything changes, with difference 10 and grace 5.
func TestSlidingBoundaries(t *testing.T) {
	t.Parallel()
	s := window.Sliding(ms(10)).Grace(ms(5))
	for _, c := range []struct {
		what      string
		got, want bool
	}{
		{"[85, 95] is closed at 100", s.Closed(85, 100), false},
		{"[84, 94] is closed at 100", s.Closed(84, 100), true},
		{"a record at 85 is late at 100 for all", s.Late(85, 100), false},
		{"a record at 84 is late at 100 for all", s.Late(84, 100), true},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", c.what, c.got, c.want)
		}
	}
	if got := s.ClosedBelow(100); got != 85 {
		t.Errorf("ClosedBelow(100) = %d, want 85", got)
	}
}

func TestSlidingDoesNotWrapAtTheEndsOfTime(t *testing.T) {
	t.Parallel()
	const least, most = int64(math.MinInt64), int64(math.MaxInt64)
	for _, s := range []window.SlidingWindows{window.Sliding(ms(3)), window.Sliding(forever).Grace(forever)} {
		if s.ClosedBelow(window.Unknown) != window.Unknown || s.ClosedBelow(most) != most || s.KeptFrom(window.Unknown) != window.Unknown || s.KeptFrom(most) != most {
			t.Errorf("%v: the ends of time are not themselves", s)
		}
		for _, ts := range []int64{least, least + 1, -1, 0, 1, most - 1, most} {
			if s.Closed(ts, window.Unknown) || !s.Closed(ts, most) {
				t.Errorf("%v: a window at %d is closed at first, or open at the end", s, ts)
			}
			if s.Start(ts) > ts || s.End(s.Start(ts)) < ts || s.From(ts) > s.Start(ts) {
				t.Errorf("%v: Start(%d) = %d, From %d", s, ts, s.Start(ts), s.From(ts))
			}
			p := s.Place(nil, ts)
			if !p.NewLeft || p.NewRight || p.NewBefore || p.LeftOf >= 0 {
				t.Errorf("%v: the first record of a key at %d: %s", s, ts, fmt.Sprintf("%+v", p))
			}
			_ = s.Place([]window.Slide{{Start: s.Start(ts), Latest: ts}}, ts)
		}
	}
}

func TestPlaceDoesNotAllocate(t *testing.T) {
	s := window.Sliding(ms(10))
	near := []window.Slide{{80, 90}, {85, 95}, {91, 95}}
	if n := testing.AllocsPerRun(100, func() { s.Place(near, 97) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
