package archtest

import (
	"bufio"
	"context"
	"go/format"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// fences are the code blocks of a Markdown text in a language, in order.
func fences(text, lang string) []string {
	var out []string
	for _, m := range regexp.MustCompile("(?ms)^```"+lang+"\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

// goBlocks are the Go code blocks of the README: a program, and files whose names stand in their first lines.
func goBlocks(t *testing.T, readme string) (program string, files map[string]string) {
	t.Helper()
	files = map[string]string{}
	for _, block := range fences(readme, "go") {
		first, _, _ := strings.Cut(block, "\n")
		switch name, named := strings.CutPrefix(first, "// "); {
		case named && strings.HasSuffix(name, ".go"):
			files[name] = block
		case first == "package main" && program == "":
			program = block
		default:
			t.Fatalf("a Go block of README.md begins with %q: want one program, and files with their names in front, so that all are tested", first)
		}
	}
	if program == "" {
		t.Fatal("README.md has no program")
	}
	return program, files
}

// commands runs the lines of a console block, from a directory, and returns the directory where they lead.
func commands(t *testing.T, dir, block string) string {
	t.Helper()
	for line := range strings.Lines(block) {
		line, ok := strings.CutPrefix(strings.TrimSpace(line), "$ ")
		if !ok {
			t.Fatalf("README.md: %q is no command; begin it with \"$ \"", line)
		}
		if to, ok := strings.CutPrefix(line, "cd "); ok {
			dir = filepath.Join(dir, to)
			continue
		}
		args := strings.Fields(line)
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("README.md says %q: %v\n%s", line, err, out)
		}
	}
	return dir
}

// The README's commands must make a module in which its program builds, and that must print what the README says it prints: for
// each word, in that order.
func TestReadmeProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs a program")
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	program, _ := goBlocks(t, string(readme))
	outputs := fences(string(readme), "text")
	consoles := fences(string(readme), "console")
	if len(outputs) < 1 || len(consoles) != 2 {
		t.Fatalf("README.md has %d outputs and %d blocks of commands, want the program's output first, and commands to make a module and to build it", len(outputs), len(consoles))
	}
	want := map[string][]string{}
	for line := range strings.Lines(outputs[0]) {
		word := strings.Fields(line)[0]
		want[word] = append(want[word], strings.TrimSpace(line))
	}
	if len(want) < 2 {
		t.Fatalf("the README's output names %d words", len(want))
	}

	example, err := os.ReadFile(filepath.Join(root, "examples", "wordcount", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	if string(example) != program {
		t.Error("the README's program and examples/wordcount/main.go are not the same")
	}

	beside := t.TempDir()
	if err := os.Symlink(root, filepath.Join(beside, "headrace")); err != nil {
		t.Fatal(err)
	}
	dir := commands(t, beside, consoles[0])
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	commands(t, dir, consoles[1])
	binary := filepath.Join(dir, filepath.Base(dir))

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	app := exec.CommandContext(ctx, binary)
	var logged strings.Builder
	app.Stderr = &logged
	out, err := app.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := app.Start(); err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	complete := func() bool {
		for word, lines := range want {
			if len(got[word]) < len(lines) {
				return false
			}
		}
		return true
	}
	lines := bufio.NewScanner(out)
	for !complete() && lines.Scan() {
		word, _, _ := strings.Cut(lines.Text(), " ")
		got[word] = append(got[word], lines.Text())
	}
	for word, lines := range want {
		if !slices.Equal(got[word], lines) {
			t.Errorf("for %q the program printed %q, the README says %q", word, got[word], lines)
		}
	}
	if err := app.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // it may print more; reading on lets it end
	}
	if err := app.Wait(); err != nil {
		t.Errorf("interrupted, the program ended with %v\n%s", err, logged.String())
	}
}

// The README's other Go files are one package, whose test passes.
func TestReadmePackage(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs a test")
	}
	root := filepath.Join("..", "..")
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, files := goBlocks(t, string(readme))
	dir := t.TempDir()
	args := []string{"test", "-v"}
	tests := 0
	for name, block := range files {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(block), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, path)
		tests += strings.Count(block, "\nfunc Test")
	}
	if tests == 0 {
		t.Fatalf("no test is in the README's files %v", slices.Collect(maps.Keys(files)))
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = root // the module's, so that its packages are found
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), "--- PASS: Test") != tests {
		t.Errorf("the README's files do not pass: %v\n%s", err, out)
	}
	for name, block := range files {
		form, err := format.Source([]byte(block))
		if err != nil || string(form) != block {
			t.Errorf("%s in README.md is not in gofmt's form (%v)", name, err)
		}
	}
}

// The README's commands must be ones that CI runs: the Makefile has them, and the tests of CI call the Makefile.
func TestReadmeCommands(t *testing.T) {
	root := filepath.Join("..", "..")
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := fences(string(readme), "sh")
	if len(blocks) < 2 {
		t.Fatalf("README.md has %d commands, want the demo and the tests", len(blocks))
	}
	for _, block := range blocks {
		for line := range strings.Lines(block) {
			cmd := strings.TrimSpace(line)
			if target, ok := strings.CutPrefix(cmd, "make "); ok {
				if !ciRuns(string(makefile), target) {
					t.Errorf("README.md says %q, which CI does not run", cmd)
				}
				continue
			}
			if !strings.Contains(string(makefile), "\n\t"+cmd+"\n") {
				t.Errorf("README.md says %q, which nothing in the Makefile runs", cmd)
			}
		}
	}
}
