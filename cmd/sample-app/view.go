package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/progress"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"

	"github.com/headrace/headrace/cmd/sample-app/verify"
	"github.com/headrace/headrace/framework"
)

// view shows how far the feed is: a bar on a terminal, a line every few seconds elsewhere.
type view struct {
	out     io.Writer
	total   int
	bar     progress.Writer
	tracker *progress.Tracker
	last    time.Time
}

const (
	viewInterval = 100 * time.Millisecond
	lineInterval = 5 * time.Second
)

func newView(out io.Writer, total int) *view {
	v := &view{out: out, total: total, last: time.Now()}
	f, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return v
	}
	v.bar = progress.NewWriter()
	v.bar.SetOutputWriter(out)
	v.bar.SetUpdateFrequency(viewInterval)
	v.bar.SetTrackerLength(30)
	v.bar.SetMessageLength(44)
	v.bar.SetStyle(progress.StyleBlocks)
	v.bar.Style().Visibility.Value = true
	v.tracker = &progress.Tracker{Message: "feeding flights", Total: int64(total), Units: progress.UnitsDefault}
	v.bar.AppendTracker(v.tracker)
	go v.bar.Render()
	return v
}

// sent shows that so many records are out, and what there is to say besides.
func (v *view) sent(n int, said remark) {
	if v.bar != nil {
		v.tracker.UpdateMessage(said.short)
		v.tracker.SetValue(int64(n))
		return
	}
	if now := time.Now(); now.Sub(v.last) >= lineInterval || n == v.total {
		v.last = now
		fmt.Fprintf(v.out, "fed %d of %d records%s\n", n, v.total, said.long)
	}
}

// A remark goes with the progress: short beside the bar, long at the end of the line.
type remark struct{ short, long string }

// whereApp tells where the app is in event time.
func whereApp(s framework.Snapshot) remark {
	day := "starting"
	if w := windowsOf(s, 0); len(s.Tasks) > 0 && w.watermark > 0 && w.watermark < 1<<62 {
		day = time.UnixMilli(w.watermark).UTC().Format("2 Jan 2006 15:04")
	}
	return remark{
		short: fmt.Sprintf("app at %s, %d late", day, s.Counters.Corrected+s.Counters.Sidelined),
		long: fmt.Sprintf("; app at %s, %d corrections, %d too late for one, %d commits",
			day, s.Counters.Corrected, s.Counters.Sidelined, s.Counters.Commits),
	}
}

// done ends the display.
func (v *view) done() {
	if v.bar == nil {
		return
	}
	v.tracker.MarkAsDone()
	for v.bar.IsRenderInProgress() && v.bar.LengthActive() > 0 {
		time.Sleep(viewInterval / 4)
	}
	v.bar.Stop()
	for v.bar.IsRenderInProgress() {
		time.Sleep(viewInterval / 4)
	}
}

// figures are the numbers of a run.
type figures struct {
	records, partitions, workers int
	fed, whole                   time.Duration
	counters                     framework.Counters
}

func (r *runner) figures(whole time.Duration) figures {
	return figures{
		records: r.opts.records, partitions: r.opts.partitions, workers: r.opts.workers,
		fed: r.fed, whole: whole, counters: r.snapshot.Counters,
	}
}

// worstAirports is how many rows the table of airports has, and lateShown that of late flights.
const (
	worstAirports = 10
	lateShown     = 5
	// minFlights keeps an airport with a handful of flights out of the table.
	minFlights = 30
)

// airportTotal sums the windows of one airport.
type airportTotal struct {
	airport, place  string
	count, sum, max int64
	worst           verify.Window
}

func (a *airportTotal) mean() float64 { return float64(a.sum) / float64(a.count) }

func totals(results []verify.Window) []*airportTotal {
	by := map[string]*airportTotal{}
	for _, w := range results {
		a := by[w.Airport]
		if a == nil {
			a = &airportTotal{airport: w.Airport, place: w.City + ", " + w.State, max: w.Max, worst: w}
			by[w.Airport] = a
		}
		a.count += w.Count
		a.sum += w.Sum
		a.max = max(a.max, w.Max)
		if w.Mean > a.worst.Mean {
			a.worst = w
		}
	}
	var all []*airportTotal
	for _, a := range by {
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b *airportTotal) int {
		return cmp.Or(cmp.Compare(b.mean(), a.mean()), cmp.Compare(a.airport, b.airport))
	})
	return all
}

