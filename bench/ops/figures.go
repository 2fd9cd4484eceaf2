package main

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// figure is what a benchmark allocates for one operation.
type figure struct {
	name   string // package and benchmark
	bytes  float64
	allocs float64
	line   string // as go test prints it
}

var processors = regexp.MustCompile(`-\d+$`)

// parseBench reads the output of go test -bench. A benchmark may report a figure for each record, where an operation is many.
func parseBench(pkg, out string) ([]figure, error) {
	var fs []figure
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		f := figure{name: pkg + " " + strings.TrimPrefix(processors.ReplaceAllString(fields[0], ""), "Benchmark"), bytes: -1, allocs: -1, line: strings.Join(fields, " ")}
		for i := 2; i+1 < len(fields); i += 2 {
			n, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", line, err)
			}
			switch unit := fields[i+1]; {
			case unit == "B/record" || unit == "B/op" && f.bytes < 0:
				f.bytes = n
			case unit == "allocs/record" || unit == "allocs/op" && f.allocs < 0:
				f.allocs = n
			}
		}
		if f.bytes < 0 || f.allocs < 0 {
			return nil, fmt.Errorf("%q tells no allocations", line)
		}
		fs = append(fs, f)
	}
	return fs, nil
}

const heading = `# What the benchmarks of the hot paths allocate: bytes and objects for one operation, or one record where an operation is many.
# Compared by make bench-ops, written by make bench-ops UPDATE=1.
`

func text(fs []figure) string {
	var b strings.Builder
	b.WriteString(heading)
	for _, f := range fs {
		fmt.Fprintf(&b, "%s\t%s B\t%s allocs\n", f.name, short(f.bytes), short(f.allocs))
	}
	return b.String()
}

func short(f float64) string { return strconv.FormatFloat(math.Round(f*1000)/1000, 'f', -1, 64) }

func parseFigures(text string) ([]figure, error) {
	var fs []figure
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		columns := strings.Split(line, "\t")
		if len(columns) != 3 {
			return nil, fmt.Errorf("%q has %d columns, want 3", line, len(columns))
		}
		n, err := strconv.ParseFloat(strings.TrimSuffix(columns[1], " B"), 64)
		m, err2 := strconv.ParseFloat(strings.TrimSuffix(columns[2], " allocs"), 64)
		if err != nil || err2 != nil {
			return nil, fmt.Errorf("%q is no line of figures", line)
		}
		fs = append(fs, figure{name: columns[0], bytes: n, allocs: m})
	}
	return fs, nil
}

// compare returns what has got worse, and what the file should be told. Memory that grows by doubling, and what a pool has lost to the
// garbage collector, make figures differ a little from run to run; one allocation more for a record is never in that.
func compare(want, got []figure) (worse, notes []string) {
	known := make(map[string]figure)
	for _, w := range want {
		known[w.name] = w
	}
	seen := make(map[string]bool)
	for _, g := range got {
		seen[g.name] = true
		zero := strings.HasSuffix(g.name, "ZeroAlloc") || strings.Contains(g.name, "ZeroAlloc/")
		if zero && g.allocs != 0 {
			worse = append(worse, fmt.Sprintf("%s: %s allocs, and its name promises none", g.name, short(g.allocs)))
			continue
		}
		w, ok := known[g.name]
		if !ok {
			if !zero {
				worse = append(worse, g.name+": the file does not have it")
			}
			continue
		}
		slack := 1.0
		if strings.HasSuffix(g.name, "/pebble") {
			slack = 5 // it compacts in the background meanwhile, or does not
		}
		if strings.HasSuffix(g.name, " Apply/pebble") {
			slack = 25 // a batch of a thousand changes, and what flushes meanwhile: one more for each change would be far above
		}
		if most := w.allocs + slack*max(0.2, w.allocs*0.1); g.allocs > most {
			worse = append(worse, fmt.Sprintf("%s: %s allocs, were %s", g.name, short(g.allocs), short(w.allocs)))
		} else if most := w.bytes + slack*max(48, w.bytes*0.25); g.bytes > most {
			worse = append(worse, fmt.Sprintf("%s: %s B, were %s", g.name, short(g.bytes), short(w.bytes)))
		} else if slack == 1 && (g.allocs < w.allocs-max(0.5, w.allocs*0.2) || g.bytes < w.bytes-max(64, w.bytes*0.4)) {
			notes = append(notes, fmt.Sprintf("%s is better than the file: %s B and %s allocs, were %s and %s", g.name, short(g.bytes), short(g.allocs), short(w.bytes), short(w.allocs)))
		}
	}
	for _, w := range want {
		if !seen[w.name] {
			worse = append(worse, w.name+": the file has it, and it did not run")
		}
	}
	return worse, notes
}
