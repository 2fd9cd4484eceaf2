package timeline

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// svg writes the scene. Texts stay texts, which can be searched and read aloud; each is as wide as it was laid out, in whatever font.
func (s *scene) svg(w io.Writer, title string) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" viewBox="0 0 %[1]s %[2]s" role="img" `+
		`font-family="Go, 'DejaVu Sans', Verdana, sans-serif">`+"\n", number(s.w), number(s.h))
	fmt.Fprintf(out, "<title>%s</title>\n", escaped(title))
	for _, i := range s.items {
		i.svg(out)
	}
	fmt.Fprintln(out, "</svg>")
	return out.Flush()
}

func (i *item) svg(out *bufio.Writer) {
	var open, body string
	switch {
	case i.text != "":
		open = fmt.Sprintf(`text x="%s" y="%s" font-size="%s" textLength="%s" lengthAdjust="spacingAndGlyphs"`,
			number(i.path[0].x), number(i.path[0].y), number(i.size), number(measure(i.text, i.size, i.bold)))
		if i.bold {
			open += ` font-weight="bold"`
		}
		switch i.anchor {
		case 0.5:
			open += ` text-anchor="middle"`
		case 1:
			open += ` text-anchor="end"`
		}
		if i.turned {
			open += fmt.Sprintf(` transform="rotate(-90 %s %s)"`, number(i.path[0].x), number(i.path[0].y))
		}
		body = escaped(i.text)
	case i.circle > 0:
		open = fmt.Sprintf(`circle cx="%s" cy="%s" r="%s"`, number(i.path[0].x), number(i.path[0].y), number(i.circle))
	default:
		var d strings.Builder
		for n, p := range i.path {
			fmt.Fprintf(&d, "%c%s %s", "LM"[btoi(n == 0)], number(p.x), number(p.y))
		}
		if i.fill.a > 0 {
			d.WriteString("Z")
		}
		open = fmt.Sprintf(`path d="%s"`, d.String())
	}
	if i.fill.a > 0 {
		open += fmt.Sprintf(` fill="%v"`, i.fill)
		if i.fill.a < 1 {
			open += fmt.Sprintf(` fill-opacity="%s"`, number(i.fill.a))
		}
	} else {
		open += ` fill="none"`
	}
	if i.stroke.a > 0 {
		open += fmt.Sprintf(` stroke="%v" stroke-width="%s" stroke-linecap="round" stroke-linejoin="round"`, i.stroke, number(i.width))
		if i.stroke.a < 1 {
			open += fmt.Sprintf(` stroke-opacity="%s"`, number(i.stroke.a))
		}
		if len(i.dash) > 0 {
			open += fmt.Sprintf(` stroke-dasharray="%s %s"`, number(i.dash[0]), number(i.dash[1]))
		}
	}
	if i.hint != "" {
		body += "<title>" + escaped(i.hint) + "</title>"
	}
	name, _, _ := strings.Cut(open, " ")
	if body == "" {
		fmt.Fprintf(out, "<%s/>\n", open)
		return
	}
	fmt.Fprintf(out, "<%s>%s</%s>\n", open, body, name)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// number writes a length with two places at most.
func number(f float64) string {
	s := strings.TrimRight(strings.TrimRight(strconv.FormatFloat(f, 'f', 2, 64), "0"), ".")
	if s == "-0" || s == "" {
		return "0"
	}
	return s
}

func escaped(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder takes everything
	return b.String()
}
