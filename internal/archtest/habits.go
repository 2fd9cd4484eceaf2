package archtest

import (
	"fmt"
	"regexp"
	"strings"
)

// Files of one idea. Over this, look for the second idea before splitting.
const (
	maxLines     = 600 // not counting blank ones
	maxTestLines = 900
)

// machinePath finds paths that exist on somebody's machine only. It is put
// together from pieces so that it does not find itself.
var machinePath = regexp.MustCompile(`(^|[^\w.-])/(wor` + `k|roo` + `t)\b|\.\./shar` + `ed\b`)

// checkDocs wants exactly one doc comment per package, in the form that go doc
// shows well. Packages that consist of tests need none.
func checkDocs(files []*file) []violation {
	type pkg struct{ dir, name string }
	first := map[pkg]*file{}
	docs := map[pkg]*file{}
	var order []pkg
	var found []violation
	for _, f := range files {
		p := pkg{f.pkg, f.tree.Name.Name}
		if f.test {
			continue
		}
		if first[p] == nil {
			first[p] = f
			order = append(order, p)
		}
		text := f.tree.Doc.Text()
		if text == "" {
			continue
		}
		if other := docs[p]; other != nil {
			found = append(found, f.violation("package doc", f.tree.Doc.Pos(),
				"%s has a doc comment in %s already: go doc would join the two, so keep one", f.pkg, other.name))
			continue
		}
		docs[p] = f
		if p.name != "main" && !strings.HasPrefix(text, "Package "+p.name+" ") {
			found = append(found, f.violation("package doc", f.tree.Doc.Pos(),
				"the doc comment of %s begins with \"Package %s\"", f.pkg, p.name))
		}
	}
	for _, p := range order {
		if docs[p] == nil {
			found = append(found, first[p].violation("package doc", first[p].tree.Package,
				"%s has no doc comment: say in doc.go, or in its main file, what the room is for", p.dir))
		}
	}
	return found
}

// checkSleep wants a reason for every time.Sleep in a test.
func checkSleep(f *file) []violation {
	if !f.test {
		return nil // the ban on the clock covers those
	}
	var found []violation
	for _, x := range selectors("time", "Sleep")(f) {
		if !f.explained(x.pos) {
			found = append(found, f.violation("sleep", x.pos,
				"a test that sleeps is slow and guesses: wait for a signal, use a synctest bubble, or say on the same line why not"))
		}
	}
	return found
}

// checkPaths wants no mention of a machine's own paths, in code or comment.
func checkPaths(f *file) []violation {
	var found []violation
	for i, text := range strings.Split(f.src, "\n") {
		if m := machinePath.FindString(text); m != "" {
			found = append(found, violation{
				"machine path", f.name, i + 1,
				fmt.Sprintf("%q exists on one machine only: use a relative path, t.TempDir, or a flag", m),
			})
		}
	}
	return found
}

func checkLength(f *file) []violation {
	n, limit := 0, maxLines
	if f.test {
		limit = maxTestLines
	}
	for text := range strings.Lines(f.src) {
		if strings.TrimSpace(text) != "" {
			n++
		}
	}
	if n <= limit {
		return nil
	}
	return []violation{f.violation("length", f.tree.Package,
		"%d lines that are not blank, more than %d: find the second idea and give it a file", n, limit)}
}
