package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/cmd/sample-app/data"
)

func mustFeed(t *testing.T, records, partitions int) *Feed {
	t.Helper()
	f, err := newFeed(data.Flights, records, partitions)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// The facts of the file: 179 flights are late by their own partition's watermark, 98 by the last time that was waited for:
// those at which windows close, and those at which they can no longer be corrected.
func TestFeedLateness(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ records, partitions, may, must, waits int }{
		{20_000, 4, 179, 98, 618},
		{40_000, 4, 358, 196, 1235},
		{20_000, 1, 276, 276, 682},
	} {
		f := mustFeed(t, tt.records, tt.partitions)
		own := make([]time.Time, tt.partitions)
		waited := time.Time{}
		var may, must, waits int
		for _, s := range f.steps() {
			scheduled := f.endMark
			if s.flight >= 0 {
				scheduled = f.flights[s.flight].Scheduled
				end := scheduled.Truncate(6 * time.Hour).Add(6 * time.Hour)
				if !own[s.partition].Before(end) {
					may++
				}
				if !waited.Before(end) {
					must++
				}
			}
			if w := scheduled.Add(-15 * time.Minute); w.After(own[s.partition]) {
				own[s.partition] = w
			}
			if s.waitFor != noWindowEnd {
				waits++
				end := time.UnixMilli(s.waitFor)
				for p, w := range own {
					if w.Before(end) {
						t.Errorf("%d/%d: waits for %v, but partition %d is at %v", tt.records, tt.partitions, end.UTC(), p, w)
					}
				}
				if !end.After(waited) || s.waitFor%feedWindow.Milliseconds() != 0 && s.waitFor%feedWindow.Milliseconds() != feedHorizon.Milliseconds() {
					t.Errorf("%d/%d: waits for %v after %v", tt.records, tt.partitions, end.UTC(), waited.UTC())
				}
				waited = end
			}
		}
		// The end marks move the minimum once, with the last of them: one wait more.
		if may != tt.may || must != tt.must || waits != tt.waits {
			t.Errorf("%d records, %d partitions: may %d, must %d, waits %d; want %d, %d, %d",
				tt.records, tt.partitions, may, must, waits, tt.may, tt.must, tt.waits)
		}
		last := time.UnixMilli(f.lastWindowEnd())
		if want := f.endMark.AddDate(0, 0, -1).Truncate(feedWindow).Add(feedWindow); !last.Equal(want) || waited.Before(last) {
			t.Errorf("%d/%d: the last window ends at %v, want %v, and the end marks lead to %v", tt.records, tt.partitions, last.UTC(), want, waited.UTC())
		}
	}
}

// The order is by when a flight was heard of, then by row, over all copies at once; rows go on counting and copies lie 90 days apart.
func TestFeedOrderAndCopies(t *testing.T) {
	t.Parallel()
	f := mustFeed(t, 50_001, 4)
	seen := make([]bool, 50_001)
	var before *feedFlight
	for _, s := range f.steps() {
		if s.flight < 0 {
			continue
		}
		now := &f.flights[s.flight]
		seen[now.Row-1] = true
		if before != nil {
			if c := before.heard().Compare(now.heard()); c > 0 || c == 0 && before.Row >= now.Row {
				t.Fatalf("row %d, heard of at %v, is fed before row %d at %v", before.Row, before.heard(), now.Row, now.heard())
			}
		}
		before = now
	}
	if i := slices.Index(seen, false); i >= 0 {
		t.Errorf("row %d is not fed", i+1)
	}
	for _, row := range []int{1, 20_000, 10_001} {
		want, got := f.flights[row-1], f.flights[row+20_000-1]
		want.Row += 20_000
		want.Scheduled = want.Scheduled.AddDate(0, 0, 90)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("the copy of row %d differs (-want +got):\n%s", row, d)
		}
	}
}

