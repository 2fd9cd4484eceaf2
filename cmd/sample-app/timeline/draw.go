package timeline

import (
	"fmt"
	"io"
	"strconv"
)

// Colours that can be told apart by people who see fewer of them; what matters differs by its shape, too.
var (
	white = rgb(0xffffff)
	dark  = rgb(0x1f2933)
	grey  = rgb(0x6b7785)
	faint = rgb(0xd5dbe1)
	mark  = rgb(0xd9660b) // the watermark
	blue  = rgb(0x1d4f91)

	bands = [...]struct{ tint, edge ink }{
		{rgb(0xdce8f7), rgb(0x4a7ab5)},
		{rgb(0xdaf0e6), rgb(0x3b8f6d)},
	}
	inks = [fates]ink{InTime: blue, OutOfOrder: blue, Corrected: rgb(0x7a28b8), Sidelined: rgb(0xb3126b), Dropped: rgb(0xc62828)}
)

// A Figure is one picture of several timelines, side by side and one below the other.
type Figure struct {
	Title   string
	Columns int // 1, if it is less
	Panels  []*Timeline
}

// SVG writes a picture that scales.
func (f *Figure) SVG(w io.Writer) error {
	s, err := f.scene()
	if err != nil {
		return err
	}
	return s.svg(w, f.Title)
}

// PNG writes the same picture with so many pixels for each of the SVG's; 2 is right for most screens.
func (f *Figure) PNG(w io.Writer, scale float64) error {
	s, err := f.scene()
	if err != nil {
		return err
	}
	if side := max(s.w, s.h) * scale; !(side >= 1 && side <= maxSide) {
		return fmt.Errorf("timeline: a picture of %.0f x %.0f at scale %v; a side may have up to %d pixels", s.w, s.h, scale, maxSide)
	}
	return s.png(w, scale)
}

const (
	maxSide = 20_000

	panelWidth         = 760
	marginX, marginY   = 28, 20
	leftAxis, rightPad = 58, 22
	titleHeight        = 44
	laneHeight         = 18
	axisHeight         = 44
	legendHeight       = 22
	figureTitle        = 42
	tallRow, lowRow    = 44.0, 1.5
	plotHeight         = 560.0 // of a picture with too many records for tall rows
	dotRadius          = 5.5
)

func (f *Figure) scene() (*scene, error) {
	if len(f.Panels) == 0 {
		return nil, fmt.Errorf("timeline: a figure without a timeline")
	}
	columns := min(max(f.Columns, 1), len(f.Panels))
	s := &scene{w: marginX + float64(columns)*(panelWidth+marginX)}
	s.add(item{}) // the background, when the height is known
	y := float64(marginY)
	if f.Title != "" {
		s.add(item{path: []point{{marginX, y + 20}}, text: f.Title, size: 20, bold: true, fill: dark})
		y += figureTitle
	}
	for n := 0; n < len(f.Panels); n += columns {
		row := f.Panels[n:min(n+columns, len(f.Panels))]
		high := 0.0
		for c, t := range row {
			if err := t.check(); err != nil {
				return nil, err
			}
			p := newPanel(t)
			p.draw(s, marginX+float64(c)*(panelWidth+marginX), y)
			high = max(high, p.height)
		}
		y += high + marginY
	}
	s.h = y
	s.items[0] = item{path: []point{{0, 0}, {s.w, 0}, {s.w, s.h}, {0, s.h}}, fill: white}
	return s, nil
}

// A panel is the layout of one timeline.
type panel struct {
	*Timeline
	height   float64
	row      float64
	plot     box
	from, to int64
	lane     []int
	lanes    int
	used     taken
	chips    []drawn
}

// drawn is a result that has its place.
type drawn struct {
	w  *Window
	r  Result
	at box
}

