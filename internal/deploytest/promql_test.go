package deploytest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	t.Parallel()
	got, err := parse(`sum by (app, le) (rate(a_bucket{x="}", y=~"b|c"}[5m:1m] offset 2m)) > 0.5
		unless on (app) delta(max without (z) (b)[$__rate_interval]) or vector(1e3)`)
	if err != nil {
		t.Fatal(err)
	}
	want := usage{
		selectors: []selector{{"a_bucket", []string{"x", "y"}}, {metric: "b"}},
		grouping:  []string{"app", "le", "app", "z"},
		functions: []string{"sum", "rate", "delta", "max", "vector"},
		inside:    map[string]string{"a_bucket": "rate", "b": "max"},
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(usage{}, selector{})); d != "" {
		t.Error(d)
	}
	for _, wrong := range []string{`sum by rate(a)`, `{x="y"}`, `a ? b`} {
		if u, err := parse(wrong); err == nil {
			t.Errorf("%s is read as %v", wrong, u)
		}
	}
}
