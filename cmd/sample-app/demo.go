package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/cmd/sample-app/data"
	"github.com/headrace/headrace/cmd/sample-app/verify"
	"github.com/headrace/headrace/devkafka"
	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/state/pebblestore"
)

const (
	appID = "flights"
	// waitTimeout bounds each wait of the feeder for the app, and finishTimeout the one for the last windows.
	waitTimeout   = 15 * time.Second
	finishTimeout = 60 * time.Second
	// neverIdle: the feeder ends every partition with a mark, so none has to be given up, and each holds back what its flights are judged
	// by. The checker relies on that.
	neverIdle = -1
	// look is how often the feeder looks at the app's snapshot while it waits.
	look = time.Millisecond
)

// errStuck is an app that does not get where the feed is. What it did get to is checked all the same.
var errStuck = errors.New("the app did not get there")

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

// demoCommand reads the flags and runs the demo.
func demoCommand(ctx context.Context, p process) int {
	opts, err := parseDemo(p.args, p.stderr)
	if errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	if err != nil {
		fmt.Fprintf(p.stderr, "sample-app demo: %v\n", err)
		return exitUsage
	}
	ok, err := demo(ctx, opts, p.stdout, p.stderr)
	if err != nil {
		fmt.Fprintf(p.stderr, "sample-app demo: %v\n", err)
	}
	if err != nil || !ok {
		return exitFail
	}
	return exitOK
}

// demo runs feeder, broker, app and checker in one process. It says whether what came out is right; an error says that it could
// not find out.
func demo(ctx context.Context, o demoOptions, stdout, stderr io.Writer) (ok bool, err error) {
	began := time.Now()
	feed, err := newFeed(data.Flights, o.records, o.partitions)
	if err != nil {
		return false, err
	}
	broker, err := devkafka.Start(devkafka.Config{Topics: map[string]int32{
		flightsTopic:  int32(o.partitions),
		airportsTopic: int32(o.partitions),
		delaysTopic:   int32(o.partitions),
		lateTopic:     int32(o.partitions),
	}})
	if err != nil {
		return false, err
	}
	defer broker.Close()

	checker, err := verify.New(verify.Options{
		Brokers: broker.Addrs(), Flights: data.Flights, Airports: data.Airports,
		Records: o.records, Partitions: o.partitions, LatenessChecked: o.waits,
		Delays: delaysTopic, Late: lateTopic,
	})
	if err != nil {
		return false, err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.Addrs()...))
	if err != nil {
		return false, err
	}
	err = loadAirports(ctx, client)
	client.Close()
	if err != nil {
		return false, err
	}

	top, err := Flights()
	if err != nil {
		return false, err
	}
	logger := slog.New(slog.DiscardHandler)
	if o.verbose {
		logger = slog.New(slog.NewTextHandler(stderr, nil))
	}
	provider, cleanUp, err := openState(o, logger)
	if err != nil {
		return false, err
	}
	defer cleanUp()
	app, err := framework.New(framework.Config{
		AppID: appID, Brokers: broker.Addrs(), Topology: top, State: provider, Workers: o.workers, Logger: logger,
		IdleAfter:      neverIdle,
		ReportInterval: 10 * time.Millisecond, // the feed waits for the app at the end of each window
	})
	if err != nil {
		return false, err
	}
	r := &runner{app: app, feed: feed, opts: o, checker: checker, view: newView(stderr, o.records+o.partitions)}
	fmt.Fprintf(stderr, "broker on %s, %d flights into %d partitions, %d workers\n", broker.Addrs()[0], o.records, o.partitions, o.workers)
	report, err := r.run(ctx, broker.Addrs(), stdout)
	if err != nil {
		return false, err
	}
	showReport(stdout, report, r.figures(time.Since(began)))
	fmt.Fprintln(stdout, report)
	return report.OK(), nil
}

// openState returns where the app keeps its stores, and what is to be done when it has ended.
//
// A directory that is kept from an earlier run is of use for its instance id only: the broker is a new one, so the changelogs are
// others and the stores are built anew.
func openState(o demoOptions, logger *slog.Logger) (p state.Provider, cleanUp func(), err error) {
	if o.state == "memory" {
		return state.Memory(), func() {}, nil
	}
	dir, cleanUp := o.stateDir, func() {}
	if dir == "" {
		if dir, err = os.MkdirTemp("", "sample-app-state-"); err != nil {
			return nil, nil, fmt.Errorf("state directory: %w", err)
		}
		cleanUp = func() { _ = os.RemoveAll(dir) } // what is left lies among the temporary files
	}
	return pebblestore.New(pebblestore.Config{Dir: dir, Logger: logger}), cleanUp, nil
}

