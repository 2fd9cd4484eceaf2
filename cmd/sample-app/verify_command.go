package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/headrace/headrace/cmd/sample-app/data"
	"github.com/headrace/headrace/cmd/sample-app/verify"
)

// verifyCommand checks what the app wrote to a cluster.
func verifyCommand(ctx context.Context, p process) int {
	c, code := configured(inVerify, "verify", p)
	if c == nil {
		return code
	}
	report, err := verifyCluster(ctx, c, p.stderr)
	if err != nil {
		fmt.Fprintf(p.stderr, "sample-app verify: %v\n", err)
		return exitFail
	}
	fmt.Fprintln(p.stdout, report)
	if !report.OK() {
		return exitFail
	}
	return exitOK
}

// again is how long verify rests between two looks.
const again = 500 * time.Millisecond

// verifyCluster looks again and again until everything is right, something is wrong that stays so, or nothing new has come for
// verify.timeout.
func verifyCluster(ctx context.Context, c *config, stderr io.Writer) (verify.Report, error) {
	client, err := c.connect(ctx)
	if err != nil {
		return verify.Report{}, err
	}
	defer client.Close()
	v := verifier{config: c, adm: kadm.NewClient(client), out: stderr, moved: time.Now()}
	for {
		report, final, err := v.look(ctx)
		if final || ctx.Err() != nil || time.Since(v.moved) > c.VerifyTimeout {
			return report, err
		}
		rest := time.NewTimer(again)
		select {
		case <-ctx.Done():
		case <-rest.C:
		}
		rest.Stop()
	}
}

// verifier remembers how far things were when it last looked.
type verifier struct {
	*config
	adm     *kadm.Client
	out     io.Writer
	checker *verify.Checker

	at           progressMark
	moved, spoke time.Time
}

// progressMark changes whenever something new has come.
type progressMark struct {
	fed                int64
	windows, sidelined int
}

// look checks once. It is final if it is right, or can not become so.
func (v *verifier) look(ctx context.Context) (report verify.Report, final bool, err error) {
	partitions, fed, err := fedSoFar(ctx, v.adm)
	if err != nil {
		if errors.Is(err, errNoTopic) {
			v.progress(progressMark{}, "waiting: %v", err)
		}
		return report, false, err
	}
	switch total := int64(v.Records + partitions); {
	case fed > total:
		return report, true, fmt.Errorf("topic %s has had %d records, more than the %d flights and %d end marks that are to be verified; say how many flights were fed with --records",
			flightsTopic, fed, v.Records, partitions)
	case fed < total:
		v.progress(progressMark{fed: fed}, "waiting: %d of %d records are fed", fed, total)
		return report, false, fmt.Errorf("topic %s has only %d of %d records: feed %d flights first, or say how many there are with --records", flightsTopic, fed, total, v.Records)
	}
	if v.checker == nil {
		opts, err := v.kafkaOptions()
		if err != nil {
			return report, true, err
		}
		v.checker, err = verify.New(verify.Options{
			Brokers: v.Brokers, Flights: data.Flights, Airports: data.Airports, Records: v.Records, Partitions: partitions,
			Delays: delaysTopic, Late: lateTopic, Kafka: opts,
		})
		if err != nil {
			return report, true, err
		}
	}
	report, err = v.checker.Check(ctx)
	if err != nil {
		v.progress(v.at, "waiting: %v", err)
		return report, false, err // an open transaction, or no topic yet
	}
	if report.OK() || report.Extra > 0 { // what is too much does not go away
		return report, true, nil
	}
	v.progress(progressMark{fed, len(report.Results), report.Sidelined}, "waiting: %d windows are out, %d of %d equal the batch answer", len(report.Results), report.Equal, report.Windows)
	return report, false, nil
}

// progress takes in how far things are and tells it now and then.
func (v *verifier) progress(at progressMark, format string, args ...any) {
	now := time.Now()
	if at != v.at {
		v.at, v.moved = at, now
	}
	if now.Sub(v.spoke) >= lineInterval {
		v.spoke = now
		fmt.Fprintf(v.out, format+"\n", args...)
	}
}
