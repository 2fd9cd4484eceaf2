package archtest

import (
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// sound is a small repository that obeys every rule; each test plants one fault
// in a copy of it.
var sound = map[string]string{
	architecture: `# A house
| package | may import (ours) | outside std | purpose | bans |
|---|---|---|---|---|
| ` + "`serde` | – | – | bytes | `mutex`" + ` |
| ` + "`state` | `serde` | `btree` | stores | –" + ` |
| ` + "`internal/engine` | `state` | – | steps | `channel` `sync` `mutex` `io`" + ` |
| ` + "`framework` | `state` `internal/engine` | `kgo` | runs | `http`" + ` |
| ` + "`cmd/sample-app` | `framework` | `kgo` `golang.org/x/term` | app | `internal`" + ` |
| ` + "`cmd/sample-app/verify` | – | `kgo` | checks | `internal` `ours`" + ` |

| format | version |
|---|---|
| ` + "`anything`" + ` | 1 |
`,
	"go.mod":                         "module " + module,
	"serde/serde.go":                 "// Package serde encodes.\npackage serde\nimport \"strconv\"\nvar _ = strconv.Itoa\n",
	"serde/serde_test.go":            "package serde_test\nimport _ \"github.com/google/go-cmp/cmp\"\nimport _ \"" + module + "/state\"\n",
	"state/doc.go":                   "//go:build tagged\n\n// Package state stores.\npackage state\n",
	"state/state.go":                 "package state\nimport _ \"" + module + "/serde\"\nimport _ \"github.com/tidwall/btree\"\n",
	"internal/engine/engine.go":      "// Package engine steps.\npackage engine\nimport \"time\"\nvar Tick time.Duration = time.Second\n",
	"framework/app.go":               "// Package framework runs.\npackage framework\nimport \"time\"\nimport \"log/slog\"\nfunc f() { go f(); slog.Info(time.Now().String()) }\n",
	"cmd/sample-app/main.go":         "// A program.\npackage main\nimport (\"fmt\"; \"os\"; \"golang.org/x/term\")\nfunc main() { fmt.Println(os.Getenv(\"X\"), term.IsTerminal) }\n",
	"cmd/sample-app/verify/v.go":     "// Package verify checks.\npackage verify\nimport \"github.com/twmb/franz-go/pkg/kgo\"\nvar _ kgo.Record\n",
	"bench/go.mod":                   "module bench",
	"bench/bench.go":                 "package bench\nimport _ \"example.com/x\"\nfunc f() { panic(1) }\n",
	"serde/testdata/broken.go":       "this is not Go",
	"serde/_attic/old.go":            "package old",
	".cache/gen.go":                  "package gen",
	"framework/app_internal_test.go": "package framework\nimport \"time\"\nfunc g() {\n\ttime.Sleep(1) // the bubble's clock, which costs nothing\n}\n",
}

func tree(planted map[string]string) fs.FS {
	m := fstest.MapFS{}
	all := maps.Clone(sound)
	maps.Copy(all, planted)
	for name, src := range all {
		m[name] = &fstest.MapFile{Data: []byte(src)}
	}
	return m
}

func TestSoundTreePasses(t *testing.T) {
	t.Parallel()
	found, err := check(tree(nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range found {
		t.Error(v)
	}
}

// in returns a file of pkg with the given imports and body.
func in(pkg, imports, body string) string {
	src := "package " + pkg[strings.LastIndex(pkg, "/")+1:] + "\n"
	for p := range strings.FieldsSeq(imports) {
		src += "import \"" + p + "\"\n"
	}
	return src + body + "\n"
}

func swap(old, new string) map[string]string {
	if !strings.Contains(sound[architecture], old) {
		panic("the table does not hold " + old) // a fault in the test below
	}
	return map[string]string{architecture: strings.Replace(sound[architecture], old, new, 1)}
}

func TestPlantedViolations(t *testing.T) {
	t.Parallel()
	type files = map[string]string
	file := func(name, src string) files { return files{name: src} }
	engine := func(imports, body string) files {
		return file("internal/engine/x.go", in("internal/engine", imports, body))
	}
	state := func(imports, body string) files { return file("state/x.go", in("state", imports, body)) }
	long := func(n int) string { return strings.Repeat("// a line\n\n", n) }

	tests := []struct {
		plant string
		files files
		want  []string // "rule: part of the text", one for each violation
	}{
		{"import upwards", state(module+"/framework", ""), []string{"column 2: state imports framework"}},
		{"import of a package below an allowed one", file("framework/x.go", in("framework", module+"/state/statetest", "")), []string{"column 2: framework imports state/statetest"}},
		{"import of the root package", state(module, ""), []string{"column 2: state imports ."}},
		{"import behind a build tag", file("state/x.go", "//go:build never\n\n"+in("state", module+"/framework", "")), []string{"column 2: state imports framework"}},
		{"import from outside", state("github.com/twmb/franz-go/pkg/kgo", ""), []string{"column 3: state imports github.com/twmb/franz-go/pkg/kgo"}},
		{"sibling of an allowed module", file("framework/x.go", in("framework", "github.com/twmb/franz-go/pkg/kgox", "")), []string{"column 3: framework imports"}},
		{"test library outside a test", state("github.com/google/go-cmp/cmp", ""), []string{"column 3: state imports github.com/google/go-cmp/cmp"}},
		{"module whose path begins like ours", state(module+"s/x", ""), []string{"column 3: state imports"}},
		{"dot import", file("framework/x.go", "package framework\nimport . \"time\"\nfunc h() { Sleep(1) }\n"), []string{"dot import: "}},
		{"dot import in a test", file("framework/x_test.go", "package framework\nimport . \"time\"\nfunc h() { Sleep(1) }\n"), []string{"dot import: "}},

		{"package without a row", file("extra/x.go", "// Package extra is new.\npackage extra\n"), []string{"missing row: package extra has no row"}},
		{"package of two files without a row", files{"extra/a.go": "// Package extra is new.\npackage extra\n", "extra/b.go": "package extra\n"}, []string{"missing row: package extra"}},
		{"package of tests without a row", file("extra/x_test.go", "package extra\n"), []string{"missing row: package extra has no row"}},
		{"root package without a row", file("x.go", "// Package headrace is new.\npackage headrace\n"), []string{"missing row: package . has no row"}},
		{"row without a package", swap("| `state` |", "| `ghost` | – | – | none | – |\n| `state` |"), []string{"row without package: there is a row for ghost"}},

		{"row with prose in column 2", swap("| `serde` | –", "| `serde` | as needed"), []string{"table: cell 2 of serde"}},
		{"row with prose beside names", swap("`framework` | `state` `internal/engine`", "`framework` | `state` `internal/engine` and more"), []string{"table: cell 2 of framework"}},
		{"row that allows a room without a row", swap("`framework` | `state`", "`framework` | `ghost` `state`"), []string{"table: framework may import ghost"}},
		{"row with an unknown short name", swap("`btree`", "`btrees` `btree`"), []string{"table: state may import btrees"}},
		{"row without its bans", swap("`channel` `sync` `mutex` `io`", "`channel` `sync` `io`"), []string{"table: the bans of internal/engine are"}},
		{"row with an invented ban", swap("| stores | –", "| stores | `everything`"), []string{"table: the bans of state are"}},
		{"row with too few cells", swap("| bytes | `mutex`", "| bytes"), []string{"table: a row has 5 cells, this one 4", "table: state may import serde, which has no row", "missing row: package serde"}},
		{"row for two packages", swap("| `serde` |", "| `serde` `other` |"), []string{"table: the first cell holds one package", "table: state may import serde", "missing row: package serde"}},
		{"two rows for a package", swap("| `state` |", "| `serde` | – | – | again | `mutex` |\n| `state` |"), []string{"table: serde has two rows"}},
		{"two tables", swap("| format |", "| package |"), []string{"table: a row has 5 cells, this one 2", "table: there must be one table"}},

		{"channel type", engine("", "var c chan int"), []string{"channel: channel type"}},
		{"send", engine("", "func f(x T) { x.c <- 1 }"), []string{"channel: send"}},
		{"receive", engine("", "func f(x T) { <-x.c }"), []string{"channel: receive"}},
		{"select", engine("", "func f() { select {} }"), []string{"channel: select"}},
		{"sync in the engine", engine("sync", "var o sync.Once"), []string{"sync: import of sync "}},
		{"atomics in the engine", engine("sync/atomic", "var o atomic.Int64"), []string{"sync: import of sync/atomic"}},
		{"mutex", file("serde/x.go", in("serde", "sync", "var m sync.Mutex")), []string{"mutex: sync.Mutex in serde"}},
		{"mutex under another name", file("serde/x.go", "package serde\nimport s \"sync\"\nvar m s.RWMutex\n"), []string{"mutex: sync.RWMutex in serde"}},
		{"files", engine("os", ""), []string{"io: import of os "}},
		{"file systems", engine("io/fs", ""), []string{"io: import of io/fs "}},
		{"network", engine("net/netip", ""), []string{"io: import of net/netip "}},
		{"buffered files", engine("bufio", ""), []string{"io: import of bufio "}},
		{"HTTP in the framework", file("framework/x.go", in("framework", "net/http", "")), []string{"http: import of net/http"}},
		{"Pebble in the framework", file("framework/x.go", in("framework", "github.com/cockroachdb/pebble/v2", "")), []string{"column 3: ", "http: import of github.com/cockroachdb/pebble/v2"}},
		{"Prometheus in the framework", file("framework/x.go", in("framework", "github.com/prometheus/client_golang/prometheus", "")), []string{"column 3: ", "http: import of github.com/prometheus"}},
		{"internal room in the app", file("cmd/sample-app/x.go", in("main", module+"/internal/engine", "")), []string{"column 2: ", "internal: import of " + module + "/internal/engine"}},
		{"room of ours in the checker", file("cmd/sample-app/verify/x.go", in("verify", module+"/serde", "")), []string{"column 2: ", "ours: import of " + module + "/serde"}},

		{"clock in the engine", engine("time", "func f() { _ = time.Now() }"), []string{"clock: time.Now in internal/engine"}},
		{"clock taken as a value", state("time", "var now = time.Now"), []string{"clock: time.Now in state"}},
		{"clock under another name", file("state/x.go", "package state\nimport t \"time\"\nfunc f() { t.Since(x) }\n"), []string{"clock: time.Since in state"}},
		{"sleep outside a test", engine("time", "func f() { time.Sleep(1) }"), []string{"clock: time.Sleep in internal/engine"}},
		{"timer", state("time", "var t = time.NewTimer(1)"), []string{"clock: time.NewTimer in state"}},
		{"deadline", state("context", "var c, d = context.WithTimeout(nil, 1)"), []string{"clock: context.WithTimeout in state"}},
		{"go statement", engine("", "func f() { go f() }"), []string{"goroutine: go statement in internal/engine"}},
		{"go statement in disguise", state("sync", "func f(w *sync.WaitGroup) { w.Go(nil) }"), []string{"goroutine: call of Go in state"}},
		{"callback in a goroutine", state("context", "var s = context.AfterFunc(nil, nil)"), []string{"goroutine: context.AfterFunc in state"}},
		{"print", state("fmt", "func f() { fmt.Println() }"), []string{"print: fmt.Println in state"}},
		{"print without fmt", state("", "func f() { println() }"), []string{"print: println in state"}},
		{"log", file("framework/x.go", in("framework", "log", "")), []string{"print: import of log in framework"}},
		{"environment", file("framework/x.go", in("framework", "os", "var e = os.Getenv(`X`)")), []string{"env: os.Getenv in framework"}},
		{"panic without a word", state("", "func f() { panic(1) }"), []string{"panic: panic in state"}},
		{"panic with a directive", state("", "func f() {\n\tpanic(1) //nolint\n}"), []string{"panic: panic in state"}},
		{"panic with a reason elsewhere", state("", "func f() {\n\t// the caller has checked it already\n\tpanic(1)\n}"), []string{"panic: panic in state"}},
		{"panic in a program", file("cmd/sample-app/x.go", in("main", "", "func f() { panic(1) }")), []string{"panic: panic in cmd/sample-app"}},
		{"panic with a reason", state("", "func f() {\n\tpanic(1) // the caller has checked it already\n}"), nil},

		{"sleep in a test", file("state/x_test.go", in("state", "time", "func f() { time.Sleep(1) }")), []string{"sleep: a test that sleeps"}},
		{"no package doc", file("serde/serde.go", "package serde\n"), []string{"package doc: serde has no doc comment"}},
		{"two package docs", file("serde/x.go", "// Package serde again.\npackage serde\n"), []string{"package doc: serde has a doc comment in serde/serde.go"}},
		{"licence as package doc", file("serde/serde.go", "// Copyright us.\npackage serde\n"), []string{"package doc: the doc comment of serde begins"}},
		{"path of a machine", state("", "var dir = \"/wor"+"k/main\""), []string{"machine path: "}},
		{"path of a machine in a comment", state("", "// see /roo"+"t/go"), []string{"machine path: "}},
		{"path outside the checkout", file("state/x_test.go", in("state", "", "var dir = \"../shar"+"ed/data\"")), []string{"machine path: \"../shar" + "ed\""}},
		{"words that only look like one", state("", "var a = \"cmd/work /workers net/root framework/\""), nil},
		{"long file", state("", long(600)), []string{"length: 601 lines"}},
		{"file as long as may be", state("", long(599)), nil},
		{"long test file", file("state/x_test.go", in("state", "", long(900))), []string{"length: 901 lines"}},
		{"test file as long as may be", file("state/x_test.go", in("state", "", long(899))), nil},
	}
	caught := map[string]bool{}
	for _, test := range tests {
		found, err := check(tree(test.files))
		if err != nil {
			t.Errorf("%s: %v", test.plant, err)
			continue
		}
		var got []string
		for _, v := range found {
			got = append(got, v.rule+": "+v.text)
			caught[v.rule] = true
		}
		slices.Sort(got)
		slices.Sort(test.want)
		if !slices.EqualFunc(got, test.want, strings.HasPrefix) {
			t.Errorf("%s:\n got %q\nwant %q", test.plant, got, test.want)
		}
	}
	// A ban that nothing was planted for may be a ban that finds nothing.
	for _, b := range bans {
		if !caught[b.name] {
			t.Errorf("no planted violation of the ban %q was caught", b.name)
		}
		if b.because == "" || b.instead == "" {
			t.Errorf("the ban %q gives no reason or no replacement", b.name)
		}
	}
}

func TestBansHoldWhereTheySay(t *testing.T) {
	t.Parallel()
	// The rooms in which each ban holds, of a fixed list of rooms.
	rooms := []string{
		"serde", "window", "state", "state/statetest", "internal/restore", "internal/graph", "internal/engine", "topology",
		"topology/topologytest", "framework", "devkafka", "cmd/sample-app", "cmd/sample-app/data", "cmd/sample-app/verify",
	}
	want := map[string]string{
		"channel":   "internal/engine",
		"sync":      "internal/engine",
		"mutex":     "serde window internal/graph internal/engine topology",
		"io":        "internal/engine",
		"http":      "framework",
		"internal":  "cmd/sample-app cmd/sample-app/data cmd/sample-app/verify",
		"ours":      "cmd/sample-app/verify",
		"clock":     "serde window state state/statetest internal/graph internal/engine topology topology/topologytest",
		"goroutine": "serde window state internal/graph internal/engine topology topology/topologytest",
		"print":     "serde window state state/statetest internal/restore internal/graph internal/engine topology topology/topologytest framework devkafka",
		"env":       "serde window state state/statetest internal/restore internal/graph internal/engine topology topology/topologytest framework devkafka",
		"panic":     strings.Join(rooms, " "),
	}
	for _, b := range bans {
		var got []string
		for _, pkg := range rooms {
			if b.holds(pkg) {
				got = append(got, pkg)
			}
		}
		if g := strings.Join(got, " "); g != want[b.name] {
			t.Errorf("%s holds in %q, want %q", b.name, g, want[b.name])
		}
	}
}

func TestDocumentMissing(t *testing.T) {
	t.Parallel()
	if _, err := check(fstest.MapFS{}); err == nil {
		t.Error("a repository without ARCHITECTURE.md passes")
	}
}

func TestBrokenSourceIsAnError(t *testing.T) {
	t.Parallel()
	if _, err := check(tree(map[string]string{"serde/x.go": "not Go"})); err == nil {
		t.Error("a file that does not parse passes")
	}
}
