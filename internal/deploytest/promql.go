// Package deploytest holds the files of deployment (the image, Compose, Prometheus and Grafana) to the program, to docs/metrics.md and
// to each other.
package deploytest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A selector is a metric that an expression reads, and the labels that it selects by.
type selector struct {
	metric string
	labels []string
}

// usage is what an expression of PromQL names.
type usage struct {
	selectors []selector
	grouping  []string          // labels in by, on, group_left and the like
	functions []string          // functions and aggregations
	inside    map[string]string // by metric, the function that it is the first argument of
}

var (
	space      = regexp.MustCompile(`^\s+`)
	text       = regexp.MustCompile(`^("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')`)
	number     = regexp.MustCompile(`^[0-9][0-9a-zA-Z.]*`)
	bracket    = regexp.MustCompile(`^\[[^\]]*\]`)
	identifier = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*`)
	matchers   = regexp.MustCompile(`^\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\}`)
	matcher    = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)\s*(?:=~|!~|!=|=)\s*"`)
	list       = regexp.MustCompile(`^\s*\(([^()]*)\)`)
	operator   = regexp.MustCompile(`^(==|!=|>=|<=|[-+*/%^<>(),])`)
)

// parse reads an expression as far as names go. It knows no precedence and checks no types.
func parse(expr string) (usage, error) {
	u := usage{inside: map[string]string{}}
	metric, function := false, "" // what came last: a metric, or the opening of a function
	for rest := expr; rest != ""; {
		if s := space.FindString(rest); s != "" {
			rest = rest[len(s):]
			continue
		}
		if m := matchers.FindStringSubmatch(rest); m != nil {
			if !metric {
				return u, fmt.Errorf("deploytest: matchers without a metric at %q", rest)
			}
			last := &u.selectors[len(u.selectors)-1]
			for _, l := range matcher.FindAllStringSubmatch(m[1], -1) {
				last.labels = append(last.labels, l[1])
			}
			metric, rest = false, rest[len(m[0]):]
			continue
		}
		metric = false
		if name := identifier.FindString(rest); name != "" {
			rest = rest[len(name):]
			opens := strings.HasPrefix(strings.TrimLeft(rest, " \n"), "(")
			switch {
			case slices.Contains([]string{"by", "without", "on", "ignoring", "group_left", "group_right"}, name):
				m := list.FindStringSubmatch(rest)
				if m == nil && strings.HasPrefix(name, "group_") {
					break // these may have none
				} else if m == nil {
					return u, fmt.Errorf("deploytest: %s without labels at %q", name, rest)
				}
				for _, l := range strings.Split(m[1], ",") {
					u.grouping = append(u.grouping, strings.TrimSpace(l))
				}
				rest = rest[len(m[0]):]
			case slices.Contains([]string{"and", "or", "unless", "bool", "offset"}, name):
				function = ""
			case opens || regexp.MustCompile(`^\s*(by|without)\b`).MatchString(rest):
				u.functions = append(u.functions, name)
				function = name
			default:
				u.selectors = append(u.selectors, selector{metric: name})
				if function != "" {
					u.inside[name] = function
				}
				metric, function = true, ""
			}
			continue
		}
		skipped := ""
		for _, re := range []*regexp.Regexp{text, number, bracket, operator} {
			if skipped = re.FindString(rest); skipped != "" {
				break
			}
		}
		if skipped == "" {
			return u, fmt.Errorf("deploytest: not understood at %q", rest)
		}
		if skipped != "(" {
			function = ""
		}
		rest = rest[len(skipped):]
	}
	return u, nil
}
