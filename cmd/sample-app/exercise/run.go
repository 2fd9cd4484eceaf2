package exercise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/state"
)

const (
	// patience is how long one payment may take.
	patience = 20 * time.Second
	// look is how often it is looked whether something has been committed.
	look = 2 * time.Millisecond
)

// errStopped is an app that ended without being told to.
var errStopped = errors.New("exercise: the app has stopped")

// Do carries out a run on a broker that has none of its topics yet: it makes them, starts the app, sends one payment after the other,
// each when the one before has been committed, ends the app, and reads everything back.
func Do(ctx context.Context, brokers []string, r Run, s Setup, log *slog.Logger) (*Outcome, error) {
	n := namesOf(r)
	top, err := build(r, s)
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	adm := kadm.NewClient(client)
	// One partition each: the order of arrival is the order of processing then.
	if _, err := adm.CreateTopics(ctx, 1, -1, nil, n.in, n.journal, n.results, n.aside, n.balance); err != nil {
		return nil, fmt.Errorf("exercise: make topics: %w", err)
	}
	app, err := framework.New(framework.Config{AppID: n.app, Brokers: brokers, Topology: top, State: state.Memory(), Logger: log})
	if err != nil {
		return nil, err
	}
	appCtx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ended := make(chan error, 1)
	go func() {
		err := app.Run(appCtx)
		stop(errors.Join(errStopped, err)) // whoever waits for it need not wait on
		ended <- err
	}()
	f := feeder{adm: adm, client: client, names: n, run: r}
	after, err := f.feed(appCtx)
	if err == nil {
		err = f.settle(appCtx)
	}
	stop(nil)
	if appErr := <-ended; appErr != nil {
		return nil, fmt.Errorf("exercise: run %s: %w", r.Name, appErr)
	}
	if err != nil {
		return nil, fmt.Errorf("exercise: run %s: %w", r.Name, err)
	}
	return collect(ctx, brokers, adm, app.Snapshot(), r, s, after)
}

// feeder sends the payments of a run.
type feeder struct {
	adm    *kadm.Client
	client *kgo.Client
	names
	run Run
}

// feed sends the payments, each when the one before has been committed, and returns for each how far the topic of results was then: what
// is before that offset and not before that of the payment before came of it.
func (f *feeder) feed(ctx context.Context) (after []int64, err error) {
	for i, e := range f.run.Events {
		value, err := json.Marshal(payment{e.Amount})
		if err != nil {
			return nil, err
		}
		r := &kgo.Record{Topic: f.in, Key: []byte(e.Key), Value: value, Timestamp: time.UnixMilli(e.At)}
		if err := f.client.ProduceSync(ctx, r).FirstErr(); err != nil {
			return nil, fmt.Errorf("send payment %d: %w", i+1, err)
		}
		if err := f.committed(ctx, f.in, r.Offset+1); err != nil {
			return nil, fmt.Errorf("payment %d: %w", i+1, err)
		}
		end, err := end(ctx, f.adm, f.results)
		if err != nil {
			return nil, err
		}
		after = append(after, end)
	}
	return after, nil
}

// committed waits until the group of the app has committed an offset.
func (f *feeder) committed(ctx context.Context, topic string, offset int64) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("offset %d of %s is not committed after %v", offset, topic, patience))
	defer cancel()
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		have, err := f.adm.FetchOffsets(ctx, f.app)
		if at, ok := have.Lookup(topic, 0); err == nil && ok && at.At >= offset {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// settle waits until what went through the repartition topic has been added up.
func (f *feeder) settle(ctx context.Context) error {
	records, err := read(ctx, f.client.OptValue(kgo.SeedBrokers).([]string), f.adm, f.repartition())
	if err != nil {
		return err
	}
	for _, r := range records {
		if r.Value == nil || len(r.Headers) == 1 && r.Headers[0].Key == reportHeader {
			continue
		}
		if err := f.committed(ctx, f.repartition(), r.Offset+1); err != nil {
			return err
		}
	}
	return nil
}

// reportHeader is on records of repartition topics that say how far event time is, and are no data.
const reportHeader = "x-wm"

// end is how far a topic of one partition can be read: where its last committed transaction ends.
func end(ctx context.Context, adm *kadm.Client, topic string) (int64, error) {
	ends, err := adm.ListCommittedOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return 0, fmt.Errorf("end of topic %s: %w", topic, err)
	}
	at, ok := ends.Lookup(topic, 0)
	if !ok {
		return 0, fmt.Errorf("topic %s has no partition", topic)
	}
	return at.Offset, nil
}

// read reads a topic of one partition read-committed, as far as it goes now.
func read(ctx context.Context, brokers []string, adm *kadm.Client, topic string) ([]*kgo.Record, error) {
	to, err := end(ctx, adm, topic)
	if err != nil {
		return nil, err
	}
	starts, err := adm.ListStartOffsets(ctx, topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("start of topic %s: %w", topic, err)
	}
	from, _ := starts.Lookup(topic, 0)
	client, err := kgo.NewClient(
		kgo.SeedBrokers(brokers...),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(from.Offset)}}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // the last offset may be the end of a transaction
		kgo.FetchMaxWait(50*time.Millisecond),
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("topic %s cannot be read to %d within %v", topic, to, patience))
	defer cancel()
	var out []*kgo.Record
	for at := from.Offset; at < to; {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("read topic %s: %w", topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			at = r.Offset + 1
			if r.Offset < to && !r.Attrs.IsControl() {
				out = append(out, r)
			}
		})
	}
	return out, nil
}
