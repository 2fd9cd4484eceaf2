// Package draw makes cases from seeds, and smaller ones of a case.
package draw

import (
	"math/rand/v2"
	"slices"

	"github.com/headrace/headrace/bench/oracle/batch"
)

// Kinds are the windows and the emissions that are drawn, one after the other.
var Kinds = []struct {
	Window batch.Window
	Emit   batch.Emit
}{
	{batch.Tumbling, batch.Update},
	{batch.Tumbling, batch.Close},
	{batch.Tumbling, batch.Final},
	{batch.Tumbling, batch.Suppress},
	{batch.Hopping, batch.Update},
	{batch.Hopping, batch.Close},
	{batch.Hopping, batch.Final},
	{batch.Hopping, batch.Suppress},
	{batch.Sliding, batch.Update},
	{batch.Sliding, batch.Close},
	{batch.Sliding, batch.Final},
	{batch.Sliding, batch.Suppress},
	{batch.Session, batch.Update},
	{batch.Session, batch.Close},
	{batch.Session, batch.Final},
	{batch.Session, batch.Suppress},
}

// forever is a retention under which Kafka Streams hides nothing.
const forever = 1 << 42

// Case is the case of a seed. One of twelve of a kind may be one that Kafka Streams is known to answer otherwise; the others are drawn
// until they are not, so that most of what is compared needs no excuse.
func Case(seed uint64) *batch.Case {
	kinds := uint64(len(Kinds))
	wild := seed/kinds%12 == 11
	rng := rand.New(rand.NewPCG(seed, 1))
	for {
		c := one(rng, wild)
		c.Window, c.Emit = Kinds[seed%kinds].Window, Kinds[seed%kinds].Emit
		shape(rng, c)
		input(rng, c, wild)
		if wild || Same(batch.Run(c, batch.Quirks{}), batch.Run(c, batch.All())) {
			return c
		}
	}
}

// Same compares two answers.
func Same(a, b batch.Answer) bool {
	return a.Dropped == b.Dropped && slices.EqualFunc(a.Out, b.Out, slices.Equal)
}

func one(rng *rand.Rand, wild bool) *batch.Case {
	c := &batch.Case{Fold: batch.Count, Retention: forever}
	if rng.IntN(2) == 0 {
		c.Fold = batch.Sum
	}
	if wild && rng.IntN(2) == 0 {
		c.Retention = 0
	}
	return c
}

// shape draws the window: small numbers, so that boundaries are met, times a unit.
func shape(rng *rand.Rand, c *batch.Case) {
	unit := []int64{1, 1, 1, 7, 1000, 60_000}[rng.IntN(6)]
	some := func(n int64) int64 { return (1 + rng.Int64N(n)) * unit }
	switch c.Window {
	case batch.Tumbling:
		c.Size = some(12)
		c.Advance = c.Size
	case batch.Hopping:
		c.Size = some(12)
		c.Advance = 1 + rng.Int64N(c.Size)
		if c.Size/c.Advance > 8 {
			c.Advance = max(1, c.Size/(1+rng.Int64N(8))) // else there are too many windows
		}
	case batch.Sliding:
		c.Diff = some(12)
	case batch.Session:
		c.Gap = some(8)
	}
	if rng.IntN(3) > 0 {
		c.Grace = rng.Int64N(2 * Span(c))
		if rng.IntN(2) == 0 {
			c.Grace = some(12)
		}
	}
}

var keys = []string{"a", "b", "ab", "c"}

// input draws a walk through time: with records out of order, late ones, ones at boundaries, jumps, nulls.
func input(rng *rand.Rand, c *batch.Case, wild bool) {
	span, used := Span(c), keys[:1+rng.IntN(len(keys))]
	var now int64
	switch rng.IntN(3) {
	case 0:
		now = rng.Int64N(2 * span)
	case 1:
		now = 1_700_000_000_000 + rng.Int64N(span)
	}
	nulls := wild || rng.IntN(6) == 0
	// In bursts, sessions begin and end together: so they are over at the same record, whatever is added to their end.
	bursts := c.Window == batch.Session && c.Emit != batch.Update && (!wild || rng.IntN(2) == 0)
	first := now
	c.In = nil
	for range 1 + rng.IntN(30) {
		t := now
		switch step := rng.IntN(16); {
		case bursts && step < 2:
			t = now + 2*c.Gap + c.Grace + span + rng.Int64N(10*span)
			first = t
		case bursts:
			t = first + rng.Int64N(c.Gap+c.Grace+1)
		case step < 4:
			t += rng.Int64N(span/2 + 1)
		case step < 5: // the same
		case step < 6:
			t += span
		case step < 7:
			t = (t/span + 1) * span
		case step < 8:
			t += rng.Int64N(3*span) + 1
		case step < 9 && rng.IntN(3) == 0:
			t += 86_400_000 + rng.Int64N(span)
		case step < 12:
			t -= rng.Int64N(span + c.Grace + 1)
		case step < 13:
			t -= rng.Int64N(3*span + c.Grace + 1)
		case step < 14: // around where it begins to be late
			t += rng.Int64N(3) - 1 - c.Grace
		case step < 15:
			t += rng.Int64N(3) - 1 - c.Grace - span
		default:
			if n := len(c.In); n > 0 { // at the border of a window or session of another record
				t = c.In[rng.IntN(n)].Time + (rng.Int64N(3)-1)*span + rng.Int64N(3) - 1
			}
		}
		r := batch.Record{Key: used[rng.IntN(len(used))], Value: rng.Int64N(100), Time: max(0, t)}
		if nulls && rng.IntN(6) == 0 {
			r.Null = rng.IntN(2) == 0
			r.NullKey = !r.Null
			if r.Null {
				r.Value = 0
			}
			if !wild {
				r.Time = min(r.Time, now)
			}
		}
		now = max(now, r.Time)
		c.In = append(c.In, r)
	}
}

// Span is the length of a window, or the gap of a session.
func Span(c *batch.Case) int64 { return max(c.Size, c.Diff, c.Gap) }

// Smaller makes cases with less in them, the smallest first: those of which one shows the same as the case are the way to the core of
// what is wrong.
func Smaller(c *batch.Case) []*batch.Case {
	var out []*batch.Case
	without := func(i, n int) {
		d := *c
		d.In = slices.Delete(slices.Clone(c.In), i, i+n)
		out = append(out, &d)
	}
	for n := len(c.In) / 2; n > 0; n /= 2 {
		for i := 0; i+n <= len(c.In); i += n {
			without(i, n)
		}
	}
	change := func(f func(*batch.Case)) {
		d := *c
		d.In = slices.Clone(c.In)
		f(&d)
		out = append(out, &d)
	}
	if c.Grace > 0 {
		change(func(d *batch.Case) { d.Grace = 0 })
	}
	if c.Fold == batch.Sum {
		change(func(d *batch.Case) { d.Fold = batch.Count })
	}
	for i, r := range c.In {
		if r.Key != "a" && !r.NullKey {
			change(func(d *batch.Case) { d.In[i].Key = "a" })
		}
		if r.Value > 1 {
			change(func(d *batch.Case) { d.In[i].Value = 1 })
		}
		if r.Null || r.NullKey {
			change(func(d *batch.Case) { d.In[i].Null, d.In[i].NullKey = false, false })
		}
	}
	return out
}