// runner is one run of the demo.
type runner struct {
	app     *framework.App
	feed    *Feed
	opts    demoOptions
	checker *verify.Checker
	view    *view

	fed      time.Duration
	snapshot framework.Snapshot // the last one
}

// run feeds the app and checks it. The app runs until the check may begin.
func (r *runner) run(ctx context.Context, brokers []string, stdout io.Writer) (verify.Report, error) {
	appCtx, stopApp := context.WithCancel(ctx)
	defer stopApp()
	ended := make(chan error, 1)
	feedCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		err := r.app.Run(appCtx)
		if err == nil {
			err = errors.New("the app has stopped")
		}
		cancel(err)
		ended <- err
	}()

	err := r.feedAll(feedCtx, brokers)
	if err == nil {
		err = r.finish(feedCtx)
	}
	r.view.done()
	if errors.Is(err, errStuck) {
		fmt.Fprintf(stdout, "%v; checking what there is\n", err)
		err = nil
	}
	if err != nil {
		stopApp()
		if appErr := <-ended; ctx.Err() == nil && !errors.Is(err, appErr) {
			err = errors.Join(err, fmt.Errorf("app: %w", appErr))
		}
		return verify.Report{}, err
	}
	r.snapshot = r.app.Snapshot()
	if r.opts.keepRunning {
		report, err := r.checkRunning(ctx)
		if err != nil {
			return report, err
		}
		fmt.Fprintf(stdout, "%s\nkeeps running on %s until interrupted\n", report.Verdict(), brokers[0])
		<-ctx.Done()
		<-ended
		return report, nil
	}
	stopApp()
	if err := <-ended; err.Error() != "the app has stopped" {
		return verify.Report{}, fmt.Errorf("app: %w", err)
	}
	r.snapshot = r.app.Snapshot()
	report, err := r.checker.Check(ctx)
	// What the metrics say is what the topics have.
	if n := r.snapshot.Counters; err == nil && (n.Corrected != int64(len(report.Corrections)) || n.Sidelined != int64(report.Sidelined)) {
		report.General = append(report.General, fmt.Sprintf("the app has counted %d corrections and %d sidelined flights, its topics have %d and %d",
			n.Corrected, n.Sidelined, len(report.Corrections), report.Sidelined))
	}
	return report, err
}

// checkRunning checks while the app goes on. What the snapshot shows may be a commit ahead of what the topics have, so a check that
// finds something missing is made again for a while.
func (r *runner) checkRunning(ctx context.Context) (verify.Report, error) {
	for deadline := time.Now().Add(waitTimeout); ; {
		report, err := r.checker.Check(ctx)
		if err != nil || report.OK() || time.Now().After(deadline) {
			return report, err
		}
	}
}

func (r *runner) feedAll(ctx context.Context, brokers []string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), feedPartitioner())
	if err != nil {
		return err
	}
	defer client.Close()
	opts := feedOptions{
		Rate:     r.opts.rate,
		Halfway:  r.checker.Half,
		Progress: func(sent, _ int) { r.view.sent(sent, whereApp(r.app.Snapshot())) },
	}
	if r.opts.waits {
		opts.Wait = func(ctx context.Context, end int64) error {
			return r.until(ctx, waitTimeout, func(w windows) bool { return w.all && w.watermark >= end })
		}
	}
	start := time.Now()
	err = r.feed.Run(ctx, client, opts)
	r.fed = time.Since(start)
	return err
}

// finish waits until every window task is past the last window and has nothing left to close.
func (r *runner) finish(ctx context.Context) error {
	return r.until(ctx, finishTimeout, func(w windows) bool { return w.all && !w.due && w.watermark >= r.feed.lastWindowEnd() })
}

// until looks at the app until it has reached something, at most for limit.
func (r *runner) until(ctx context.Context, limit time.Duration, reached func(windows) bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w within %v", errStuck, limit))
	defer cancel()
	tick := time.NewTicker(look)
	defer tick.Stop()
	for !reached(windowsOf(r.app.Snapshot(), r.opts.partitions)) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
	return nil
}
