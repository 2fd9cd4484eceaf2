package report_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/bench/plan"
	"github.com/headrace/headrace/bench/report"
)

var works = []plan.Work{{
	Name: "count", Peers: []plan.Peer{plan.Raw, plan.Memory, plan.Pebble, plan.Streams}, Metrics: []plan.Metric{plan.Rate, plan.P99, plan.Peak},
}}

func result(p plan.Peer, m plan.Metric, values ...float64) (rs []plan.Result) {
	for _, v := range values {
		rs = append(rs, plan.Result{Work: "count", Peer: p, Values: map[plan.Metric]float64{m: v}})
	}
	return rs
}

func join(parts ...[]plan.Result) (all []plan.Result) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func verdicts(rows []report.Row) map[string]string {
	got := make(map[string]string)
	for _, r := range rows {
		got[string(r.Peer)+" "+string(r.Metric)] = r.Verdict.Text
	}
	return got
}

func TestVerdictsComeFromTheMedians(t *testing.T) {
	t.Parallel()
	results := join(
		result(plan.Streams, plan.Rate, 60, 10, 50), // median 50; the mean would be 40
		result(plan.Memory, plan.Rate, 400, 90, 900),
		result(plan.Pebble, plan.Rate, 180, 1000, 170),
		result(plan.Streams, plan.P99, 200),
		result(plan.Memory, plan.P99, 50),
		result(plan.Pebble, plan.P99, 60),
		result(plan.Memory, plan.Peak, 256),
		result(plan.Pebble, plan.Peak, 320),
	)
	rows := report.Rows(works, "", results, []plan.Target{
		{Work: "count", Metric: plan.Rate, Peer: plan.Memory, Over: plan.Streams, Bound: 8},
		{Work: "count", Metric: plan.Rate, Peer: plan.Pebble, Over: plan.Streams, Bound: 4},
		{Work: "count", Metric: plan.P99, Peer: plan.Memory, Over: plan.Streams, Bound: 0.25},
		{Work: "count", Metric: plan.P99, Peer: plan.Pebble, Over: plan.Streams, Bound: 0.25},
		{Work: "count", Metric: plan.Peak, Peer: plan.Memory, Bound: 256},
		{Work: "count", Metric: plan.Peak, Peer: plan.Pebble, Bound: 256},
	})
	want := map[string]string{
		"headrace-memory k/s":      "met", // reached exactly
		"headrace-pebble k/s":      "short by 10 % (3.60, at least 4.00 of streams)",
		"streams k/s":              "",
		"headrace-memory p99 ms":   "met",
		"headrace-pebble p99 ms":   "short by 20 % (0.30, at most 0.25 of streams)",
		"streams p99 ms":           "",
		"headrace-memory peak MiB": "met",
		"headrace-pebble peak MiB": "short by 25 % (320, at most 256 peak MiB)",
	}
	if diff := cmp.Diff(want, verdicts(rows)); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	if report.AllMet(rows) {
		t.Error("all met, though three are short")
	}
	for _, r := range rows {
		if r.Peer == plan.Memory && r.Metric == plan.Rate {
			if r.Min != 90 || r.Median != 400 || r.Max != 900 || r.Ratios[plan.Streams] != 8 {
				t.Errorf("row %+v, want 90, 400, 900 and 8 times streams", r)
			}
		}
	}
}

func TestAllMet(t *testing.T) {
	t.Parallel()
	targets := []plan.Target{{Work: "count", Metric: plan.Rate, Peer: plan.Memory, Over: plan.Streams, Bound: 8}}
	rows := report.Rows(works, "", join(result(plan.Streams, plan.Rate, 50), result(plan.Memory, plan.Rate, 401)), targets)
	if !report.AllMet(rows) || len(report.Missing(works, rows, targets)) != 0 {
		t.Errorf("not met: %+v", rows)
	}
	// One of two targets for a row is enough to be short.
	targets = append(targets, plan.Target{Work: "count", Metric: plan.Rate, Peer: plan.Memory, Over: plan.Raw, Bound: 0.7})
	rows = report.Rows(works, "", join(result(plan.Streams, plan.Rate, 50), result(plan.Memory, plan.Rate, 401), result(plan.Raw, plan.Rate, 800)), targets)
	if report.AllMet(rows) {
		t.Errorf("met, though it has half of raw's rate: %+v", rows)
	}
}

func TestWhatWasNotMeasuredIsNotMet(t *testing.T) {
	t.Parallel()
	targets := []plan.Target{
		{Work: "count", Metric: plan.Rate, Peer: plan.Memory, Over: plan.Streams, Bound: 8},
		{Work: "count", Metric: plan.Rate, Peer: plan.Pebble, Over: plan.Streams, Bound: 4},
		{Work: "join", Metric: plan.Rate, Peer: plan.Pebble, Over: plan.Streams, Bound: 3}, // not run
	}
	rows := report.Rows(works, "", result(plan.Memory, plan.Rate, 400), targets)
	if report.AllMet(rows) {
		t.Errorf("met without a peer to compare with: %+v", rows)
	}
	if diff := cmp.Diff(targets[1:2], report.Missing(works, rows, targets)); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
}

func TestTextAndMarkdown(t *testing.T) {
	t.Parallel()
	rows := report.Rows(works, "", join(result(plan.Streams, plan.Rate, 50), result(plan.Memory, plan.Rate, 425)),
		[]plan.Target{{Work: "count", Metric: plan.Rate, Peer: plan.Memory, Over: plan.Streams, Bound: 8}})
	want := "" +
		"work   measured  peer              min  median   max  ÷ raw  ÷ streams  ÷ headrace-memory  ÷ headrace-pebble  target\n" +
		"-----  --------  ---------------  ----  ------  ----  -----  ---------  -----------------  -----------------  ------\n" +
		"count  k/s       headrace-memory   425     425   425              8.50                                        met\n" +
		"count  k/s       streams          50.0    50.0  50.0                                 0.12                     \n"
	if diff := cmp.Diff(want, report.Text(rows)); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	for i, line := range strings.Split(strings.TrimSpace(report.Markdown(rows)), "\n") {
		if strings.Count(line, "|") != 12 || (i == 1 && !strings.Contains(line, "--: |")) {
			t.Errorf("line %d of the Markdown: %s", i, line)
		}
	}
}

func TestPageKeepsTheOtherSection(t *testing.T) {
	t.Parallel()
	page, err := report.Page("", report.Section{Name: "full", Text: "how it grows"})
	if err != nil {
		t.Fatal(err)
	}
	page, err = report.Page(page, report.Section{Name: "bench", Text: "first"})
	if err != nil {
		t.Fatal(err)
	}
	page, err = report.Page(page, report.Section{Name: "bench", Text: "second"})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(page, "first") || strings.Count(page, "second") != 1 || strings.Count(page, "how it grows") != 1 || strings.Count(page, "# Performance") != 1 {
		t.Errorf("page:\n%s", page)
	}
	if strings.Index(page, "second") > strings.Index(page, "how it grows") {
		t.Errorf("the growth comes before the targets:\n%s", page)
	}
	if _, err := report.Page("<!-- begin bench -->", report.Section{Name: "bench"}); err == nil {
		t.Error("a page with half a section was taken")
	}
}
