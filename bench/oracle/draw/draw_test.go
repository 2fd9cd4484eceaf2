package draw_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/bench/oracle/batch"
	"github.com/headrace/headrace/bench/oracle/draw"
)

// Of each kind, at most a tenth of the cases are such that Kafka Streams is known to be wrong, in runs of every length.
func TestMostCasesNeedNoExcuse(t *testing.T) {
	t.Parallel()
	kinds := uint64(len(draw.Kinds))
	excused, wrong := make([]int, kinds), 0
	for seed := uint64(0); seed < 150*kinds; seed++ {
		c, kind := draw.Case(seed), seed%kinds
		if !draw.Same(batch.Run(c, batch.Quirks{}), batch.Run(c, batch.All())) {
			excused[kind]++
			wrong++
		}
		if n := int(seed/kinds) + 1; excused[kind]*10 > n {
			t.Fatalf("%s: %d of the first %d cases need an excuse", c.Kind(), excused[kind], n)
		}
	}
	if wrong < int(kinds) {
		t.Errorf("only %d of %d cases need an excuse: the rules are hardly tried", wrong, 150*kinds)
	}
}

// The draw meets what it is for.
func TestCoverage(t *testing.T) {
	t.Parallel()
	met := map[string]int{}
	for seed := range uint64(2000) {
		c := draw.Case(seed)
		if diff := cmp.Diff(c, draw.Case(seed)); diff != "" {
			t.Fatalf("seed %d gives two cases:\n%s", seed, diff)
		}
		a := batch.Run(c, batch.Quirks{})
		var w int64
		nulls := 0
		for i, r := range c.In {
			switch {
			case r.NullKey:
				met["null key"]++
				nulls++
			case r.Null:
				met["null value"]++
				nulls++
			case r.Time < w:
				met["out of order"]++
			case r.Time == w:
				met["at the time"]++
			case r.Time > w+50_000_000:
				met["jump of a day"]++
			}
			w = max(w, r.Time)
			for _, o := range a.Out[i] {
				met[string(c.Window)+" "+string(c.Emit)+" results"]++
				if o.Null {
					met["tombstones"]++
				}
			}
		}
		if int(a.Dropped) > nulls {
			met[string(c.Window)+" late"]++
		}
	}
	want := []string{"null key", "null value", "out of order", "at the time", "jump of a day"}
	for _, k := range draw.Kinds {
		want = append(want, string(k.Window)+" "+string(k.Emit)+" results")
		if k.Window != batch.Sliding {
			want = append(want, string(k.Window)+" late")
		}
		if k.Window == batch.Session {
			want = append(want, "tombstones")
		}
	}
	for _, name := range want {
		if met[name] < 20 {
			t.Errorf("%s: %d", name, met[name])
		}
	}
}

// Every smaller case is smaller, or plainer, so that shrinking ends.
func TestSmaller(t *testing.T) {
	t.Parallel()
	weight := func(c *batch.Case) int {
		n := len(c.In) * 1000
		if c.Grace > 0 {
			n++
		}
		if c.Fold == batch.Sum {
			n++
		}
		for _, r := range c.In {
			if r.Key != "a" && !r.NullKey {
				n++
			}
			if r.Value > 1 {
				n++
			}
			if r.Null || r.NullKey {
				n += 10
			}
		}
		return n
	}
	for seed := range uint64(200) {
		c := draw.Case(seed)
		for _, d := range draw.Smaller(c) {
			if weight(d) >= weight(c) {
				t.Fatalf("seed %d: %s is not smaller than %s", seed, d, c)
			}
		}
	}
}
