package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	feedTopic = "flights"

	feedWindow   = 6 * time.Hour
	feedDisorder = 15 * time.Minute
	// feedHorizon is how long a window is corrected after it has closed.
	feedHorizon = time.Hour
	// feedShift is how far each repetition of the file lies behind the one before: it covers 90 days.
	feedShift = 90 * 24 * time.Hour

	// noWindowEnd is a window end that is never waited for, and the watermark of a partition without a record.
	noWindowEnd = math.MinInt64
)

// A Feed knows which records go to the topic of the flights, and in which order: that in which the world would have heard of the
// flights, date + max(delay, 0), ties in the order of the file, and then one end mark for each partition. It also keeps the watermarks
// that a reader of the topic would have, the largest scheduled time of a partition less 15 minutes, and so knows when a window ends
// for all of them, and when it can no longer be corrected. It is immutable.
type Feed struct {
	flights    []feedFlight
	order      []feedStep
	partitions int
	lastEnd    int64
	endMark    time.Time
}

// feedFlight is the value of a flight on the wire.
type feedFlight struct {
	Row         int       `json:"row"`
	Scheduled   time.Time `json:"scheduled"`
	Delay       int       `json:"delay"`
	Distance    int       `json:"distance"`
	Origin      string    `json:"origin"`
	Destination string    `json:"destination"`
}

// feedEndMark is the value of an end mark: not a flight, but it moves the watermark.
type feedEndMark struct {
	EndMark   bool      `json:"endMark"`
	Scheduled time.Time `json:"scheduled"`
}

func (f *feedFlight) key() string { return f.Origin + "-" + f.Destination }

func (f *feedFlight) heard() time.Time {
	return f.Scheduled.Add(time.Duration(max(f.Delay, 0)) * time.Minute)
}

// A feedStep is one record of the feed: a flight, or an end mark where flight is -1. Once it is sent, the feed's own
// watermark has passed waitFor, unless that is noWindowEnd.
type feedStep struct {
	flight    int
	partition int32
	waitFor   int64
}

// newFeed reads the gzipped flights and plans the feed of so many records to so many partitions. Beyond the end of the file
// it starts again, each copy 90 days behind the one before, and orders everything as a whole.
func newFeed(raw []byte, records, partitions int) (*Feed, error) {
	if records < 1 || partitions < 1 {
		return nil, fmt.Errorf("feed: %d records to %d partitions: both must be at least 1", records, partitions)
	}
	flights, err := readFeedFlights(raw, records)
	if err != nil {
		return nil, err
	}
	f := &Feed{flights: flights, partitions: partitions, lastEnd: noWindowEnd}
	var last time.Time
	order := make([]int, len(flights))
	for i := range flights {
		order[i] = i
		if flights[i].Scheduled.After(last) {
			last = flights[i].Scheduled
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return flights[a].heard().Compare(flights[b].heard()) })
	f.endMark = last.Add(24 * time.Hour)
	f.lastEnd = feedFloor(last.UnixMilli()) + feedWindow.Milliseconds()

	f.order = make([]feedStep, 0, len(order)+partitions)
	marks := newFeedWatermarks(partitions)
	where := kgo.StickyKeyPartitioner(nil).ForTopic(feedTopic)
	for _, i := range order {
		p := int32(where.Partition(&kgo.Record{Key: []byte(flights[i].key())}, partitions))
		f.order = append(f.order, feedStep{flight: i, partition: p, waitFor: marks.move(p, flights[i].Scheduled)})
	}
	for p := range int32(partitions) {
		f.order = append(f.order, feedStep{flight: -1, partition: p, waitFor: marks.move(p, f.endMark)})
	}
	return f, nil
}

func readFeedFlights(raw []byte, records int) ([]feedFlight, error) {
	zr, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("feed: the flights are no gzip file: %w", err)
	}
	var file []struct {
		feedFlight
		Date string `json:"date"`
	}
	if err := json.NewDecoder(zr).Decode(&file); err != nil {
		return nil, fmt.Errorf("feed: the file of flights: %w", err)
	}
	if len(file) == 0 {
		return nil, errors.New("feed: the file of flights is empty")
	}
	flights := make([]feedFlight, records)
	for i := range flights {
		in := file[i%len(file)]
		date, err := time.Parse("2006/01/02 15:04", in.Date)
		if err != nil {
			return nil, fmt.Errorf("feed: row %d of the file of flights: %w", i%len(file)+1, err)
		}
		flights[i] = in.feedFlight
		flights[i].Row = i + 1
		flights[i].Scheduled = date.Add(time.Duration(i/len(file)) * feedShift)
	}
	return flights, nil
}

// feedWatermarks are those of the partitions, and the last time to wait for that all of them have passed.
type feedWatermarks struct {
	own    []int64
	passed int64
}

func newFeedWatermarks(partitions int) *feedWatermarks {
	return &feedWatermarks{own: slices.Repeat([]int64{noWindowEnd}, partitions), passed: noWindowEnd}
}

// move takes in a record and returns the time to wait for that the minimum has passed with it, or noWindowEnd.
func (w *feedWatermarks) move(partition int32, scheduled time.Time) int64 {
	w.own[partition] = max(w.own[partition], scheduled.Add(-feedDisorder).UnixMilli())
	low := slices.Min(w.own)
	if low == noWindowEnd || feedMark(low) <= w.passed {
		return noWindowEnd
	}
	w.passed = feedMark(low)
	return w.passed
}

