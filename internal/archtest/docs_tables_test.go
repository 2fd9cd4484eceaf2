package archtest

import (
	"flag"
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/printer"
	"go/token"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/headrace/headrace/framework"
)

var update = flag.Bool("update", false, "write what is generated of the documents anew")

// What docs/configuration.md says of fields and settings is generated: from the doc comments of the code, and by the app itself.
func TestDocsConfigurationIsGenerated(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	const name = "docs/configuration.md"
	text, err := os.ReadFile(absolute(t, name))
	if err != nil {
		t.Fatal(err)
	}
	settings := exec.Command("go", "run", "./cmd/sample-app", "settings")
	settings.Dir = absolute(t)
	table, err := settings.Output()
	if err != nil {
		t.Fatal(err)
	}
	mistakes := ""
	if _, err := framework.New(framework.Config{}); err != nil {
		mistakes = err.Error()
	}
	fresh := string(text)
	for mark, generated := range map[string]string{
		"framework.Config":      fields(t, "framework", "Config", func(f string) bool { return strings.Contains(mistakes, "Config."+f+" ") }),
		"pebblestore.Config":    fields(t, "state/pebblestore", "Config", func(f string) bool { return f == "Dir" }),
		"ops.Config":            fields(t, "ops", "Config", func(f string) bool { return f == "App" }),
		"devkafka.Config":       fields(t, "devkafka", "Config", func(string) bool { return false }),
		"devkafka.KafkaConfig":  fields(t, "devkafka", "KafkaConfig", func(string) bool { return false }),
		"sample-app settings":   string(table),
		"sample-app exit codes": exitCodes(t),
	} {
		fresh = between(t, fresh, mark, generated)
	}
	if fresh == string(text) {
		return
	}
	if !*update {
		t.Fatalf("%s is stale: go test ./internal/archtest -run %s -update", name, t.Name())
	}
	if err := os.WriteFile(absolute(t, name), []byte(fresh), 0o600); err != nil {
		t.Fatal(err)
	}
}

// between puts what is generated between its marks.
func between(t *testing.T, text, mark, generated string) string {
	t.Helper()
	begin, end := fmt.Sprintf("<!-- generated: %s -->\n", mark), fmt.Sprintf("<!-- end: %s -->\n", mark)
	head, rest, ok := strings.Cut(text, begin)
	_, last, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("there is no place for %s: want %q, and %q behind it", mark, begin, end)
	}
	return head + begin + "\n" + strings.TrimSpace(generated) + "\n\n" + end + last
}

// exitCodes is the part of the app's help that explains them, as a list.
func exitCodes(t *testing.T) string {
	t.Helper()
	help := exec.Command("go", "run", "./cmd/sample-app", "help")
	help.Dir = absolute(t)
	out, err := help.Output()
	if err != nil {
		t.Fatal(err)
	}
	_, codes, ok := strings.Cut(string(out), "Exit codes:\n")
	if !ok {
		t.Fatalf("the help tells no exit codes:\n%s", out)
	}
	return regexp.MustCompile(`(?m)^  (\d+)  (.*)$`).ReplaceAllString(strings.Replace(codes, "After 3", "\nAfter 3", 1), "- `$1`: $2")
}

var (
	fallback     = regexp.MustCompile(`\bDefault (.+?)(?:[.;,:]( |$))`)
	byDefault    = regexp.MustCompile(`(?:^|\s)([\w./]+) by default\.`)
	emptyDefault = regexp.MustCompile(`(?i)\b(\w+), the default,`)
	kafkaStreams = regexp.MustCompile(`\s*Kafka Streams: ([^.]*(?:\.[a-z][^.]*)*)\.$`)
)

