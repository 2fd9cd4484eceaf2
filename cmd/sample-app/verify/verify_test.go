package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/cmd/sample-app/data"
)

func TestVerifiesTheWholeFile(t *testing.T) {
	t.Parallel()
	ref := runReference(20_000, 4)
	rep := (&trial{ref: ref, half: ref.half, records: 20_000, into: 4}).run(t)
	want := fmt.Sprintf("verified: %d windows equal the batch answer, 71 corrections (57 had to be, at most 152 could), 27 flights sidelined (27 had to be, at most 43 could); 0 missing, 0 extra, 0 wrong", distinct(ref.windows))
	if got := rep.String(); got != want || !rep.OK() {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	flights := int64(len(rep.Late))
	for _, w := range rep.Results {
		flights += w.Count
	}
	if flights != 20_000 || len(rep.Results) != rep.Windows || rep.Half != distinct(ref.windows[:ref.half]) {
		t.Errorf("the report accounts for %d flights in %d windows, %d at half time; want 20000, %d, %d", flights, len(rep.Results), rep.Half, rep.Windows, distinct(ref.windows[:ref.half]))
	}
}

// A right app is verified whatever its transactions look like, and however many partitions stay empty.
func TestVerifies(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*trial){
		"plain":                            func(*trial) {},
		"aborted transactions are ignored": func(tr *trial) { tr.abortedFirst, tr.abortedLast = true, true },
		"one partition":                    func(tr *trial) { tr.into = 1 },
		"many empty partitions":            func(tr *trial) { tr.into = 50 },
		"late by more than the minimum": func(tr *trial) {
			// This app's own watermarks ran ahead of the minimum: it sidelines one that may, but need not be late.
			row := anyRow(t, func(f *flight) bool { return f.may && !f.must })
			tr.dropFromWindow(row)
			tr.ref.late = append(tr.ref.late, lateFor(row))
		},
		"corrected by more than the minimum": func(tr *trial) {
			row := anyRow(t, func(f *flight) bool { return f.mayLate && !f.mustLate && len(tr.window(f.row).rows) > 1 })
			tr.dropFromWindow(row)
			tr.correctWindow(row)
		},
		"late and unchecked, at any time": func(tr *trial) { tr.unchecked, tr.half = true, 0 },
		"nothing late, unchecked": func(tr *trial) {
			tr.unchecked, tr.noHalf = true, true
			for _, l := range tr.ref.late {
				tr.addToWindow(l.flight.Row)
			}
			tr.ref.late = nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := smallTrial()
			change(tr)
			rep := tr.run(t)
			if !rep.OK() || !strings.HasPrefix(rep.String(), "verified: ") {
				t.Errorf("not verified:\n%s", rep)
			}
			if tr.unchecked != strings.Contains(rep.Verdict(), "(lateness not checked, at most 5 could)") {
				t.Errorf("unchecked is %v, but it says %s", tr.unchecked, rep.Verdict())
			}
			if want := len(tr.ref.late); rep.Sidelined != want || len(rep.Late) != want {
				t.Errorf("%d flights sidelined, %d reported, want %d", rep.Sidelined, len(rep.Late), want)
			}
		})
	}
}

