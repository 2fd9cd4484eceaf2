package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/headrace/headrace/cmd/sample-app/exercise"
)

// A grid is a table before it is written.
type grid struct {
	title string
	head  []string
	rows  [][]string
	right []int // columns of numbers, from 1
}

func (g *grid) table() table.Writer {
	t := newTable(nil, g.title)
	row := func(cells []string) table.Row {
		var r table.Row
		for _, c := range cells {
			r = append(r, c)
		}
		return r
	}
	t.AppendHeader(row(g.head))
	for _, r := range g.rows {
		t.AppendRow(row(r))
	}
	var columns []table.ColumnConfig
	for _, n := range g.right {
		columns = append(columns, table.ColumnConfig{Number: n, Align: text.AlignRight})
	}
	t.SetColumnConfigs(columns)
	return t
}

// tablesOf are the tables of the experiment: how the moved payment changes the windows, and all runs.
func tablesOf(outcomes []*exercise.Outcome) []grid {
	tables := []grid{listTable(outcomes[0], outcomes[1]), changeTable(outcomes[0], outcomes[1])}
	return append(tables, runsTable(outcomes))
}

// listTable has two runs side by side, payment by payment.
func listTable(a, b *exercise.Outcome) grid {
	g := grid{
		title: fmt.Sprintf("Two runs, payment by payment: number %d is moved", a.Moved+1),
		head:  []string{"", "amount", "at", "W then", "moved: at", "W then", ""},
		right: []int{1, 2, 3, 4, 5, 6},
	}
	for i := range min(len(a.Inputs), len(b.Inputs)) {
		x, y := a.Inputs[i], b.Inputs[i]
		said := fateText(x)
		if x.At != y.At {
			said = strings.TrimPrefix(said+"; in the other run it belongs to "+windowName(b, y.At), "; ")
		}
		g.rows = append(g.rows, []string{
			fmt.Sprint(i + 1), named(severalKeys(a), x.Key, fmt.Sprint(x.Amount)), exercise.Seconds(x.At), watermarkName(x.After),
			exercise.Seconds(y.At), watermarkName(y.After), said,
		})
	}
	return g
}

func watermarkName(w int64) string {
	if w == exercise.Unknown {
		return "–"
	}
	return exercise.Seconds(w)
}

func fateText(in exercise.Input) string {
	switch in.Fate {
	case exercise.OutOfOrder:
		return "out of order, not late: W was " + watermarkName(in.Before)
	case exercise.Corrected:
		return lateBy(in.LateBy) + ", corrected"
	case exercise.Sidelined:
		return lateBy(in.LateBy) + ", set aside"
	case exercise.Dropped:
		return lateBy(in.LateBy) + ", dropped"
	}
	return ""
}

// windowName names the window of a time.
func windowName(o *exercise.Outcome, at int64) string {
	size := o.Size.Milliseconds()
	start := at - ((at%size)+size)%size
	return fmt.Sprintf("[%s, %s)", exercise.Seconds(start), exercise.Seconds(start+size))
}

// changeTable has the windows of two runs side by side, with what changed and why.
func changeTable(a, b *exercise.Outcome) grid {
	g := grid{
		title: "The same, window by window",
		head:  []string{"window", "as they come", "moved", "change", "why"},
		right: []int{2, 3, 4},
	}
	var sums [2]int64
	for _, key := range windowKeys(a, b) {
		x, y := find(a, key), find(b, key)
		sums[0] += x.Last().Sum
		sums[1] += y.Last().Sum
		change, why := "", ""
		if d := y.Last().Sum - x.Last().Sum; d != 0 {
			change = signed(d)
			for i := range min(len(a.Inputs), len(b.Inputs)) {
				from, to := a.Inputs[i], b.Inputs[i]
				switch name := key.name(); {
				case from.At == to.At || from.Key != key.key:
				case windowName(a, from.At) == name:
					why = fmt.Sprintf("%d has left: it is at %s, and the window ends before %s", from.Amount, exercise.Seconds(to.At), exercise.Seconds(key.end))
				case windowName(b, to.At) == name:
					why = fmt.Sprintf("%d has come: %s is the first instant of the window", to.Amount, exercise.Seconds(key.start))
				}
			}
		}
		g.rows = append(g.rows, []string{key.named(severalKeys(a)), stands(a, x), stands(b, y), change, why})
	}
	g.rows = append(g.rows, []string{"together", fmt.Sprint(sums[0]), fmt.Sprint(sums[1]), "", ""})
	if sums[0] == sums[1] {
		g.rows[len(g.rows)-1][4] = "nothing is lost and nothing counted twice"
	}
	return g
}

// stands is what a window amounts to, and when that was put out.
func stands(o *exercise.Outcome, w exercise.Window) string {
	switch {
	case w.Open != nil:
		return fmt.Sprintf("%d so far", w.Open.Sum)
	case len(w.Results) == 0:
		return "–"
	}
	return fmt.Sprintf("%d at W=%s", w.Last().Sum, watermarkName(o.Inputs[w.Results[0].Place].After))
}

type windowKey struct {
	key        string
	start, end int64
}

func (k windowKey) name() string {
	return fmt.Sprintf("[%s, %s)", exercise.Seconds(k.start), exercise.Seconds(k.end))
}

func (k windowKey) named(several bool) string {
	return strings.TrimSpace(k.name() + " " + named(several, k.key, ""))
}

func windowKeys(outcomes ...*exercise.Outcome) (out []windowKey) {
	for _, o := range outcomes {
		for _, w := range o.Windows {
			if k := (windowKey{w.Key, w.Start, w.End}); !slices.Contains(out, k) {
				out = append(out, k)
			}
		}
	}
	slices.SortFunc(out, func(a, b windowKey) int {
		if a.start != b.start {
			return int(min(max(a.start-b.start, -1), 1))
		}
		return strings.Compare(a.key, b.key)
	})
	return out
}

