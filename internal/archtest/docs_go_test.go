package archtest

import (
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every Go block of the guides must compile, and the tests in them pass. A block may be
//
//   - files, with their names in the first line: those of one directory are one package;
//   - declarations or statements: they get the imports that they need, and what the comment in front of them declares, which readers do
//     not see: <!-- given: var clicks topology.Stream[string, Click] -->
func TestDocsGo(t *testing.T) {
	if !*runCommands {
		t.Skip("compiles a package for each block, with -commands: make docs-check")
	}
	dir := t.TempDir()
	guide := emptyModule(t, dir)
	blocks := 0
	for _, d := range guides(t) {
		name := strings.TrimSuffix(path.Base(d.name), ".md")
		for i, b := range d.blocks {
			if b.lang != "go" {
				continue
			}
			blocks++
			_, plain, tagged := strings.Cut(b.text, "\n\n")
			if !tagged || !strings.HasPrefix(b.text, "//go:build ") {
				plain = b.text
			}
			if form, err := format.Source([]byte(plain)); err != nil || string(form) != plain {
				t.Errorf("%s: not in gofmt's form (%v)", d.at(b.line), err)
			}
			file := b.file()
			if file == "" {
				file = fmt.Sprintf("block%d/block.go", i)
				if strings.Contains(b.text, "func Test") || strings.Contains(b.text, "func Example") {
					file = fmt.Sprintf("block%d/block_test.go", i)
				}
				b.text = guide.complete(t, b)
			}
			write(t, filepath.Join(dir, name, file), fmt.Sprintf("%s\n", b.text))
		}
	}
	if blocks < 10 {
		t.Errorf("the guides have %d blocks of Go; are they found?", blocks)
	}
	for _, args := range [][]string{{"vet", "-tags", "kafka", "./..."}, {"test", "./..."}} {
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// guideModule is a module that may import what this one imports.
type guideModule struct {
	imports map[string]string // package name to path
}

func emptyModule(t *testing.T, dir string) *guideModule {
	t.Helper()
	mod, err := os.ReadFile(absolute(t, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile(absolute(t, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(mod), "module "+module, "module example.com/guides", 1)
	write(t, filepath.Join(dir, "go.mod"), fmt.Sprintf("%s\nrequire %s v0.0.0\nreplace %s => %s\n", text, module, module, absolute(t)))
	write(t, filepath.Join(dir, "go.sum"), string(sum))

	m := &guideModule{map[string]string{}}
	for _, p := range []string{
		"context", "crypto/tls", "crypto/x509", "errors", "fmt", "io", "log", "log/slog", "net", "net/http", "os", "os/signal", "strings", "syscall", "testing", "time", "maps", "slices",
		"github.com/twmb/franz-go/pkg/kgo", "github.com/twmb/franz-go/pkg/sasl/scram",
	} {
		m.imports[path.Base(p)] = p
	}
	files, err := load(os.DirFS(repository))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if pkg := f.tree.Name.Name; !f.test && pkg != "main" && !strings.HasPrefix(f.pkg, "internal/") {
			m.imports[pkg] = module + "/" + f.pkg
		}
	}
	return m
}

// complete makes a file of a block of declarations or statements.
func (m *guideModule) complete(t *testing.T, b block) string {
	t.Helper()
	tags, text := "", b.text
	if strings.HasPrefix(text, "//go:build ") {
		tags, text, _ = strings.Cut(text, "\n")
		tags += "\n\n"
	}
	if strings.HasPrefix(text, "package ") {
		return tags + text
	}
	body := b.given + "\n" + text
	tree, err := parser.ParseFile(token.NewFileSet(), "", "package block\n"+body, parser.SkipObjectResolution)
	if err != nil { // statements, then
		body = fmt.Sprintf("%s\nfunc _() {\n%s\n}", b.given, text)
		tree, err = parser.ParseFile(token.NewFileSet(), "", "package block\n"+body, parser.SkipObjectResolution)
	}
	if err != nil {
		t.Errorf("line %d: %v", b.line, err)
		return "package block"
	}
	var used []string
	ast.Inspect(tree, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && m.imports[x.Name] != "" && s.Sel.IsExported() {
				used = append(used, fmt.Sprintf("import %q\n", m.imports[x.Name]))
			}
		}
		return true
	})
	slices.Sort(used)
	return tags + "package block\n" + strings.Join(slices.Compact(used), "") + body
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
