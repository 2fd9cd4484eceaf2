package timeline

import (
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"math"

	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

// The Go fonts are compiled into x/image, so that a picture is the same on every machine.
var regular, bold = parsed(goregular.TTF), parsed(gobold.TTF)

func parsed(ttf []byte) *sfnt.Font {
	f, err := sfnt.Parse(ttf)
	if err != nil {
		panic(err) // the font is part of the program
	}
	return f
}

func fontOf(isBold bool) *sfnt.Font {
	if isBold {
		return bold
	}
	return regular
}

// em is how finely glyphs are scaled before they are transformed: they keep their shape at any size.
const em = 2048

// measure is how wide a text is.
func measure(text string, size float64, isBold bool) float64 {
	f := fontOf(isBold)
	var buf sfnt.Buffer
	total := 0.0
	for _, r := range text {
		g, err := f.GlyphIndex(&buf, r)
		if err != nil {
			continue
		}
		if a, err := f.GlyphAdvance(&buf, g, fixed.I(em), 0); err == nil {
			total += float64(a) / 64
		}
	}
	return total * size / em
}

// png writes the scene with scale pixels for each of its own.
func (s *scene) png(w io.Writer, scale float64) error {
	p := painter{scale: scale, img: image.NewRGBA(image.Rect(0, 0, int(math.Ceil(s.w*scale)), int(math.Ceil(s.h*scale))))}
	draw.Draw(p.img, p.img.Bounds(), image.White, image.Point{}, draw.Src)
	for n := range s.items {
		p.item(&s.items[n])
	}
	return (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(w, p.img)
}

// painter fills outlines. Overlapping parts of one outline must run the same way round, since areas are summed.
type painter struct {
	scale float64
	img   *image.RGBA
	parts [][]point
}

func (p *painter) item(i *item) {
	switch {
	case i.text != "":
		p.glyphs(i)
		p.paint(i.fill)
		return
	case i.circle > 0:
		p.disc(i.path[0], i.circle)
		p.paint(i.fill)
		if i.stroke.a > 0 {
			var ring []point
			for n := range 65 {
				a := float64(n) / 64 * 2 * math.Pi
				ring = append(ring, point{i.path[0].x + i.circle*math.Cos(a), i.path[0].y + i.circle*math.Sin(a)})
			}
			p.stroke(ring, i.width)
			p.paint(i.stroke)
		}
		return
	}
	if i.fill.a > 0 {
		p.part(i.path)
		p.paint(i.fill)
	}
	if i.stroke.a > 0 {
		path := i.path
		if i.fill.a > 0 {
			path = append(append([]point{}, path...), path[0])
		}
		if len(i.dash) == 0 {
			p.stroke(path, i.width)
		} else {
			p.dashes(path, i.width, i.dash[0], i.dash[1])
		}
		p.paint(i.stroke)
	}
}

// part adds an outline as it is, in the direction of the clock.
func (p *painter) part(path []point) {
	area := 0.0
	for n, a := range path {
		b := path[(n+1)%len(path)]
		area += a.x*b.y - b.x*a.y
	}
	out := make([]point, len(path))
	for n, a := range path {
		if area < 0 {
			n = len(path) - 1 - n
		}
		out[n] = point{a.x * p.scale, a.y * p.scale}
	}
	p.parts = append(p.parts, out)
}

func (p *painter) disc(at point, r float64) {
	var path []point
	for n := range 48 {
		a := float64(n) / 48 * 2 * math.Pi
		path = append(path, point{at.x + r*math.Cos(a), at.y + r*math.Sin(a)})
	}
	p.part(path)
}

// stroke is a rectangle for each piece of the line, and a disc for each joint.
func (p *painter) stroke(path []point, width float64) {
	for n, a := range path {
		p.disc(a, width/2)
		if n == 0 {
			continue
		}
		b := path[n-1]
		long := math.Hypot(a.x-b.x, a.y-b.y)
		if long == 0 {
			continue
		}
		nx, ny := -(a.y-b.y)/long*width/2, (a.x-b.x)/long*width/2
		p.part([]point{{b.x + nx, b.y + ny}, {a.x + nx, a.y + ny}, {a.x - nx, a.y - ny}, {b.x - nx, b.y - ny}})
	}
}

func (p *painter) dashes(path []point, width, on, off float64) {
	left, drawing := on, true
	for n := 1; n < len(path); n++ {
		a, b := path[n-1], path[n]
		long := math.Hypot(b.x-a.x, b.y-a.y)
		for at := 0.0; at < long; {
			d := min(left, long-at)
			if drawing {
				u, v := at/long, (at+d)/long
				p.stroke([]point{{a.x + (b.x-a.x)*u, a.y + (b.y-a.y)*u}, {a.x + (b.x-a.x)*v, a.y + (b.y-a.y)*v}}, width)
			}
			at += d
			if left -= d; left <= 0 {
				drawing = !drawing
				left = off
				if drawing {
					left = on
				}
			}
		}
	}
}

// glyphs adds the outlines of a text as the font has them: their directions tell holes from areas.
func (p *painter) glyphs(i *item) {
	f := fontOf(i.bold)
	var buf sfnt.Buffer
	k := i.size / em
	pen := -measure(i.text, i.size, i.bold) * i.anchor
	put := func(q fixed.Point26_6) point {
		x, y := pen+float64(q.X)/64*k, float64(q.Y)/64*k
		if i.turned {
			x, y = y, -x
		}
		return point{(i.path[0].x + x) * p.scale, (i.path[0].y + y) * p.scale}
	}
	for _, r := range i.text {
		g, err := f.GlyphIndex(&buf, r)
		if err != nil {
			continue
		}
		segments, err := f.LoadGlyph(&buf, g, fixed.I(em), nil)
		if err == nil {
			var path []point
			for _, s := range segments {
				a := put(s.Args[0])
				switch s.Op {
				case sfnt.SegmentOpMoveTo:
					if len(path) > 0 {
						p.parts = append(p.parts, path)
					}
					path = []point{a}
				case sfnt.SegmentOpLineTo:
					path = append(path, a)
				case sfnt.SegmentOpQuadTo:
					from, b := path[len(path)-1], put(s.Args[1])
					for n := 1; n <= 6; n++ {
						u := float64(n) / 6
						path = append(path, point{
							(1-u)*(1-u)*from.x + 2*u*(1-u)*a.x + u*u*b.x,
							(1-u)*(1-u)*from.y + 2*u*(1-u)*a.y + u*u*b.y,
						})
					}
				case sfnt.SegmentOpCubeTo:
					path = append(path, put(s.Args[2])) // fonts of this format have none
				}
			}
			if len(path) > 0 {
				p.parts = append(p.parts, path)
			}
		}
		if a, err := f.GlyphAdvance(&buf, g, fixed.I(em), 0); err == nil {
			pen += float64(a) / 64 * k
		}
	}
}

// paint fills what was added, and forgets it.
func (p *painter) paint(k ink) {
	parts := p.parts
	p.parts = p.parts[:0]
	if k.a == 0 || len(parts) == 0 {
		return
	}
	// The rasterizer works on all of its area, so that it gets no more than is needed.
	low, high := parts[0][0], parts[0][0]
	for _, path := range parts {
		for _, a := range path {
			low, high = point{min(low.x, a.x), min(low.y, a.y)}, point{max(high.x, a.x), max(high.y, a.y)}
		}
	}
	at := image.Rect(int(math.Floor(low.x)), int(math.Floor(low.y)), int(math.Ceil(high.x))+1, int(math.Ceil(high.y))+1).Intersect(p.img.Bounds())
	if at.Empty() {
		return
	}
	r := vector.NewRasterizer(at.Dx(), at.Dy())
	for _, path := range parts {
		for n, a := range path {
			x, y := float32(a.x-float64(at.Min.X)), float32(a.y-float64(at.Min.Y))
			if n == 0 {
				r.MoveTo(x, y)
			} else {
				r.LineTo(x, y)
			}
		}
		r.ClosePath()
	}
	c := color.NRGBA{k.r, k.g, k.b, uint8(math.Round(k.a * 255))}
	r.Draw(p.img, at, image.NewUniform(c), image.Point{})
}