func TestFeedRefusesBadInput(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		raw                 []byte
		records, partitions int
	}{{data.Flights, 0, 4}, {data.Flights, 1, 0}, {[]byte("not gzip"), 1, 1}, {data.Airports, 1, 1}} {
		if _, err := newFeed(tt.raw, tt.records, tt.partitions); err == nil {
			t.Errorf("%d records to %d partitions from %.8q: no error", tt.records, tt.partitions, tt.raw)
		}
	}
}

func startBroker(t *testing.T, partitions int32) []kgo.Opt {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, feedTopic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return []kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...)}
}

func newClient(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// What lies in the topic is the plan: each partition in its order, the end mark last; what comes before a wait is there when it begins.
func TestFeedRun(t *testing.T) {
	t.Parallel()
	const records, partitions = 1500, 4
	broker := startBroker(t, partitions)
	f := mustFeed(t, records, partitions)
	reader := newClient(t, append(broker, kgo.ConsumeTopics(feedTopic), kgo.FetchMaxWait(50*time.Millisecond))...)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	got := make([][]*kgo.Record, partitions)
	read := 0
	// readTo reads until so many records are there. They must all have been acknowledged, or this would not end: nothing is sent meanwhile.
	readTo := func(ctx context.Context, n int) error {
		for read < n {
			fs := reader.PollFetches(ctx)
			if err := fs.Err(); err != nil {
				return fmt.Errorf("read %d of %d: %w", read, n, err)
			}
			fs.EachRecord(func(r *kgo.Record) {
				got[r.Partition] = append(got[r.Partition], r)
				read++
			})
		}
		if read > n {
			return fmt.Errorf("%d records are there, only %d should be sent yet", read, n)
		}
		return nil
	}

	sentAt := map[int64]int{} // window end → records sent before the wait
	for i, s := range f.steps() {
		if s.waitFor != noWindowEnd {
			sentAt[s.waitFor] = i + 1
		}
	}
	var waits, halves int
	var told []int
	err := f.Run(ctx, newClient(t, append(broker, feedPartitioner())...), feedOptions{
		Wait: func(ctx context.Context, end int64) error {
			waits++
			return readTo(ctx, sentAt[end])
		},
		Halfway: func(ctx context.Context) error {
			halves++
			return readTo(ctx, records/2)
		},
		Progress: func(sent, total int) {
			told = append(told, sent)
			if total != records+partitions {
				t.Errorf("progress is told of %d records in all, want %d", total, records+partitions)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := readTo(ctx, records+partitions); err != nil {
		t.Fatal(err)
	}
	if waits != len(sentAt) || waits < 10 || halves != 1 {
		t.Errorf("%d waits and %d halves, want %d and 1", waits, halves, len(sentAt))
	}
	if !slices.IsSorted(told) || len(told) < 10 || told[len(told)-1] != records+partitions {
		t.Errorf("progress was told %v", told)
	}

	next := make([]int, partitions)
	for _, s := range f.steps() {
		r := got[s.partition][next[s.partition]]
		next[s.partition]++
		want, err := f.record(s)
		if err != nil {
			t.Fatal(err)
		}
		if string(r.Key) != string(want.Key) || string(r.Value) != string(want.Value) || !r.Timestamp.Equal(want.Timestamp) {
			t.Fatalf("partition %d, offset %d: %s %s at %v, want %s %s at %v", r.Partition, r.Offset, r.Key, r.Value, r.Timestamp, want.Key, want.Value, want.Timestamp)
		}
	}
	for p, rs := range got {
		var mark struct {
			EndMark   bool
			Scheduled time.Time
		}
		last := rs[len(rs)-1]
		if err := json.Unmarshal(last.Value, &mark); err != nil || !mark.EndMark || !mark.Scheduled.Equal(f.endMark) || string(last.Key) != "end-mark" {
			t.Errorf("partition %d ends in %s %s (%v)", p, last.Key, last.Value, err)
		}
	}
	first := slices.IndexFunc(f.order, func(s feedStep) bool { return s.flight == 0 })
	r, err := f.record(f.order[first])
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"row":1,"scheduled":"2001-01-01T00:47:00Z","delay":66,"distance":1750,"origin":"DTW","destination":"LAS"}`; string(r.Value) != want {
		t.Errorf("row 1 is sent as %s", r.Value)
	}
	if want := time.Date(2001, 1, 1, 1, 53, 0, 0, time.UTC); !r.Timestamp.Equal(want) || string(r.Key) != "DTW-LAS" {
		t.Errorf("row 1 is sent as %s at %v", r.Key, r.Timestamp)
	}
}

// The planned partitions are those in which a client with its default partitioner, which is Kafka's, puts the flights.
func TestFeedPartitionsAreKafkas(t *testing.T) {
	t.Parallel()
	const partitions = 7
	broker := startBroker(t, partitions)
	f := mustFeed(t, 600, partitions)
	plain := newClient(t, broker...)
	used := map[int32]bool{}
	for _, s := range f.steps() {
		if s.flight < 0 {
			continue
		}
		plain.Produce(t.Context(), &kgo.Record{Topic: feedTopic, Key: []byte(f.flights[s.flight].key())}, func(r *kgo.Record, err error) {
			if err != nil || r.Partition != s.partition {
				t.Errorf("%s goes to partition %d (%v), planned %d", r.Key, r.Partition, err, s.partition)
			}
		})
		used[s.partition] = true
	}
	if err := plain.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(used) != partitions {
		t.Errorf("only %d partitions are used", len(used))
	}
}

func TestFeedRunFails(t *testing.T) {
	t.Parallel()
	broker := startBroker(t, 4)
	f := mustFeed(t, 400, 4)
	boom := errors.New("boom")
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(boom)

	for _, tt := range []struct {
		name   string
		ctx    context.Context
		client []kgo.Opt
		opts   feedOptions
		is     error
		says   string
	}{
		{name: "wait", opts: feedOptions{Wait: func(context.Context, int64) error { return boom }}, is: boom, says: "waiting for the app at 2001-01-0"},
		{name: "halfway", opts: feedOptions{Halfway: func(context.Context) error { return boom }}, is: boom, says: "halfway"},
		{name: "context", ctx: gone, is: boom, says: "boom"},
		{name: "context, at a rate", ctx: gone, opts: feedOptions{Rate: 1}, is: boom, says: "boom"},
		{name: "partitioner", client: []kgo.Opt{kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil))}, says: "make the client with feedPartitioner"},
		{name: "produce", client: []kgo.Opt{feedPartitioner(), kgo.MaxBufferedRecords(1), kgo.ManualFlushing()}, is: kgo.ErrMaxBuffered, says: "cannot send record 1 to flights"},
	} {
		client := newClient(t, append(slices.Clone(broker), append([]kgo.Opt{feedPartitioner()}, tt.client...)...)...)
		ctx := t.Context()
		if tt.ctx != nil {
			ctx = tt.ctx
		}
		err := f.Run(ctx, client, tt.opts)
		if err == nil || tt.is != nil && !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: the error is %v, want one that says %q", tt.name, err, tt.says)
		}
	}
}

func TestFeedPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		send := func(p *feedPace, n int) time.Duration {
			start := time.Now()
			for range n {
				if err := p.next(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			return time.Since(start)
		}
		p := newFeedPace(2000)
		if took := send(p, 10_000); took < 4990*time.Millisecond || took > 5*time.Second {
			t.Errorf("10000 records at 2000/s take %v", took)
		}
		// A wait for the app is not made up for by a burst.
		<-time.After(time.Minute)
		p.reset()
		if took := send(p, 2000); took < 990*time.Millisecond || took > time.Second {
			t.Errorf("2000 records at 2000/s after a wait take %v", took)
		}
		if took := send(newFeedPace(0), 10_000); took != 0 {
			t.Errorf("10000 records without a rate take %v", took)
		}
	})
}
