package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/headrace/headrace/cmd/sample-app/timeline"
	"github.com/headrace/headrace/window"
)

const (
	// mostWindows is how many windows a picture may have.
	mostWindows = 2000
	// labelled is up to how many records have their number beside them.
	labelled = 60
)

// of works out what windows would do with the records: the same as an app would, but for its stores, transactions and keys. All records
// are of one task, which takes the one with the smallest event time of the heads of its partitions. Its watermark is the smallest of
// theirs; a partition without a record does not hold it back.
func (c *timelineConfig) of(records []seen, partitions int) (*timeline.Timeline, error) {
	m := model{c: c, f: c.windows(), marks: map[int32]int64{}, w: window.Unknown, at: map[int64]*kept{}}
	for _, r := range records {
		m.marks[r.partition] = window.Unknown
	}
	m.t = &timeline.Timeline{
		Title:    "Topic " + c.Topic,
		Subtitle: fmt.Sprintf("%v, disorder %s, %s", c.f(), short(c.Disorder), c.lateText()),
		Clock:    slices.ContainsFunc(records, func(r seen) bool { return r.at >= (365 * 24 * time.Hour).Milliseconds() }),
	}
	if partitions > 1 {
		m.t.Subtitle += fmt.Sprintf("; %d partitions", partitions)
	}
	for _, r := range merged(records) {
		if err := m.take(r, len(records) <= labelled); err != nil {
			return nil, err
		}
	}
	for _, start := range slices.Sorted(maps.Keys(m.at)) {
		k := m.at[start]
		if k.window.Closed == timeline.Never {
			k.window.Open = c.text(k.value)
		}
		m.t.Windows = append(m.t.Windows, k.window)
	}
	return m.t, nil
}

func (c *timelineConfig) f() string {
	if c.Hop == 0 {
		return "tumbling windows of " + short(c.Window)
	}
	return fmt.Sprintf("windows of %s every %s", short(c.Window), short(c.Hop))
}

func (c *timelineConfig) lateText() string {
	if c.Horizon == 0 {
		return "late: " + c.Late
	}
	return fmt.Sprintf("late: correct within %s, else %s", short(c.Horizon), c.Late)
}

func (c *timelineConfig) text(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// merged is the order in which a task takes the records of its partitions.
func merged(records []seen) []seen {
	heads := map[int32][]seen{}
	for _, r := range records {
		heads[r.partition] = append(heads[r.partition], r)
	}
	partitions := slices.Sorted(maps.Keys(heads))
	out := make([]seen, 0, len(records))
	for len(out) < len(records) {
		best := int32(-1)
		for _, p := range partitions {
			if len(heads[p]) > 0 && (best < 0 || heads[p][0].at < heads[best][0].at) {
				best = p
			}
		}
		out = append(out, heads[best][0])
		heads[best] = heads[best][1:]
	}
	return out
}

// model is the windows at work.
type model struct {
	c      *timelineConfig
	f      window.Fixed
	t      *timeline.Timeline
	marks  map[int32]int64 // watermarks of the partitions
	w      int64
	latest int64
	at     map[int64]*kept
}

type kept struct {
	value    float64
	revision int
	window   timeline.Window
}

func (m *model) take(r seen, label bool) error {
	n := len(m.t.Records)
	out := timeline.Record{Time: r.at, Fate: timeline.InTime}
	if label {
		out.Label = m.c.text(r.amount)
		if m.c.Sum == "" {
			out.Label = fmt.Sprintf("%d/%d", r.partition, r.offset)
		}
	}
	if n > 0 && r.at < m.latest {
		out.Fate = timeline.OutOfOrder
	}
	took, lateBy := false, int64(0)
	var corrected []*kept
	for start := m.f.First(r.at); start <= r.at; start = m.f.Next(start) {
		end := m.f.End(start)
		closed := m.w != window.Unknown && m.w >= end
		if closed {
			lateBy = max(lateBy, m.w-end)
		}
		if closed && m.w >= end+m.c.Horizon.Milliseconds() {
			continue
		}
		took = true
		k := m.at[start]
		if k == nil {
			if len(m.at) == mostWindows {
				return fmt.Errorf("%w: more than %d; give larger ones with --window, or fewer records with --last", errTooManyWindows, mostWindows)
			}
			k = &kept{window: timeline.Window{Start: start, End: end, Closed: timeline.Never, Gone: timeline.Never}}
			if closed { // its first result comes late
				k.window.Closed = slices.IndexFunc(m.t.Records, func(r timeline.Record) bool { return r.Watermark != window.Unknown && r.Watermark >= end })
			}
			m.at[start] = k
		}
		k.value += r.amount
		if closed {
			corrected = append(corrected, k)
		}
	}
	for _, k := range corrected {
		m.put(k, n)
	}
	switch {
	case !took && m.c.Late == "sideline":
		out.Fate = timeline.Sidelined
	case !took:
		out.Fate = timeline.Dropped
	case len(corrected) > 0:
		out.Fate = timeline.Corrected
	}
	if label && (!took || len(corrected) > 0) {
		out.Note = short(time.Duration(lateBy)*time.Millisecond) + " late"
	}
	m.marks[r.partition] = max(m.marks[r.partition], r.at-m.c.Disorder.Milliseconds())
	if n == 0 {
		m.latest = r.at
	}
	m.latest = max(m.latest, r.at)
	m.w = slices.Min(slices.Collect(maps.Values(m.marks)))
	out.Watermark = m.w
	m.t.Records = append(m.t.Records, out)
	m.close(n)
	return nil
}

// put puts out what a window has now.
func (m *model) put(k *kept, n int) {
	k.window.Results = append(k.window.Results, timeline.Result{After: n, Value: m.c.text(k.value), Revision: k.revision})
	k.revision++
}

// close closes what the watermark has passed.
func (m *model) close(n int) {
	if m.w == window.Unknown {
		return
	}
	for _, start := range slices.Sorted(maps.Keys(m.at)) {
		k := m.at[start]
		if k.window.Closed == timeline.Never && m.w >= k.window.End {
			k.window.Closed = n
			m.put(k, n)
		}
		if k.window.Gone == timeline.Never && m.w >= k.window.End+m.c.Horizon.Milliseconds() {
			k.window.Gone = n
		}
	}
}
