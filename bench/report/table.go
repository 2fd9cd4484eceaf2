// Package report makes the bench's table of its results, judges them by the targets, and writes the page docs/performance.md.
package report

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/headrace/headrace/bench/plan"
)

// Row is one line of the table: a metric of a peer at a work.
type Row struct {
	Work    string
	Variant string
	Peer    plan.Peer
	Metric  plan.Metric
	plan.Summary
	// Ratios are the median as a multiple of that of other peers.
	Ratios  map[plan.Peer]float64
	Verdict Verdict
}

// Verdict is what the targets say of a row: nothing, met, or by how much it is short.
type Verdict struct {
	Judged bool
	Met    bool
	Text   string
}

// Others are the peers to which the table has ratios, in this order.
var Others = []plan.Peer{plan.Raw, plan.Streams, plan.Memory, plan.Pebble}

// Rows makes the table of the works' results. Without targets nothing is judged. A work without results has no rows; a target whose
// figures are missing although its work was run is not met.
func Rows(works []plan.Work, variant string, results []plan.Result, targets []plan.Target) []Row {
	var rows []Row
	for _, w := range works {
		for _, m := range w.Metrics {
			for _, p := range w.Peers {
				s, ok := plan.Summarize(plan.Of(results, w.Name, variant, p), m)
				if !ok {
					continue
				}
				row := Row{Work: w.Name, Variant: variant, Peer: p, Metric: m, Summary: s, Ratios: make(map[plan.Peer]float64)}
				for _, o := range Others {
					if over, ok := plan.Summarize(plan.Of(results, w.Name, variant, o), m); ok && o != p && over.Median > 0 {
						row.Ratios[o] = s.Median / over.Median
					}
				}
				row.Verdict = judge(row, results, targets)
				rows = append(rows, row)
			}
		}
	}
	return rows
}

// judge holds the row's median against all targets for it.
func judge(r Row, results []plan.Result, targets []plan.Target) Verdict {
	v := Verdict{Met: true}
	var short []string
	for _, t := range targets {
		if t.Work != r.Work || t.Metric != r.Metric || t.Peer != r.Peer {
			continue
		}
		v.Judged = true
		got, over := r.Median, fmt.Sprintf(" %s", t.Metric)
		if t.Over != "" {
			base, ok := plan.Summarize(plan.Of(results, t.Work, r.Variant, t.Over), t.Metric)
			if !ok || base.Median <= 0 {
				short = append(short, fmt.Sprintf("not to be judged: %s has no figure", t.Over))
				continue
			}
			got, over = got/base.Median, fmt.Sprintf(" of %s", t.Over)
		}
		// By how much the figure itself has to change.
		if t.Metric.Higher() && got < t.Bound {
			short = append(short, fmt.Sprintf("short by %s (%s, at least %s%s)", percent(1-got/t.Bound), number(got), number(t.Bound), over))
		}
		if !t.Metric.Higher() && got > t.Bound {
			short = append(short, fmt.Sprintf("short by %s (%s, at most %s%s)", percent(got/t.Bound-1), number(got), number(t.Bound), over))
		}
	}
	if len(short) > 0 {
		v.Met, v.Text = false, strings.Join(short, "; ")
	} else if v.Judged {
		v.Text = "met"
	}
	return v
}

// Missing are the targets of which the table has no row, among those for the works that were run.
func Missing(works []plan.Work, rows []Row, targets []plan.Target) []plan.Target {
	var missing []plan.Target
	for _, t := range targets {
		run, found := false, false
		for _, w := range works {
			run = run || w.Name == t.Work
		}
		for _, r := range rows {
			found = found || (r.Work == t.Work && r.Metric == t.Metric && r.Peer == t.Peer)
		}
		if run && !found {
			missing = append(missing, t)
		}
	}
	return missing
}

// AllMet says whether no row is short of its targets.
func AllMet(rows []Row) bool {
	for _, r := range rows {
		if r.Verdict.Judged && !r.Verdict.Met {
			return false
		}
	}
	return true
}

// percent never says 0: what is short is short by something.
func percent(f float64) string {
	p := f * 100
	if p < 9.95 {
		return fmt.Sprintf("%.1f %%", max(p, 0.1))
	}
	return fmt.Sprintf("%.0f %%", p)
}

// number writes a figure with about three digits.
func number(f float64) string {
	switch {
	case f == 0:
		return "0"
	case f >= 100:
		return fmt.Sprintf("%.0f", f)
	case f >= 10:
		return fmt.Sprintf("%.1f", f)
	default:
		return fmt.Sprintf("%.2f", f)
	}
}

// Cells returns the table's head and lines.
func Cells(rows []Row) (head []string, lines [][]string) {
	variants := false
	for _, r := range rows {
		variants = variants || r.Variant != ""
	}
	head = []string{"work", "measured", "peer", "min", "median", "max"}
	if variants {
		head = append(head[:1], append([]string{"with"}, head[1:]...)...)
	}
	for _, o := range Others {
		head = append(head, "÷ "+string(o))
	}
	head = append(head, "target")
	for _, r := range rows {
		line := []string{r.Work}
		if variants {
			line = append(line, r.Variant)
		}
		line = append(line, string(r.Metric), string(r.Peer), number(r.Min), number(r.Median), number(r.Max))
		for _, o := range Others {
			cell := ""
			if f, ok := r.Ratios[o]; ok {
				cell = number(f)
			}
			line = append(line, cell)
		}
		lines = append(lines, append(line, r.Verdict.Text))
	}
	return head, lines
}

// Text returns the table for a terminal.
func Text(rows []Row) string { return lay(rows, "  ", "", "") }

// Markdown returns it for a page.
func Markdown(rows []Row) string { return lay(rows, " | ", "| ", " |") }

func lay(rows []Row, between, before, behind string) string {
	head, lines := Cells(rows)
	widths := make([]int, len(head))
	for _, line := range append([][]string{head}, lines...) {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	put := func(line []string) {
		b.WriteString(before)
		for i, cell := range line {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			switch {
			case figure(head[i]):
				b.WriteString(pad + cell)
			case i == len(line)-1 && behind == "":
				b.WriteString(cell)
			default:
				b.WriteString(cell + pad)
			}
			if i < len(line)-1 {
				b.WriteString(between)
			}
		}
		b.WriteString(behind + "\n")
	}
	put(head)
	rule := make([]string, len(head))
	for i, w := range widths {
		rule[i] = strings.Repeat("-", w)
		if figure(head[i]) && behind != "" {
			rule[i] = strings.Repeat("-", max(w-1, 1)) + ":"
		}
	}
	put(rule)
	for _, line := range lines {
		put(line)
	}
	return b.String()
}

// figure says whether a column has numbers.
func figure(head string) bool {
	return head == "min" || head == "median" || head == "max" || strings.HasPrefix(head, "÷")
}
