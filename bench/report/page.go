package report

import (
	"fmt"
	"strings"
)

// Section is a part of the page that one command makes anew and the others leave alone.
type Section struct {
	Name string // "bench" or "full"
	Text string
}

const head = `# Performance

What this library costs, beside a franz-go loop without a framework and beside Kafka Streams: on one machine, in one go, against one
broker on that machine. Ratios are what counts; absolute figures move with the machine. This page is written by ` + "`make bench`" + ` and
` + "`make bench-full`" + `; what stands between their marks is not edited by hand.
`

func mark(name string) (begin, end string) {
	return "<!-- begin " + name + " -->", "<!-- end " + name + " -->"
}

// names are the sections of the page in their order.
var names = []string{"bench", "full"}

// Page returns the page with the section in it. What it had of the other one stays.
func Page(old string, s Section) (string, error) {
	texts := make(map[string]string)
	for _, name := range names {
		begin, end := mark(name)
		if _, rest, ok := strings.Cut(old, begin); ok {
			text, _, ok := strings.Cut(rest, end)
			if !ok {
				return "", fmt.Errorf("report: the page has %q and no %q; remove the former", begin, end)
			}
			texts[name] = strings.Trim(text, "\n")
		}
	}
	texts[s.Name] = strings.Trim(s.Text, "\n")
	var b strings.Builder
	b.WriteString(head)
	for _, name := range names {
		if text, ok := texts[name]; ok {
			begin, end := mark(name)
			fmt.Fprintf(&b, "\n%s\n\n%s\n\n%s\n", begin, text, end)
		}
	}
	return b.String(), nil
}
