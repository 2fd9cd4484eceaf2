// Command sample-app is the reference app: it follows real flights through event-time windows.
//
//	sample-app demo     runs everything in one process, on an embedded broker, and checks the result
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
)

// Exit codes.
const (
	exitOK    = 0
	exitFail  = 1 // it did not work, or what came out is not right
	exitUsage = 2
)

const usage = `sample-app follows real flights through event-time windows.

usage: sample-app demo [flags]

  demo   start an embedded broker, feed the flights, run the app exactly-once, and check what came out

Run "sample-app demo -h" for the flags.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return exitUsage
	}
	switch args[0] {
	case "demo":
		opts, err := parseDemo(args[1:], stderr)
		if errors.Is(err, flag.ErrHelp) {
			return exitOK
		}
		if err != nil {
			fmt.Fprintf(stderr, "sample-app demo: %v\n", err)
			return exitUsage
		}
		ok, err := demo(ctx, opts, stdout, stderr)
		if err != nil {
			fmt.Fprintf(stderr, "sample-app demo: %v\n", err)
		}
		if err != nil || !ok {
			return exitFail
		}
		return exitOK
	case "help", "-h", "--help":
		fmt.Fprint(stdout, usage)
		return exitOK
	}
	fmt.Fprintf(stderr, "sample-app: unknown command %q\n\n%s", args[0], usage)
	return exitUsage
}

// demoOptions are the flags of demo.
type demoOptions struct {
	records, partitions, workers int
	rate                         int // records a second, 0 is no limit
	waits                        bool
	state                        string
	stateDir                     string // "" is a fresh one, removed at the end
	keepRunning                  bool
	verbose                      bool
}

func parseDemo(args []string, stderr io.Writer) (demoOptions, error) {
	var o demoOptions
	var rate string
	fs := flag.NewFlagSet("sample-app demo", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.IntVar(&o.records, "records", 20_000, "how many flights to feed; beyond 20,000 the file repeats, 90 days later each time")
	fs.IntVar(&o.partitions, "partitions", 4, "partitions of the topics")
	fs.IntVar(&o.workers, "workers", 2, "workers of the app: group members with a transactional producer each")
	fs.StringVar(&o.state, "state", "memory", "where the app keeps its stores: memory, or pebble, which is on disk")
	fs.StringVar(&o.stateDir, "state-dir", "", "directory of --state pebble; without it a fresh one, which is removed at the end")
	fs.StringVar(&rate, "rate", "", `flights a second; "max" also leaves out the waits for the app, and then lateness is not checked`)
	fs.BoolVar(&o.keepRunning, "keep-running", false, "leave broker and app running after the check, until interrupted")
	fs.BoolVar(&o.verbose, "v", false, "show the app's log")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	o.waits = !strings.EqualFold(rate, "max")
	if o.waits && rate != "" {
		n, err := strconv.Atoi(rate)
		if err != nil || n < 1 {
			return o, fmt.Errorf("--rate %q: give a number of flights a second, or max", rate)
		}
		o.rate = n
	}
	switch {
	case o.records < 1:
		return o, fmt.Errorf("--records %d: give at least 1", o.records)
	case o.partitions < 1:
		return o, fmt.Errorf("--partitions %d: give at least 1", o.partitions)
	case o.workers < 1:
		return o, fmt.Errorf("--workers %d: give at least 1", o.workers)
	case o.state != "memory" && o.state != "pebble":
		return o, fmt.Errorf("--state %q: give memory or pebble", o.state)
	case o.stateDir != "" && o.state != "pebble":
		return o, fmt.Errorf("--state-dir %q: --state %s keeps nothing on disk", o.stateDir, o.state)
	}
	return o, nil
}
