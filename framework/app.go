package framework

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/internal/engine"
	"github.com/headrace/headrace/internal/restore"
)

// App runs one instance of an application. Make it with [New], run it with [App.Run] once. Kafka Streams: KafkaStreams.
type App struct {
	set *settings
	log *slog.Logger
	// Set by Run first of all. static: the instance has that name again when it comes back.
	instance string
	static   bool

	started atomic.Bool
	quiet   quiet
	made    []internalTopic // by this process, just now
	// meta is where clocks are kept that do not fit into the metadata of offsets. Who makes it holds metaBusy.
	meta     atomic.Pointer[meta]
	metaBusy chan struct{}
	// Set by Run before any worker starts, and not changed then.
	client   *kgo.Client
	adm      *kadm.Client
	layout   *layout
	maxBytes sync.Map // topic → int32, how large a batch it takes; workers change it
	// tombstones is how long a table's topic keeps them: topic → time.Duration.
	tombstones sync.Map
	registry   *registry
	restorer   *restore.Restorer
	workers    []*worker

	damaged     atomic.Int64 // tasks whose state was thrown away
	trimmed     atomic.Int64 // offsets that were deleted
	restoreLine atomic.Int64 // when the progress of a restore was last logged, in Unix milliseconds

	// What Snapshot reads.
	published atomic.Pointer[layout]
	states    []atomic.Pointer[workerSnapshot]
	stalls    []atomic.Pointer[Stall]
}

// New checks a Config and makes the App. It returns all mistakes at once, each naming the field and the way out, joined as by
// errors.Join. It does not talk to the brokers.
func New(c Config) (*App, error) {
	set, err := c.check()
	if err != nil {
		return nil, err
	}
	return &App{
		set: set, log: set.Logger.With("app", set.AppID), states: make([]atomic.Pointer[workerSnapshot], set.Workers),
		stalls: make([]atomic.Pointer[Stall], set.Workers), metaBusy: make(chan struct{}, 1),
	}, nil
}

// Run runs the app until ctx is done, and returns once everything is finished: the step in process, its commit, the stores closed
// and the group left. It then returns nil. It blocks, and starts no goroutine that outlives it.
//
// It returns early with the first error that the app cannot mend: a *RecordError under the policy Fail, topics that are missing or
// do not fit, rights that are lacking, ErrFenced. What had been committed stays; what had not is processed when the app runs again.
// Everything else, from broken connections to a lost membership, is mended inside, logged, and counted in the Snapshot.
//
// If no broker answers when it starts, Run tries again for Config.TopicTimeout and then returns an error that says so; so it does
// while topics are missing. If the brokers go away later, it goes on trying for as long as ctx lasts, and Snapshot shows what it
// last met. Either way what fails the same way is logged once in ten seconds.
//
// Where the instance has a name that lasts (Config.Instance), Run also takes its members out of the group before it returns, for
// whatever reason, but with Config.KeepMembership. A process that is killed is missed after Config.SessionTimeout, unless it is back
// before that: then it goes on where it was, and the other processes notice nothing.
//
// A second Run returns ErrClosed. Kafka Streams: start, and close.
func (a *App) Run(ctx context.Context) (err error) {
	if !a.started.CompareAndSwap(false, true) {
		return ErrClosed
	}
	release, err := a.identify()
	if err != nil {
		return err
	}
	defer func() {
		if releaseErr := release(); releaseErr != nil {
			err = errors.Join(err, releaseErr)
		}
	}()
	client, err := kgo.NewClient(append(a.set.clientOptions(), kgo.WithLogger(clientLogger{a.log, &a.quiet}))...)
	if err != nil {
		return fmt.Errorf("framework: make a client: %w", err)
	}
	defer client.Close()
	a.client, a.adm = client, kadm.NewClient(client)

	lay, err := a.prepare(ctx)
	if err != nil {
		if ctx.Err() != nil && !isFatal(err) {
			return nil // told to stop before anything had begun
		}
		return err
	}
	a.layout = lay
	a.published.Store(lay)
	a.registry = newRegistry(a.set.State, func(id engine.TaskID, cause error) {
		a.damaged.Add(1)
		a.log.Warn("the state of the task was damaged and has been thrown away: it is restored from the start of its changelogs", "task", id, "err", cause)
	})
	if a.restorer, err = restore.New(append(a.set.clientOptions(), kgo.WithLogger(clientLogger{a.log, &a.quiet}))); err != nil {
		return fmt.Errorf("framework: %w", err)
	}
	defer a.restorer.Close()
	a.warnEmptyStores(ctx, lay)
	a.log.Info("started", "workers", a.set.Workers, "tasks", len(lay.tasks()))

	err = a.runWorkers(ctx)
	if closeErr := a.registry.close(); err == nil {
		err = closeErr
	}
	if err == nil {
		a.log.Info("stopped")
	}
	return err
}

// runWorkers returns when all have stopped, with the first error of one.
func (a *App) runWorkers(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	for i := range a.set.Workers {
		a.workers = append(a.workers, newWorker(a, i))
	}
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		first error
	)
	watchCtx, unwatch := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() { a.watch(watchCtx) })
	defer watching.Wait()
	defer unwatch()
	for _, w := range a.workers {
		wg.Go(func() {
			err := w.run(ctx)
			if err == nil {
				return
			}
			mu.Lock()
			if first == nil {
				first = err
			}
			mu.Unlock()
			stop(err)
		})
	}
	wg.Wait()
	var app *appError
	if errors.As(first, &app) {
		return app.err
	}
	return first
}

// wake makes a worker look around before its poll is over.
func (a *App) wake(worker int) { a.workers[worker].wake() }