// Each kind of fault is found, told in its own words, and counted where it belongs.
func TestFindsFaults(t *testing.T) {
	t.Parallel()
	const some = -1 // any count will do
	for _, tt := range []struct {
		name                  string
		change                func(*trial)
		says                  string
		missing, extra, wrong int
	}{
		{"missing window", func(tr *trial) { tr.ref.windows = slices.Delete(tr.ref.windows, 700, 701) }, "is missing: ", 1, 0, 0},
		{"missing window at the start", func(tr *trial) { tr.ref.windows = tr.ref.windows[1:] }, "is missing: ", 1, 0, 0},
		{"doubled window", func(tr *trial) { tr.ref.windows = append(tr.ref.windows, tr.ref.windows[3]) }, "is doubled: count", 0, 1, 0},
		{"reopened window", func(tr *trial) {
			// A late flight opened its window again, instead of being sidelined.
			row := tr.ref.late[0].flight.Row
			f := smallFile[row-1]
			w := *tr.window(row)
			w.stats.Count, w.stats.Sum, w.stats.Max, w.stats.Mean = 1, int64(f.delay), int64(f.delay), float64(f.delay)
			tr.ref.windows = append(tr.ref.windows, w)
			tr.ref.late = tr.ref.late[1:]
		}, "is doubled: count", 1, 1, 1},
		{"wrong count", func(tr *trial) { tr.ref.windows[9].stats.Count++ }, "is wrong: count ", 0, 0, 1},
		{"wrong sum", func(tr *trial) { tr.ref.windows[9].stats.Sum-- }, "is wrong: sum ", 0, 0, 1},
		{"wrong mean", func(tr *trial) { tr.ref.windows[9].stats.Mean += 1e-6 }, "is wrong: mean ", 0, 0, 1},
		{"wrong max", func(tr *trial) { tr.ref.windows[9].stats.Max++ }, "is wrong: max ", 0, 0, 1},
		{"wrong city", func(tr *trial) { tr.ref.windows[9].stats.City = "Nowhere" }, "is wrong: city Nowhere instead of ", 0, 0, 1},
		{"wrong state", func(tr *trial) { tr.ref.windows[9].stats.State = "" }, "is wrong: state  instead of ", 0, 0, 1},
		{"wrong airport", func(tr *trial) {
			r := tr.ref.windows[9].record("airport-delays")
			r.Value = bytes.Replace(r.Value, []byte(`"airport":"`), []byte(`"airport":"X`), 1)
			tr.ref.windows = slices.Delete(tr.ref.windows, 9, 10)
			tr.half--
			tr.raw = append(tr.raw, r)
		}, "is wrong: airport X", 0, 0, 1},
		{"extra window", func(tr *trial) {
			w := tr.ref.windows[0]
			w.start -= windowSize
			tr.ref.windows = append(tr.ref.windows, w)
		}, "is extra: no flight belongs there", 0, 1, 0},
		{"window beside the grid", func(tr *trial) { tr.ref.windows[0].start++ }, "is extra: no flight belongs there", 1, 1, 0},
		{"flight in the wrong window", func(tr *trial) {
			a, b := tr.neighbours(t)
			row := a.rows[0]
			tr.dropFromWindow(row)
			b.stats.add(int64(smallFile[row-1].delay))
		}, "has flights in the wrong window: [", 0, 0, 2},
		{"lost flight", func(tr *trial) { tr.dropFromWindow(tr.ref.windows[20].rows[0]) }, "", some, 0, some},
		{"sidelined in time", func(tr *trial) {
			row := anyRow(t, func(f *flight) bool { return !f.may })
			tr.dropFromWindow(row)
			tr.ref.late = append(tr.ref.late, lateFor(row))
		}, "was sidelined but could not be that late", 0, 1, 0},
		{"late but not sidelined", func(tr *trial) {
			tr.addToWindow(tr.ref.late[1].flight.Row)
			tr.ref.late = slices.Delete(tr.ref.late, 1, 2)
		}, "had to be sidelined and was not", 1, 0, 0},
		{"late and lost", func(tr *trial) { tr.ref.late = tr.ref.late[1:] }, "had to be sidelined and was not", some, 0, some},
		{"sidelined twice", func(tr *trial) { tr.ref.late = append(tr.ref.late, tr.ref.late[0]) }, "was sidelined twice", 0, 1, 0},
		{"sidelined and counted", func(tr *trial) { tr.addToWindow(tr.ref.late[0].flight.Row) }, "also sidelined", 0, 0, 1},
		{"never fed", func(tr *trial) { tr.ref.late[0].flight.Row = small + 1 }, "flight 2001 was never fed", some, 0, some},
		{"late: another flight", func(tr *trial) { tr.ref.late[0].flight.Distance++ }, "is not the flight of the file", 0, 0, 1},
		{"late: key", func(tr *trial) { tr.ref.late[0].key = "XXX" }, `the key is "XXX", not its origin`, 0, 0, 1},
		{"late: reason", header("x-late-reason", "bored"), `the reason is "bored"`, 0, 0, 1},
		{"late: no operator", header("x-late-operator", ""), "lacks the header x-late-operator", 0, 0, 1},
		{"late: no number", header("x-late-by-ms", "soon"), `the header x-late-by-ms is "soon", not a decimal number`, 0, 0, 1},
		{"late: window start", shift("x-late-window-start", -windowSize), "the header names the window", 0, 0, 1},
		{"late: window end", shift("x-late-window-end", 1), "the header names the window", 0, 0, 1},
		{"late: watermark too low", shift("x-late-watermark", -30*24*3600_000), "has not reached the end of window", 0, 0, 1},
		{"late: watermark too high", shift("x-late-watermark", 30*24*3600_000), "is ahead of that of its own partition", 0, 0, 1},
		{"late: by", shift("x-late-by-ms", 1), "watermark and window end give", 0, 0, 1},
		{"late: event time", shift("x-event-time", 60_000), "is not its scheduled time", 0, 0, 1},
		{"late: origin", header("x-origin-offset", "-1"), "at offset -1 cannot be", 0, 0, 1},
		{"late: header twice", func(tr *trial) {
			r := tr.ref.late[0].record("flights-late")
			r.Headers = append(r.Headers, r.Headers[0])
			tr.ref.late = tr.ref.late[1:]
			tr.raw = append(tr.raw, r)
		}, "has the header x-event-time twice", 0, 0, 1},
		{"late: undecodable", func(tr *trial) {
			tr.raw = append(tr.raw, &kgo.Record{Topic: "flights-late", Key: []byte("ATL"), Value: []byte("{")})
		}, "no flight: ", 0, 0, 1},
		{"short key", func(tr *trial) {
			tr.raw = append(tr.raw, &kgo.Record{Topic: "airport-delays", Key: []byte("12345678"), Value: []byte("{}")})
		}, "is no airport and window start", 0, 0, 1},
		{"undecodable", func(tr *trial) {
			r := tr.ref.windows[0].record("airport-delays")
			r.Value = []byte("[]")
			tr.raw = append(tr.raw, r)
		}, "cannot unmarshal", 0, 0, 1},
		{"deleted", func(tr *trial) {
			r := tr.ref.windows[0].record("airport-delays")
			r.Value = nil
			tr.raw = append(tr.raw, r)
		}, "is deleted by a null value", 0, 0, 1},
		{"too few at half time", func(tr *trial) { tr.half = len(tr.ref.windows)*2/5 - 2 }, "; too few windows at half time: ", 0, 0, 0},
		{"half time forgotten", func(tr *trial) { tr.noHalf = true }, "; nobody counted the windows when half of the feed was in", 0, 0, 0},
		{"nothing had to be late", func(tr *trial) {
			ref := runReference(60, 4)
			*tr = trial{ref: ref, half: len(ref.windows), records: 60, into: 4}
		}, "; no flight of this feed had to be sidelined", 0, 0, 0},
		{"nothing had to be corrected", func(tr *trial) {
			ref := runReference(60, 4)
			*tr = trial{ref: ref, half: len(ref.windows), records: 60, into: 4}
		}, "; no flight of this feed had to correct a window", 0, 0, 0},
		{"revision left out", func(tr *trial) { tr.corrected(t).rev = 2 }, "goes from revision 0 to 2", 0, 0, 1},
		{"revision twice", func(tr *trial) {
			w := *tr.corrected(t)
			tr.ref.windows = append(tr.ref.windows, w)
		}, "has revision 1 behind revision 1", 0, 1, 0},
		{"revision without a result", func(tr *trial) {
			w := tr.corrected(t)
			tr.ref.windows = slices.Delete(tr.ref.windows, tr.history(w.rows[0])[0], tr.history(w.rows[0])[0]+1)
		}, "begins with revision 1", some, some, some},
		{"revision that is lost", func(tr *trial) {
			w := tr.corrected(t)
			at := tr.history(w.rows[0])
			tr.ref.windows = slices.Delete(tr.ref.windows, at[len(at)-1], at[len(at)-1]+1)
		}, "is wrong: count ", some, 0, 1},
		{"revision in time", func(tr *trial) { tr.corrected(t).late = false }, "does not say that it is late", 0, 0, 1},
		{"revision of two flights", func(tr *trial) {
			w := tr.corrected(t)
			row := tr.window(w.rows[0]).rows[0]
			first := tr.window(row)
			first.rows = first.rows[1:]
			first.recount()
		}, "one more is one correction", some, some, some},
		{"revision with another maximum", func(tr *trial) { tr.corrected(t).stats.Max++ }, "is wrong: max ", 0, 0, some},
		{"revision with another mean", func(tr *trial) { tr.corrected(t).stats.Mean++ }, "is wrong: mean ", 0, 0, some},
		{"retraction", func(tr *trial) {
			w := tr.corrected(t)
			w.headers = []kgo.RecordHeader{{Key: "x-retract", Value: []byte("true")}}
		}, "has the header x-retract", some, 0, some},
		{"corrected in time", func(tr *trial) {
			row := anyRow(t, func(f *flight) bool {
				return !f.mayLate && len(tr.window(f.row).rows) > 1 && len(tr.history(f.row)) == 1
			})
			tr.dropFromWindow(row)
			tr.correctWindow(row)
		}, "that could not be late", 0, 1, 0},
		{"late and in time", func(tr *trial) {
			row := anyRow(t, func(f *flight) bool { return f.mustLate && !f.must && len(tr.history(f.row)) > 1 })
			tr.dropFromWindow(row)
			tr.addToWindow(row)
		}, "that had to come as a correction, and did not", 1, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tr := smallTrial()
			tt.change(tr)
			rep := tr.run(t)
			if rep.OK() || !strings.HasPrefix(rep.Verdict(), "not verified: ") {
				t.Errorf("it is verified: %s", rep.Verdict())
			}
			if text := rep.String(); !strings.Contains(text, tt.says) {
				t.Errorf("it does not say %q:\n%s", tt.says, text)
			}
			if len(rep.Examples) > 10 {
				t.Errorf("%d examples", len(rep.Examples))
			}
			for _, c := range []struct {
				name      string
				got, want int
			}{{"missing", rep.Missing, tt.missing}, {"extra", rep.Extra, tt.extra}, {"wrong", rep.Wrong, tt.wrong}} {
				if c.want != some && c.got != c.want {
					t.Errorf("%d %s, want %d:\n%s", c.got, c.name, c.want, rep)
				}
			}
		})
	}
}