func find(o *exercise.Outcome, k windowKey) exercise.Window {
	for _, w := range o.Windows {
		if w.Key == k.key && w.Start == k.start {
			return w
		}
	}
	return exercise.Window{Key: k.key, Start: k.start, End: k.end}
}

// runsTable has a row for each run: the order of arrival, all that was put out for each window, and where the rest is.
func runsTable(outcomes []*exercise.Outcome) grid {
	keys := windowKeys(outcomes...)
	g := grid{title: "All runs, the payments as (second,amount) in their order of arrival", head: []string{"run", "arrival"}}
	several := severalKeys(outcomes[0])
	for _, k := range keys {
		g.head = append(g.head, k.named(several))
	}
	g.head = append(g.head, "besides", "adds up", "summed behind")
	for _, o := range outcomes {
		row := []string{o.Title, arrival(o)}
		for _, k := range keys {
			row = append(row, history(o, find(o, k)))
		}
		g.rows = append(g.rows, append(row, besides(o), addsUp(o), balances(o)))
	}
	return g
}

func arrival(o *exercise.Outcome) string {
	var b strings.Builder
	for i, in := range o.Inputs {
		pair := fmt.Sprintf("(%s,%d)", exercise.Seconds(in.At), in.Amount)
		if i == o.Moved {
			pair = "→" + pair
		}
		b.WriteString(pair)
	}
	return b.String()
}

// history is all that was put out for a window.
func history(o *exercise.Outcome, w exercise.Window) string {
	if w.Open != nil {
		return fmt.Sprintf("open: %d", w.Open.Sum)
	}
	var said []string
	for _, r := range w.Results {
		s := valueOf(o, r)
		if r.Revision > 0 && !r.Retraction {
			s += fmt.Sprintf(" (rev %d)", r.Revision)
		}
		said = append(said, s)
	}
	between := " → "
	if o.Late == exercise.Retract {
		between = ", "
	}
	if len(said) == 0 {
		return "–"
	}
	return strings.Join(said, between)
}

func besides(o *exercise.Outcome) string {
	var said []string
	for _, in := range o.Inputs {
		switch in.Fate {
		case exercise.OutOfOrder:
			said = append(said, fmt.Sprintf("%s is out of order, not late: W was %s", exercise.Seconds(in.At), watermarkName(in.Before)))
		case exercise.Corrected:
			said = append(said, fmt.Sprintf("%s is %s: W was %s", exercise.Seconds(in.At), lateBy(in.LateBy), watermarkName(in.Before)))
		case exercise.Dropped:
			said = append(said, fmt.Sprintf("dropped: %d, of %s, at W=%s", in.Amount, windowName(o, in.At), watermarkName(in.Before)))
		}
	}
	for _, a := range o.Aside {
		said = append(said, fmt.Sprintf("late topic: %d, %s, [%s, %s), W %s, late by %s",
			a.Amount, a.Reason, exercise.Seconds(a.Start), exercise.Seconds(a.End), exercise.Seconds(a.Watermark), short(time.Duration(a.LateByMs)*time.Millisecond)))
	}
	return strings.Join(said, "; ")
}

// addsUp is the conservation of a run as a sum.
func addsUp(o *exercise.Outcome) string {
	var parts []string
	for _, w := range o.Windows {
		if w.Last().Count > 0 {
			parts = append(parts, fmt.Sprint(w.Last().Sum))
		}
	}
	for _, rest := range []exercise.Total{o.Dropped(), o.SetAside()} {
		if rest.Count > 0 {
			parts = append(parts, fmt.Sprint(rest.Sum))
		}
	}
	is := "="
	if len(o.Faults()) > 0 {
		is = "≠"
	}
	return fmt.Sprintf("%s %s %d", strings.Join(parts, "+"), is, o.Sent().Sum)
}

// balances are the sums of the stage behind the windows.
func balances(o *exercise.Outcome) string {
	var sum, closed exercise.Total
	for _, b := range o.Balance {
		sum.Sum += b.Sum
	}
	if closed, _ = o.Accepted(); closed.Sum != sum.Sum {
		return fmt.Sprintf("%d, not %d: it counts revisions, too", sum.Sum, closed.Sum)
	}
	return fmt.Sprint(sum.Sum)
}

// wideTable is how wide the table of the runs is when nothing is left out.
const wideTable = 144

// showTables writes the tables. Where there is little room, the order of arrival is left out; the drawings have it.
func showTables(out io.Writer, tables []grid, width int) {
	for i := range tables {
		t := tables[i].table()
		if n := len(tables[i].head); tables[i].head[0] == "run" {
			t.SetColumnConfigs([]table.ColumnConfig{
				{Number: 1, WidthMax: 18, WidthMaxEnforcer: text.WrapSoft},
				{Number: 2, WidthMax: 18, WidthMaxEnforcer: wrapPairs, Hidden: width < wideTable},
				{Number: n - 2, WidthMax: 20, WidthMaxEnforcer: text.WrapSoft},
				{Number: n, WidthMax: 16, WidthMaxEnforcer: text.WrapSoft},
			})
			t.Style().Options.SeparateRows = true
		}
		fmt.Fprintln(out, t.Render())
	}
}

// wrapPairs breaks a list of pairs between them.
func wrapPairs(s string, width int) string {
	var b strings.Builder
	used := 0
	for pair := range strings.SplitAfterSeq(s, ")") {
		if n := len([]rune(pair)); used > 0 && used+n > width {
			b.WriteByte('\n')
			used = 0
		}
		b.WriteString(pair)
		used += len([]rune(pair))
	}
	return b.String()
}
