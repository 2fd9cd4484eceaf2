package topology_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/topology/topologytest"
	"github.com/headrace/headrace/window"
)

var dead = topology.Topic("dead", str, str)

// letters reads the dead letters, as key:value@time and their headers.
func letters(tt *testing.T, d *topologytest.Driver) (lines []string, headers []map[string]string) {
	tt.Helper()
	for _, r := range topologytest.Output(d, dead).All() {
		key, value := r.Key, r.Value
		if r.NullKey {
			key = "null"
		}
		if r.Null {
			value = "null"
		}
		lines = append(lines, fmt.Sprintf("%s:%s@%d", key, value, r.Time.UnixMilli()))
		h := map[string]string{}
		for _, kv := range r.Headers {
			h[strings.TrimPrefix(kv.Key, "__streams.errors.")] = string(kv.Value)
		}
		headers = append(headers, h)
	}
	return lines, headers
}

// The most specific policy holds: the failing operator's, else the application's.
func TestTheMostSpecificPolicyHolds(tt *testing.T) {
	tt.Parallel()
	fail := func(r topology.Record[string, string], emit func(string, string) error) error {
		if err := failing(r.Value); err != nil {
			return fmt.Errorf("wrapped: %w", err)
		}
		return emit(r.Key, r.Value)
	}
	for name, c := range map[string]struct {
		operator, app topology.ErrorPolicy
		letters       []string
		counts        map[string]int64
		fails         bool
	}{
		"nobody says anything":         {fails: true},
		"the application skips":        {app: topology.Skip(), counts: map[string]int64{"failed": 1}},
		"the operator skips":           {operator: topology.Skip(), counts: map[string]int64{"failed": 1}},
		"the operator fails":           {operator: topology.Fail(), app: topology.Skip(), fails: true},
		"the application's letters":    {app: topology.DeadLetter("dead"), letters: []string{"a:error@2"}, counts: map[string]int64{"failed": 1}},
		"the operator's letters":       {operator: topology.DeadLetter("dead"), app: topology.Fail(), letters: []string{"a:error@2"}, counts: map[string]int64{"failed": 1}},
		"the operator's, not the apps": {operator: topology.Skip(), app: topology.DeadLetter("dead"), counts: map[string]int64{"failed": 1}},
	} {
		tt.Run(name, func(tt *testing.T) {
			tt.Parallel()
			sc := run(tt, outStrings, func(b *topology.Builder) {
				topology.FlatMap(topology.From(b, s), fail).OnError(c.operator).To(outStrings)
			}, topologytest.OnError(c.app))
			sc.in("a:ok@1", "a:ok@1")
			err := sc.d.Try(func() { sc.pipe("a:error@2") })
			if c.fails {
				if err == nil || !strings.Contains(err.Error(), "s[0]@1") {
					tt.Fatalf("got %v, want an error for s[0]@1", err)
				}
				return
			}
			if err != nil {
				tt.Fatal(err)
			}
			sc.wants("the bad one is left out")
			sc.in("a:ok@3", "a:ok@3")
			sc.counts(c.counts)
			if c.letters == nil {
				return
			}
			got, headers := letters(tt, sc.d)
			if diff := cmp.Diff(c.letters, got); diff != "" {
				tt.Fatalf("dead letters (-want +got):\n%s", diff)
			}
			h := headers[0]
			if !strings.Contains(h["message"], "wrapped: oh no") || h["exception"] != "*errors.errorString" || h["topic"] != "s" || h["partition"] != "0" || h["offset"] != "1" {
				tt.Errorf("headers %v", h)
			}
			if _, has := h["stacktrace"]; has {
				tt.Error("there is a stack in the headers that nobody asked for")
			}
		})
	}
}

// A dead letter is the record as the task read it, though operators have made another one of it by then, and what failed was a panic
// after a write and an output.
func TestADeadLetterIsTheRecordAsItWasRead(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, outStrings, func(b *topology.Builder) {
		topology.Process(topology.From(b, s), "clumsy", func() *clumsy { return &clumsy{fail: failing} }, seen).
			OnError(topology.DeadLetter("dead").WithStack()).To(outStrings)
	})
	in := topologytest.Input(sc.d, s)
	in.Pipe(at(1), "a", "ok")
	in.Pipe(at(5), "a", "panic", topology.Header{Key: "trace", Value: []byte("1")})
	sc.wants("the good one", "a:ok0@0", "a:ok1@0")
	if diff := cmp.Diff(map[string]int64{"a": 1, "all": 1}, stored(tt, sc.d)); diff != "" {
		tt.Errorf("store (-want +got):\n%s", diff)
	}
	got, headers := letters(tt, sc.d)
	if diff := cmp.Diff([]string{"a:panic@5"}, got); diff != "" {
		tt.Fatalf("dead letters (-want +got):\n%s", diff)
	}
	h := headers[0]
	if h["trace"] != "1" || h["exception"] != "panic" || !strings.Contains(h["stacktrace"], "atomic_test.go") {
		tt.Errorf("headers %v", h)
	}
}

