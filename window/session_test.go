package window_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/window"
)

// visit is a record: its time, its gap, and the watermark that it met.
type visit struct{ ts, gap, w int64 }

// stay is a session with the visits in it, by their index.
type stay struct {
	start, last, reach int64
	visits             []int
}

// absorb puts a visit into the sessions of its key, as the definition of Sessions says.
func absorb(open []stay, i int, v visit) []stay {
	s := stay{v.ts, v.ts, v.ts + v.gap, []int{i}}
	kept := open[:0:0]
	for _, o := range open {
		if o.start <= v.ts+v.gap && v.ts <= o.reach {
			s.start, s.last, s.reach = min(s.start, o.start), max(s.last, o.last), max(s.reach, o.reach)
			s.visits = append(s.visits, o.visits...)
		} else {
			kept = append(kept, o)
		}
	}
	slices.Sort(s.visits)
	return append(kept, s)
}

// streamed runs the visits as an operator does. It reports what it emits on closing, and complains of a session that changes after that.
func streamed(t *testing.T, s window.Sessions, in []visit) (closed []stay, accepted []int) {
	t.Helper()
	var open []stay
	w := window.Unknown
	for i, v := range in {
		w = max(w, v.w)
		kept := open[:0:0]
		for _, o := range open {
			if s.Closed(o.reach, w) != (o.reach < s.ClosedBelow(w)) {
				t.Fatalf("%v: Closed(%d, %d) and ClosedBelow = %d disagree", s, o.reach, w, s.ClosedBelow(w))
			}
			if !s.Closed(o.reach, w) {
				kept = append(kept, o)
				if o.last < s.Hold(w) {
					t.Fatalf("%v: at W %d a session that ends at %d is open, and Hold is %d", s, w, o.last, s.Hold(w))
				}
				continue
			}
			closed = append(closed, o)
		}
		open = kept
		if s.Late(v.ts, w) {
			continue
		}
		if v.ts < s.Hold(w) {
			t.Fatalf("%v: at W %d a record at %d is in time, and Hold is %d", s, w, v.ts, s.Hold(w))
		}
		for _, c := range closed {
			if c.start <= v.ts+v.gap && v.ts <= c.reach {
				t.Fatalf("%v: at W %d a record at %d, gap %d, is in time and would change the closed session [%d, %d]", s, w, v.ts, v.gap, c.start, c.last)
			}
		}
		accepted = append(accepted, i)
		open = absorb(open, i, v)
		if n := open[len(open)-1]; s.Closed(n.reach, w) {
			t.Fatalf("%v: at W %d a record at %d is in time, and its session is closed", s, w, v.ts)
		}
	}
	return append(closed, open...), accepted
}

// TestSessionsAreFinalAndEqualTheBatch: over 20,000 streams of each kind, what was closed never changes, and all sessions together
// are those that a batch makes of the accepted records.
func TestSessionsAreFinalAndEqualTheBatch(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{false, true} {
		t.Run(fmt.Sprint("own gaps ", own), func(t *testing.T) {
			t.Parallel()
			closings, late, merges := 0, 0, 0
			for seed := range uint64(20_000) {
				r := rand.New(rand.NewPCG(seed, 8))
				gap, grace, disorder := 1+r.Int64N(8), r.Int64N(6), r.Int64N(6)
				s := window.Session(ms(gap)).Grace(ms(grace))
				if own {
					s = window.SessionBy(func(int) time.Duration { return 0 }, ms(gap)).Grace(ms(grace)).Sessions
				}
				in := make([]visit, 2+r.IntN(20))
				now, most := int64(0), window.Unknown
				for i := range in {
					now += r.Int64N(2 + gap)
					v := visit{ts: now - r.Int64N(4*gap), gap: gap, w: window.Unknown}
					if own {
						v.gap = r.Int64N(gap + 1)
					}
					if i > 0 {
						v.w = most - disorder
					}
					most = max(most, v.ts)
					in[i] = v
				}
				got, accepted := streamed(t, s, in)
				late += len(in) - len(accepted)

				// The batch: by time, a record belongs to the session before it if anything in that reaches it.
				var want []stay
				slices.SortStableFunc(accepted, func(a, b int) int { return int(in[a].ts - in[b].ts) })
				for _, i := range accepted {
					v := in[i]
					if n := len(want) - 1; n >= 0 && v.ts <= want[n].reach {
						merges++
						want[n].last, want[n].reach = v.ts, max(want[n].reach, v.ts+v.gap)
						want[n].visits = append(want[n].visits, i)
						continue
					}
					want = append(want, stay{v.ts, v.ts, v.ts + v.gap, []int{i}})
				}
				for i := range want {
					slices.Sort(want[i].visits)
				}
				slices.SortFunc(got, func(a, b stay) int { return int(a.start - b.start) })
				if diff := cmp.Diff(want, got, cmp.AllowUnexported(stay{})); diff != "" {
					t.Fatalf("seed %d: %v, %v (-batch +streamed):\n%s", seed, s, in, diff)
				}
				closings += len(got)
			}
			t.Logf("%d sessions, %d merges, %d late", closings, merges, late)
			if closings < 20_000 || merges < 20_000 || late < 10_000 {
				t.Errorf("%d sessions, %d merges, %d late: too few to show anything", closings, merges, late)
			}
		})
	}
}

