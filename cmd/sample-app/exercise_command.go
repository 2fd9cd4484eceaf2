package main

import (
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/term"

	"github.com/headrace/headrace/cmd/sample-app/exercise"
	"github.com/headrace/headrace/cmd/sample-app/timeline"
	"github.com/headrace/headrace/devkafka"
)

const (
	exerciseFile = "exercise"
	// ownKey is the account of payments that have none.
	ownKey = "account"
	// maxEvents is how long a list may be: each payment is a transaction of its own, in each run.
	maxEvents = 500
	// plainWidth is how wide a drawing is that goes into a file or a pipe.
	plainWidth = 100
)

// exerciseOptions are the flags of exercise.
type exerciseOptions struct {
	exercise.Setup
	events  string // a file, or "" for the worked example
	event   int    // the number of the one that is moved, 0 to choose
	out     string // directory of the pictures, "" for none
	draw    string
	ascii   bool
	verbose bool
}

func parseExercise(args []string, stderr io.Writer) (exerciseOptions, error) {
	o := exerciseOptions{Setup: exercise.Default()}
	fs := flag.NewFlagSet("sample-app exercise", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.events, "events", "", "file of your own payments in their order of arrival, a line each: seconds,amount[,key]; without it, the worked example")
	fs.IntVar(&o.event, "event", 0, "which payment is moved and made late, from 1; 0 takes the one closest to the end of its window")
	fs.DurationVar(&o.Size, "window", o.Size, "size of the tumbling windows")
	fs.DurationVar(&o.Disorder, "disorder", o.Disorder, "how much the watermark stays behind the latest payment")
	fs.DurationVar(&o.Horizon, "horizon", o.Horizon, "how long a window that has closed can be corrected")
	fs.StringVar(&o.out, "out", ".", "directory for exercise.svg and exercise.png; none writes no pictures")
	fs.StringVar(&o.draw, "draw", "base,upsert", "runs to draw here, by name and separated by commas; all, or none")
	fs.BoolVar(&o.ascii, "ascii", false, "draw here with ASCII only")
	fs.BoolVar(&o.verbose, "v", false, "show the log of the apps")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if o.event < 0 {
		return o, fmt.Errorf("--event %d: give the number of a payment, from 1", o.event)
	}
	return o, o.Validate()
}

// exerciseCommand runs the experiment.
func exerciseCommand(ctx context.Context, p process) int {
	opts, err := parseExercise(p.args, p.stderr)
	if errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	if err != nil {
		fmt.Fprintf(p.stderr, "sample-app exercise: %v\n", err)
		return exitUsage
	}
	events := exercise.Worked()
	if opts.events != "" {
		if events, err = readEvents(opts.events); err != nil {
			fmt.Fprintf(p.stderr, "sample-app exercise: %v\n", err)
			return exitUsage
		}
	}
	runs, why, err := exercise.Plan(events, opts.Setup, opts.event-1)
	if err != nil {
		fmt.Fprintf(p.stderr, "sample-app exercise: %v\n", err)
		return exitUsage
	}
	outcomes, err := runExercise(ctx, runs, opts, p.stderr)
	if err == nil {
		err = showExercise(p.stdout, outcomes, why, opts)
	}
	if err != nil {
		fmt.Fprintf(p.stderr, "sample-app exercise: %v\n", err)
		return exitFail
	}
	return exitOK
}

// runExercise carries the runs out on an embedded broker.
func runExercise(ctx context.Context, runs []exercise.Run, o exerciseOptions, stderr io.Writer) ([]*exercise.Outcome, error) {
	log := slog.New(slog.DiscardHandler)
	if o.verbose {
		log = slog.New(slog.NewTextHandler(stderr, nil))
	}
	broker, err := devkafka.Start(devkafka.Config{})
	if err != nil {
		return nil, err
	}
	defer broker.Close()
	outcomes, errs := make([]*exercise.Outcome, len(runs)), make([]error, len(runs))
	var all sync.WaitGroup
	for i, r := range runs {
		all.Go(func() { outcomes[i], errs[i] = exercise.Do(ctx, broker.Addrs(), r, o.Setup, log) })
	}
	all.Wait()
	return outcomes, errors.Join(errs...)
}

// errConservation is a run in which something is lost or counted twice.
var errConservation = errors.New("it does not add up")

