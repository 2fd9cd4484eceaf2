// Package archtest holds the repository to ARCHITECTURE.md: to the table of
// rooms and their imports, and to bans that keep the rooms what they claim to be.
//
// It parses the sources itself, rather than asking "go list", so that Go's test
// cache sees every file it depends on and never serves a stale pass.
package archtest

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
)

// module is the path in go.mod.
const module = "github.com/headrace/headrace"

// architecture is the document that holds the table of rooms.
const architecture = "ARCHITECTURE.md"

// A violation is one place where the tree departs from a rule.
type violation struct {
	rule string // short name, as the tests and ARCHITECTURE.md use it
	file string
	line int
	text string // what is wrong, why the rule exists, what to do instead
}

func (v violation) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", v.file, v.line, v.rule, v.text)
}

// check applies every rule to the tree at root, in the order of files and lines.
func check(root fs.FS) ([]violation, error) {
	doc, err := fs.ReadFile(root, architecture)
	if err != nil {
		return nil, fmt.Errorf("archtest: read the table of rooms: %w", err)
	}
	files, err := load(root)
	if err != nil {
		return nil, err
	}
	rooms, found := parseTable(string(doc))
	found = append(found, checkRows(rooms, files)...)
	found = append(found, checkDocs(files)...)
	for _, f := range files {
		found = append(found, checkImports(rooms, f)...)
		for _, b := range bans {
			if !f.test && b.holds(f.pkg) {
				found = append(found, b.apply(f)...)
			}
		}
		found = append(found, checkSleep(f)...)
		found = append(found, checkPaths(f)...)
		found = append(found, checkLength(f)...)
	}
	slices.SortStableFunc(found, func(a, b violation) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line))
	})
	return found, nil
}
