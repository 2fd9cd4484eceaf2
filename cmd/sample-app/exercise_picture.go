package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headrace/headrace/cmd/sample-app/exercise"
	"github.com/headrace/headrace/cmd/sample-app/timeline"
)

// pictureOf is a run as it is drawn.
func pictureOf(o *exercise.Outcome) *timeline.Timeline {
	t := &timeline.Timeline{
		Title:    o.Title,
		Subtitle: fmt.Sprintf("tumbling windows of %s, disorder %s, late: %s", short(o.Size), short(o.Disorder), policyText(o)),
	}
	several := severalKeys(o)
	for _, in := range o.Inputs {
		r := timeline.Record{Time: in.At, Watermark: in.After, Label: fmt.Sprint(in.Amount), Fate: fateOf[in.Fate]}
		if several {
			r.Label = in.Key + " " + r.Label
		}
		if in.Fate >= exercise.Corrected {
			r.Note = lateBy(in.LateBy)
		}
		t.Records = append(t.Records, r)
	}
	for _, w := range o.Windows {
		n := len(t.Windows) - 1
		if n < 0 || t.Windows[n].Start != w.Start {
			t.Windows = append(t.Windows, timeline.Window{Start: w.Start, End: w.End, Closed: w.Closed, Gone: w.Gone})
			n++
		}
		into := &t.Windows[n]
		for _, r := range w.Results {
			into.Results = append(into.Results, timeline.Result{
				After: r.Place, Key: r.Key, Value: named(several, r.Key, valueOf(o, r)), Revision: r.Revision, Retraction: r.Retraction,
			})
		}
		if w.Open != nil {
			into.Open = strings.TrimPrefix(into.Open+", "+named(several, w.Key, fmt.Sprint(w.Open.Sum)), ", ")
		}
	}
	for i := range t.Windows {
		slices.SortStableFunc(t.Windows[i].Results, func(a, b timeline.Result) int { return cmp.Compare(a.After, b.After) })
	}
	return t
}

var fateOf = map[exercise.Fate]timeline.Fate{
	exercise.InTime: timeline.InTime, exercise.OutOfOrder: timeline.OutOfOrder, exercise.Corrected: timeline.Corrected,
	exercise.Sidelined: timeline.Sidelined, exercise.Dropped: timeline.Dropped,
}

func policyText(o *exercise.Outcome) string {
	switch o.Late {
	case exercise.Drop:
		return "drop"
	case exercise.Sideline:
		return "sideline"
	case exercise.Upsert:
		return fmt.Sprintf("correct within %s by upsert, else sideline", short(o.Horizon))
	}
	return fmt.Sprintf("correct within %s by retraction, else sideline", short(o.Horizon))
}

func severalKeys(o *exercise.Outcome) bool {
	return slices.ContainsFunc(o.Inputs, func(in exercise.Input) bool { return in.Key != o.Inputs[0].Key })
}

func named(several bool, key, value string) string {
	if several {
		return key + " " + value
	}
	return value
}

// valueOf is a result as it is written: with its sign, where results are taken back.
func valueOf(o *exercise.Outcome, r exercise.Result) string {
	switch {
	case r.Retraction:
		return signed(-r.Sum)
	case o.Late == exercise.Retract:
		return signed(r.Sum)
	}
	return fmt.Sprint(r.Sum)
}

func signed(n int64) string {
	if n < 0 {
		return fmt.Sprintf("−%d", -n)
	}
	return fmt.Sprintf("+%d", n)
}

func lateBy(ms int64) string { return short(time.Duration(ms)*time.Millisecond) + " late" }

// short writes a duration without the units that are zero: 1m, and not 1m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// figureOf is all runs in one picture.
func figureOf(outcomes []*exercise.Outcome) *timeline.Figure {
	f := &timeline.Figure{Title: "One payment, moved and late", Columns: 2}
	for _, o := range outcomes {
		f.Panels = append(f.Panels, pictureOf(o))
	}
	return f
}
