// Command oracle answers random cases of windowed counts and sums with this library and with Kafka Streams, and compares every result:
// key, window, value, time, tombstones, and their order behind each record of the input. It is run by make oracle; README.md beside it
// says which differences are excused.
//
// It ends with 1 if a difference has no excuse, or more than a tenth of the cases of a kind need one, and with 2 if a tool is missing.
package main

import (
	"embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/headrace/headrace/bench/drive"
	"github.com/headrace/headrace/bench/oracle/batch"
	"github.com/headrace/headrace/bench/oracle/draw"
	"github.com/headrace/headrace/bench/oracle/judge"
	"github.com/headrace/headrace/bench/oracle/ours"
)

//go:embed streams/pom.xml streams/src
var sources embed.FS

func main() {
	err := run(os.Args[1:], os.Stdout)
	var missing *drive.MissingTool
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.As(err, &missing):
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

// ahead is how many cases Java is given before its answers are asked for.
const ahead = 64

func run(args []string, out io.Writer) error {
	f := flag.NewFlagSet("oracle", flag.ContinueOnError)
	f.SetOutput(out)
	n := f.Uint64("n", 5000, "cases")
	first := f.Uint64("first", 0, "seed of the first case; the others follow it")
	one := f.Bool("one", false, "only the first case, and all that is answered to it")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *one {
		*n = 1
	}
	java, err := drive.BuildJava("oracle-streams", sources, func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) })
	if err != nil {
		return err
	}
	k, err := startKafka(java)
	if err != nil {
		return err
	}
	t := newTally()
	err = t.compare(k, *first, *n, *one, out)
	if t.worst != nil && err == nil {
		err = t.report(k, out)
	}
	if err := errors.Join(err, k.close()); err != nil {
		return err
	}
	if *one && t.unexplained == 0 {
		return nil
	}
	t.print(out, java.Streams)
	return t.verdict()
}

// tally counts cases by kind and by rule.
type tally struct {
	cases       map[string]int
	excused     map[string]int
	rules       map[string]int
	total       int
	unexplained int
	worst       *batch.Case // the first that is unexplained
	seed        uint64      // of it
}

func newTally() *tally {
	return &tally{cases: map[string]int{}, excused: map[string]int{}, rules: map[string]int{}}
}

func (t *tally) compare(k *kafka, first, n uint64, show bool, out io.Writer) error {
	for seed, end := first, first+n; seed < end; {
		cases := make([]*batch.Case, min(ahead, end-seed))
		for i := range cases {
			cases[i] = draw.Case(seed + uint64(i))
		}
		asked := make(chan error, 1)
		go func() {
			for _, c := range cases {
				if err := k.ask(c); err != nil {
					asked <- err
					return
				}
			}
			asked <- nil
		}()
		for _, c := range cases {
			theirs, err := k.answer()
			if err != nil {
				return fmt.Errorf("seed %d: %s: %w", seed, c, err)
			}
			v := judged(c, theirs)
			t.add(c, seed, v)
			if show {
				mine, _ := ours.Answer(c)
				fmt.Fprintf(out, "%s\nours  %v\nkafka %v\nrules %v\n%s\n", c, mine, theirs, v.Rules, v.Wrong)
			}
			seed++
		}
		if err := <-asked; err != nil {
			return err
		}
	}
	return nil
}

// judged has this library answer a case, too. That it fails is an answer, and a wrong one.
func judged(c *batch.Case, theirs batch.Answer) judge.Verdict {
	mine, err := ours.Answer(c)
	if err != nil {
		return judge.Verdict{Wrong: "ours fails: " + err.Error()}
	}
	return judge.Case(c, mine, theirs)
}

func (t *tally) add(c *batch.Case, seed uint64, v judge.Verdict) {
	kind := c.Kind()
	t.cases[kind]++
	t.total++
	for _, r := range v.Rules {
		t.rules[r]++
	}
	if v.Wrong != "" {
		t.unexplained++
		if t.worst == nil {
			t.worst, t.seed = c, seed
		}
	} else if !v.Same {
		t.excused[kind]++
	}
}

// report prints the first unexplained case, in small.
func (t *tally) report(k *kafka, out io.Writer) error {
	again := func(c *batch.Case) (judge.Verdict, error) {
		if err := k.ask(c); err != nil {
			return judge.Verdict{}, err
		}
		theirs, err := k.answer()
		return judged(c, theirs), err
	}
	c := t.worst
	v, err := again(c)
	for smaller := true; smaller && err == nil; {
		smaller = false
		for _, d := range draw.Smaller(c) {
			w, err := again(d)
			if err != nil {
				return err
			}
			if w.Wrong != "" {
				c, v, smaller = d, w, true
				break
			}
		}
	}
	fmt.Fprintf(out, "\nseed %d, in small:\n%s\n%s\n", t.seed, c, v.Wrong)
	return err
}

// kinds are those that there were cases of, in the order in which they are drawn.
func (t *tally) kinds() []string {
	var all []string
	for _, k := range draw.Kinds {
		c := batch.Case{Window: k.Window, Emit: k.Emit}
		if t.cases[c.Kind()] > 0 {
			all = append(all, c.Kind())
		}
	}
	return all
}

func (t *tally) print(out io.Writer, version string) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "kind\tcases\texcused\t")
	for _, k := range t.kinds() {
		fmt.Fprintf(w, "%s\t%d\t%d\t\n", k, t.cases[k], t.excused[k])
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, "rule\tcases\t")
	for _, r := range judge.Rules {
		if n := t.rules[r.ID]; n > 0 {
			fmt.Fprintf(w, "%s\t%d\tKafka Streams: %s\n", r.ID, n, r.Says)
		}
	}
	w.Flush()
	fmt.Fprintf(out, "\n%d cases beside Kafka Streams %s: %d unexplained\n", t.total, version, t.unexplained)
}

func (t *tally) verdict() error {
	if t.unexplained > 0 {
		return fmt.Errorf("%d of %d cases are unexplained", t.unexplained, t.total)
	}
	for _, k := range t.kinds() {
		if t.excused[k]*10 > t.cases[k] {
			return fmt.Errorf("%s: %d of %d cases need an excuse, which is more than a tenth", k, t.excused[k], t.cases[k])
		}
	}
	return nil
}