// The instants at which anything changes, with gap 5 and grace 3.
func TestSessionBoundaries(t *testing.T) {
	t.Parallel()
	s := window.Session(ms(5)).Grace(ms(3))
	for _, c := range []struct {
		what      string
		got, want bool
	}{
		{"a record at 12 is late at 20", s.Late(12, 20), false},
		{"a record at 11 is late at 20", s.Late(11, 20), true},
		{"a session up to 3 is closed at 16", s.Closed(s.Reach(3, 5), 16), false},
		{"a session up to 3 is closed at 17", s.Closed(s.Reach(3, 5), 17), true},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", c.what, c.got, c.want)
		}
	}
	if got := s.Hold(20); got != 7 {
		t.Errorf("Hold(20) = %d, want 7: a session that ends there can take a record at 12, and closes behind 20", got)
	}
}

func TestSessionsDoNotWrapAtTheEndsOfTime(t *testing.T) {
	t.Parallel()
	const least, most = int64(math.MinInt64), int64(math.MaxInt64)
	s := window.Session(forever).Grace(forever)
	for _, c := range []struct {
		what      string
		got, want int64
	}{
		{"Hold(Unknown)", s.Hold(window.Unknown), window.Unknown},
		{"Hold(MinInt64+1)", s.Hold(least + 1), least},
		{"Hold(MaxInt64)", s.Hold(most), most},
		{"ClosedBelow(Unknown)", s.ClosedBelow(window.Unknown), least},
		{"ClosedBelow(MaxInt64)", s.ClosedBelow(most), most},
		{"Reach", s.Reach(most-1, 5), most},
	} {
		if c.got != c.want {
			t.Errorf("%s = %d, want %d", c.what, c.got, c.want)
		}
	}
	for _, ts := range []int64{least, -1, 0, most - 1, most} {
		if s.Late(ts, window.Unknown) || s.Closed(ts, window.Unknown) {
			t.Errorf("%d is late or closed before anything is known", ts)
		}
		if !s.Late(ts, most) || !s.Closed(ts, most) {
			t.Errorf("%d is in time or open at the end of all streams", ts)
		}
	}
	if s.Late(most-1, most-1) || s.Closed(most, most-1) {
		t.Error("the newest record is late at its own time")
	}
}

func TestSessionsSay(t *testing.T) {
	t.Parallel()
	by := func(time.Duration) time.Duration { return 0 }
	for _, c := range []struct {
		def interface {
			GraceMillis() int64
			Validate() error
			String() string
		}
		text    string
		grace   int64
		invalid string
	}{
		{window.Session(ms(5)), "session(5ms)", 0, ""},
		{window.Session(time.Minute).Grace(time.Second), "session(1m0s) grace 1s", 1000, ""},
		{window.Session(0), "session(0s)", 0, "gap is 0s"},
		{window.Session(time.Microsecond), "session(1µs)", 0, "want at least 1ms"},
		{window.Session(time.Second).Grace(-1), "session(1s) grace -1ns", 0, "grace is -1ns"},
		{window.SessionBy(by, time.Minute).Grace(time.Second), "session(by record, at most 1m0s) grace 1s", 1000, ""},
		{window.SessionBy(by, 0), "session(by record, at most 0s)", 0, "largest gap is 0s"},
		{window.SessionBy[int](nil, time.Minute), "session(by record, at most 1m0s)", 0, "no function"},
		{window.Sliding(ms(5)), "sliding(5ms)", 0, ""},
		{window.Sliding(time.Minute).Grace(time.Second), "sliding(1m0s) grace 1s", 1000, ""},
		{window.Sliding(0), "sliding(0s)", 0, "difference is 0s"},
		{window.Sliding(time.Second).Grace(-1), "sliding(1s) grace -1ns", 0, "grace is -1ns"},
	} {
		if got := c.def.String(); got != c.text {
			t.Errorf("String = %q, want %q", got, c.text)
		}
		if got := c.def.GraceMillis(); got != c.grace {
			t.Errorf("%v: GraceMillis = %d, want %d", c.def, got, c.grace)
		}
		switch err := c.def.Validate(); {
		case c.invalid == "" && err != nil:
			t.Errorf("%v: %v", c.def, err)
		case c.invalid != "" && (err == nil || !strings.Contains(err.Error(), c.invalid)):
			t.Errorf("%v: Validate = %v, want an error that says %q", c.def, err, c.invalid)
		}
	}
	if got := window.Session(time.Minute).GapMillis(); got != 60_000 {
		t.Errorf("GapMillis = %d", got)
	}
	if got := window.Sliding(time.Minute).DiffMillis(); got != 60_000 {
		t.Errorf("DiffMillis = %d", got)
	}
}

func TestGapOf(t *testing.T) {
	t.Parallel()
	s := window.SessionBy(func(d time.Duration) time.Duration { return d }, time.Second)
	for _, c := range []struct {
		gap  time.Duration
		want int64
		err  string
	}{
		{0, 0, ""},
		{time.Second, 1000, ""},
		{1900 * time.Microsecond, 1, ""},
		{-1, 0, "is -1ns, want 0 or more"},
		{time.Second + 1, 0, "more than the bound of 1s"},
	} {
		got, err := s.GapOf(c.gap)
		if c.err == "" && (err != nil || got != c.want) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("GapOf(%v) = %d, %v; want %d, %q", c.gap, got, err, c.want, c.err)
		}
	}
}

// forever is the forever duration there is.
const forever = time.Duration(math.MaxInt64 / 1_000_000 * 1_000_000)
