package main

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// restartBroker kills the broker and starts it again, while the processes stand still with their transactions open.
//
// They stand still because of the broker, not because of us. A coordinator skips the markers of partitions that have no leader,
// taking them for deleted ("Couldn't find leader endpoint … can be skipped", Kafka 4.3.1), and says that the transaction is complete;
// its partitions then stay open for ever. The only broker of a cluster has no leaders for a moment when it ends in an orderly way and
// when it starts. So no transaction may be between its end and its markers then.
func (d *driver) restartBroker(ctx context.Context) (string, error) {
	from := time.Now()
	cl, err := kgo.NewClient(kgo.SeedBrokers(d.kafka.Addrs()...))
	if err != nil {
		return "", err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	for _, p := range d.procs {
		if err := p.signal(syscall.SIGSTOP); err != nil {
			return "", err
		}
	}
	open, err := d.settled(ctx, adm)
	if err != nil {
		return "", err
	}
	d.kafka.Kill()
	if err := d.kafka.Restart(); err != nil {
		return "", err
	}
	if err := led(ctx, adm); err != nil {
		return "", err
	}
	took := time.Since(from)
	for _, p := range d.procs {
		if err := p.signal(syscall.SIGCONT); err != nil {
			return "", err
		}
	}
	err = d.healthy(time.Minute)
	d.quiet = append(d.quiet, span{"", from, time.Now()})
	return fmt.Sprintf("broker killed and back after %v, with the transactions %v open", took.Round(time.Millisecond), open), err
}

// settled waits until no transaction is between its end and its markers, and returns those that are open.
func (d *driver) settled(ctx context.Context, adm *kadm.Client) ([]string, error) {
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		listed, err := adm.ListTransactions(ctx, nil, nil)
		if err != nil {
			return nil, err
		}
		var open []string
		ending := ""
		for _, t := range listed.Sorted() {
			switch {
			case strings.HasPrefix(t.State, "Prepare"):
				ending = t.TxnID
			case t.State == "Ongoing":
				open = append(open, t.TxnID)
			}
		}
		if ending == "" {
			return open, nil
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("the markers of transaction %s are not written", ending)
		}
	}
}

// led waits until all partitions have leaders.
func led(ctx context.Context, adm *kadm.Client) error {
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		topics, err := adm.ListTopicsWithInternal(ctx)
		without := 0
		for _, t := range topics {
			for _, p := range t.Partitions {
				if p.Err != nil || p.Leader < 0 {
					without++
				}
			}
		}
		if err == nil && without == 0 {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d partitions have no leader (%w)", without, err)
		}
	}
}