// showReport prints what the app found: the airports with the longest delays, the latest of the late flights, and the figures.
func showReport(out io.Writer, r verify.Report, f figures) {
	airports := totals(r.Results)
	enough := slices.DeleteFunc(slices.Clone(airports), func(a *airportTotal) bool { return a.count < minFlights })
	if len(enough) == 0 {
		enough = airports
	}
	t := newTable(out, fmt.Sprintf("Where one waits longest (%d of %d airports)", min(worstAirports, len(enough)), len(airports)))
	t.AppendHeader(table.Row{"", "airport", "city", "flights", "mean delay", "", "longest", "worst six hours"})
	longest := 1.0
	if len(enough) > 0 {
		longest = max(longest, enough[0].mean())
	}
	for i, a := range enough[:min(worstAirports, len(enough))] {
		t.AppendRow(table.Row{
			i + 1, a.airport, a.place, a.count, fmt.Sprintf("%.1f min", a.mean()), bar(a.mean(), longest), minutes(a.max),
			fmt.Sprintf("%s, mean %.0f min", span(a.worst.Start, a.worst.End), a.worst.Mean),
		})
	}
	t.SetColumnConfigs([]table.ColumnConfig{
		{Number: 1, Align: text.AlignRight},
		{Number: 4, Align: text.AlignRight},
		{Number: 5, Align: text.AlignRight},
		{Number: 7, Align: text.AlignRight},
	})
	t.Render()

	showCorrections(out, r.Corrections)
	if len(r.Late) > 0 {
		late := slices.Clone(r.Late)
		slices.SortFunc(late, func(a, b verify.Late) int {
			return cmp.Or(cmp.Compare(b.Watermark-b.WindowEnd, a.Watermark-a.WindowEnd), cmp.Compare(a.Row, b.Row))
		})
		t := newTable(out, fmt.Sprintf("Heard of later than that, and set aside (%d of %d flights)", min(lateShown, len(late)), len(late)))
		t.AppendHeader(table.Row{"row", "flight", "from", "scheduled", "delay", "its window", "closed before"})
		for _, l := range late[:min(lateShown, len(late))] {
			t.AppendRow(table.Row{
				l.Row, l.Airport + "–" + l.Destination, l.City, time.UnixMilli(l.Scheduled).UTC().Format("2 Jan 15:04"), minutes(int64(l.Delay)),
				span(l.WindowStart, l.WindowEnd), minutes((l.Watermark-l.WindowEnd)/60_000) + " of event time",
			})
		}
		t.SetColumnConfigs([]table.ColumnConfig{{Number: 1, Align: text.AlignRight}, {Number: 5, Align: text.AlignRight}})
		t.Render()
	}

	c := f.counters
	fmt.Fprintf(out, "\n%s flights in %.1f s (%.0f flights/s), %d windows, %d corrections, %d commits, %d aborts, %d rebalances; %.1f s in all\n",
		thousands(f.records), f.fed.Seconds(), float64(f.records)/f.fed.Seconds(), len(r.Results), len(r.Corrections), c.Commits, c.Aborts, c.Rebalances, f.whole.Seconds())
}

// showCorrections prints the corrections that change most.
func showCorrections(out io.Writer, all []verify.Correction) {
	if len(all) == 0 {
		return
	}
	changes := func(c verify.Correction) float64 {
		if c.CountBefore == 0 {
			return 0 // the flight is the only one, which is no change of a mean
		}
		return math.Abs(c.Mean - c.MeanBefore)
	}
	most := slices.Clone(all)
	slices.SortFunc(most, func(a, b verify.Correction) int {
		return cmp.Or(cmp.Compare(changes(b), changes(a)), cmp.Compare(a.Airport, b.Airport), cmp.Compare(a.Start, b.Start), cmp.Compare(a.Revision, b.Revision))
	})
	most = most[:min(lateShown, len(most))]
	t := newTable(out, fmt.Sprintf("Heard of within %s of the end, and so corrected (%d of %d results)", minutes(int64(feedHorizon/time.Minute)), len(most), len(all)))
	t.AppendHeader(table.Row{"airport", "city", "window", "rev", "by a delay of", "flights", "mean delay"})
	for _, c := range most {
		was, flights := fmt.Sprintf("%.1f → ", c.MeanBefore), fmt.Sprintf("%d → %d", c.CountBefore, c.Count)
		if c.CountBefore == 0 {
			was = "none → "
		}
		t.AppendRow(table.Row{c.Airport, c.City, span(c.Start, c.End), c.Revision, minutes(c.Delay), flights, fmt.Sprintf("%s%.1f min", was, c.Mean)})
	}
	t.SetColumnConfigs([]table.ColumnConfig{{Number: 4, Align: text.AlignRight}, {Number: 5, Align: text.AlignRight}, {Number: 6, Align: text.AlignRight}})
	t.Render()
}

func newTable(out io.Writer, title string) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(out)
	style := table.StyleRounded
	style.Options.SeparateColumns = false
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	t.SetTitle(title)
	return t
}

// bar draws a length in eighths of a character.
func bar(v, longest float64) string {
	const width = 16
	eighths := int(v / longest * width * 8)
	if eighths <= 0 {
		return ""
	}
	s := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		s += string([]rune("▏▎▍▌▋▊▉")[rest-1])
	}
	return s
}

func minutes(n int64) string {
	if n < 60 {
		return fmt.Sprintf("%d min", n)
	}
	return fmt.Sprintf("%d h %02d", n/60, n%60)
}

func span(start, end int64) string {
	s, e := time.UnixMilli(start).UTC(), time.UnixMilli(end).UTC()
	return fmt.Sprintf("%s–%s", s.Format("2 Jan 15"), e.Format("15 h"))
}

func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