func header(name, value string) func(*trial) {
	return func(tr *trial) { tr.ref.late[0].headers[name] = value }
}

// shift moves the number in a header, and keeps the lateness consistent with the watermark.
func shift(name string, by int64) func(*trial) {
	return func(tr *trial) {
		h := tr.ref.late[0].headers
		h[name] = plus(h[name], by)
		if name == "x-late-watermark" {
			h["x-late-by-ms"] = plus(h["x-late-by-ms"], by)
		}
	}
}

func plus(s string, by int64) string {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(err)
	}
	return strconv.FormatInt(n+by, 10)
}

// An app that wrote nothing, or committed nothing, is read to the end of its empty topics and fails.
func TestNothingWritten(t *testing.T) {
	t.Parallel()
	for _, aborted := range []bool{false, true} {
		b := startBroker(t, 3)
		if aborted {
			b.begin(t, smallReference.windows[0].record("airport-delays"))
			b.end(t, kgo.TryAbort)
		}
		c := newChecker(t, b, small, true)
		if err := c.Half(t.Context()); err != nil {
			t.Fatal(err)
		}
		rep, err := c.Check(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all := map[windowKey]bool{}
		for _, f := range smallFile {
			all[f.window()] = true
		}
		if rep.OK() || rep.Half != 0 || rep.Windows != len(all) || rep.Missing != len(all)+2 || rep.Extra != 0 || rep.Wrong != 0 {
			t.Errorf("aborted %v: want all %d windows and 2 late flights missing, got %+v", aborted, len(all), rep)
		}
		if len(rep.Examples) != 10 {
			t.Errorf("%d examples, want 10", len(rep.Examples))
		}
	}
}

// At half time the app goes on, so an open transaction is left out; at the end it is waited for.
func TestOpenTransactions(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	ref := smallReference.clone()
	var rs []*kgo.Record
	for _, w := range ref.windows {
		rs = append(rs, w.record("airport-delays"))
	}
	b.write(t, rs[:ref.half])
	b.begin(t, rs[ref.half:]...)
	c := newChecker(t, b, small, true)
	if err := c.Half(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := distinct(ref.windows[:ref.half]); c.half != want {
		t.Errorf("%d windows at half time, want the %d that are committed", c.half, want)
	}

	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := c.Check(short); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "partition 0 at ") {
		t.Errorf("with an open transaction the check ends with %v, want a deadline and where it stands", err)
	}

	checked := make(chan Report)
	go func() {
		defer close(checked)
		rep, err := c.Check(t.Context())
		if err != nil {
			t.Error(err)
		}
		checked <- rep
	}()
	for _, l := range ref.late {
		if err := b.producer.ProduceSync(t.Context(), l.record("flights-late")).FirstErr(); err != nil {
			t.Error(err)
		}
	}
	b.end(t, kgo.TryCommit)
	if rep := <-checked; !rep.OK() {
		t.Errorf("not verified:\n%s", rep)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	good := Options{Brokers: []string{"127.0.0.1:1"}, Flights: data.Flights, Airports: data.Airports, Records: 10, Partitions: 4}
	if _, err := New(good); err != nil {
		t.Fatal(err)
	}
	withoutDTW := gzipped(t, bytes.Replace(gunzip(t, data.Airports), []byte("\nDTW,"), []byte("\nDTX,"), 1))
	for says, change := range map[string]func(*Options){
		"no brokers":       func(o *Options) { o.Brokers = nil },
		"0 records":        func(o *Options) { o.Records = 0 },
		"-1 partitions":    func(o *Options) { o.Partitions = -1 },
		"not a gzip file":  func(o *Options) { o.Flights = []byte("[]") },
		"flights: invalid": func(o *Options) { o.Flights = data.Airports },
		"file has none":    func(o *Options) { o.Flights = gzipped(t, []byte("[]")) },
		"row 1: parsing":   func(o *Options) { o.Flights = gzipped(t, []byte(`[{"date":"today"}]`)) },
		`starts at "DTW"`:  func(o *Options) { o.Airports = withoutDTW },
		"iata,name,city":   func(o *Options) { o.Airports = gzipped(t, []byte("a,b\nc,d\n")) },
	} {
		opts := good
		change(&opts)
		if _, err := New(opts); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("the error is %v, want one that says %q", err, says)
		}
	}
}
