package eos

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
)

func decodeInt64(b []byte) (int64, error) {
	if len(b) != 8 {
		return 0, fmt.Errorf("%d bytes are no number", len(b))
	}
	return int64(binary.BigEndian.Uint64(b)), nil
}

// Headers of what was set aside.
const (
	lateWatermark = "x-late-watermark"
	lateEnd       = "x-late-window-end"
)

// slot is where a result belongs.
type slot struct {
	group string
	start int64
}

func windowOf(e Event) slot {
	size := WindowSize.Milliseconds()
	return slot{e.Group(), e.At - e.At%size}
}

// Windowed is what CheckWindows counted.
type Windowed struct {
	Results, Sidelined int
	// Last is the last result of each group.
	Last map[string]Result
}

// CheckWindows holds the results of windows and what was set aside to the events. input is each partition's events in order, end marks
// included. With whole unset more results may still come, and only what is wrong already is found.
func CheckWindows(rep *Report, input [][]Event, results, late []Record, whole bool) Windowed {
	out := Windowed{Results: len(results), Sidelined: len(late), Last: make(map[string]Result)}
	// How far event time had come in an event's own partition, before it: the operator's watermark is never further.
	watermark := make(map[ID]int64)
	events := make(map[ID]Event)
	for _, partition := range input {
		newest := int64(math.MinInt64 / 2)
		for _, e := range partition {
			if !e.End {
				events[e.ID()], watermark[e.ID()] = e, newest-Disorder.Milliseconds()
			}
			newest = max(newest, e.At)
		}
	}
	aside := make(map[ID]bool)
	for _, r := range late {
		e, err := EventSerde.Decode(r.Value)
		if _, ok := events[e.ID()]; err != nil || !ok {
			rep.add(TrulyLate, Wrong, "%s: value %x is no event of the input (%v)", r, r.Value, err)
			continue
		}
		if aside[e.ID()] {
			rep.add(Conservation, Duplicated, "%s: event %+v was set aside for a second time", r, e)
		}
		aside[e.ID()] = true
		checkLate(rep, r, e, watermark[e.ID()])
	}
	batch := make(map[slot]Cell)
	for id, e := range events {
		if !aside[id] {
			batch[windowOf(e)] = batch[windowOf(e)].Add(e)
		}
	}
	done := make(map[slot]bool)
	for _, r := range results {
		got, err := ResultSerde.Decode(r.Value)
		if err != nil {
			rep.add(WindowResult, Wrong, "%s: %v", r, err)
			continue
		}
		at := slot{r.Key, got.Start}
		want, ok := batch[at]
		switch {
		case !ok:
			rep.add(WindowResult, Wrong, "%s: %s has the result %+v, but nothing belongs into that window", r, r.Key, got)
		case done[at]:
			rep.add(WindowResult, Duplicated, "%s: %s has the result %+v for a second time", r, r.Key, got)
		case got.Count < want.Count && whole:
			rep.add(Conservation, Lost, "%s: %s has %+v, want %+v", r, r.Key, got, want)
		case got.Count > want.Count:
			rep.add(Conservation, Duplicated, "%s: %s has %+v, want %+v", r, r.Key, got, want)
		case got.Cell != want && whole:
			rep.add(WindowResult, Wrong, "%s: %s has %+v, want %+v", r, r.Key, got, want)
		}
		done[at] = true
		if w := weightOf(r.Key); got.Weight != w {
			rep.add(WindowResult, Wrong, "%s: %s was joined with %d, want %d", r, r.Key, got.Weight, w)
		}
		if last, ok := out.Last[r.Key]; ok && got.Start < last.Start {
			rep.add(WindowResult, OutOfOrder, "%s: the window of %s at %d comes behind the one at %d", r, r.Key, got.Start, last.Start)
		}
		out.Last[r.Key] = got
	}
	if !whole {
		return out
	}
	for at, want := range batch {
		if !done[at] {
			rep.add(WindowResult, Lost, "the window of %s at %d has no result, want %+v", at.group, at.start, want)
		}
	}
	return out
}

func weightOf(group string) int64 {
	n, err := strconv.ParseInt(group[min(1, len(group)):], 10, 64)
	if err != nil {
		return -1
	}
	return Weight(n)
}

// checkLate wants an event that was set aside to be late by what its own partition had seen, and by the account in its headers.
func checkLate(rep *Report, r Record, e Event, newest int64) {
	end := windowOf(e).start + WindowSize.Milliseconds()
	if newest < end {
		rep.add(TrulyLate, Wrong, "%s: event %+v was set aside, but its window ends at %d and its partition's watermark was %d", r, e, end, newest)
	}
	text, _ := r.header(lateWatermark)
	said, err := strconv.ParseInt(text, 10, 64)
	if err != nil || said < end || said > newest {
		rep.add(TrulyLate, Wrong, "%s: event %+v was set aside at watermark %q, want one between the end of its window, %d, and its partition's, %d", r, e, text, end, newest)
	}
	if text, _ := r.header(lateEnd); text != strconv.FormatInt(end, 10) {
		rep.add(TrulyLate, Wrong, "%s: event %+v was set aside for a window that ends at %q, want %d", r, e, text, end)
	}
}