func newPanel(t *Timeline) *panel {
	p := &panel{Timeline: t, row: tallRow}
	p.from, p.to = t.span()
	p.lane, p.lanes = t.lanes()
	n := float64(len(t.Records))
	if n*p.row > plotHeight {
		p.row = max(lowRow, plotHeight/n)
	}
	high := p.row*n + max(p.row*0.5, 14)
	p.height = titleHeight + float64(p.lanes)*laneHeight + high + axisHeight + legendHeight
	p.plot = box{leftAxis, titleHeight + float64(p.lanes)*laneHeight, panelWidth - rightPad, titleHeight + float64(p.lanes)*laneHeight + high}
	return p
}

// x is where an event time is; what is beyond the bounds is at them.
func (p *panel) x(t int64) float64 {
	u := float64(t-p.from) / float64(p.to-p.from)
	if t < p.from { // the difference may be too large for an int64
		u = 0
	} else if t > p.to {
		u = 1
	}
	return p.plot.x0 + u*(p.plot.x1-p.plot.x0)
}

// y is where a record is. Behind record n, and before the next, is y(n) less half a row.
func (p *panel) y(n int) float64 { return p.plot.y1 - p.row*(float64(n)+0.5) }

func (p *panel) behind(n int) float64 { return p.y(n) - p.row/2 }

// tall says that there is room for words in each row.
func (p *panel) tall() bool { return p.row >= 24 }

func (p *panel) draw(s *scene, x, y float64) {
	p.plot.x0, p.plot.x1, p.plot.y0, p.plot.y1 = p.plot.x0+x, p.plot.x1+x, p.plot.y0+y, p.plot.y1+y
	p.used = taken{room: box{p.plot.x0, p.plot.y0, p.plot.x1 + rightPad - 2, p.plot.y1}}
	s.add(item{path: []point{{x, y + 16}}, text: p.Title, size: 15, bold: true, fill: dark})
	s.text(point{x, y + 34}, 12, 0, grey, p.Subtitle)
	p.axes(s, x)
	for n := range p.Windows {
		p.band(s, n)
	}
	p.watermark(s)
	for n := range p.Windows {
		p.results(s, &p.Windows[n], n)
	}
	p.dots(s)
	p.watermarkLabels(s)
	p.legend(s, x, p.plot.y1+axisHeight+12)
}

func (p *panel) axes(s *scene, x float64) {
	every := step(p.from, p.to, 8)
	for _, t := range ticks(p.from, p.to, every) {
		s.line(faint, 1, point{p.x(t), p.plot.y0}, point{p.x(t), p.plot.y1 + 4})
		s.text(point{p.x(t), p.plot.y1 + 18}, 11, 0.5, dark, p.instant(t, every))
	}
	unit := "event time"
	if !p.Clock {
		unit += " (s)"
	} else if every < day {
		unit += " (UTC, " + p.instant(p.from, day) + ")"
	}
	s.text(point{(p.plot.x0 + p.plot.x1) / 2, p.plot.y1 + 35}, 12, 0.5, grey, unit+"  →")

	each := 1
	for _, e := range []int{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000} {
		if each = e; float64(e)*p.row >= 16 {
			break
		}
	}
	for n := range p.Records {
		if (n+1)%each == 0 || len(p.Records) == 1 {
			s.text(point{p.plot.x0 - 9, p.y(n) + 4}, 11, 1, dark, strconv.Itoa(n+1))
		}
	}
	s.add(item{
		path: []point{{x + 14, (p.plot.y0 + p.plot.y1) / 2}}, text: "order of processing  →", size: 12, anchor: 0.5, turned: true, fill: grey,
	})
	s.line(grey, 1.2, point{p.plot.x0, p.plot.y0}, point{p.plot.x0, p.plot.y1}, point{p.plot.x1, p.plot.y1})
}

