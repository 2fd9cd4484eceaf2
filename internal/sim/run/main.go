// Command run simulates applications under schedules of faults, one for each seed, and exits with 1 if what one of them has written, kept or
// counted differs from what it should be, or if the schedules were too tame to mean anything.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/headrace/headrace/internal/sim"
)

func main() {
	seeds := flag.Int("seeds", 10_000, "how many seeds")
	first := flag.Uint64("first", 0, "the first seed")
	one := flag.Int64("seed", -1, "run this seed alone, and shrink it if it differs")
	script := flag.String("script", "", "run the script in this file")
	limit := flag.Int("limit", 5, "stop after so many differences")
	flag.Parse()
	ok := false
	switch {
	case *script != "":
		ok = file(*script)
	case *one >= 0:
		ok = seed(uint64(*one))
	default:
		ok = all(*first, *seeds, *limit)
	}
	if !ok {
		os.Exit(1)
	}
}

func all(first uint64, n, limit int) bool {
	began := time.Now()
	covered, found, err := sim.Seeds(first, n, limit)
	if err != nil {
		fmt.Println("simulate:", err)
		return false
	}
	for _, d := range found {
		fmt.Printf("seed %d differs: %v\n", d.Seed, d.Err)
	}
	if len(found) > 0 {
		seed(found[0].Seed)
	}
	took := time.Since(began)
	fmt.Printf("\nshare of the seeds that have met\n%s", &covered)
	fmt.Printf("%d seeds, %d differ; %.0f s, %.0f a second\n", covered.Seeds, len(found), took.Seconds(), float64(covered.Seeds)/took.Seconds())
	thin := covered.Thin()
	for _, name := range thin {
		fmt.Printf("too few seeds have met: %s\n", name)
	}
	return len(found) == 0 && len(thin) == 0
}

// seed runs one.
func seed(n uint64) bool {
	c, err := sim.Draw(n)
	if err != nil {
		fmt.Println("simulate:", err)
		return false
	}
	return run(c, fmt.Sprintf("make simulate SEED=%d", n))
}

func file(name string) bool {
	b, err := os.ReadFile(name)
	if err == nil {
		var c *sim.Case
		if c, err = sim.Parse(string(b)); err == nil {
			return run(c, "go run ./internal/sim/run -script "+name)
		}
	}
	fmt.Println("simulate:", err)
	return false
}

// shrinking is how many runs a smaller case is worth.
const shrinking = 3000

func run(c *sim.Case, again string) bool {
	_, err := sim.Run(c)
	if err == nil {
		fmt.Printf("seed %d does not differ\n", c.Seed)
		return true
	}
	fmt.Printf("\nseed %d: %v\nrun it again with: %s\n", c.Seed, err, again)
	if sim.Differs(err) {
		small := sim.Shrink(c, shrinking)
		_, err = sim.Run(small)
		fmt.Printf("the same in small, a script for internal/sim/testdata or -script: %v\n\n%s", err, small)
	}
	return false
}
