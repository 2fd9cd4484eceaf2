package archtest

import (
	"bufio"
	"context"
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

// The README's program must be a program, and print what the README says it prints: for each word, in that order.
func TestReadmeProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs a program")
	}
	root := filepath.Join("..", "..")
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	programs := fences(string(readme), "go")
	outputs := fences(string(readme), "text")
	if len(programs) != 1 || len(outputs) < 1 {
		t.Fatalf("README.md has %d Go programs and %d outputs, want 1 program and its output first", len(programs), len(outputs))
	}
	want := map[string][]string{}
	for line := range strings.Lines(outputs[0]) {
		word := strings.Fields(line)[0]
		want[word] = append(want[word], strings.TrimSpace(line))
	}
	if len(want) < 2 {
		t.Fatalf("the README's output names %d words", len(want))
	}

	dir := t.TempDir()
	source, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "app")
	if err := os.WriteFile(source, []byte(programs[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", binary, source)
	build.Dir = root // the module's, so that its packages are found
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the README's program does not build: %v\n%s", err, out)
	}

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
	// The recipe of ci: the lines behind it that begin with a tab.
	ci := regexp.MustCompile(`(?m)^ci:.*\n((?:\t.*\n?)+)`).FindString(string(makefile))
	for _, block := range blocks {
		for line := range strings.Lines(block) {
			cmd := strings.TrimSpace(line)
			if target, ok := strings.CutPrefix(cmd, "make "); ok {
				if !strings.Contains(ci, "\t$(MAKE) "+target) {
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
