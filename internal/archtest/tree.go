package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// A file is one parsed source file of the main module.
type file struct {
	name string // slash-separated, from the root of the module
	pkg  string // its directory, "." for the root
	test bool   // *_test.go
	src  string
	fset *token.FileSet
	tree *ast.File
}

// load parses every Go file below root, build-tagged ones too. It passes over
// what the go command would not build as part of this module: directories with
// their own go.mod, testdata, and names that start with "." or "_".
func load(root fs.FS) ([]*file, error) {
	var files []*file
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name == "." {
				return nil
			}
			if b := d.Name(); b == "testdata" || b == "vendor" || b[0] == '.' || b[0] == '_' {
				return fs.SkipDir
			}
			if _, err := fs.Stat(root, path.Join(name, "go.mod")); err == nil {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		src, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		tree, err := parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, &file{
			name: name,
			pkg:  path.Dir(name),
			test: strings.HasSuffix(name, "_test.go"),
			src:  string(src),
			fset: fset,
			tree: tree,
		})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("archtest: load the tree: %w", err)
	}
	return files, nil
}

func (f *file) line(p token.Pos) int { return f.fset.Position(p).Line }

func (f *file) violation(rule string, p token.Pos, format string, args ...any) violation {
	return violation{rule, f.name, f.line(p), fmt.Sprintf(format, args...)}
}

// importPath returns what spec imports.
func importPath(spec *ast.ImportSpec) string {
	p, _ := strconv.Unquote(spec.Path.Value) // the parser let it pass, so it is quoted
	return p
}

// local returns the name under which f knows the standard package p, "" if it
// does not import it. A dot import has no name; the ban on those closes that door.
func (f *file) local(p string) string {
	for _, spec := range f.tree.Imports {
		if importPath(spec) != p {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path.Base(p)
	}
	return ""
}

// explained reports whether the line of p ends in a comment that says something,
// which a bare directive does not.
func (f *file) explained(p token.Pos) bool {
	for _, g := range f.tree.Comments {
		for _, c := range g.List {
			words := strings.Fields(strings.Trim(c.Text, "/* "))
			if f.line(c.Pos()) == f.line(p) && c.Pos() > p && len(words) >= 3 {
				return true
			}
		}
	}
	return false
}

// under reports whether pkg is one of rooms; a room that ends in "/..." stands
// for itself and everything below it.
func under(pkg string, rooms ...string) bool {
	for _, r := range rooms {
		base, tree := strings.CutSuffix(r, "/...")
		if pkg == base || tree && strings.HasPrefix(pkg, base+"/") {
			return true
		}
	}
	return false
}
