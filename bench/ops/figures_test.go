package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const output = `goos: linux
pkg: github.com/headrace/headrace/state
BenchmarkTxn/commit=100-2  	 100000	 6382 ns/op	 473 B/op	 1 allocs/op
BenchmarkApp-2  	 1	 63820 ns/op	 12.25 B/record	 0.125 allocs/record	 473000 B/op	 10000 allocs/op
PASS
`

func parsed(t *testing.T, out string) []figure {
	t.Helper()
	fs, err := parseBench("./state", out)
	if err != nil {
		t.Fatal(err)
	}
	return fs
}

func TestFiguresSurviveTheFile(t *testing.T) {
	t.Parallel()
	got := parsed(t, output)
	want := []figure{
		{name: "./state Txn/commit=100", bytes: 473, allocs: 1},
		{name: "./state App", bytes: 12.25, allocs: 0.125}, // by the record, where that is told
	}
	for i := range got {
		got[i].line = ""
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(figure{})); diff != "" {
		t.Errorf("parsed (-want +got):\n%s", diff)
	}
	back, err := parseFigures(text(got))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, back, cmp.AllowUnexported(figure{})); diff != "" {
		t.Errorf("from the file (-want +got):\n%s", diff)
	}
	if _, err := parseBench("./state", "BenchmarkTxn-2 100 5 ns/op\n"); err == nil {
		t.Error("a benchmark without allocations was taken")
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		want, got   figure
		worse, note string
	}{
		"the same":                 {figure{name: "a", bytes: 100, allocs: 1}, figure{name: "a", bytes: 100, allocs: 1}, "", ""},
		"Pebble's background":      {figure{name: "p Apply/pebble", bytes: 10000, allocs: 20}, figure{name: "p Apply/pebble", bytes: 21000, allocs: 40}, "", ""},
		"one for each change":      {figure{name: "p Apply/pebble", bytes: 10000, allocs: 20}, figure{name: "p Apply/pebble", bytes: 21000, allocs: 1020}, "p Apply/pebble: 1020 allocs, were 20", ""},
		"a little more bytes":      {figure{name: "a", bytes: 100, allocs: 1}, figure{name: "a", bytes: 140, allocs: 1}, "", ""},
		"more bytes":               {figure{name: "a", bytes: 1000, allocs: 1}, figure{name: "a", bytes: 1300, allocs: 1}, "a: 1300 B, were 1000", ""},
		"one allocation more":      {figure{name: "a", allocs: 0}, figure{name: "a", allocs: 1}, "a: 1 allocs, were 0", ""},
		"one in four records":      {figure{name: "a", allocs: 0.1}, figure{name: "a", allocs: 0.35}, "a: 0.35 allocs, were 0.1", ""},
		"many, and a few more":     {figure{name: "a", allocs: 1000}, figure{name: "a", allocs: 1050}, "", ""},
		"better":                   {figure{name: "a", bytes: 1000, allocs: 10}, figure{name: "a", bytes: 900, allocs: 5}, "", "a is better"},
		"new":                      {figure{name: "a"}, figure{name: "b"}, "b: the file does not have it", ""},
		"a promise that is broken": {figure{name: "aZeroAlloc/x", allocs: 1}, figure{name: "aZeroAlloc/x", allocs: 1}, "its name promises none", ""},
	} {
		worse, notes := compare([]figure{c.want}, []figure{c.got})
		if got := strings.Join(worse, "\n"); !strings.Contains(got, c.worse) || (c.worse == "") != (got == "") {
			t.Errorf("%s: worse %q, want %q", name, got, c.worse)
		}
		if got := strings.Join(notes, "\n"); !strings.Contains(got, c.note) || (c.note == "") != (got == "") {
			t.Errorf("%s: notes %q, want %q", name, got, c.note)
		}
	}
	if worse, _ := compare([]figure{{name: "gone"}}, nil); len(worse) != 1 {
		t.Errorf("a benchmark that did not run: %q", worse)
	}
}