// fields describes the fields of a struct: a table, and what the doc comments say of each.
func fields(t *testing.T, pkg, name string, required func(field string) bool) string {
	t.Helper()
	files, err := load(os.DirFS(repository))
	if err != nil {
		t.Fatal(err)
	}
	var of *ast.StructType
	var in *file
	for _, f := range files {
		if f.pkg != pkg || f.test {
			continue
		}
		ast.Inspect(f.tree, func(n ast.Node) bool {
			if s, ok := n.(*ast.TypeSpec); ok && s.Name.Name == name {
				of, in = s.Type.(*ast.StructType), f
			}
			return of == nil
		})
	}
	if of == nil {
		t.Fatalf("%s declares no struct %s", pkg, name)
	}
	var table, text strings.Builder
	table.WriteString("| field | type | default | Kafka Streams |\n|---|---|---|---|\n")
	for _, field := range of.Fields.List {
		for _, id := range field.Names {
			if !id.IsExported() {
				continue
			}
			says := strings.Join(strings.Fields(field.Doc.Text()), " ")
			if says == "" {
				t.Errorf("%s.%s.%s has no doc comment", pkg, name, id.Name)
			}
			java := "–"
			if m := kafkaStreams.FindStringSubmatch(says); m != nil {
				java = m[1]
			}
			what := typeText(t, in.fset, field.Type)
			def := defaultOf(says, what)
			if required(id.Name) {
				def = "required"
			}
			heading := in.tree.Name.Name + "." + name + "." + id.Name
			fmt.Fprintf(&table, "| [`%s`](#%s) | `%s` | %s | %s |\n", id.Name, strings.ToLower(strings.ReplaceAll(heading, ".", "")), what, code(def), code(java))
			fmt.Fprintf(&text, "\n#### %s\n\n%s", heading, markdown(field.Doc.Text()))
		}
	}
	return table.String() + text.String()
}

func typeText(t *testing.T, fset *token.FileSet, of ast.Expr) string {
	t.Helper()
	var b strings.Builder
	if err := printer.Fprint(&b, fset, of); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// code sets names with dots in the type of code: those of settings and of identifiers.
func code(text string) string {
	return regexp.MustCompile(`\b[a-z]+(?:\.[A-Za-z]+)+\b(?:\(\))?`).ReplaceAllString(text, "`$0`")
}

// defaultOf is what a doc comment says of the default: "Default 15 s.", "ExactlyOnce by default", "0, the default, ...".
func defaultOf(says, of string) string {
	if m := fallback.FindStringSubmatch(says); m != nil {
		return m[1]
	}
	if m := byDefault.FindStringSubmatch(says); m != nil {
		return m[1]
	}
	if m := emptyDefault.FindStringSubmatch(says); m != nil {
		return strings.ToLower(m[1])
	}
	if of == "bool" {
		return "false"
	}
	return "none"
}

// markdown is a doc comment as Markdown.
func markdown(says string) string {
	var p comment.Parser
	doc := p.Parse(says)
	printer := comment.Printer{DocLinkURL: func(*comment.DocLink) string { return "" }}
	text := string(printer.Markdown(doc))
	return strings.NewReplacer(`\[`, "[", `\]`, "]").Replace(text)
}

func TestDefaultsAreFound(t *testing.T) {
	t.Parallel()
	for says, want := range map[string]string{
		"X is how long. Default 15 s, at least 1 s.":            "15 s",
		"X is the one. Default topology.Fail(): Run ends with.": "topology.Fail()",
		"X is ExactlyOnce by default. AtLeastOnce needs less.":  "ExactlyOnce",
		"X is the port. 0, the default, takes a free one.":      "0",
		"X is a name.": "none",
	} {
		if got := defaultOf(says, "string"); got != want {
			t.Errorf("%q: %q, want %q", says, got, want)
		}
	}
	if m := kafkaStreams.FindStringSubmatch("X is it. Kafka Streams: session.timeout.ms, 45 s."); m == nil || m[1] != "session.timeout.ms, 45 s" {
		t.Errorf("the name in Kafka Streams: %q", m)
	}
}
