package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/headrace/headrace/internal/eos"
)

// checkOpen gives transactions that nobody ends their time first.
func checkOpen(ctx context.Context, rep *eos.Report, adm *kadm.Client, topics []string, timeout time.Duration) error {
	for end := time.Now().Add(timeout + 15*time.Second); ; time.Sleep(500 * time.Millisecond) {
		stable, err := adm.ListCommittedOffsets(ctx, topics...)
		if err != nil {
			return err
		}
		ends, err := adm.ListEndOffsets(ctx, topics...)
		if err != nil {
			return err
		}
		at := make(map[eos.Place]eos.Ends)
		ends.Each(func(o kadm.ListedOffset) {
			s, _ := stable.Lookup(o.Topic, o.Partition)
			at[eos.Place{Topic: o.Topic, Partition: o.Partition}] = eos.Ends{Stable: s.Offset, End: o.Offset}
		})
		listed, err := adm.ListTransactions(ctx, nil, []string{"Ongoing", "PrepareCommit", "PrepareAbort"})
		if err != nil {
			return err
		}
		var open []string
		for _, t := range listed.Sorted() {
			open = append(open, t.TxnID+" "+t.State)
		}
		found := &eos.Report{}
		eos.CheckOpen(found, at, open)
		switch {
		case found.OK():
			return nil
		case time.Now().After(end):
			eos.CheckOpen(rep, at, open)
			explainOpen(ctx, adm, at)
			return nil
		}
	}
}

// explainOpen prints what the broker knows of the producers that keep partitions open, and of all transactions.
func explainOpen(ctx context.Context, adm *kadm.Client, at map[eos.Place]eos.Ends) {
	parts := make(kadm.TopicsSet)
	for p, e := range at {
		if e.Stable != e.End {
			parts.Add(p.Topic, p.Partition)
		}
	}
	producers, err := adm.DescribeProducers(ctx, parts)
	if err != nil {
		fmt.Println("describe producers:", err)
	}
	for _, p := range producers.SortedProducers() {
		if p.CurrentTxnStartOffset >= 0 {
			fmt.Printf("open: %s[%d] from offset %d by producer %d epoch %d, coordinator epoch %d, last written at %s\n",
				p.Topic, p.Partition, p.CurrentTxnStartOffset, p.ProducerID, p.ProducerEpoch, p.CoordinatorEpoch, time.UnixMilli(p.LastTimestamp).Format("15:04:05.000"))
		}
	}
	transactions, err := adm.DescribeTransactions(ctx)
	if err != nil {
		fmt.Println("describe transactions:", err)
	}
	for _, t := range transactions.Sorted() {
		fmt.Printf("transaction %s: %s, producer %d epoch %d, started %s, partitions %v\n",
			t.TxnID, t.State, t.ProducerID, t.ProducerEpoch, time.UnixMilli(t.StartTimestamp).Format("15:04:05.000"), t.Topics)
	}
}
