package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/cmd/sample-app/exercise"
)

// The tables and the picture of docs/time.md are what the experiment gives.
func TestDocsTimeIsWhatTheExerciseGives(t *testing.T) {
	t.Parallel()
	runs, _, err := exercise.Plan(exercise.Worked(), exercise.Default(), -1)
	if err != nil {
		t.Fatal(err)
	}
	outcomes, err := runExercise(t.Context(), runs, exerciseOptions{Setup: exercise.Default()}, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	var picture bytes.Buffer
	if err := figureOf(outcomes).SVG(&picture); err != nil {
		t.Fatal(err)
	}
	generated(t, "exercise.svg", func(string) string { return picture.String() })
	generated(t, "time.md", func(text string) string {
		for i, g := range tablesOf(outcomes) {
			begin, end := fmt.Sprintf("<!-- generated: exercise %d -->\n", i+1), fmt.Sprintf("<!-- end: exercise %d -->\n", i+1)
			head, rest, ok := strings.Cut(text, begin)
			_, tail, ok2 := strings.Cut(rest, end)
			if !ok || !ok2 {
				t.Fatalf("docs/time.md has no place for table %d: want %q, and %q behind it", i+1, begin, end)
			}
			text = head + begin + "\n" + g.markdown() + "\n" + end + tail
		}
		return text
	})
}

// generated holds a document to what is generated of it.
func generated(t *testing.T, name string, fresh func(text string) string) {
	t.Helper()
	file := filepath.Join("..", "..", "docs", name)
	text, err := os.ReadFile(file)
	if err != nil && !*update {
		t.Fatal(err)
	}
	want := fresh(string(text))
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("docs/%s is stale: go test ./cmd/sample-app -run %s -update (-want +got):\n%s", name, t.Name(), diff)
	}
}

// markdown writes the table for a document.
func (g *grid) markdown() string {
	var b strings.Builder
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line(g.head)
	fmt.Fprintf(&b, "|%s\n", strings.Repeat("---|", len(g.head)))
	for _, r := range g.rows {
		line(r)
	}
	return b.String()
}
