package drive

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/bench/plan"
)

// tick is how often records are produced.
const tick = 5 * time.Millisecond

// latency produces records at the rate, each with the time at which it was made, and takes the time until a read-committed reader
// has what became of it. The first quarter does not count.
func (t *task) latency(ctx context.Context) error {
	s := &t.specs[0]
	if err := t.procs[0].await(plan.Ready, beginPatience); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reader, err := kgo.NewClient(kgo.SeedBrokers(t.Broker.Addrs...), kgo.DisableClientMetrics(), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeTopics(s.Output), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer reader.Close()
	n := t.run.Records
	times := make([]time.Duration, n)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	var readErr error
	wg.Go(func() { readErr = readTimes(ctx, reader, times) })
	if err := t.produceAtRate(ctx, s.Input); err != nil {
		return err
	}
	if err := t.drained(ctx, int64(n)); err != nil {
		return err
	}
	time.AfterFunc(10*time.Second, cancel) // what is committed by now is on its way
	wg.Wait()
	if readErr != nil {
		return readErr
	}
	counted := times[n/4:]
	slices.Sort(counted)
	t.values[plan.P50] = ms(counted[len(counted)/2])
	t.values[plan.P99] = ms(counted[len(counted)*99/100])
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (t *task) produceAtRate(ctx context.Context, topic string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(t.Broker.Addrs...), kgo.DisableClientMetrics(), kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(0))
	if err != nil {
		return err
	}
	defer client.Close()
	var failed atomic.Pointer[error]
	began := time.Now()
	for i := 0; i < t.run.Records; {
		now := time.Now()
		for due := int(now.Sub(began).Seconds() * float64(t.run.Rate)); i < min(due, t.run.Records); i++ {
			value := plan.AppendValue(nil, i)
			binary.BigEndian.PutUint64(value[8:], uint64(time.Now().UnixNano()))
			client.Produce(ctx, &kgo.Record{Key: plan.AppendKey(nil, t.run.Key(i)), Value: value}, func(_ *kgo.Record, err error) {
				if err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			})
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(tick):
		}
	}
	if err := client.Flush(ctx); err != nil {
		return err
	}
	if err := failed.Load(); err != nil {
		return fmt.Errorf("drive: produce to %s: %w", topic, *err)
	}
	return nil
}

// readTimes fills in how old each record was when it was read, by its index.
func readTimes(ctx context.Context, reader *kgo.Client, times []time.Duration) error {
	for left := len(times); left > 0; {
		fetches := reader.PollFetches(ctx)
		now := time.Now()
		if ctx.Err() != nil {
			return fmt.Errorf("drive: %d outputs were committed and did not come", left)
		}
		if err := fetches.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			i := plan.Index(r.Value)
			if i < uint64(len(times)) && times[i] == 0 { // whether there are others, the check finds
				times[i] = now.Sub(time.Unix(0, int64(binary.BigEndian.Uint64(r.Value[8:]))))
				left--
			}
		})
	}
	return nil
}
