package framework

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Every key that is logged stands in the package's documentation.
func TestLogKeysAreDocumented(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	keys := map[string]string{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if name == "doc.go" {
			for _, word := range regexp.MustCompile(`[a-z_]+`).FindAllString(tabbed(f.Doc.Text()), -1) {
				documented[word] = true
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			for _, arg := range logged(n) {
				if key, err := strconv.Unquote(arg.Value); err == nil {
					keys[key] = set.Position(arg.Pos()).String()
				}
			}
			return true
		})
	}
	if len(keys) < 30 {
		t.Fatalf("found only the keys %v: the search is broken", keys)
	}
	for key, at := range keys {
		if !documented[key] {
			t.Errorf("%s: the key %q is not in the table of doc.go", at, key)
		}
	}
}

// tabbed are the indented lines.
func tabbed(doc string) string {
	var b strings.Builder
	for line := range strings.Lines(doc) {
		if strings.HasPrefix(line, "\t") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// logged returns the keys that are written out in a call of a logger, or in attributes that are gathered for one.
func logged(n ast.Node) []*ast.BasicLit {
	var args []ast.Expr
	switch n := n.(type) {
	case *ast.CallExpr:
		name := ""
		switch fun := n.Fun.(type) {
		case *ast.SelectorExpr:
			name = fun.Sel.Name
		case *ast.Ident:
			name = fun.Name
		}
		switch name {
		case "With":
			args = n.Args
		case "Debug", "Info", "Warn", "Error", "log", "append":
			if len(n.Args) > 1 {
				args = n.Args[1:] // behind the text, or the attributes so far
			}
		}
	case *ast.CompositeLit:
		if a, ok := n.Type.(*ast.ArrayType); ok {
			if elem, ok := a.Elt.(*ast.Ident); ok && elem.Name == "any" {
				args = n.Elts
			}
		}
	}
	var keys []*ast.BasicLit
	for i := 0; i+1 < len(args); i += 2 {
		if key, ok := args[i].(*ast.BasicLit); ok && key.Kind == token.STRING {
			keys = append(keys, key)
		}
	}
	return keys
}
