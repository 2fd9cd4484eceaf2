package judge_test

import (
	"bufio"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/bench/oracle/batch"
	"github.com/headrace/headrace/bench/oracle/draw"
	"github.com/headrace/headrace/bench/oracle/judge"
	"github.com/headrace/headrace/bench/oracle/ours"
)

// pinned is a case with what Kafka Streams 4.4.0 has answered, and the rules that it takes if that is wrong.
type pinned struct {
	Name  string
	Rules []string
	Case  *batch.Case
	Kafka batch.Answer
}

func load(t *testing.T) []pinned {
	t.Helper()
	f, err := os.Open("testdata/kafka-streams.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []pinned
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var p pinned
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

func right(c *batch.Case) batch.Answer { return batch.Run(c, batch.Quirks{}) }

func TestWhatKafkaStreamsAnswers(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, p := range load(t) {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			v := judge.Case(p.Case, right(p.Case), p.Kafka)
			if v.Wrong != "" {
				t.Fatal(v.Wrong)
			}
			if diff := cmp.Diff(p.Rules, append([]string{}, v.Rules...)); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
			if v.Same != (len(p.Rules) == 0) {
				t.Errorf("same: %v", v.Same)
			}
		})
		for _, r := range p.Rules {
			used[r] = true
		}
	}
	for _, r := range judge.Rules {
		if !used[r.ID] {
			t.Errorf("no case shows rule %s", r.ID)
		}
	}
}

// This library gives the right answers to the pinned cases, too.
func TestOurAnswers(t *testing.T) {
	t.Parallel()
	kinds := map[string]bool{}
	for _, k := range draw.Kinds {
		kinds[string(k.Window)] = true
	}
	for _, p := range load(t) {
		if !kinds[string(p.Case.Window)] {
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			mine, err := ours.Answer(p.Case)
			if err != nil {
				t.Fatal(err)
			}
			if v := judge.Case(p.Case, mine, p.Kafka); v.Wrong != "" {
				t.Error(v.Wrong)
			}
		})
	}
}

// breakages are small faults. Each returns false if the answer has no place for it.
var breakages = map[string]func(c *batch.Case, a *batch.Answer) bool{
	"value":     func(_ *batch.Case, a *batch.Answer) bool { return first(a, func(r *batch.Result) { r.Value++ }) },
	"time":      func(_ *batch.Case, a *batch.Answer) bool { return first(a, func(r *batch.Result) { r.Time++ }) },
	"start":     func(_ *batch.Case, a *batch.Answer) bool { return first(a, func(r *batch.Result) { r.Start-- }) },
	"end":       func(_ *batch.Case, a *batch.Answer) bool { return first(a, func(r *batch.Result) { r.End++ }) },
	"key":       func(_ *batch.Case, a *batch.Answer) bool { return first(a, func(r *batch.Result) { r.Key += "x" }) },
	"tombstone": func(_ *batch.Case, a *batch.Answer) bool { return first(a, func(r *batch.Result) { r.Null = !r.Null }) },
	"lost": func(_ *batch.Case, a *batch.Answer) bool {
		return last(a, func(i int) { a.Out[i] = a.Out[i][:len(a.Out[i])-1] })
	},
	"twice": func(_ *batch.Case, a *batch.Answer) bool {
		return last(a, func(i int) { a.Out[i] = append(a.Out[i], a.Out[i][len(a.Out[i])-1]) })
	},
	"order": func(_ *batch.Case, a *batch.Answer) bool {
		i := slices.IndexFunc(a.Out, func(rs []batch.Result) bool { return len(rs) > 1 && rs[0] != rs[1] })
		if i < 0 {
			return false
		}
		a.Out[i][0], a.Out[i][1] = a.Out[i][1], a.Out[i][0]
		return true
	},
	"a record later": func(_ *batch.Case, a *batch.Answer) bool {
		for i := range len(a.Out) - 1 {
			if len(a.Out[i]) > 0 {
				a.Out[i+1] = append([]batch.Result{a.Out[i][len(a.Out[i])-1]}, a.Out[i+1]...)
				a.Out[i] = a.Out[i][:len(a.Out[i])-1]
				return true
			}
		}
		return false
	},
	"not counted": func(c *batch.Case, a *batch.Answer) bool {
		a.Dropped--
		return c.Window != batch.Sliding
	},
}

func first(a *batch.Answer, f func(*batch.Result)) bool {
	for i := range a.Out {
		if len(a.Out[i]) > 0 {
			f(&a.Out[i][0])
			return true
		}
	}
	return false
}

func last(a *batch.Answer, f func(i int)) bool {
	for i := len(a.Out) - 1; i >= 0; i-- {
		if len(a.Out[i]) > 0 {
			f(i)
			return true
		}
	}
	return false
}

func clone(a batch.Answer) batch.Answer {
	b := batch.Answer{Dropped: a.Dropped}
	for _, rs := range a.Out {
		b.Out = append(b.Out, slices.Clone(rs))
	}
	return b
}

// What is wrong beside what a rule excuses is reported: in our answer, in that of Kafka Streams, and in both alike.
func TestNothingElseIsExcused(t *testing.T) {
	t.Parallel()
	const seed, cases = 1000, 1500
	met := map[string]int{}
	for s := uint64(seed); s < seed+cases; s++ {
		c := draw.Case(s)
		mine, kafka := right(c), batch.Run(c, batch.All())
		v := judge.Case(c, mine, kafka)
		if v.Wrong != "" {
			t.Fatalf("seed %d: %s", s, v.Wrong)
		}
		for name, broken := range breakages {
			for _, who := range []string{"ours", "kafka", "both"} {
				m, k := clone(mine), clone(kafka)
				found := false
				if who != "kafka" {
					found = broken(c, &m)
				}
				if who != "ours" {
					found = broken(c, &k) || found
				}
				if !found || (who == "kafka" && draw.Same(k, mine)) || (who == "ours" && draw.Same(m, mine)) {
					continue // a fault that makes a wrong answer the right one is none
				}
				if who == "both" && draw.Same(k, kafka) {
					continue
				}
				if v := judge.Case(c, m, k); v.Wrong == "" {
					t.Errorf("seed %d: %s broken in %s is excused by %v\n%s", s, name, who, v.Rules, c)
				}
				met[who+" "+name]++
				if !v.Same {
					met[who+" "+name+", excused otherwise"]++
				}
			}
		}
	}
	for name := range breakages {
		for _, who := range []string{"ours", "kafka", "both"} {
			for _, excused := range []string{"", ", excused otherwise"} {
				if met[who+" "+name+excused] == 0 {
					t.Errorf("no case for %s broken in %s%s", name, who, excused)
				}
			}
		}
	}
}

// A rule excuses nothing where its condition is not met.
func TestARuleNeedsItsCondition(t *testing.T) {
	t.Parallel()
	for _, p := range load(t) {
		if len(p.Rules) == 0 {
			continue
		}
		mine := right(p.Case)
		if v := judge.Case(p.Case, p.Kafka, mine); v.Wrong == "" || !strings.HasPrefix(v.Wrong, "Kafka Streams is right") {
			t.Errorf("%s: if it were ours that is wrong: %+v", p.Name, v)
		}
		if v := judge.Case(p.Case, p.Kafka, p.Kafka); !strings.HasPrefix(v.Wrong, "both answers differ from the batch") {
			t.Errorf("%s: if both were wrong: %+v", p.Name, v)
		}
	}
}
