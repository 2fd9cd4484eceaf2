// Command app is a process of the exactly-once proof: it runs the applications with their state on disk, and kills or stops itself
// where it is told to.
//
// It reads commands from its standard input, a line each, "kill" or "stop" with a point and an application, and writes what happens
// to its standard output, a JSON object a line. SIGTERM ends it in an orderly way.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/internal/eos"
	"github.com/headrace/headrace/state/pebblestore"
)

func main() {
	var (
		brokers     = flag.String("brokers", "", "addresses of brokers, with commas between")
		name        = flag.String("name", "", "the name of this process, the same over restarts")
		dir         = flag.String("dir", "", "the directory of its state")
		session     = flag.Duration("session", 3*time.Second, "session timeout")
		transaction = flag.Duration("transaction", 10*time.Second, "transaction timeout")
		arm         = flag.String("arm", "", "a first command")
		debug       = flag.Bool("debug", false, "log everything to standard error")
	)
	flag.Parse()
	level := slog.LevelInfo
	if *debug {
		level = slog.LevelDebug
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	a := newAgent(os.Stdout)
	watchFailpoints(a)
	if *arm != "" {
		a.command(*arm)
	}
	go func() {
		a.listen(os.Stdin)
		os.Exit(3) // whoever started this is gone
	}()
	p := process{
		agent: a, logger: logger, name: *name, dir: *dir, brokers: strings.Split(*brokers, ","), session: *session, transaction: *transaction,
	}
	if err := p.run(ctx); err != nil {
		logger.Error("the process ends", "err", err)
		os.Exit(1)
	}
}

type process struct {
	agent                *agent
	logger               *slog.Logger
	name, dir            string
	brokers              []string
	session, transaction time.Duration
}

// run runs all applications until ctx is done or one of them ends by itself.
func (p *process) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		errs []error
		apps = make(map[string]*framework.App)
	)
	for _, id := range []string{eos.TotalsApp, eos.WindowsApp, eos.TicksApp} {
		app, err := p.app(id)
		if err != nil {
			return err
		}
		apps[id] = app
	}
	p.agent.tell(eos.Happening{What: eos.Started})
	for id, app := range apps {
		wg.Go(func() {
			if err := app.Run(ctx); err != nil {
				p.agent.tell(eos.Happening{What: eos.Failed, App: id, Error: err.Error()})
				mu.Lock()
				errs = append(errs, fmt.Errorf("%s: %w", id, err))
				mu.Unlock()
				stop()
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		wg.Wait()
		close(ended)
	}()
	every := time.NewTicker(500 * time.Millisecond)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			for id, app := range apps {
				p.agent.tell(status(id, app, eos.Status))
			}
		case <-ended:
			for id, app := range apps {
				p.agent.tell(status(id, app, eos.Stopped))
			}
			return errors.Join(errs...)
		}
	}
}

func status(id string, app *framework.App, what string) eos.Happening {
	s := app.Snapshot()
	return eos.Happening{
		What: what, App: id, Tasks: len(s.Tasks), Restored: s.Counters.RecordsRestored, Aborts: s.Counters.Aborts, Fenced: s.Counters.Fenced,
	}
}

func (p *process) app(id string) (*framework.App, error) {
	top, err := eos.Topology(id)
	if err != nil {
		return nil, err
	}
	logger := p.logger.With("process", p.name)
	return framework.New(framework.Config{
		AppID: id, Brokers: p.brokers, Topology: top, Instance: p.name,
		State:          pebblestore.New(pebblestore.Config{Dir: filepath.Join(p.dir, id), MemoryBudget: 64 << 20, Logger: logger}),
		SessionTimeout: p.session, TransactionTimeout: p.transaction,
		Logger: logger,
		Kafka:  []kgo.Opt{kgo.Dialer((&tap{agent: p.agent, app: id}).dialer())},
	})
}

// listen takes commands.
func (a *agent) listen(r io.Reader) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		a.command(lines.Text())
	}
}
