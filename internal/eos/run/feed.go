package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/internal/eos"
)

const (
	keys = 1000
	// baseTime is where event time begins: long ago, so that nothing may depend on its being near.
	baseTime = 1_000_000_000_000 // 2001-09-09
	// Of so many events one is late by so much.
	lateEvery = 200
	lateBy    = 8 * time.Second
)

func keyOf(source int64) string { return fmt.Sprintf("k%04d", source) }

// feed writes events at an even pace.
type feed struct {
	cfg     config
	brokers []string
	rng     *rand.Rand

	least atomic.Int64 // finish has been called: stop after so many
	count int          // events written, end marks left out; read it when run has returned
	next  map[int64]int64

	mu  sync.Mutex
	err error
}

func newFeed(c config, brokers []string) *feed {
	f := &feed{cfg: c, brokers: brokers, rng: rand.New(rand.NewPCG(c.seed, 1)), next: make(map[int64]int64)}
	f.least.Store(1 << 40)
	return f
}

// finish lets run end when it has written as many events.
func (f *feed) finish(least int) { f.least.Store(int64(least)) }

func (f *feed) run(ctx context.Context) error {
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(f.brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(5*time.Millisecond),
		kgo.MaxBufferedRecords(200_000))
	if err != nil {
		return err
	}
	defer cl.Close()
	start := time.Now()
	every := time.NewTicker(10 * time.Millisecond)
	defer every.Stop()
	for int64(f.count) < f.least.Load() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-every.C:
		}
		elapsed := time.Since(start)
		for due := int(elapsed.Seconds() * float64(f.cfg.rate)); f.count < due; f.count++ {
			f.produce(ctx, cl, f.event(elapsed))
		}
		if err := f.failure(); err != nil {
			return err
		}
	}
	end := baseTime + time.Since(start).Milliseconds() + time.Hour.Milliseconds()
	for p := range eos.Partitions {
		f.produce(ctx, cl, eos.Event{Source: int64(p), At: end, End: true})
	}
	if err := cl.Flush(ctx); err != nil {
		return err
	}
	return f.failure()
}

func (f *feed) event(elapsed time.Duration) eos.Event {
	source := f.rng.Int64N(keys)
	f.next[source]++
	at := baseTime + elapsed.Milliseconds() - f.rng.Int64N(1_500)
	if elapsed > 2*lateBy && f.count%lateEvery == 0 {
		at -= lateBy.Milliseconds()
	}
	return eos.Event{Source: source, N: f.next[source], Amount: f.rng.Int64N(1_000_000), At: at}
}

// produce writes an event, stamped with the time of writing. Were it stamped with its event time, which is long ago, a broker that
// restarts would forget the producer, as it does when producer.id.expiration.ms has passed since its last stamp, and take a batch that
// is sent again for a new one.
func (f *feed) produce(ctx context.Context, cl *kgo.Client, e eos.Event) {
	value, err := eos.EventSerde.Append(nil, e)
	if err != nil {
		f.fail(err)
		return
	}
	cl.Produce(ctx, &kgo.Record{
		Topic: eos.Input, Partition: int32(e.Source % eos.Partitions), Key: []byte(keyOf(e.Source)), Value: value,
	}, func(_ *kgo.Record, err error) { f.fail(err) })
}

func (f *feed) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil && err != nil {
		f.err = fmt.Errorf("write the input: %w", err)
	}
}

func (f *feed) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// prepareTopics writes the table and what starts the timers.
func prepareTopics(ctx context.Context, brokers []string) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return err
	}
	defer cl.Close()
	var records []*kgo.Record
	for g := range int64(eos.GroupCount) {
		records = append(records, &kgo.Record{
			Topic: eos.Groups, Key: []byte(eos.Event{Source: g}.Group()), Value: binary.BigEndian.AppendUint64(nil, uint64(eos.Weight(g))),
		})
	}
	for range eos.Partitions {
		records = append(records, &kgo.Record{Topic: eos.Clock, Value: []byte("start")})
	}
	return cl.ProduceSync(ctx, records...).FirstErr()
}
