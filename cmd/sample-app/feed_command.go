package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/headrace/headrace/cmd/sample-app/data"
)

// feedCommand makes topics and feeds a cluster.
func feedCommand(ctx context.Context, p process) int {
	c, code := configured(inFeed, "feed", p)
	if c == nil {
		return code
	}
	if err := feedCluster(ctx, c, p.stdout, p.stderr); err != nil {
		fmt.Fprintf(p.stderr, "sample-app feed: %v\n", err)
		return exitFail
	}
	return exitOK
}

// feedCluster feeds without waiting for any app: there may be none. Which flights must be late is not known then.
func feedCluster(ctx context.Context, c *config, stdout, stderr io.Writer) error {
	keyed, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer keyed.Close()
	adm := kadm.NewClient(keyed)
	topics := func(of []appTopic) error {
		return makeTopics(ctx, adm, of, c.Partitions, c.ReplicationFactor, func(topic string) {
			fmt.Fprintf(stderr, "made topic %s with %d partitions\n", topic, c.Partitions)
		})
	}
	if err := topics(tableTopics); err != nil {
		return err
	}
	if err := loadAirports(ctx, keyed); err != nil {
		return err
	}
	if err := topics(otherTopics); err != nil {
		return err
	}
	partitions, there, err := fedSoFar(ctx, adm)
	if err != nil {
		return err
	}
	feed, err := newFeed(data.Flights, c.Records, partitions)
	if err != nil {
		return err
	}
	total := c.Records + partitions
	switch {
	case there == int64(total):
		fmt.Fprintf(stdout, "topic %s has the %s flights already\n", flightsTopic, thousands(c.Records))
		return nil
	case there > 0:
		return fmt.Errorf("topic %s has had %d records already, and with these nothing could be verified: "+
			"delete the topics and the group of the app, or feed another cluster", flightsTopic, there)
	}
	fmt.Fprintf(stderr, "feeding %s flights into %d partitions of topic %s\n", thousands(c.Records), partitions, flightsTopic)
	client, err := c.connect(ctx, feedPartitioner())
	if err != nil {
		return err
	}
	defer client.Close()
	show := newView(stderr, total)
	start := time.Now()
	err = feed.Run(ctx, client, feedOptions{
		Rate:     c.Rate,
		Progress: func(sent, _ int) { show.sent(sent, remark{short: "feeding flights"}) },
	})
	show.done()
	if err != nil {
		return err
	}
	took := time.Since(start)
	fmt.Fprintf(stdout, "fed %s flights and %d end marks in %.1f s (%.0f flights/s)\n",
		thousands(c.Records), partitions, took.Seconds(), float64(c.Records)/took.Seconds())
	return nil
}
