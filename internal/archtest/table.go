package archtest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A room is one row of the table in ARCHITECTURE.md.
type room struct {
	line    int
	ours    []string // packages of this module that it may import
	outside []string // what it may import from outside the standard library
	bans    []string // bans named in the last column
}

var (
	quoted = regexp.MustCompile("`([^`]*)`")
	// list is a cell that is read by the machine: names in backticks, or a dash.
	list = regexp.MustCompile("^(–|`[^` ]+`( `[^` ]+`)*)$")
)

// short gives the names that the table uses for import paths outside the
// standard library; whatever is not here is written out in full.
var short = map[string]string{
	"btree":      "github.com/tidwall/btree",
	"go-pretty":  "github.com/jedib0t/go-pretty/v6",
	"kadm":       "github.com/twmb/franz-go/pkg/kadm",
	"kerr":       "github.com/twmb/franz-go/pkg/kerr",
	"kfake":      "github.com/twmb/franz-go/pkg/kfake",
	"kgo":        "github.com/twmb/franz-go/pkg/kgo",
	"kmsg":       "github.com/twmb/franz-go/pkg/kmsg",
	"kprom":      "github.com/twmb/franz-go/plugin/kprom",
	"pebble":     "github.com/cockroachdb/pebble/v2",
	"prometheus": "github.com/prometheus/client_golang",
	"term":       "golang.org/x/term",
}

// parseTable reads the one table whose first column is headed "package". It is
// strict, because a cell it did not understand would allow or forbid nothing.
func parseTable(doc string) (map[string]room, []violation) {
	rooms := map[string]room{}
	var found []violation
	bad := func(line int, format string, args ...any) {
		found = append(found, violation{"table", architecture, line, fmt.Sprintf(format, args...)})
	}
	tables, inside := 0, false
	for i, text := range strings.Split(doc, "\n") {
		n := i + 1
		if !strings.HasPrefix(text, "|") {
			inside = false
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(text), "|"), "|")
		for j := range cells {
			cells[j] = strings.TrimSpace(cells[j])
		}
		switch {
		case cells[0] == "package":
			inside = true
			tables++
			continue
		case !inside || strings.Trim(cells[0], ":-") == "":
			continue
		case len(cells) != 5:
			bad(n, "a row has 5 cells, this one %d", len(cells))
			continue
		}
		pkg := names(cells[0])
		if len(pkg) != 1 || !list.MatchString(cells[0]) {
			bad(n, "the first cell holds one package in backticks, not %q", cells[0])
			continue
		}
		if _, twice := rooms[pkg[0]]; twice {
			bad(n, "%s has two rows", pkg[0])
			continue
		}
		for _, j := range []int{1, 2, 4} {
			if !list.MatchString(cells[j]) {
				bad(n, "cell %d of %s is neither names in backticks nor –: %q", j+1, pkg[0], cells[j])
			}
		}
		rooms[pkg[0]] = room{n, names(cells[1]), names(cells[2]), names(cells[4])}
	}
	if tables != 1 {
		bad(1, "there must be one table whose first column is headed \"package\", there are %d", tables)
	}
	return rooms, found
}

func names(cell string) []string {
	var in []string
	for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
		in = append(in, m[1])
	}
	return in
}

// checkRows compares the table with the packages that exist, and with the bans.
func checkRows(rooms map[string]room, files []*file) []violation {
	var found []violation
	exists := map[string]bool{}
	for _, f := range files {
		if _, ok := rooms[f.pkg]; !ok && !exists[f.pkg] {
			found = append(found, f.violation("missing row", f.tree.Package,
				"package %s has no row in %s: add one in the same commit, so that its imports are a decision", f.pkg, architecture))
		}
		exists[f.pkg] = true
	}
	for pkg, r := range rooms {
		if !exists[pkg] {
			found = append(found, violation{
				"row without package", architecture, r.line,
				fmt.Sprintf("there is a row for %s, which does not exist", pkg),
			})
		}
		for _, in := range r.ours {
			if _, ok := rooms[in]; !ok {
				found = append(found, violation{
					"table", architecture, r.line,
					fmt.Sprintf("%s may import %s, which has no row", pkg, in),
				})
			}
		}
		for _, out := range r.outside {
			if short[out] == "" && !strings.Contains(out, ".") {
				found = append(found, violation{
					"table", architecture, r.line,
					fmt.Sprintf("%s may import %s, which is neither a module path nor a short name", pkg, out),
				})
			}
		}
		if want := roomBans(pkg); !slices.Equal(r.bans, want) {
			found = append(found, violation{
				"table", architecture, r.line,
				fmt.Sprintf("the bans of %s are %q, the table says %q", pkg, want, r.bans),
			})
		}
	}
	return found
}

// checkImports holds the files that are not tests to columns 2 and 3. The name
// of a package of ours is compared whole; a name from outside covers what is below it.
func checkImports(rooms map[string]room, f *file) []violation {
	var found []violation
	r, ok := rooms[f.pkg]
	for _, spec := range f.tree.Imports {
		p := importPath(spec)
		if spec.Name != nil && spec.Name.Name == "." {
			found = append(found, f.violation("dot import", spec.Pos(),
				"it hides which package a name is from, from readers and from these rules: import %s by name", p))
		}
		if f.test || !ok {
			continue // a missing row is reported once, by checkRows
		}
		switch in, ours := strings.CutPrefix(p+"/", module+"/"); {
		case ours:
			if in = strings.TrimSuffix(in, "/"); in == "" {
				in = "."
			}
			if !slices.Contains(r.ours, in) {
				found = append(found, f.violation("column 2", spec.Pos(),
					"%s imports %s, which %s does not allow: turn the dependency round, or change the row and say why in an ADR", f.pkg, in, architecture))
			}
		case strings.Contains(strings.SplitN(p, "/", 2)[0], "."):
			if !slices.ContainsFunc(r.outside, func(name string) bool { return covers(name, p) }) {
				found = append(found, f.violation("column 3", spec.Pos(),
					"%s imports %s, which %s does not allow: do without, or change the row and say why in an ADR", f.pkg, p, architecture))
			}
		}
	}
	return found
}

// covers reports whether name, a short name or a path, stands for p.
func covers(name, p string) bool {
	if s := short[name]; s != "" {
		name = s
	}
	return p == name || strings.HasPrefix(p, name+"/")
}
