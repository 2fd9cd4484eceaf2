package verify

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// An answer is what a window must say. rows and aside are the flights in it and those of it that were sidelined.
type answer struct {
	count, sum, max int64
	rows, aside     []int
}

func (a *answer) add(f *flight) {
	if delay := int64(f.delay); a.count == 0 {
		a.max = delay
	} else {
		a.max = max(a.max, delay)
	}
	a.count++
	a.sum += int64(f.delay)
	a.rows = append(a.rows, f.row)
}

func (a *answer) mean() float64 { return float64(a.sum) / float64(a.count) }

func (c *Checker) compare(in outputs) Report {
	rep := Report{Records: len(c.flights), LatenessChecked: c.opts.LatenessChecked}
	var found faults

	aside := c.checkLate(in.late, &rep, &found)
	want := map[windowKey]*answer{}
	for i := range c.flights {
		f := &c.flights[i]
		a := want[f.window()]
		if a == nil {
			a = &answer{}
			want[f.window()] = a
		}
		if _, ok := aside[f.row]; ok {
			a.aside = append(a.aside, f.row)
		} else {
			a.add(f)
		}
	}
	c.checkWindows(in.results, want, &rep, &found)
	c.checkHalf(&rep, &found)

	rep.Missing, rep.Extra, rep.Wrong = found.count[missing], found.count[extra], found.count[wrong]
	rep.General, rep.Examples = found.general, found.examples()
	return rep
}

// checkLate judges the sidelined flights, one by one and as a set, and returns their rows.
func (c *Checker) checkLate(records []late, rep *Report, found *faults) map[int]struct{} {
	aside := map[int]struct{}{}
	for i := range records {
		l := &records[i]
		row := l.value.Row
		if row < 1 || row > len(c.flights) {
			if l.bad == "" {
				l.bad = fmt.Sprintf("%s: flight %d was never fed", l.where, row)
			}
			found.add(wrong, "bad late record", l.bad)
			continue
		}
		f := &c.flights[row-1]
		if _, twice := aside[row]; twice {
			found.add(extra, "sidelined twice", fmt.Sprintf("flight %d was sidelined twice, again in %s", row, l.where))
			continue
		}
		aside[row] = struct{}{}
		if !f.may {
			found.add(extra, "sidelined in time", fmt.Sprintf("flight %d was sidelined but could not be that late: window %v, watermark of its own partition %s",
				row, f.window(), watermarkText(f.seen)))
		}
		if fault := lateFault(l, f); fault != "" {
			found.add(wrong, "bad late record", fault)
		}
		rep.Late = append(rep.Late, Late{
			Row: row, Airport: f.origin, City: c.airports[f.origin].city, Destination: f.destination,
			Scheduled: f.scheduled, Delay: f.delay, WindowStart: f.window().start, WindowEnd: f.window().end(), Watermark: l.watermark,
		})
	}
	slices.SortFunc(rep.Late, func(a, b Late) int { return cmp.Compare(a.Row, b.Row) })
	rep.Sidelined = len(aside)

	for i := range c.flights {
		f := &c.flights[i]
		if f.may {
			rep.May++
		}
		if f.mayLate && !f.must {
			rep.MayCorrect++
		}
		if f.mustLate && !f.may {
			rep.MustCorrect++
		}
		if !f.must {
			continue
		}
		rep.Must++
		if _, ok := aside[f.row]; !ok && c.opts.LatenessChecked {
			found.add(missing, "late but not sidelined", fmt.Sprintf("flight %d had to be sidelined and was not: the time to correct window %v was over in every task before it was fed", f.row, f.window()))
		}
	}
	if c.opts.LatenessChecked && rep.Must == 0 {
		found.general = append(found.general, "no flight of this feed had to be sidelined, so it proves nothing about lateness")
	}
	if c.opts.LatenessChecked && rep.MustCorrect == 0 {
		found.general = append(found.general, "no flight of this feed had to correct a window, so it proves nothing about corrections")
	}
	return aside
}

func watermarkText(w int64) string {
	if w == noWatermark {
		return "unknown"
	}
	return clock(w)
}

// lateFault says what a late record tells wrongly about its flight, or nothing.
func lateFault(l *late, f *flight) string {
	if l.bad != "" {
		return l.bad
	}
	w, v := f.window(), l.value
	says := func(format string, args ...any) string {
		return fmt.Sprintf("%s: flight %d: ", l.where, f.row) + fmt.Sprintf(format, args...)
	}
	switch {
	case v.Scheduled.UnixMilli() != f.scheduled || v.Delay != f.delay || v.Distance != f.distance || v.Origin != f.origin || v.Destination != f.destination:
		return says("the value %+v is not the flight of the file", v)
	case l.key != f.origin:
		return says("the key is %q, not its origin %s", l.key, f.origin)
	case l.reason != "window-closed":
		return says("the reason is %q, not window-closed", l.reason)
	case l.start != w.start || l.end != w.end():
		return says("the header names the window [%s, %s), it belongs in %v", clock(l.start), clock(l.end), w)
	case l.watermark < w.end()+horizon:
		return says("the header's watermark %s has not reached the end of window %v and the hour in which it is corrected", clock(l.watermark), w)
	case l.watermark > f.seen && f.may:
		return says("the header's watermark %s is ahead of that of its own partition, %s", clock(l.watermark), watermarkText(f.seen))
	case l.by != l.watermark-w.end():
		return says("the header says late by %d ms, watermark and window end give %d", l.by, l.watermark-w.end())
	case l.eventTime != f.scheduled:
		return says("the header's event time %d is not its scheduled time %d", l.eventTime, f.scheduled)
	case l.originPartition < 0 || l.originOff < 0:
		return says("the origin %s/%d at offset %d cannot be", l.originTopic, l.originPartition, l.originOff)
	}
	return ""
}

