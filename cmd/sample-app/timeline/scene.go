package timeline

import (
	"fmt"
	"math"
)

// A scene is the picture as shapes, the last on top. SVG and PNG are both made of it, so that they show the same. Lengths are in
// pixels, y goes down.
type scene struct {
	w, h  float64
	items []item
}

type point struct{ x, y float64 }

// An item is one shape. A path with a fill is closed.
type item struct {
	path   []point
	circle float64 // the radius around path[0]; 0 is no circle
	fill   ink
	stroke ink
	width  float64
	dash   []float64

	text   string
	size   float64
	bold   bool
	anchor float64 // 0 begins at path[0], 0.5 is centred there, 1 ends there
	turned bool    // by a quarter, upwards

	hint string // what SVG shows when pointed at
}

// An ink is a colour with its opacity. The zero ink is none.
type ink struct {
	r, g, b uint8
	a       float64
}

// rgb is an opaque ink, from 0xrrggbb.
func rgb(hex uint32) ink { return ink{uint8(hex >> 16), uint8(hex >> 8), uint8(hex), 1} }

func (k ink) alpha(a float64) ink {
	k.a = a
	return k
}

func (k ink) String() string { return fmt.Sprintf("#%02x%02x%02x", k.r, k.g, k.b) }

func (s *scene) add(i item) { s.items = append(s.items, i) }

func (s *scene) rect(b box, fill, stroke ink, width float64) {
	s.add(item{path: []point{{b.x0, b.y0}, {b.x1, b.y0}, {b.x1, b.y1}, {b.x0, b.y1}}, fill: fill, stroke: stroke, width: width})
}

// pill is a rectangle with round corners.
func (s *scene) pill(b box, radius float64, fill, stroke ink, width float64, hint string) {
	var path []point
	arc := func(cx, cy, from float64) {
		for i := range 9 {
			a := (from + float64(i)/8*90) * math.Pi / 180
			path = append(path, point{cx + radius*math.Cos(a), cy + radius*math.Sin(a)})
		}
	}
	arc(b.x1-radius, b.y0+radius, -90)
	arc(b.x1-radius, b.y1-radius, 0)
	arc(b.x0+radius, b.y1-radius, 90)
	arc(b.x0+radius, b.y0+radius, 180)
	s.add(item{path: path, fill: fill, stroke: stroke, width: width, hint: hint})
}

func (s *scene) line(stroke ink, width float64, path ...point) {
	s.add(item{path: path, stroke: stroke, width: width})
}

func (s *scene) dashed(stroke ink, width float64, on, off float64, path ...point) {
	s.add(item{path: path, stroke: stroke, width: width, dash: []float64{on, off}})
}

func (s *scene) text(at point, size float64, anchor float64, color ink, text string) {
	s.add(item{path: []point{at}, text: text, size: size, anchor: anchor, fill: color})
}

// arrow is a line that bends to the right of its way by so much, with a head at its end.
func (s *scene) arrow(from, to point, bend float64, color ink, width float64) {
	dx, dy := to.x-from.x, to.y-from.y
	long := math.Hypot(dx, dy)
	if long < 1 {
		return
	}
	mid := point{(from.x+to.x)/2 - dy/long*bend, (from.y+to.y)/2 + dx/long*bend}
	const head = 7
	path := make([]point, 0, 17)
	for i := range 17 {
		u := float64(i) / 16
		path = append(path, point{
			(1-u)*(1-u)*from.x + 2*u*(1-u)*mid.x + u*u*to.x,
			(1-u)*(1-u)*from.y + 2*u*(1-u)*mid.y + u*u*to.y,
		})
	}
	a := math.Atan2(to.y-mid.y, to.x-mid.x)
	back := point{to.x - head*math.Cos(a), to.y - head*math.Sin(a)}
	for len(path) > 1 && math.Hypot(path[len(path)-1].x-to.x, path[len(path)-1].y-to.y) < head {
		path = path[:len(path)-1]
	}
	s.add(item{path: append(path, back), stroke: color, width: width})
	side := point{head * 0.55 * math.Sin(a), head * 0.55 * math.Cos(a)}
	s.add(item{path: []point{to, {back.x - side.x, back.y + side.y}, {back.x + side.x, back.y - side.y}}, fill: color})
}

// A box is a part of the picture.
type box struct{ x0, y0, x1, y1 float64 }

func (b box) meets(o box) bool { return b.x0 < o.x1 && o.x0 < b.x1 && b.y0 < o.y1 && o.y0 < b.y1 }

func (b box) within(o box) bool { return b.x0 >= o.x0 && b.x1 <= o.x1 && b.y0 >= o.y0 && b.y1 <= o.y1 }

func around(p point, r float64) box { return box{p.x - r, p.y - r, p.x + r, p.y + r} }

// A table of what is taken already keeps labels from each other.
type taken struct {
	room  box
	boxes []box
}

func (t *taken) free(b box) bool {
	if !b.within(t.room) {
		return false
	}
	for _, o := range t.boxes {
		if b.meets(o) {
			return false
		}
	}
	return true
}

func (t *taken) take(b box) { t.boxes = append(t.boxes, b) }

// A place is where a label may stand: a point, and which part of the label stands there.
type place struct {
	at     point
	anchor float64
}

// label writes a text at the first place where there is room for it, or not at all.
func (s *scene) label(t *taken, size float64, color ink, text string, places ...place) bool {
	if text == "" {
		return true
	}
	w := measure(text, size, false)
	for _, p := range places {
		x := p.at.x - w*p.anchor
		b := box{x - 1, p.at.y - size*0.78, x + w + 1, p.at.y + size*0.25}
		if t.free(b) {
			t.take(b)
			s.text(p.at, size, p.anchor, color, text)
			return true
		}
	}
	return false
}
