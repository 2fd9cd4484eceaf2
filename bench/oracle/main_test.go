package main

import (
	"strings"
	"testing"

	"github.com/headrace/headrace/bench/oracle/batch"
	"github.com/headrace/headrace/bench/oracle/judge"
)

func TestVerdict(t *testing.T) {
	t.Parallel()
	c := &batch.Case{Window: batch.Tumbling, Emit: batch.Close}
	same, excused, wrong := judge.Verdict{Same: true}, judge.Verdict{Rules: []string{"C58"}}, judge.Verdict{Wrong: "so"}
	run := func(vs ...judge.Verdict) *tally {
		tl := newTally()
		for i, v := range vs {
			tl.add(c, uint64(i), v)
		}
		return tl
	}
	nine := []judge.Verdict{same, same, same, same, same, same, same, same, same}
	if err := run(append(nine, excused)...).verdict(); err != nil {
		t.Errorf("one of ten is excused: %v", err)
	}
	if err := run(append(nine[:8:8], excused)...).verdict(); err == nil || !strings.Contains(err.Error(), "more than a tenth") {
		t.Errorf("one of nine is excused: %v", err)
	}
	tl := run(append(nine, wrong)...)
	if err := tl.verdict(); err == nil || tl.worst != c || tl.seed != 9 {
		t.Errorf("one is wrong: %v, seed %d", err, tl.seed)
	}
}