// band draws a window: as long as it is open it is coloured, while it can be corrected it is hatched, and then there is nothing.
func (p *panel) band(s *scene, n int) {
	w := p.Windows[n]
	look := bands[n%len(bands)]
	if p.lanes > 1 { // bands that lie on each other have to let each other through
		look.tint = look.tint.alpha(0.45)
	}
	b := box{p.x(w.Start), p.plot.y0, p.x(w.End), p.plot.y1}
	top := p.plot.y0 - float64(p.lanes-p.lane[n])*laneHeight
	name := p.interval(w, step(p.from, p.to, 8))
	if measure(name, 11, true) < b.x1-b.x0-4 {
		s.add(item{path: []point{{(b.x0 + b.x1) / 2, top + 12}}, text: name, size: 11, bold: true, anchor: 0.5, fill: look.edge})
	}
	s.line(look.edge, 2, point{b.x0 + 1, top + 16}, point{b.x1 - 1, top + 16})

	open, gone := b, b
	if w.Closed != Never {
		open.y0 = p.behind(w.Closed)
	}
	s.rect(open, look.tint.alpha(look.tint.a*0.75), ink{}, 0)
	if w.Closed != Never && w.Gone != w.Closed {
		gone.y1 = open.y0
		if w.Gone != Never {
			gone.y0 = p.behind(w.Gone)
		}
		p.hatch(s, gone, look.edge.alpha(0.28))
		if w.Gone != Never {
			s.dashed(look.edge, 1.2, 4, 4, point{b.x0, gone.y0}, point{b.x1, gone.y0})
		}
	}
	for _, x := range []float64{b.x0, b.x1} {
		s.dashed(look.edge.alpha(0.7), 1, 2, 4, point{x, min(gone.y0, open.y0)}, point{x, p.plot.y1})
	}
	if w.Closed != Never {
		s.line(look.edge, 2, point{b.x0, open.y0}, point{b.x1, open.y0})
	}
}

// hatch fills a box with slanting lines.
func (p *panel) hatch(s *scene, b box, color ink) {
	const apart = 9
	wide, high := b.x1-b.x0, b.y1-b.y0
	for d := apart / 2.0; d < wide+high; d += apart {
		from := point{b.x0 + min(d, wide), b.y0 + max(0, d-wide)}
		to := point{b.x0 + max(0, d-high), b.y0 + min(d, high)}
		s.line(color, 1, from, to)
	}
}

func (p *panel) watermark(s *scene) {
	var path []point
	for n, r := range p.Records {
		if r.Watermark == Unknown {
			continue
		}
		x := p.x(r.Watermark)
		if len(path) > 0 {
			path = append(path, point{path[len(path)-1].x, p.y(n)})
		}
		path = append(path, point{x, p.y(n)})
	}
	if len(path) == 0 {
		return
	}
	path = append(path, point{path[len(path)-1].x, p.plot.y0 + 2})
	for n := 1; n < len(path) && p.tall(); n++ {
		a, b := path[n-1], path[n]
		p.used.take(box{min(a.x, b.x) - 2, min(a.y, b.y) - 1, max(a.x, b.x) + 2, max(a.y, b.y) + 1})
	}
	s.add(item{path: path, stroke: white.alpha(0.8), width: 5})
	s.add(item{path: path, stroke: mark, width: 2.4})
}

func (p *panel) watermarkLabels(s *scene) {
	if !p.tall() {
		return
	}
	last := Unknown
	for n, r := range p.Records {
		if r.Watermark == last || r.Watermark < p.from || r.Watermark > p.to {
			continue
		}
		last = r.Watermark
		x, y := p.x(r.Watermark), p.behind(n)
		s.label(&p.used, 11, mark, "W "+p.instant(r.Watermark, step(p.from, p.to, 8)),
			place{point{x + 6, y + 4}, 0}, place{point{x - 6, y + 4}, 1}, place{point{x + 6, y - 12}, 0}, place{point{x + 6, y - p.row/2 - 8}, 0})
	}
}