// checkWindows compares the results with the answers.
func (c *Checker) checkWindows(results []result, want map[windowKey]*answer, rep *Report, found *faults) {
	for _, a := range want {
		if a.count > 0 { // else all its flights were sidelined, and no result may come
			rep.Windows++
		}
	}
	seen := c.checkRevisions(results, rep, found)
	surplus := map[windowKey]int64{} // flights too many (or too few) where a window's count is off
	for _, key := range slices.SortedFunc(maps.Keys(seen), windowKey.compare) {
		r := seen[key].last
		rep.Results = append(rep.Results, Window{
			Airport: r.key.airport, City: r.value.City, State: r.value.State, Start: r.key.start, End: r.key.end(),
			Count: r.value.Count, Sum: r.value.Sum, Mean: r.value.Mean, Max: r.value.Max,
		})
		a := want[r.key]
		if a == nil || a.count == 0 {
			text := fmt.Sprintf("window %v is extra: no flight belongs there, it says count %d", r.key, r.value.Count)
			if a != nil {
				text = fmt.Sprintf("window %v is extra: its flights %v were sidelined, it says count %d", r.key, a.aside, r.value.Count)
			}
			found.add(extra, "extra window", text)
			surplus[r.key] = r.value.Count
			continue
		}
		if fault := c.windowFault(r, a); fault != "" {
			found.add(wrong, "wrong window", fmt.Sprintf("window %v is wrong: %s", r.key, fault))
		} else {
			rep.Equal++
		}
		if n := r.value.Count - a.count; n != 0 {
			surplus[r.key] = n
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(want), windowKey.compare) {
		a := want[key]
		if _, ok := seen[key]; !ok && a.count > 0 {
			found.add(missing, "missing window", fmt.Sprintf("window %v is missing: %d flights, rows %v", key, a.count, head(a.rows)))
			surplus[key] = -a.count
		}
	}
	explainMoves(surplus, found)
	c.checkCorrected(seen, want, rep, found)
	slices.SortFunc(rep.Results, func(a, b Window) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Airport, b.Airport))
	})
}

// windowFault says how a result differs from its answer, or nothing.
func (c *Checker) windowFault(r result, a *answer) string {
	v, at := r.value, c.airports[r.key.airport]
	var differs []string
	diff := func(name string, got, want any) {
		differs = append(differs, fmt.Sprintf("%s %v instead of %v", name, got, want))
	}
	if v.Airport != r.key.airport {
		diff("airport", v.Airport, r.key.airport)
	}
	if v.City != at.city {
		diff("city", v.City, at.city)
	}
	if v.State != at.state {
		diff("state", v.State, at.state)
	}
	if v.Count != a.count {
		diff("count", v.Count, a.count)
	}
	if v.Sum != a.sum {
		diff("sum", v.Sum, a.sum)
	}
	if !(math.Abs(v.Mean-a.mean()) <= 1e-9) { // so that NaN differs, too
		diff("mean", v.Mean, a.mean())
	}
	if v.Max != a.max {
		diff("max", v.Max, a.max)
	}
	if len(differs) == 0 {
		return ""
	}
	text := strings.Join(differs, ", ")
	if rows := c.countedAside(v, a); len(rows) > 0 {
		text += fmt.Sprintf(" (it counts the flights %v, which were also sidelined)", rows)
	}
	return text
}

// countedAside returns the sidelined flights that explain what a window counts too much: one of them, or all.
func (c *Checker) countedAside(v resultValue, a *answer) []int {
	over := v.Sum - a.sum
	switch n := v.Count - a.count; {
	case n == 1:
		for _, row := range a.aside {
			if int64(c.flights[row-1].delay) == over {
				return []int{row}
			}
		}
	case n > 1 && n == int64(len(a.aside)):
		for _, row := range a.aside {
			over -= int64(c.flights[row-1].delay)
		}
		if over == 0 {
			return a.aside
		}
	}
	return nil
}

// explainMoves adds an example, but no count, where an airport has as many flights too many in some windows as too few in others.
func explainMoves(surplus map[windowKey]int64, found *faults) {
	total, texts := map[string]int64{}, map[string][]string{}
	for _, key := range slices.SortedFunc(maps.Keys(surplus), windowKey.compare) {
		total[key.airport] += surplus[key]
		texts[key.airport] = append(texts[key.airport], fmt.Sprintf("[%s, %s) %+d", clock(key.start), clock(key.end()), surplus[key]))
	}
	for _, airport := range slices.Sorted(maps.Keys(texts)) {
		if total[airport] == 0 {
			found.add(explained, "flight in the wrong window", fmt.Sprintf("%s has flights in the wrong window: %s", airport, strings.Join(head(texts[airport]), ", ")))
		}
	}
}

func (c *Checker) checkHalf(rep *Report, found *faults) {
	rep.Half = c.half
	switch {
	case !c.opts.LatenessChecked:
		// Nothing held the feeder back, so half of it says nothing about the app.
	case c.half < 0:
		found.general = append(found.general, "nobody counted the windows when half of the feed was in")
	case c.half*100 < halfShare*rep.Windows:
		found.general = append(found.general, fmt.Sprintf("too few windows at half time: %d of %d were out, at least %d %% must be", c.half, rep.Windows, halfShare))
	}
}

func (k windowKey) compare(o windowKey) int {
	return cmp.Or(cmp.Compare(k.airport, o.airport), cmp.Compare(k.start, o.start))
}

func head[T any](s []T) []T { return s[:min(len(s), 6)] }
