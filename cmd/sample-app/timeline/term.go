package timeline

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Style is how a terminal is written to.
type Style struct {
	// Width is how many columns there are; less than 48 is taken for 48.
	Width int
	// Color says that the terminal understands ANSI colours.
	Color bool
	// ASCII says that it shows nothing else.
	ASCII bool
}

const (
	leastWidth = 48
	leftColumn = 5
	// mostRows is how many rows a drawing has at most: more records share them.
	mostRows = 60
)

// marks of the records and lines, as Unicode and ASCII.
var (
	dotMarks  = [2][fates]rune{{'●', '○', '◆', '▲', '×'}, {'*', 'o', '#', '^', 'x'}}
	lineMarks = [2]struct{ watermark, from, along, to, band, axis, corner, floor, cut rune }{
		{'┃', '┗', '━', '┛', '┊', '│', '└', '─', '…'}, {'|', '+', '=', '+', ':', '|', '+', '-', '~'},
	}
	fateColors = [fates]string{"34", "34", "35", "35;1", "31"}
)

const watermarkColor = "33"

// Text writes the picture for a terminal: one row for each record, the last on top, and beside it what it brought about.
func (t *Timeline) Text(w io.Writer, style Style) error {
	if err := t.check(); err != nil {
		return err
	}
	d := newDrawing(t, style)
	out := bufio.NewWriter(w)
	fmt.Fprintln(out, d.painted("1", t.Title))
	if t.Subtitle != "" {
		fmt.Fprintln(out, t.Subtitle)
	}
	for _, line := range d.head() {
		fmt.Fprintln(out, line)
	}
	for row := d.rows - 1; row >= 0; row-- {
		fmt.Fprintln(out, d.row(row))
	}
	for _, line := range d.foot() {
		fmt.Fprintln(out, line)
	}
	return out.Flush()
}

type drawing struct {
	*Timeline
	Style
	kind        int // which marks
	from, to    int64
	cols, notes int // columns of the plot, and of the remarks beside it
	rows, each  int // rows, and how many records share one
	said        [][]string
}

func newDrawing(t *Timeline, style Style) *drawing {
	d := &drawing{Timeline: t, Style: style, each: 1}
	if style.ASCII {
		d.kind = 1
	}
	d.from, d.to = t.span()
	for len(t.Records) > mostRows*d.each {
		d.each++
	}
	d.rows = (len(t.Records) + d.each - 1) / d.each
	d.said = d.remarks()
	if d.each == 1 {
		for _, s := range d.said {
			d.notes = max(d.notes, utf8.RuneCountInString(strings.Join(s, ", "))+2)
		}
	}
	width := max(style.Width, leastWidth) - leftColumn - 1
	d.notes = min(d.notes, width*9/20)
	d.cols = width - d.notes
	return d
}

