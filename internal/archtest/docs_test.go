package archtest

import (
	"go/ast"
	"go/token"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// A link within the repository must lead to a file that is there, and to a heading in it.
func TestDocsLinks(t *testing.T) {
	t.Parallel()
	docs := documents(t)
	for _, d := range docs {
		if d.name == "docs/adr/template.md" {
			continue // its links are to be filled in
		}
		n := 0
		for line := range strings.Lines(d.prose) {
			n++
			for _, m := range link.FindAllStringSubmatch(line, -1) {
				if why := brokenLink(docs, d, m[1]); why != "" {
					t.Errorf("%s: the link to %s: %s", d.at(n), m[1], why)
				}
			}
		}
	}
}

func brokenLink(docs map[string]*document, from *document, target string) string {
	if strings.HasPrefix(target, "https://") {
		return ""
	}
	name, anchor, hasAnchor := strings.Cut(target, "#")
	to := from
	if name != "" {
		name = path.Join(path.Dir(from.name), name)
		to = docs[name]
		if _, err := os.Stat(path.Join(repository, name)); err != nil || strings.HasPrefix(name, "../") {
			return "there is no such file"
		}
	}
	switch {
	case !hasAnchor:
		return ""
	case to == nil:
		return "it is no Markdown, so it has no headings"
	case !to.anchor[anchor]:
		return "there is no such heading"
	}
	return ""
}

func TestDocsLinksFindsWhatIsBroken(t *testing.T) {
	t.Parallel()
	d := parseMarkdown("README.md", "# A, `b` & c\n\n## A\n## A\n\n```sh\n# no heading\n```\n<a id=\"here\"></a>\n")
	docs := map[string]*document{"README.md": d}
	for target, broken := range map[string]bool{
		"#a-b--c": false, "#a": false, "#a-1": false, "#here": false, "README.md#a": false, "Makefile": false, "docs": false, "https://example.com#x": false,
		"#no-heading": true, "#a-2": true, "NONE.md": true, "../x": true, "Makefile#a": true, "README.md#b": true,
	} {
		if why := brokenLink(docs, d, target); (why != "") != broken {
			t.Errorf("%s: %q", target, why)
		}
	}
}

// declarations are what the code of the repository declares.
type declarations struct {
	tests   map[string]bool
	idents  map[string]bool // "framework.Config", "Config.Workers"
	rooms   map[string]bool // names of public packages
	types   map[string]bool // exported types of public packages
	targets map[string]bool // of the Makefile
}

func declared(t *testing.T) *declarations {
	t.Helper()
	files, err := load(os.DirFS(repository))
	if err != nil {
		t.Fatal(err)
	}
	n := &declarations{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
	for _, f := range files {
		pkg := f.tree.Name.Name
		public := !f.test && pkg != "main" && !strings.HasPrefix(f.pkg, "internal/")
		if public {
			n.rooms[pkg] = true
		}
		for _, decl := range f.tree.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				switch name := decl.Name.Name; {
				case f.test && decl.Recv == nil:
					n.tests[name] = true
				case public && decl.Recv == nil:
					n.idents[pkg+"."+name] = true
				case public:
					n.idents[receiver(decl)+"."+name] = true
				}
			case *ast.GenDecl:
				if public {
					n.general(pkg, decl)
				}
			}
		}
	}
	makefile, err := os.ReadFile(path.Join(repository, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^([a-z][a-z-]*):`).FindAllStringSubmatch(string(makefile), -1) {
		n.targets[m[1]] = true
	}
	return n
}

func (n *declarations) general(pkg string, decl *ast.GenDecl) {
	for _, spec := range decl.Specs {
		switch spec := spec.(type) {
		case *ast.ValueSpec:
			for _, name := range spec.Names {
				n.idents[pkg+"."+name.Name] = true
			}
		case *ast.TypeSpec:
			if decl.Tok != token.TYPE || !spec.Name.IsExported() {
				continue
			}
			n.idents[pkg+"."+spec.Name.Name] = true
			n.types[spec.Name.Name] = true
			var members *ast.FieldList
			switch of := spec.Type.(type) {
			case *ast.StructType:
				members = of.Fields
			case *ast.InterfaceType:
				members = of.Methods
			default:
				continue
			}
			for _, field := range members.List {
				for _, name := range field.Names {
					n.idents[spec.Name.Name+"."+name.Name] = true
				}
			}
		}
	}
}

// receiver is the name of the type that a method is of.
func receiver(decl *ast.FuncDecl) string {
	of := decl.Recv.List[0].Type
	for {
		switch x := of.(type) {
		case *ast.StarExpr:
			of = x.X
		case *ast.IndexExpr:
			of = x.X
		case *ast.IndexListExpr:
			of = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

var (
	inCode    = regexp.MustCompile("`([^`\n]+)`")
	testName  = regexp.MustCompile(`^(?:Test|Fuzz|Benchmark|Example)[A-Z_]\w*$`)
	qualified = regexp.MustCompile(`^([A-Za-z]\w*)\.([A-Z]\w*)`)
	target    = regexp.MustCompile(`\bmake ([a-z][a-z-]*)`)
)

// missing says what is wrong with a word that a document sets in the type of code.
func (n *declarations) missing(word string) string {
	if testName.MatchString(word) && !n.tests[word] {
		return "there is no such test"
	}
	if m := qualified.FindStringSubmatch(word); m != nil && (n.rooms[m[1]] || n.types[m[1]]) && !n.idents[m[1]+"."+m[2]] {
		return "the code declares no " + m[0]
	}
	if m := target.FindStringSubmatch(word); m != nil && !n.targets[m[1]] {
		return "the Makefile has no target " + m[1]
	}
	return ""
}

// What documents call by name must be there: tests, identifiers of public packages, targets of the Makefile. Decision records and the
// changelog tell of what was.
func TestDocsNames(t *testing.T) {
	t.Parallel()
	n := declared(t)
	for name, d := range documents(t) {
		if strings.HasPrefix(name, "docs/adr/") || name == "CHANGELOG.md" {
			continue
		}
		line := 0
		for text := range strings.Lines(d.prose) {
			line++
			for _, m := range inCode.FindAllStringSubmatch(text, -1) {
				if why := n.missing(m[1]); why != "" {
					t.Errorf("%s: `%s`: %s", d.at(line), m[1], why)
				}
			}
		}
	}
	for _, b := range documents(t)["CONTRIBUTING.md"].blocks {
		for _, m := range target.FindAllStringSubmatch(b.text, -1) {
			if !n.targets[m[1]] {
				t.Errorf("CONTRIBUTING.md: the Makefile has no target %s", m[1])
			}
		}
	}
	for word, wrong := range map[string]bool{
		"TestDocsNames": false, "framework.Config": false, "Config.Workers": false, "App.Run": false, "Stream.Filter": false, "strings.Fields": false, "make check": false, "state.Memory()": false,
		"TestOfNothing": true, "framework.Confit": true, "Config.Worker": true, "make cheque": true, "topology.NotThere(x)": true,
	} {
		if why := n.missing(word); (why != "") != wrong {
			t.Errorf("%s: %q", word, why)
		}
	}
}

var (
	metricName = regexp.MustCompile(`^headrace_[a-z0-9_]+`)
	sentence   = regexp.MustCompile(`^[a-z]+(?:,? [a-z]+){2,}(?: …)?$`)
)

// Metrics that documents name are in the table of metrics, and what the runbook quotes from the log and from errors is in the code.
func TestDocsQuoteTheCode(t *testing.T) {
	t.Parallel()
	files, err := load(os.DirFS(repository))
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, f := range files {
		if !f.test {
			code.WriteString(f.src)
		}
	}
	docs := documents(t)
	metrics, quotes := 0, 0
	for _, d := range docs {
		line := 0
		for text := range strings.Lines(d.prose) {
			line++
			for _, m := range inCode.FindAllStringSubmatch(text, -1) {
				if name := metricName.FindString(m[1]); name != "" {
					metrics++
					if !strings.Contains(docs["docs/metrics.md"].text, "| `"+name+"` |") {
						t.Errorf("%s: there is no metric %s", d.at(line), name)
					}
				}
				if d.name == "docs/runbook.md" && sentence.MatchString(m[1]) && !strings.HasPrefix(m[1], "make ") {
					quotes++
					if !strings.Contains(code.String(), strings.TrimSuffix(m[1], " …")) {
						t.Errorf("%s: nothing says %q", d.at(line), m[1])
					}
				}
			}
		}
	}
	if metrics < 20 || quotes < 8 {
		t.Errorf("found %d names of metrics and %d quotes", metrics, quotes)
	}
}

// A row of a table in the guarantee names the test that proves it: what nothing proves is not promised.
func TestDocsPromisesHaveTests(t *testing.T) {
	t.Parallel()
	d := documents(t)["docs/guarantee.md"]
	n, rows, proven := declared(t), 0, false
	line := 0
	for text := range strings.Lines(d.prose) {
		line++
		cells := strings.Split(strings.Trim(strings.TrimSpace(text), "|"), "|")
		switch {
		case !strings.HasPrefix(text, "|"):
			proven = false
		case strings.Contains(cells[len(cells)-1], "proved by"):
			proven = true
		case proven && !strings.HasPrefix(text, "|---"):
			rows++
			tests := 0
			for _, m := range inCode.FindAllStringSubmatch(cells[len(cells)-1], -1) {
				if n.tests[m[1]] || target.MatchString(m[1]) && n.missing(m[1]) == "" {
					tests++
				}
			}
			if tests == 0 {
				t.Errorf("%s: no test is named for %q", d.at(line), strings.TrimSpace(cells[0]))
			}
		}
	}
	if rows < 20 {
		t.Errorf("%s has %d promises in tables whose last column is \"proved by\", want all", d.name, rows)
	}
}

// The packages with which users begin have an example that runs.
func TestDocsPackagesHaveExamples(t *testing.T) {
	t.Parallel()
	files, err := load(os.DirFS(repository))
	if err != nil {
		t.Fatal(err)
	}
	for _, pkg := range []string{"serde", "serde/avro", "window", "state", "topology", "topology/topologytest", "framework", "devkafka"} {
		found := false
		for _, f := range files {
			found = found || f.pkg == pkg && f.test && strings.Contains(f.src, "\nfunc Example") && strings.Contains(f.src, "\t// Output:\n")
		}
		if !found {
			t.Errorf("package %s has no Example with an output", pkg)
		}
	}
}

// Whoever is woken by an alert finds what to do under its name.
func TestDocsAlertsHaveTheirSection(t *testing.T) {
	t.Parallel()
	rules, err := os.ReadFile(path.Join(repository, "deploy", "alerts.yml"))
	if err != nil {
		t.Fatal(err)
	}
	d := documents(t)["docs/runbook.md"]
	alerts := regexp.MustCompile(`(?m)^\s*-?\s*alert:\s*(\w+)`).FindAllStringSubmatch(string(rules), -1)
	if len(alerts) < 5 {
		t.Fatalf("deploy/alerts.yml has %d alerts", len(alerts))
	}
	for _, m := range alerts {
		if !d.anchor[strings.ToLower(m[1])] {
			t.Errorf("%s has no section %s", d.name, m[1])
		}
	}
	for _, m := range regexp.MustCompile(`runbook\.md#([\w-]+)`).FindAllStringSubmatch(string(rules), -1) {
		if !d.anchor[m[1]] {
			t.Errorf("deploy/alerts.yml sends people to %s#%s, which is not there", d.name, m[1])
		}
	}
}
