package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// path is a hot path, and the benchmarks that run it. The number of times is fixed, so that what grows once weighs the same each time.
type path struct {
	what  string
	dir   string // of a module, from the root of the repository
	pkg   string
	bench string
	times string
}

var paths = []path{
	{"serdes", "bench", "./ops", "^BenchmarkSerde", "100000x"},
	{"Avro serde", ".", "./serde/avro", "^Benchmark(Append|Decode|DecodeAll)$", "10000x"},
	{"window assignment and windowed keys", ".", "./window", "^Benchmark(Starts|KeySerde)$", "100000x"},
	{"overlay and typed views", ".", "./state", "^Benchmark(Txn|TxnWritten|TxnWindows|KeyValueView)$", "100000x"},
	{"overlay: ranges", ".", "./state", "^BenchmarkTxnScan$", "2000x"},
	{"backend in memory: apply", ".", "./state", "^BenchmarkMemoryRestore$", "200000x"},
	{"backends: get, and apply of a batch", ".", "./state/pebblestore", "^Benchmark(Get|GetAbsent|Apply)$", "3000x"},
	{"backends: ranges", ".", "./state/pebblestore", "^BenchmarkScan$", "2000x"},
	{"head decode, operator chain, output encoding", ".", "./topology", "^BenchmarkStatelessZeroAlloc$", "200000x"},
	{"the same with a store", ".", "./topology", "^Benchmark(Count|WindowedCount|WindowedCountOnClose)$", "200000x"},
	{"timers of processors, and what Suppress keeps back", ".", "./topology", "^Benchmark(TimersPutOff|TimersFire|Suppress)$", "200000x"},
	{"step machine", ".", "./internal/engine", "^Benchmark(StepZeroAlloc|Queue)$", "200000x"},
	{"changelog encoding and decoding", "bench", "./ops", "^BenchmarkChangelog", "100000x"},
	{"restore", ".", "./internal/restore", "^BenchmarkRestore$", "50000x"},
	{"a whole app, with the client and the hand-over to its producer", "bench", "./ops", "^BenchmarkApp$", "1x"},
}

func main() {
	file := flag.String("file", "bench/allocations.txt", "the figures")
	update := flag.Bool("update", false, "write the figures in place of comparing them")
	flag.Parse()
	if err := run(*file, *update); err != nil {
		fmt.Fprintln(os.Stderr, "bench-ops:", err)
		os.Exit(1)
	}
}

func run(file string, update bool) error {
	var got []figure
	for _, p := range append(paths, promises()...) {
		fs, err := measure(p)
		if err != nil {
			return err
		}
		fmt.Printf("%s\n", p.what)
		for _, f := range fs {
			fmt.Printf("  %s\n", f.line)
		}
		got = append(got, fs...)
	}
	if update {
		return os.WriteFile(file, []byte(text(got)), 0o644)
	}
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	want, err := parseFigures(string(old))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	worse, notes := compare(want, got)
	for _, n := range notes {
		fmt.Println("note:", n)
	}
	for _, w := range worse {
		fmt.Println("worse:", w)
	}
	fmt.Printf("bench-ops: %d benchmarks, %d of them allocate more than %s says\n", len(got), len(worse), file)
	if len(worse) > 0 {
		return errors.New("find out why, or, if it is worth it, run make bench-ops UPDATE=1 and say so in the commit")
	}
	return nil
}

// promises are the benchmarks anywhere whose names promise that they allocate nothing, but for those that are in paths.
func promises() []path {
	var found []path
	_ = filepath.WalkDir(".", func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "bench") {
			return nil // what cannot be read here does not compile either
		}
		text, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(text, []byte("ZeroAlloc(b *testing.B)")) {
			return nil
		}
		pkg := "./" + filepath.ToSlash(filepath.Dir(name))
		for _, p := range append(paths, found...) {
			if p.pkg == pkg && strings.Contains(p.bench, "ZeroAlloc") {
				return nil
			}
		}
		found = append(found, path{"promised to allocate nothing: " + pkg, ".", pkg, "ZeroAlloc", "2000x"})
		return nil
	})
	return found
}

func measure(p path) ([]figure, error) {
	cmd := exec.Command("go", "test", "-run", "^$", "-bench", p.bench, "-benchmem", "-benchtime", p.times, p.pkg)
	cmd.Dir = p.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w\n%s", p.what, cmd, err, out)
	}
	fs, err := parseBench(p.pkg, string(out))
	if err != nil {
		return nil, err
	}
	if len(fs) == 0 {
		return nil, fmt.Errorf("%s: there is no benchmark %s in %s", p.what, p.bench, p.pkg)
	}
	return fs, nil
}