// painted is a text in a colour, where there are colours.
func (d *drawing) painted(color, text string) string {
	if !d.Color || text == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

func (d *drawing) column(t int64) int {
	switch {
	case t <= d.from:
		return 0
	case t >= d.to:
		return d.cols - 1
	}
	return int(float64(t-d.from) / float64(d.to-d.from) * float64(d.cols-1))
}

// remarks are what each record brought about: results of windows, and what it moved.
func (d *drawing) remarks() [][]string {
	out := make([][]string, len(d.Records))
	every := step(d.from, d.to, 8)
	last := Unknown
	for n, r := range d.Records {
		if r.Note != "" {
			out[n] = append(out[n], r.Note)
		}
		if r.Watermark != last {
			out[n] = append(out[n], "W "+d.instant(r.Watermark, every))
			last = r.Watermark
		}
	}
	next := " → "
	if d.ASCII {
		next = " -> "
	}
	for _, w := range d.Windows {
		for i := 0; i < len(w.Results); {
			n := max(w.Results[i].After, 0)
			said := d.interval(w, every)
			for first := i; i < len(w.Results) && max(w.Results[i].After, 0) == n; i++ {
				switch r := w.Results[i]; {
				case i > first:
					said += ", " + r.Value // what follows a retraction
				case r.Revision > 0 && !r.Retraction:
					said += next + r.Value
				case r.Retraction:
					said += ": " + r.Value
				default:
					said += " = " + r.Value
				}
			}
			out[n] = append(out[n], said)
		}
	}
	return out
}

// A cell is one character with its colour.
type cell struct {
	r     rune
	color string
}

func (d *drawing) row(row int) string {
	first, last := row*d.each, min((row+1)*d.each, len(d.Records))
	marks := lineMarks[d.kind]
	cells := make([]cell, d.cols)
	for i := range cells {
		cells[i].r = ' '
	}
	put := func(at int, r rune, color string) {
		if at >= 0 && at < d.cols {
			cells[at] = cell{r, color}
		}
	}
	for _, w := range d.Windows {
		gone := w.Gone != Never && w.Gone < first
		if !gone {
			put(d.column(w.Start), marks.band, "2")
			put(d.column(w.End), marks.band, "2")
		}
	}
	if at := d.Records[last-1].Watermark; at != Unknown && at >= d.from && at <= d.to {
		x := d.column(at)
		put(x, marks.watermark, watermarkColor)
		if first > 0 {
			if before := d.Records[first-1].Watermark; before != Unknown && d.column(before) < x {
				put(d.column(before), marks.from, watermarkColor)
				for c := d.column(before) + 1; c < x; c++ {
					put(c, marks.along, watermarkColor)
				}
				put(x, marks.to, watermarkColor)
			}
		}
	}
	for n := first; n < last; n++ {
		r := d.Records[n]
		x := d.column(r.Time)
		put(x, dotMarks[d.kind][r.Fate], fateColors[r.Fate])
		if d.each > 1 {
			continue
		}
		// The label stands where there is nothing but boundaries of windows.
		label := []rune(r.Label)
		at := x + 1
		if !blank(cells, at, len(label), marks.band) {
			at = x - len(label)
		}
		if blank(cells, at, len(label), marks.band) {
			for i, c := range label {
				put(at+i, c, "")
			}
		}
	}
	line := fmt.Sprintf("%4s %c", strconv.Itoa(last), marks.axis) + d.joined(cells)
	if d.each > 1 {
		return line
	}
	said := strings.Join(d.said[first], ", ")
	if r := []rune(said); len(r) > d.notes-2 && d.notes > 4 {
		said = string(r[:d.notes-3]) + string(marks.cut)
	}
	if said != "" {
		line += "  " + d.painted(fateColors[d.Records[first].Fate], said)
	}
	return strings.TrimRight(line, " ")
}

func blank(cells []cell, at, n int, band rune) bool {
	if at < 0 || at+n > len(cells) {
		return false
	}
	for _, c := range cells[at : at+n] {
		if c.r != ' ' && c.r != band {
			return false
		}
	}
	return true
}

func (d *drawing) joined(cells []cell) string {
	var b strings.Builder
	for i := 0; i < len(cells); {
		to := i
		var same strings.Builder
		for ; to < len(cells) && cells[to].color == cells[i].color; to++ {
			same.WriteRune(cells[to].r)
		}
		if cells[i].color == "" {
			b.WriteString(same.String())
		} else {
			b.WriteString(d.painted(cells[i].color, same.String()))
		}
		i = to
	}
	return b.String()
}

// head names the windows above the plot, in a line for each lane, where the names fit.
func (d *drawing) head() []string {
	lane, lanes := d.lanes()
	lines := make([][]cell, lanes)
	for i := range lines {
		lines[i] = make([]cell, d.cols)
		for c := range lines[i] {
			lines[i][c].r = ' '
		}
	}
	every := step(d.from, d.to, 8)
	for n, w := range d.Windows {
		a, b := d.column(w.Start), d.column(w.End)
		name := []rune(d.interval(w, every))
		if len(name) > b-a {
			name = []rune(d.instant(w.Start, every))
		}
		if len(name) > b-a {
			continue
		}
		at := a + (b-a-len(name)+1)/2
		for i, c := range name {
			lines[lane[n]][at+i] = cell{c, "1"}
		}
	}
	out := make([]string, 0, lanes)
	for i := range lines {
		out = append(out, strings.TrimRight(strings.Repeat(" ", leftColumn+1)+d.joined(lines[i]), " "))
	}
	return out
}

// foot is the axis of event time, and what the marks mean.
func (d *drawing) foot() []string {
	marks := lineMarks[d.kind]
	axis := make([]rune, d.cols)
	for i := range axis {
		axis[i] = marks.floor
	}
	names := []rune(strings.Repeat(" ", d.cols+leftColumn+12))
	every := step(d.from, d.to, max(2, d.cols/12))
	free := 0
	for _, t := range ticks(d.from, d.to, every) {
		x := d.column(t)
		axis[x] = marks.axis
		name := []rune(d.instant(t, every))
		at := max(0, leftColumn+1+x-len(name)/2)
		if at < free || at+len(name) > len(names) {
			continue
		}
		copy(names[at:], name)
		free = at + len(name) + 1
	}
	unit := "event time (s)"
	if d.Clock {
		unit = "event time (UTC, " + d.instant(d.from, day) + ")"
	}
	out := []string{
		strings.Repeat(" ", leftColumn) + string(marks.corner) + string(axis),
		strings.TrimRight(string(names), " "),
		strings.Repeat(" ", leftColumn+1) + unit,
	}
	var legend []string
	for _, f := range d.Timeline.used() {
		legend = append(legend, d.painted(fateColors[f], string(dotMarks[d.kind][f]))+" "+f.String())
	}
	legend = append(legend, d.painted(watermarkColor, string(marks.watermark))+" watermark")
	if d.each > 1 {
		legend = append(legend, fmt.Sprintf("%d records in a row", d.each))
	}
	line := strings.Repeat(" ", leftColumn+1)
	used := 0
	for i, l := range legend {
		n := utf8.RuneCountInString(l)
		if d.Color { // what colours is not seen
			n -= strings.Count(l, "\x1b[") * 5
		}
		if i > 0 && used+n+3 > max(d.Width, leastWidth)-leftColumn-1 {
			out = append(out, line)
			line, used = strings.Repeat(" ", leftColumn+1), 0
		} else if used > 0 {
			line += "   "
			used += 3
		}
		line += l
		used += n
	}
	return append(out, line)
}
