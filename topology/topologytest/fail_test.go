package topologytest_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/topology/topologytest"
)

// recorder is a test that fails without failing this one.
type recorder struct {
	testing.TB
	failed string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatal(args ...any) {
	r.failed = fmt.Sprint(args...)
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, args ...any) { r.Fatal(fmt.Sprintf(format, args...)) }

// failing runs f as a test of its own and returns how it failed.
func failing(tt *testing.T, f func(tb testing.TB)) string {
	tt.Helper()
	r := &recorder{TB: tt}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(r)
	}()
	<-done
	return r.failed
}

func TestMistakesFailTheTest(t *testing.T) {
	t.Parallel()
	explode := func(_, _ string) { panic("boom") }
	for _, c := range []struct {
		name string
		f    func(tb testing.TB)
		want []string
	}{
		{"nothing wrong", func(tb testing.TB) {
			topologytest.Input(topologytest.New(tb, topologytest.Build(tb, visits)), clicks).Pipe(at(1), "ann", "/")
		}, nil},
		{"Build", func(tb testing.TB) { topologytest.Build(tb, topology.NewBuilder().Build) }, []string{"the topology has no source"}},
		{"New", func(tb testing.TB) {
			topologytest.New(tb, topologytest.Build(tb, visits), topologytest.Partitions(-1))
		}, []string{"cannot have -1 partitions"}},
		{"a name", func(tb testing.TB) {
			topologytest.Input(topologytest.New(tb, topologytest.Build(tb, visits)), pages)
		}, []string{"Input(pages)"}},
		{"a callback, with its stack", func(tb testing.TB) {
			b := topology.NewBuilder()
			topology.From(b, clicks).Peek(explode)
			topologytest.Input(topologytest.New(tb, topologytest.Build(tb, b.Build)), clicks).Pipe(at(1), "ann", "/")
		}, []string{"record clicks[0]@0", "panic: boom", "fail_test.go:"}},
	} {
		got := failing(t, c.f)
		if (got == "") != (c.want == nil) {
			t.Errorf("%s: failed with %q", c.name, got)
		}
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: failed with %q, which does not say %q", c.name, got, want)
			}
		}
	}
}

// Without a testing.TB there is nothing but to panic.
func TestMistakesPanicInAnExample(t *testing.T) {
	t.Parallel()
	defer func() {
		if err, ok := recover().(error); !ok || !strings.Contains(err.Error(), "Output(clicks)") {
			t.Errorf("recovered %v", err)
		}
	}()
	topologytest.Output(topologytest.New(nil, topologytest.Build(nil, visits)), clicks)
}

// A topology may be driven by many tests at the same time.
func TestTopologyIsShared(t *testing.T) {
	t.Parallel()
	top := topologytest.Build(t, visits)
	for i := range 4 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			d := topologytest.New(t, top, topologytest.Partitions(i+1))
			in, out := topologytest.Input(d, clicks), topologytest.Output(d, counts)
			for n := range 50 {
				in.Pipe(at(int64(n)), "ann", "/")
				if r := out.Read(); r.Value != int64(n+1) {
					t.Fatalf("click %d counted as %v", n+1, r)
				}
			}
		})
	}
}
