// Package verify checks what the sample app wrote. It shares no code with the framework or with the app: it reads the topics
// read-committed with a plain Kafka client, decodes them by hand, and computes every answer again from the file of flights.
//
// # What must hold
//
// The order of the feed decides which flights can and which have to be late, whatever the app's timing was:
//
//   - can: flights that are late by the watermark of their own partition when they are fed. A window operator's watermark is a
//     minimum in which that partition takes part, so no other flight can be late.
//   - have to: flights whose window ended at or before the last event time that the feeder waited for. Every window task had closed
//     the window by then, so none of them can be in time.
//
// A late flight corrects its window if the watermark is less than an hour past the window's end, and is sidelined otherwise. That, too,
// can be, or has to be, by the same two times less an hour: must ⊆ sidelined ⊆ may, and no flight is sidelined twice.
//
// The last result of each window is exactly the batch computation over the flights that were not sidelined: none missing, doubled, in
// excess or wrong. Before it come the revisions of the window, numbered from 0, and each adds one flight, which could be late. What had
// to be late is in none of the first results. When half of the feed was in, at least 40 % of the windows had to be out, or else the app
// is a batch job that looks like a stream.
package verify

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	windowSize = 6 * 60 * 60 * 1000 // ms
	disorder   = 15 * 60 * 1000     // ms
	horizon    = 60 * 60 * 1000     // ms behind the end of a window, in which it is corrected

	// halfShare is the part of the windows, in percent, that must be out when half of the feed is in.
	halfShare = 40
)

// Options say what to check. Brokers, Flights, Airports, Records and Partitions are required.
type Options struct {
	// Brokers are the addresses to start from.
	Brokers []string
	// Flights and Airports are the files as they were fed, gzipped JSON and gzipped CSV.
	Flights, Airports []byte
	// Records is how many flights were fed, Partitions how many partitions the topic of the flights has.
	Records, Partitions int
	// LatenessChecked says that the feeder waited for the app at window ends, and where corrections end. Without, a flight may be in
	// time that would have had to be late, and results may come when they like: that and the count at half time are not checked.
	LatenessChecked bool
	// Delays and Late name the topics of the results and of the late flights; by default airport-delays and flights-late.
	Delays, Late string
	// Kafka is what a client needs to reach the brokers besides their addresses: TLS, SASL.
	Kafka []kgo.Opt
}

// A Checker checks one run of the app. Its methods must not be called concurrently.
type Checker struct {
	opts     Options
	flights  []flight // by row - 1
	airports map[string]airport
	half     int // distinct windows seen when half of the feed was in, -1 if nobody looked
}

// New reads the files and computes from them which flights may and which must be late. It asks no broker. It fails on files
// that it cannot read, and on an origin without an airport.
func New(opts Options) (*Checker, error) {
	if opts.Delays == "" {
		opts.Delays = "airport-delays"
	}
	if opts.Late == "" {
		opts.Late = "flights-late"
	}
	switch {
	case len(opts.Brokers) == 0:
		return nil, errors.New("verify: no brokers given")
	case opts.Records < 1:
		return nil, fmt.Errorf("verify: %d records, must be at least 1", opts.Records)
	case opts.Partitions < 1:
		return nil, fmt.Errorf("verify: %d partitions, must be at least 1", opts.Partitions)
	}
	airports, err := readAirports(opts.Airports)
	if err != nil {
		return nil, err
	}
	flights, err := readFlights(opts.Flights, opts.Records)
	if err != nil {
		return nil, err
	}
	for i := range flights {
		if _, ok := airports[flights[i].origin]; !ok {
			return nil, fmt.Errorf("verify: flight %d starts at %q, which the file of airports does not have", flights[i].row, flights[i].origin)
		}
	}
	judge(flights, opts.Partitions)
	return &Checker{opts: opts, flights: flights, airports: airports, half: -1}, nil
}

func (c *Checker) reach() []kgo.Opt {
	return append([]kgo.Opt{kgo.SeedBrokers(c.opts.Brokers...)}, c.opts.Kafka...)
}

// Half is called when half of the feed has been sent: it counts the windows that are out by then, for Check to judge. It reads the
// topic of the results read-committed up to its last stable offset of now and returns; the app may go on working meanwhile.
func (c *Checker) Half(ctx context.Context) error {
	seen := map[string]struct{}{}
	err := readCommitted(ctx, c.reach(), c.opts.Delays, stable, func(r *kgo.Record) {
		seen[string(r.Key)] = struct{}{}
	})
	if err != nil {
		return fmt.Errorf("verify: cannot count the windows at half time: %w", err)
	}
	c.half = len(seen)
	return nil
}

// Check is called when the app has ended. It reads both topics read-committed to their ends, waiting for transactions that are still
// open, and compares. The error says that it could not look; what is wrong with the app is in the Report.
func (c *Checker) Check(ctx context.Context) (Report, error) {
	var in outputs
	err := readCommitted(ctx, c.reach(), c.opts.Delays, settled, func(r *kgo.Record) {
		in.results = append(in.results, decodeResult(r))
	})
	if err == nil {
		err = readCommitted(ctx, c.reach(), c.opts.Late, settled, func(r *kgo.Record) {
			in.late = append(in.late, decodeLate(r))
		})
	}
	if err != nil {
		return Report{}, fmt.Errorf("verify: cannot read what the app wrote: %w", err)
	}
	return c.compare(in), nil
}
