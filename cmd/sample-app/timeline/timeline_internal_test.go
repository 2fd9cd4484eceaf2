package timeline

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"image/color"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs; look at it, and if it is right: go test ./cmd/sample-app/timeline -update (-want +got):\n%s", file, diff)
	}
}

func figure() *Figure {
	return &Figure{Title: "One record <late>, three ways", Columns: 2, Panels: []*Timeline{corrected(), retracted(), dropped(), hopping()}}
}

func TestSVG(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := figure().SVG(&out); err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(bytes.NewReader(out.Bytes())); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
	}
	golden(t, "ways.svg", out.Bytes())
}

func TestText(t *testing.T) {
	t.Parallel()
	for name, style := range map[string]Style{
		"wide": {Width: 110}, "narrow": {Width: 60}, "ascii": {Width: 80, ASCII: true}, "colour": {Width: 80, Color: true},
	} {
		var out bytes.Buffer
		for _, p := range figure().Panels {
			if err := p.Text(&out, style); err != nil {
				t.Fatal(err)
			}
		}
		for line := range strings.Lines(out.String()) {
			if style.Color {
				break // what colours takes no room
			}
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > style.Width {
				t.Errorf("%s: %d columns of %d: %s", name, n, style.Width, line)
			}
			for _, r := range line {
				if style.ASCII && r > 126 && r != '−' { // which is in the values of the example
					t.Errorf("%s: %q in %s", name, r, line)
				}
			}
		}
		golden(t, name+".txt", out.Bytes())
	}
}

// The PNG shows what the SVG shows: the colours of its marks are where the scene has them.
func TestPNG(t *testing.T) {
	t.Parallel()
	f := figure()
	var out bytes.Buffer
	if err := f.PNG(&out, 2); err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(&out)
	if err != nil {
		t.Fatal(err)
	}
	s, err := f.scene()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := img.Bounds().Dx(), int(s.w*2); got < want || got > want+1 {
		t.Errorf("%d pixels wide, want %d", got, want)
	}
	marks := 0
	for _, i := range s.items {
		if !strings.Contains(i.hint, "event time") || i.circle == 0 || len(i.path) != 1 {
			continue
		}
		marks++
		want := color.RGBA{i.fill.r, i.fill.g, i.fill.b, 255}
		if got := color.RGBAModel.Convert(img.At(int(i.path[0].x*2), int(i.path[0].y*2))); got != want {
			t.Errorf("%s: %v in the middle of the mark, want %v", i.hint, got, want)
		}
	}
	if marks < 10 {
		t.Errorf("%d marks found", marks)
	}
	if err := f.PNG(io.Discard, 1000); err == nil {
		t.Error("a picture of a million pixels is drawn")
	}
}

// No label is written over another or over a mark.
func TestLabelsKeepApart(t *testing.T) {
	t.Parallel()
	s, err := figure().scene()
	if err != nil {
		t.Fatal(err)
	}
	type written struct {
		box
		text string
	}
	var all []written
	for _, i := range s.items {
		if i.text == "" || i.turned {
			continue
		}
		w := measure(i.text, i.size, i.bold)
		x := i.path[0].x - w*i.anchor
		b := written{box{x, i.path[0].y - i.size*0.7, x + w, i.path[0].y}, i.text}
		if !b.within(box{0, 0, s.w, s.h}) {
			t.Errorf("%q is outside of the picture: %v", b.text, b.box)
		}
		for _, o := range all {
			if b.meets(o.box) {
				t.Errorf("%q is written over %q", b.text, o.text)
			}
		}
		all = append(all, b)
	}
	if len(all) < 50 {
		t.Errorf("%d texts found", len(all))
	}
}

// Many records are drawn in the room of a picture, without words that would not fit.
func TestMany(t *testing.T) {
	t.Parallel()
	many := &Timeline{Title: "many", Clock: true}
	for n := range 2000 {
		at := int64(n)*sec - int64(n*7919%9)*sec
		many.Records = append(many.Records, Record{Time: at, Watermark: int64(n)*sec - 9*sec, Label: "7", Fate: Fate(n % int(fates))})
	}
	for start := int64(0); start < 2000*sec; start += 10 * sec {
		closed := int(start/sec) + 19
		w := Window{Start: start, End: start + 10*sec, Closed: closed, Gone: closed + 5}
		if closed+5 >= 2000 {
			w.Closed, w.Gone = Never, Never
		} else {
			w.Results = []Result{{After: closed, Value: "10"}}
		}
		many.Windows = append(many.Windows, w)
	}
	f := &Figure{Panels: []*Timeline{many}}
	s, err := f.scene()
	if err != nil {
		t.Fatal(err)
	}
	if s.h > 3500 {
		t.Errorf("%v pixels high", s.h)
	}
	var out bytes.Buffer
	if err := many.Text(&out, Style{Width: 100}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n"); n > mostRows+10 {
		t.Errorf("%d lines", n)
	}
}

func TestWhatCannotBeDrawn(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*Timeline){
		"no record":      func(t *Timeline) { t.Records = nil },
		"unknown Fate":   func(t *Timeline) { t.Records[0].Fate = fates },
		"goes back":      func(t *Timeline) { t.Records[3].Watermark = 1 },
		"not behind its": func(t *Timeline) { t.Windows[0].End = 0 },
		"refers to":      func(t *Timeline) { t.Windows[0].Closed = 6 },
	} {
		one := corrected()
		spoil(one)
		f := &Figure{Panels: []*Timeline{one}}
		for what, err := range map[string]error{
			"svg": f.SVG(io.Discard), "png": f.PNG(io.Discard, 1), "text": one.Text(io.Discard, Style{}),
		} {
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s of a timeline with %s: %v", what, name, err)
			}
		}
	}
}

func TestTicks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from, to int64
		most     int
		want     string
	}{
		{0, 180_000, 8, "0 30 60 90 120 150 180"},
		{-5_000, 5_000, 8, "-4 -2 0 2 4"},
		{1, 4, 8, "0.001 0.002 0.003 0.004"},
		{0, 1 << 50, 4, "0 516685824000 1033371648000"},
	} {
		one := &Timeline{}
		var got []string
		every := step(c.from, c.to, c.most)
		for _, at := range ticks(c.from, c.to, every) {
			got = append(got, one.instant(at, every))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%d to %d: %s, want %s", c.from, c.to, s, c.want)
		}
	}
	clock := &Timeline{Clock: true}
	for want, every := range map[string]int64{"00:00": 60 * sec, "00:00:00": sec, "00:00:00.000": 1, "1 Jan 1970": 24 * 3600 * sec, "1 Jan 00:00": 3600 * sec} {
		if got := clock.instant(0, step(0, every*5, 6)); got != want {
			t.Errorf("every %d ms: %s, want %s", every, got, want)
		}
	}
}
