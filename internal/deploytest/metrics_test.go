package deploytest

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// read returns a file of the repository.
func read(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// decode reads YAML into a value by its JSON names.
func decode(t *testing.T, name string, into any) {
	t.Helper()
	m, err := yaml.Parser().Unmarshal([]byte(read(t, name)))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	raw, err := json.Marshal(m)
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

type metric struct {
	kind   string
	labels []string
}

// everywhere are the labels that each metric of an app gets from the app or from Prometheus.
var everywhere = []string{"application_id", "instance", "job"}

// metrics are those that there are: of docs/metrics.md, of the collectors beside them, and of Prometheus itself.
func metrics(t *testing.T) map[string]metric {
	t.Helper()
	all := map[string]metric{
		"up":     {"gauge", []string{"instance", "job"}},
		"ALERTS": {"gauge", []string{"alertname", "alertstate", "severity"}},
	}
	ours := regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| (gauge|counter|histogram) \\| ([^|]*) \\|")
	for _, m := range ours.FindAllStringSubmatch(read(t, "docs/metrics.md"), -1) {
		labels := slices.Clone(everywhere)
		for _, l := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(m[3], -1) {
			labels = append(labels, l[1])
		}
		all[m[1]] = metric{m[2], labels}
	}
	if len(all) < 30 {
		t.Fatalf("docs/metrics.md has only %d metrics that can be read", len(all)-2)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		all[f.GetName()] = metric{strings.ToLower(f.GetType().String()), []string{"instance", "job"}}
	}
	if runtime.GOOS != "linux" { // elsewhere there may be fewer, and images are Linux
		all["process_cpu_seconds_total"] = metric{"counter", []string{"instance", "job"}}
		all["process_resident_memory_bytes"] = metric{"gauge", []string{"instance", "job"}}
	}
	for name, m := range all {
		if m.kind == "histogram" {
			all[name+"_bucket"] = metric{"counter", append(slices.Clone(m.labels), "le")}
			all[name+"_sum"], all[name+"_count"] = metric{"counter", m.labels}, metric{"counter", m.labels}
			delete(all, name)
		}
	}
	return all
}

// functions that are in use. Another one may be added, once it has been seen to exist.
var functions = []string{
	"absent", "count", "delta", "deriv", "histogram_quantile", "increase", "max", "rate", "sum", "topk", "vector",
}

// checkExpr returns the labels that the result of an expression can have, and what the expression names that is not there.
func checkExpr(all map[string]metric, expr string) (labels, mistakes []string) {
	u, err := parse(expr)
	if err != nil {
		return nil, []string{err.Error()}
	}
	mistake := func(format string, args ...any) { mistakes = append(mistakes, fmt.Sprintf(format, args...)) }
	for _, f := range u.functions {
		if !slices.Contains(functions, f) {
			mistake("function %s is not among %v", f, functions)
		}
	}
	known := map[string]bool{}
	for _, s := range u.selectors {
		m, ok := all[s.metric]
		if !ok {
			mistake("there is no metric %s", s.metric)
			continue
		}
		for _, l := range m.labels {
			known[l] = true
		}
		for _, l := range s.labels {
			if !slices.Contains(m.labels, l) {
				mistake("%s has no label %s, only %v", s.metric, l, m.labels)
			}
		}
		counts := m.kind == "counter"
		switch f := u.inside[s.metric]; {
		case counts && (f == "delta" || f == "deriv"), !counts && (f == "rate" || f == "increase"):
			mistake("%s of %s, which is a %s", f, s.metric, m.kind)
		case counts && f != "rate" && f != "increase" && !strings.Contains(expr, " unless "):
			mistake("%s is a counter: only how it rises says something", s.metric)
		}
	}
	for _, l := range u.grouping {
		if !known[l] {
			mistake("no metric of it has the label %s", l)
		}
	}
	switch {
	case len(u.grouping) > 0:
		labels = u.grouping
	case !slices.ContainsFunc(u.functions, func(f string) bool { return f == "sum" || f == "max" || f == "count" || f == "absent" }):
		labels = slices.Sorted(maps.Keys(known))
	}
	return labels, mistakes
}

// reportExpr is checkExpr for files, which must have no mistakes.
func reportExpr(t *testing.T, all map[string]metric, where, expr string) (labels []string) {
	t.Helper()
	labels, mistakes := checkExpr(all, expr)
	for _, m := range mistakes {
		t.Errorf("%s: %s", where, m)
	}
	return labels
}

// checkTexts reports labels in a text for people that the expression does not have.
func checkTexts(t *testing.T, where, text string, used *regexp.Regexp, labels []string) {
	t.Helper()
	for _, m := range used.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(labels, m[1]) {
			t.Errorf("%s: %q has the label %s, of which the expression leaves only %v", where, text, m[1], labels)
		}
	}
}

func TestAlerts(t *testing.T) {
	t.Parallel()
	all := metrics(t)
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	decode(t, "deploy/alerts.yml", &file)
	runbook, err := os.ReadFile(filepath.Join("..", "..", "docs", "runbook.md"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if !strings.HasPrefix(r.Alert, "Headrace") || seen[r.Alert] {
				t.Errorf("alert %q: its name is taken, or does not begin with Headrace", r.Alert)
			}
			seen[r.Alert] = true
			labels := reportExpr(t, all, r.Alert, r.Expr)
			if r.For != "" {
				if _, err := time.ParseDuration(r.For); err != nil {
					t.Errorf("%s: %v", r.Alert, err)
				}
			}
			if s := r.Labels["severity"]; s != "critical" && s != "warning" {
				t.Errorf("%s: severity %q is neither critical nor warning", r.Alert, s)
			}
			for _, a := range []string{"summary", "description"} {
				if r.Annotations[a] == "" {
					t.Errorf("%s has no %s", r.Alert, a)
				}
				checkTexts(t, r.Alert, r.Annotations[a], regexp.MustCompile(`\$labels\.(\w+)`), labels)
			}
			if got, want := r.Annotations["runbook"], "docs/runbook.md#"+strings.ToLower(r.Alert); got != want {
				t.Errorf("%s: runbook is %q, not %q", r.Alert, got, want)
			}
			if len(runbook) > 0 && !regexp.MustCompile(`(?m)^#+ `+r.Alert+`$`).Match(runbook) {
				t.Errorf("docs/runbook.md has no heading %s", r.Alert)
			}
		}
	}
	if len(seen) < 10 {
		t.Errorf("only %d alerts were found", len(seen))
	}
	for _, m := range regexp.MustCompile(`(?m)^#+ (Headrace\w+)$`).FindAllSubmatch(runbook, -1) {
		if !seen[string(m[1])] {
			t.Errorf("docs/runbook.md has a chapter %s, and there is no such alert", m[1])
		}
	}
}

type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ H, W, X, Y int }
	Targets                  []struct{ RefID, Expr, LegendFormat string }
}