// feedMark returns the last time that is not after a time in milliseconds and at which what is late changes: where a window closes, or
// can no longer be corrected.
func feedMark(ms int64) int64 {
	return max(feedFloor(ms), feedFloor(ms-feedHorizon.Milliseconds())+feedHorizon.Milliseconds())
}

// feedFloor returns the last window end that is not after a time in milliseconds. The file starts in 2001.
func feedFloor(ms int64) int64 { return ms - ms%feedWindow.Milliseconds() }

// lastWindowEnd is the end of the last window with a flight, in milliseconds: once every window task's watermark is there and no
// closing is due, the app has answered everything.
func (f *Feed) lastWindowEnd() int64 { return f.lastEnd }

// steps is the feed in its order.
func (f *Feed) steps() iter.Seq2[int, feedStep] { return slices.All(f.order) }

// record makes what is sent for a step. Its timestamp is when the world would have heard of it.
func (f *Feed) record(s feedStep) (*kgo.Record, error) {
	r := &kgo.Record{Topic: feedTopic, Partition: s.partition}
	var err error
	if s.flight < 0 {
		r.Key, r.Timestamp = []byte("end-mark"), f.endMark
		r.Value, err = json.Marshal(feedEndMark{EndMark: true, Scheduled: f.endMark})
	} else {
		flight := &f.flights[s.flight]
		r.Key, r.Timestamp = []byte(flight.key()), flight.heard()
		r.Value, err = json.Marshal(flight)
	}
	return r, err
}

// feedOptions say how a feed is sent. The functions run on the goroutine of Run, which goes on when they return; everything
// that was sent before is acknowledged then. An error of theirs ends the feed.
type feedOptions struct {
	// Rate is how many records are sent in a second; 0 is as many as there can be.
	Rate int
	// Wait returns when every window task has a watermark of at least so much, in milliseconds. nil leaves the waits out.
	Wait func(ctx context.Context, watermark int64) error
	// Halfway is called once, when half of the flights are sent, after the wait that may be due there.
	Halfway func(ctx context.Context) error
	// Progress is told how many records have been handed over, end marks included, about every 100 records and at the end.
	Progress func(sent, total int)
}

// feedPartitioner is the option that a client for Run must have: each record carries its partition, the end marks one that their key does not lead to.
func feedPartitioner() kgo.Opt { return kgo.RecordPartitioner(kgo.ManualPartitioner()) }

// Run sends the feed and returns when all of it is acknowledged. The first error wins: one of producing, one of a function
// of the options, or that of ctx. The client must be made with feedPartitioner.
func (f *Feed) Run(ctx context.Context, client *kgo.Client, opts feedOptions) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var once sync.Once
	fail := func(err error) { once.Do(func() { cancel(err) }) }
	flush := func() error {
		err := client.Flush(ctx)
		return cmp.Or(context.Cause(ctx), err)
	}

	pace, total, half := newFeedPace(opts.Rate), len(f.order), (len(f.flights)+1)/2
	for i, step := range f.steps() {
		if err := pace.next(ctx); err != nil {
			return context.Cause(ctx)
		}
		r, err := f.record(step)
		if err != nil {
			return fmt.Errorf("feed: record %d: %w", i, err)
		}
		client.Produce(ctx, r, func(r *kgo.Record, err error) {
			switch {
			case err != nil:
				fail(fmt.Errorf("feed: cannot send record %d to %s: %w", i, feedTopic, err))
			case r.Partition != step.partition:
				fail(fmt.Errorf("feed: record %d went to partition %d instead of %d: make the client with feedPartitioner", i, r.Partition, step.partition))
			}
		})
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if opts.Progress != nil && (i+1)%100 == 0 && i+1 < total {
			opts.Progress(i+1, total)
		}
		waits := opts.Wait != nil && step.waitFor != noWindowEnd
		halfway := opts.Halfway != nil && i+1 == half
		if !waits && !halfway {
			continue
		}
		if err := flush(); err != nil {
			return err
		}
		if waits {
			if err := opts.Wait(ctx, step.waitFor); err != nil {
				return fmt.Errorf("feed: waiting for the app at %s: %w", time.UnixMilli(step.waitFor).UTC().Format(time.DateTime), err)
			}
		}
		if halfway {
			if err := opts.Halfway(ctx); err != nil {
				return fmt.Errorf("feed: halfway: %w", err)
			}
		}
		pace.reset()
	}
	if err := flush(); err != nil {
		return err
	}
	if opts.Progress != nil {
		opts.Progress(total, total)
	}
	return nil
}

// feedPace keeps to a rate. Time spent elsewhere is not made up for after a reset.
type feedPace struct {
	every time.Duration
	due   time.Time
}

func newFeedPace(rate int) *feedPace {
	p := &feedPace{}
	if rate > 0 {
		p.every = time.Second / time.Duration(rate)
	}
	p.reset()
	return p
}

func (p *feedPace) reset() { p.due = time.Now() }

// next returns when the next record is due. It does not sleep for less than two milliseconds, which would be slept too long.
func (p *feedPace) next(ctx context.Context) error {
	if p.every == 0 {
		return ctx.Err()
	}
	ahead := time.Until(p.due)
	p.due = p.due.Add(p.every)
	if ahead < 2*time.Millisecond {
		return ctx.Err()
	}
	t := time.NewTimer(ahead)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