// results draws what was put out for a window, each where it happened, with arrows from one to the next.
func (p *panel) results(s *scene, w *Window, n int) {
	look := bands[n%len(bands)]
	wide := p.x(w.End) - p.x(w.Start)
	center := (p.x(w.Start) + p.x(w.End)) / 2
	if p.lanes > 1 { // chips of windows that overlap stand side by side
		center = p.x(w.Start) + wide*(float64(p.lane[n])+0.5)/float64(p.lanes)
		wide /= float64(p.lanes)
	}
	before := map[string]box{} // where the last result of each key is
	for i := 0; i < len(w.Results); {
		together := i + 1 // results behind the same record stand side by side
		for together < len(w.Results) && w.Results[together].After == w.Results[i].After {
			together++
		}
		total := -6.0
		for _, r := range w.Results[i:together] {
			total += chipWidth(r) + 6
		}
		if total > wide-2 || !p.tall() {
			for _, r := range w.Results[i:together] {
				s.add(item{path: []point{{center, p.behind(max(r.After, 0))}}, circle: 2, fill: look.edge, hint: p.says(w, r)})
			}
			i = together
			continue
		}
		x := center - total/2
		for ; i < together; i++ {
			r := w.Results[i]
			y := p.behind(max(r.After, 0))
			b := box{x, y - 10, x + chipWidth(r), y + 10}
			edge := look.edge
			if r.Revision > 0 || r.Retraction {
				edge = inks[Corrected]
			}
			if last, ok := before[r.Key]; ok && !r.Retraction {
				from := point{(last.x0 + last.x1) / 2, last.y0}
				to := point{(b.x0 + b.x1) / 2, b.y1}
				if from.y-to.y > 4 {
					s.arrow(from, to, 0, edge, 1.8)
				}
			}
			s.pill(b, 9, white, edge, 1.6, p.says(w, r))
			s.add(item{path: []point{{(b.x0 + b.x1) / 2, y + 4.5}}, text: chip(r), size: 12, bold: true, anchor: 0.5, fill: edge})
			p.used.take(b)
			p.chips = append(p.chips, drawn{w, r, b})
			x = b.x1 + 6
			if !r.Retraction {
				before[r.Key] = b
			}
		}
	}
	if w.Open != "" && p.tall() {
		text := "open: " + w.Open
		if measure(text, 11, false) < wide {
			s.label(&p.used, 11, look.edge, text, place{point{center, p.plot.y0 + 14}, 0.5}, place{point{center, p.plot.y0 + 30}, 0.5},
				place{point{p.x(w.End) - 6, p.plot.y0 + 14}, 1})
		}
	}
}

// chip is what a result shows.
func chip(r Result) string {
	text := r.Value
	if r.Revision > 0 && !r.Retraction {
		text += "  rev " + strconv.Itoa(r.Revision)
	}
	return text
}

func chipWidth(r Result) float64 { return measure(chip(r), 12, true) + 16 }

func (p *panel) says(w *Window, r Result) string {
	what := "result"
	switch {
	case r.Retraction:
		what = "retraction"
	case r.Revision > 0:
		what = fmt.Sprintf("revision %d", r.Revision)
	}
	return fmt.Sprintf("[%s, %s): %s %s", p.full(w.Start), p.full(w.End), what, r.Value)
}

func (p *panel) dots(s *scene) {
	if p.tall() {
		p.arrows(s)
	}
	for n := range p.Records {
		p.used.take(around(point{p.x(p.Records[n].Time), p.y(n)}, min(dotRadius, p.row/2)+1))
	}
	for n := range p.Records {
		r := &p.Records[n]
		at := point{p.x(r.Time), p.y(n)}
		radius := min(dotRadius, max(p.row*0.6, 2.2))
		hint := fmt.Sprintf("%d: event time %s, %v", n+1, p.full(r.Time), r.Fate)
		if r.Watermark != Unknown {
			hint += ", watermark then " + p.full(r.Watermark)
		}
		glyph(s, at, radius, r.Fate, hint)
		if !p.tall() {
			continue
		}
		text := r.Label
		if r.Note != "" {
			text += "  " + r.Note
		}
		color := dark
		if r.Fate >= Corrected {
			color = inks[r.Fate]
		}
		s.label(&p.used, 12, color, text,
			place{point{at.x + 10, at.y + 4}, 0}, place{point{at.x + 6, at.y + 18}, 1}, place{point{at.x - 6, at.y + 18}, 0},
			place{point{at.x - 10, at.y + 4}, 1}, place{point{at.x, at.y - 10}, 0.5})
	}
}