func TestDashboard(t *testing.T) {
	t.Parallel()
	all := metrics(t)
	var d struct {
		UID, Title string
		Panels     []panel
		Templating struct {
			List []struct{ Name, Definition string }
		}
	}
	raw := read(t, "deploy/grafana/dashboards/headrace.json")
	if err := json.Unmarshal([]byte(raw), &d); err != nil {
		t.Fatal(err)
	}
	variables := []string{"__rate_interval"}
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
		if m := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`).FindStringSubmatch(v.Definition); m != nil {
			if labels := reportExpr(t, all, "variable "+v.Name, m[1]); !slices.Contains(labels, m[2]) {
				t.Errorf("variable %s: no label %s among %v", v.Name, m[2], labels)
			}
		}
	}
	for _, m := range regexp.MustCompile(`\$\{?(\w+)`).FindAllStringSubmatch(raw, -1) {
		if !slices.Contains(variables, m[1]) {
			t.Errorf("variable %s is used, and there are %v", m[1], variables)
		}
	}
	ids, taken, graphs := map[int]bool{}, map[[2]int]string{}, 0
	for _, p := range d.Panels {
		if p.Title == "" || ids[p.ID] {
			t.Errorf("panel %q has no title, or %d is another one's number", p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("panel %q lies over %q, or beyond the edge", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		graphs++
		if p.Description == "" || len(p.Targets) == 0 {
			t.Errorf("panel %q has no description, or shows nothing", p.Title)
		}
		for _, q := range p.Targets {
			where := fmt.Sprintf("panel %q, %s", p.Title, q.RefID)
			labels := reportExpr(t, all, where, q.Expr)
			checkTexts(t, where, q.LegendFormat, regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`), labels)
		}
	}
	if graphs < 10 {
		t.Errorf("only %d panels were found", graphs)
	}
}

// What finds nothing in good files must find something in bad ones.
func TestCheckExprFindsMistakes(t *testing.T) {
	t.Parallel()
	all := metrics(t)
	for expr, why := range map[string]string{
		`headrace_redy == 0`: "a metric that is not there",
		`sum(rate(headrace_commits_total{reason="x"}[5m]))`:     "a label that the metric has not",
		`sum by (topic) (rate(headrace_commits_total[5m]))`:     "grouping by such a label",
		`headrace_commits_total > 5`:                            "a counter as it is",
		`rate(headrace_ready[5m])`:                              "the rate of a gauge",
		`delta(headrace_commits_total[5m])`:                     "the delta of a counter",
		`headrace_commit_duration_seconds > 1`:                  "a histogram as it is",
		`sum(irate(headrace_commits_total[5m]))`:                "a function that is not in use",
		`sum(rate(headrace_aborts_total[5m])) by (application)`: "grouping behind, by a label that is not there",
	} {
		if _, mistakes := checkExpr(all, expr); len(mistakes) == 0 {
			t.Errorf("nothing is found in %s, which has %s", expr, why)
		}
	}
}

// Prometheus' own tool, where it is there, says whether its files are good and alerts fire when they should.
func TestPromtool(t *testing.T) {
	t.Parallel()
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not there; it comes with Prometheus")
	}
	for _, args := range [][]string{
		{"check", "config", "../../deploy/prometheus.yml"},
		{"test", "rules", "testdata/alerts_test.yml"},
	} {
		if out, err := exec.Command(tool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	// What it is not asked about, it cannot find.
	stories := read(t, "internal/deploytest/testdata/alerts_test.yml")
	for _, m := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(read(t, "deploy/alerts.yml"), -1) {
		if !strings.Contains(stories, m[1]) {
			t.Errorf("no story is about %s", m[1])
		}
	}
}
