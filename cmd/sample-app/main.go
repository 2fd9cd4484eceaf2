// Command sample-app is the reference app: it follows real flights through event-time windows.
//
//	sample-app demo     runs everything in one process, on an embedded broker, and checks the result
//	sample-app exercise moves one payment over the boundary of a window, and makes it late, and shows what changes
//	sample-app run      runs the app against a cluster, as one of as many processes as you like
//	sample-app feed     makes the topics and feeds the flights
//	sample-app verify   waits for the last window and checks what the app wrote
//	sample-app timeline draws the records of a topic, a watermark and windows over them
//	sample-app healthcheck   asks a run on this machine whether it is alive
//	sample-app broker   runs a Kafka for development
//
// Each tells its flags, the settings and the exit codes with -h.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// version is set when the program is built: -ldflags "-X main.version=…".
var version = "dev"

// process is what a command gets from outside.
type process struct {
	args, environ  []string
	stdout, stderr io.Writer
}

// A command of the program. run returns the exit code, soon after ctx is done.
type command struct {
	name, about string
	settings    commands // the part of the settings that are its flags
	run         func(ctx context.Context, p process) int
}

func all() []command {
	return []command{
		{"demo", "start an embedded broker, feed the flights, run the app exactly-once, and check what came out", 0, demoCommand},
		{"exercise", "move one payment over the boundary of a window, make it late under each policy, and see what changes", 0, exerciseCommand},
		{"run", "run the app against a cluster, until SIGTERM or SIGINT", inRun, runCommand},
		{"feed", "make the topics that are missing in a cluster and feed the flights into it", inFeed, feedCommand},
		{"verify", "wait until all windows are out and check them against a batch computation", inVerify, verifyCommand},
		{"timeline", "draw the last records of a topic, with a watermark and windows over them", inTimeline, timelineCommand},
		{"healthcheck", "ask a run on this machine whether it is alive, by its http.addr", inHealthcheck, healthcheckCommand},
		{"broker", "run a broker for development: a real Apache Kafka, without a container", 0, brokerCommand},
		{"settings", "write all settings of run, feed, verify and timeline as a table", 0, settingsCommand},
	}
}

func usage(out io.Writer) {
	fmt.Fprint(out, "sample-app follows real flights through event-time windows.\n\nusage: sample-app COMMAND [flags]\n\n")
	for _, c := range all() {
		fmt.Fprintf(out, "  %-11s %s\n", c.name, c.about)
	}
	fmt.Fprint(out, "\nRun \"sample-app COMMAND -h\" for the flags, sample-app version for the version.\n\n"+exitCodeHelp)
}

func main() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	p := process{os.Args[1:], os.Environ(), os.Stdout, os.Stderr}
	os.Exit(untilSignal(signals, os.Stderr, func(ctx context.Context) int { return dispatch(ctx, p) }))
}

func dispatch(ctx context.Context, p process) int {
	if len(p.args) == 0 {
		usage(p.stderr)
		return exitUsage
	}
	name := p.args[0]
	var names []string
	for _, c := range all() {
		if c.name == name {
			p.args = p.args[1:]
			return c.run(ctx, p)
		}
		names = append(names, c.name)
	}
	switch name {
	case "help", "-h", "--help":
		usage(p.stdout)
		return exitOK
	case "version", "--version":
		fmt.Fprintln(p.stdout, "sample-app", version)
		return exitOK
	}
	fmt.Fprintf(p.stderr, "sample-app: unknown command %q%s\n\n", name, hint(name, names, nil))
	usage(p.stderr)
	return exitUsage
}

// untilSignal runs f and returns its code. The first signal ends f's context; the second does not wait for f.
func untilSignal(signals <-chan os.Signal, stderr io.Writer, f func(ctx context.Context) int) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	code := make(chan int, 1)
	go func() { code <- f(ctx) }()
	select {
	case c := <-code:
		return c
	case <-signals:
		cancel()
	}
	select {
	case c := <-code:
		return c
	case s := <-signals:
		fmt.Fprintf(stderr, "sample-app: ended at once by a second signal (%v): what was not committed is processed again\n", s)
		return exitForced
	}
}