// Where a topic is read its policy is for what cannot be decoded, and not for what operators do.
func TestATopicsPolicyIsForReadingIt(tt *testing.T) {
	tt.Parallel()
	numbers := topology.Topic("s", str, i64).OnError(topology.DeadLetter("dead"))
	sc := run(tt, outStrings, func(b *topology.Builder) {
		topology.MapValues(topology.From(b, numbers), func(n int64) string {
			if n == 13 {
				panic("unlucky")
			}
			return fmt.Sprint(n)
		}).To(outStrings)
	})
	in := topologytest.Input(sc.d, numbers)
	in.PipeRaw(0, at(1), []byte("a"), []byte("what?"))
	in.Pipe(at(2), "a", 7)
	sc.wants("the good one", "a:7@2")
	got, _ := letters(tt, sc.d)
	if diff := cmp.Diff([]string{"a:what?@1"}, got); diff != "" {
		tt.Errorf("dead letters (-want +got):\n%s", diff)
	}
	sc.counts(map[string]int64{"undecodable": 1})
	if err := sc.d.Try(func() { in.Pipe(at(3), "a", 13) }); err == nil || !strings.Contains(err.Error(), "unlucky") {
		tt.Errorf("got %v, want the operator's error: the topic's policy is not its own", err)
	}
}

// A window whose result fails when it closes has no record: its dead letter says what happened, and the window is gone.
func TestADeadLetterOfAWindow(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, outCounts, func(b *topology.Builder) {
		counts := topology.Count(topology.Windowed(topology.From(b, s).GroupByKey(), tumbling10, dropLate), "count", topology.EmitOnClose())
		topology.Map(counts.Stream(), func(k window.Key[string], n int64) (string, int64) {
			if k.Key == "bad" {
				panic("oh no")
			}
			return k.Key, n
		}).OnError(topology.DeadLetter("dead")).To(outCounts)
	})
	sc.in("bad:x@1")
	sc.in("good:x@2")
	sc.in("good:x@20", "good:1@2")
	got, headers := letters(tt, sc.d)
	if len(got) != 1 || !strings.HasPrefix(got[0], "null:null@") || headers[0]["topic"] != "" || !strings.Contains(headers[0]["message"], "oh no") {
		tt.Errorf("dead letters %v with %v, want one without a record, with the error", got, headers)
	}
	sc.counts(map[string]int64{"failed": 1})
	sc.in("good:x@30", "good:1@20")
}

// Dead letters are like outputs: nothing of them is there before the commit, and after a crash they are written once.
func TestDeadLettersAreInTheTransaction(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, outStrings, func(b *topology.Builder) {
		topology.FlatMap(topology.From(b, s), func(r topology.Record[string, string], emit func(string, string) error) error {
			return errors.Join(emit(r.Key, r.Value), failing(r.Value))
		}).To(outStrings)
	}, topologytest.OnError(topology.DeadLetter("dead")), topologytest.Manual())
	sc.pipe("a:error@1")
	sc.pipe("a:ok@2")
	sc.d.Run()
	if got, _ := letters(tt, sc.d); len(got) != 0 {
		tt.Errorf("before the commit there are dead letters %v", got)
	}
	sc.d.Crash()
	sc.d.Run()
	sc.d.Commit()
	got, _ := letters(tt, sc.d)
	if diff := cmp.Diff([]string{"a:error@1"}, got); diff != "" {
		tt.Errorf("dead letters (-want +got):\n%s", diff)
	}
}

func TestDeadLettersMayNotComeInAgain(tt *testing.T) {
	tt.Parallel()
	b := topology.NewBuilder()
	topology.From(b, s.OnError(topology.DeadLetter("s"))).To(outStrings.OnError(topology.DeadLetter("not a topic")))
	_, err := b.Build()
	for _, want := range []string{"policy_test.go", "dead letters go to topic s", "use another topic", `dead-letter topic "not a topic"`, "letters, digits"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			tt.Errorf("got %v, want %q", err, want)
		}
	}
}
