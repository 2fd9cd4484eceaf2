package archtest

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// repository is where the documents are, from this package.
const repository = "../.."

// A document is one Markdown file of the repository.
type document struct {
	name   string // slash-separated, from the root of the repository
	text   string
	blocks []block
	prose  string          // without blocks and comments; blank lines are in their place
	anchor map[string]bool // what a link to the document may have behind its #
}

// A block is a fenced piece of code.
type block struct {
	lang, text string
	line       int    // of its first line
	given      string // what the comment in front of it, "<!-- given: ... -->", declares for it
}

// file is the name in the first line of a block, "// clicks/main.go" or "# config.yaml", "" if there is none.
func (b block) file() string {
	first, _, _ := strings.Cut(b.text, "\n")
	if m := regexp.MustCompile(`^(?://|#) ([\w./-]+\.[a-z]+)$`).FindStringSubmatch(first); m != nil {
		return m[1]
	}
	return ""
}

var (
	fence   = regexp.MustCompile("^(\\s*)```(\\w*)")
	heading = regexp.MustCompile(`^#{1,6} +(.*)$`)
	given   = regexp.MustCompile(`(?s)<!-- given:\s(.*?)-->\s*$`)
	hidden  = regexp.MustCompile(`(?s)<!--.*?-->`)
	anchors = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
)

func parseMarkdown(name, text string) *document {
	d := &document{name: name, text: text, anchor: map[string]bool{}}
	var before, prose strings.Builder
	var open *block
	indent := ""
	n := 0
	for line := range strings.Lines(text) {
		n++
		bare := strings.TrimRight(line, "\n")
		m := fence.FindStringSubmatch(bare)
		switch {
		case open != nil && m != nil && m[2] == "":
			d.blocks = append(d.blocks, *open)
			open = nil
			before.Reset()
			prose.WriteString("\n")
		case open != nil:
			open.text += strings.TrimPrefix(line, indent)
			prose.WriteString("\n")
		case m != nil:
			open = &block{lang: m[2], line: n + 1}
			indent = m[1]
			if g := given.FindStringSubmatch(before.String()); g != nil {
				open.given = strings.TrimSpace(g[1])
			}
			prose.WriteString("\n")
		default:
			before.WriteString(line)
			prose.WriteString(line)
			if m := heading.FindStringSubmatch(bare); m != nil {
				d.head(m[1])
			}
			for _, m := range anchors.FindAllStringSubmatch(bare, -1) {
				d.anchor[m[1]] = true
			}
		}
	}
	d.prose = hidden.ReplaceAllStringFunc(prose.String(), func(c string) string { return strings.Repeat("\n", strings.Count(c, "\n")) })
	return d
}

// head notes the anchor that a heading gets.
func (d *document) head(title string) {
	title = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(title, "$1")
	slug := strings.Map(func(r rune) rune {
		switch {
		case r == ' ', r == '-':
			return '-'
		case r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, title)
	unique := slug
	for i := 1; d.anchor[unique]; i++ {
		unique = fmt.Sprintf("%s-%d", slug, i)
	}
	d.anchor[unique] = true
}

// documents are all Markdown files of the repository.
func documents(t *testing.T) map[string]*document {
	t.Helper()
	docs := map[string]*document{}
	root := os.DirFS(repository)
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if path.Ext(name) != ".md" {
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		docs[name] = parseMarkdown(name, string(text))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/getting-started.md", "docs/guarantee.md", "docs/configuration.md", "docs/runbook.md"} {
		if docs[name] == nil {
			t.Fatalf("there is no %s", name)
		}
	}
	return docs
}

// guides are the documents for users: all in docs, but the decision records.
func guides(t *testing.T) []*document {
	t.Helper()
	var out []*document
	for name, d := range documents(t) {
		if path.Dir(name) == "docs" {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b *document) int { return strings.Compare(a.name, b.name) })
	return out
}

func (d *document) at(line int) string { return fmt.Sprintf("%s:%d", d.name, line) }

// absolute is a path of the repository.
func absolute(t *testing.T, name ...string) string {
	t.Helper()
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(append([]string{root}, name...)...)
}