// showExercise writes what there is to see. It fails if something does not add up, but only when all is written.
func showExercise(stdout io.Writer, outcomes []*exercise.Outcome, why []string, o exerciseOptions) error {
	base := outcomes[0]
	moved := base.Inputs[base.Moved]
	fmt.Fprintf(stdout, "%d payments in tumbling windows of %s, disorder %s, corrections within %s. Number %d (second %s, amount %d) is the one to watch.\n",
		len(base.Inputs), short(o.Size), short(o.Disorder), short(o.Horizon), base.Moved+1, exercise.Seconds(moved.At), moved.Amount)
	style, tableWidth := timeline.Style{Width: plainWidth, ASCII: o.ascii}, wideTable
	if f, ok := stdout.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		style.Color = os.Getenv("NO_COLOR") == ""
		if w, _, err := term.GetSize(int(f.Fd())); err == nil {
			style.Width, tableWidth = w, w
		}
	}
	showTables(stdout, tablesOf(outcomes), tableWidth)
	for _, w := range why {
		fmt.Fprintf(stdout, "Left out: %s.\n", w)
	}
	for _, out := range outcomes {
		if !drawn(o.draw, out.Name) {
			continue
		}
		fmt.Fprintln(stdout)
		if err := pictureOf(out).Text(stdout, style); err != nil {
			return err
		}
	}
	if o.out != "none" {
		names, err := writePictures(figureOf(outcomes), o.out, exerciseFile)
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "\nAll runs as a picture: %s\n", strings.Join(names, ", "))
	}
	var faults []string
	for _, out := range outcomes {
		faults = append(faults, out.Faults()...)
	}
	if len(faults) > 0 {
		return fmt.Errorf("%w: %s", errConservation, strings.Join(faults, "; "))
	}
	fmt.Fprintf(stdout, "In each of the %d runs every payment is in a window, set aside or dropped, once; all figures were read back from topics, read-committed.\n", len(outcomes))
	return nil
}

func drawn(of, name string) bool {
	for n := range strings.SplitSeq(of, ",") {
		if n == "all" || strings.TrimSpace(n) == name {
			return true
		}
	}
	return false
}

// writePictures writes a figure as SVG and PNG, and returns the names of the files.
func writePictures(f *timeline.Figure, dir, name string) (names []string, err error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	write := func(file string, draw func(io.Writer) error) {
		if err != nil {
			return
		}
		names = append(names, filepath.Join(dir, file))
		var out *os.File
		if out, err = os.Create(filepath.Join(dir, file)); err == nil {
			err = errors.Join(draw(out), out.Close())
		}
	}
	write(name+".svg", f.SVG)
	write(name+".png", func(w io.Writer) error { return f.PNG(w, 2) })
	return names, err
}

// readEvents reads a list of payments: seconds,amount[,key], a line each, in their order of arrival. A first line without numbers is a
// heading.
func readEvents(file string) ([]exercise.Event, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("list of payments: %w", err)
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.FieldsPerRecord, r.TrimLeadingSpace, r.Comment = -1, true, '#'
	var events []exercise.Event
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("list of payments %s: %w", file, err)
		}
		line, _ := r.FieldPos(0)
		e, err := readEvent(row)
		if err != nil {
			if line == 1 && len(events) == 0 {
				continue // a heading
			}
			return nil, fmt.Errorf("list of payments %s: line %d: %w", file, line, err)
		}
		if events = append(events, e); len(events) > maxEvents {
			return nil, fmt.Errorf("list of payments %s: it has more than %d lines", file, maxEvents)
		}
	}
	return events, nil
}

func readEvent(row []string) (exercise.Event, error) {
	if len(row) < 2 || len(row) > 3 {
		return exercise.Event{}, fmt.Errorf("%d fields; write seconds,amount or seconds,amount,key", len(row))
	}
	at, err := strconv.ParseFloat(strings.TrimSpace(row[0]), 64)
	if err != nil || !(at >= 0 && at < 1e12) {
		return exercise.Event{}, fmt.Errorf("%q is no time in seconds, 0 or more", row[0])
	}
	amount, err := strconv.ParseInt(strings.TrimSpace(row[1]), 10, 64)
	if err != nil {
		return exercise.Event{}, fmt.Errorf("%q is no amount: write a whole number", row[1])
	}
	e := exercise.Event{At: int64(math.Round(at * 1000)), Amount: amount, Key: ownKey}
	if len(row) == 3 && strings.TrimSpace(row[2]) != "" {
		e.Key = strings.TrimSpace(row[2])
	}
	return e, nil
}
