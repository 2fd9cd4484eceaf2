package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/ops"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/state/pebblestore"
	"github.com/headrace/headrace/topology"
)

// runCommand runs the app against a cluster.
func runCommand(ctx context.Context, p process) int {
	c, code := configured(inRun, "run", p)
	if c == nil {
		return code
	}
	return runApp(ctx, c, newLogger(c, p.stderr))
}

// configured reads the settings of a command. Without them, the code is what to exit with.
func configured(which commands, name string, p process) (*config, int) {
	c, err := configure(which, "sample-app "+name, p)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return nil, exitOK
	case err != nil:
		fmt.Fprintf(p.stderr, "sample-app %s: %v\n", name, err)
		return nil, exitUsage
	}
	return c, exitOK
}

// newLogger writes to where people or machines read: text on a terminal, else JSON, unless it was said otherwise.
func newLogger(c *config, out io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.LogLevel)) // it was checked; at worst, it is info
	opts := &slog.HandlerOptions{Level: level}
	f, isFile := out.(*os.File)
	if c.LogFormat == "text" || c.LogFormat == "auto" && isFile && term.IsTerminal(int(f.Fd())) {
		return slog.New(slog.NewTextHandler(out, opts))
	}
	return slog.New(slog.NewJSONHandler(out, opts))
}

// framework is the Config of the app.
func (c *config) framework(top *topology.Topology, log *slog.Logger) (framework.Config, error) {
	opts, err := c.kafkaOptions()
	if err != nil {
		return framework.Config{}, err
	}
	provider := state.Memory()
	if c.State == "pebble" {
		provider = pebblestore.New(pebblestore.Config{Dir: c.StateDir, Logger: log})
	}
	guarantee := framework.ExactlyOnce
	if c.Guarantee == atLeastOnce {
		guarantee = framework.AtLeastOnce
	}
	return framework.Config{
		AppID: c.AppID, Brokers: c.Brokers, Topology: top, State: provider,
		Workers: c.Workers, Instance: c.Instance, KeepMembership: c.KeepMembership, Guarantee: guarantee,
		IdleAfter:      neverIdle,
		CommitInterval: c.CommitInterval, MinCommitInterval: min(c.CommitInterval, 10*time.Millisecond),
		SessionTimeout: c.SessionTimeout, TransactionTimeout: c.TransactionTimeout, TopicTimeout: c.TopicTimeout,
		ReplicationFactor: c.ReplicationFactor, Logger: log, Kafka: opts,
	}, nil
}

// runApp runs the app until ctx is done and it has drained.
func runApp(ctx context.Context, c *config, log *slog.Logger) int {
	top, err := Flights()
	if err != nil {
		log.Error("the topology is wrong", "err", err)
		return exitFail
	}
	conf, err := c.framework(top, log)
	if err != nil {
		log.Error("the configuration does not work", "err", err)
		return exitUsage
	}
	log.Info("sample-app", "version", version)
	client := ops.NewClient()
	conf.Kafka = append(conf.Kafka, client.Option())
	app, err := framework.New(conf)
	if err != nil {
		log.Error("the configuration does not work", "err", err)
		return exitUsage
	}
	// These go on while the app drains: whoever asks is to see that.
	aside, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	wait, err := serveOps(aside, c.HTTPAddr, app, client)
	if err != nil {
		log.Error("no address for metrics and probes", "err", err)
		return exitUsage
	}
	var watch sync.WaitGroup
	watch.Go(func() { logProgress(aside, app, log, c.ProgressEvery) })

	err = drained(ctx, c.DrainTimeout, app.Run)
	stop()
	watch.Wait()
	if opsErr := wait(); err == nil {
		err = opsErr
	}
	log = log.With(figuresOf(app.Snapshot())...)
	switch {
	case errors.Is(err, errNotTidy):
		log.Error("ended before everything in progress was finished", "err", err)
		return exitNotTidy
	case err != nil:
		log.Error("failed", "err", err)
		return exitFail
	}
	log.Info("stopped")
	return exitOK
}

// errNotTidy: draining takes too long.
var errNotTidy = errors.New("it took too long: what was not committed is processed again")

// drained runs something until it returns, and gives it so long after ctx is done.
func drained(ctx context.Context, limit time.Duration, run func(context.Context) error) error {
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case err := <-ended:
		return err
	case <-late.C:
		return fmt.Errorf("drain-timeout %v: %w", limit, errNotTidy)
	}
}

// glance is how often the log looks whether tasks have moved.
const glance = 100 * time.Millisecond

// logProgress tells which tasks the process has whenever that has changed, and now and then how far it is, until ctx is done.
func logProgress(ctx context.Context, app *framework.App, log *slog.Logger, every time.Duration) {
	look := time.NewTicker(min(glance, every))
	defer look.Stop()
	tell := time.NewTicker(every)
	defer tell.Stop()
	var had []string
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			s := app.Snapshot()
			if tasks := tasksOf(s); settled(s) && !slices.Equal(tasks, had) {
				had = tasks
				log.Info("tasks", append(figuresOf(s), "tasks", tasks)...)
			}
		case <-tell.C:
			log.Info("progress", figuresOf(app.Snapshot())...)
		}
	}
}

// settled says that no task is on its way.
func settled(s framework.Snapshot) bool {
	return len(s.Restoring) == 0 && !slices.ContainsFunc(s.Workers, func(w framework.WorkerStatus) bool {
		return w.State == framework.Starting || w.State == framework.Restoring
	})
}

func tasksOf(s framework.Snapshot) []string {
	ids := make([]string, 0, len(s.Tasks))
	for i := range s.Tasks {
		ids = append(ids, s.Tasks[i].ID)
	}
	return ids
}

// figuresOf is what the log says of the app.
func figuresOf(s framework.Snapshot) []any {
	n := s.Counters
	at := cmp.Or(windowsOf(s, 0).watermark, math.MaxInt64)
	out := []any{
		"records", n.Records, "commits", n.Commits, "aborts", n.Aborts, "corrected", n.Corrected, "sidelined", n.Sidelined,
		"restored", n.RecordsRestored, "rebalances", n.Rebalances, "running", len(s.Tasks), "restoring", len(s.Restoring),
	}
	if len(n.Dropped) > 0 {
		out = append(out, "dropped", n.Dropped)
	}
	if at != math.MaxInt64 && at != noWindowEnd {
		out = append(out, "watermark", time.UnixMilli(at).UTC().Format(time.RFC3339))
	}
	return out
}