// arrows go from a record that corrects to the result that it makes.
func (p *panel) arrows(s *scene) {
	for _, c := range p.chips {
		if c.r.Revision == 0 || c.r.Retraction || c.r.After < 0 || p.Records[c.r.After].Fate != Corrected {
			continue
		}
		t := p.Records[c.r.After].Time
		if t < c.w.Start || t >= c.w.End {
			continue
		}
		from, y := point{p.x(t), p.y(c.r.After)}, (c.at.y0+c.at.y1)/2
		switch {
		case from.x > c.at.x1+14:
			s.arrow(point{from.x - 4, from.y - 6}, point{c.at.x1 + 2, y}, 0, inks[Corrected], 1.8)
		case from.x < c.at.x0-14:
			s.arrow(point{from.x + 4, from.y - 6}, point{c.at.x0 - 2, y}, 0, inks[Corrected], 1.8)
		}
	}
}

// glyph draws the mark of a record.
func glyph(s *scene, at point, r float64, f Fate, hint string) {
	color := inks[f]
	switch f {
	case InTime:
		s.add(item{path: []point{at}, circle: r, fill: color, stroke: white, width: 1, hint: hint})
	case OutOfOrder:
		s.add(item{path: []point{at}, circle: r - 0.6, fill: white, stroke: color, width: 2.2, hint: hint})
	case Corrected:
		d := r * 1.25
		s.add(item{path: []point{{at.x, at.y - d}, {at.x + d, at.y}, {at.x, at.y + d}, {at.x - d, at.y}}, fill: color, stroke: white, width: 1, hint: hint})
	case Sidelined:
		d := r * 1.15
		s.add(item{path: []point{{at.x, at.y - d}, {at.x + d, at.y + d*0.8}, {at.x - d, at.y + d*0.8}}, fill: color, stroke: white, width: 1, hint: hint})
	case Dropped:
		d := r * 0.85
		for _, k := range []item{{stroke: white, width: 5}, {stroke: color, width: 2.6, hint: hint}} {
			k.path = []point{{at.x - d, at.y - d}, {at.x + d, at.y + d}}
			s.add(k)
			k.path = []point{{at.x - d, at.y + d}, {at.x + d, at.y - d}}
			s.add(k)
		}
	}
}

// legend names what is in the picture.
func (p *panel) legend(s *scene, x, y float64) {
	x += leftAxis
	put := func(name string, wide float64, mark func(at point)) {
		mark(point{x + wide/2, y})
		x += wide + 6
		s.text(point{x, y + 4}, 11, 0, dark, name)
		x += measure(name, 11, false) + 18
	}
	for _, f := range p.Timeline.used() {
		put(f.String(), 12, func(at point) { glyph(s, at, 5, f, "") })
	}
	put("watermark W", 18, func(at point) { s.line(mark, 2.4, point{at.x - 9, at.y}, point{at.x + 9, at.y}) })
	closes, corrects, arrows := false, false, false
	for _, w := range p.Windows {
		closes = closes || w.Closed != Never
		corrects = corrects || w.Closed != Never && w.Gone != w.Closed
		for _, r := range w.Results {
			arrows = arrows || r.Revision > 0
		}
	}
	swatch := func(at point) box { return box{at.x - 9, at.y - 6, at.x + 9, at.y + 6} }
	if len(p.Windows) > 0 {
		put("window open", 18, func(at point) { s.rect(swatch(at), bands[0].tint, ink{}, 0) })
	}
	if closes {
		put("closes", 18, func(at point) { s.line(bands[0].edge, 2, point{at.x - 9, at.y}, point{at.x + 9, at.y}) })
	}
	if corrects {
		put("can be corrected", 18, func(at point) { p.hatch(s, swatch(at), bands[0].edge.alpha(0.5)) })
	}
	if arrows {
		put("correction", 18, func(at point) {
			s.arrow(point{at.x - 9, at.y}, point{at.x + 9, at.y}, 0, inks[Corrected], 1.8)
		})
	}
}
