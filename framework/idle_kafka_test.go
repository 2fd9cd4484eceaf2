//go:build kafka

package framework_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/devkafka"
	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/window"
)

// TestKafkaIdlePartitions: of four partitions one never has a record, and one ends with an aborted transaction. Windows behind a repartition
// topic close without them, again after a restart; while a transaction is open in a partition it is not idle, and what comes of it is on time.
func TestKafkaIdlePartitions(tt *testing.T) {
	const parts, idleAfter = 4, 2 * time.Second
	t := kafka(tt, devkafka.KafkaConfig{Topics: map[string]int32{"readings": parts, "minutes": 1}})
	app := func() *instance {
		b := topology.NewBuilder()
		in := topology.From(b, topology.Topic("readings", serde.String(), serde.String()))
		again := topology.GroupBy(in, "again", func(_, v string) string { return v }, serde.String(), serde.String())
		topology.Count(topology.Windowed(again, window.Tumbling(time.Minute), window.Drop()), "minutes", topology.EmitOnClose()).
			To(topology.Topic("minutes", window.KeySerde(serde.String()).Size(time.Minute), serde.Int64()))
		return t.run(framework.Config{AppID: "idle", Topology: t.build(b), State: state.Memory(), IdleAfter: idleAfter})
	}
	const epoch = 1_357_000_020
	record := func(p int32, second int64) *kgo.Record {
		return &kgo.Record{Topic: "readings", Partition: p, Key: []byte("k"), Value: fmt.Appendf(nil, "p%d", p), Timestamp: time.Unix(epoch+second, 0)}
	}
	plain := t.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	write := func(p int32, seconds ...int64) {
		for _, s := range seconds {
			if err := plain.ProduceSync(context.Background(), record(p, s)).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	txn := t.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID("source"))
	begin := func(p int32, second int64) {
		if err := txn.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := txn.ProduceSync(context.Background(), record(p, second)).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	end := func(how kgo.TransactionEndTry) {
		if err := txn.EndTransaction(context.Background(), how); err != nil {
			t.Fatal(err)
		}
	}
	closed := func() int { return len(t.ReadCommitted(t, "minutes")) }
	// await lets the first two go on, each within a minute: where all are idle, time rests.
	await := func(n int, second int64) {
		t.Helper()
		for limit := time.Now().Add(time.Minute); closed() < n; {
			if time.Now().After(limit) {
				t.Fatalf("%d windows have closed within a minute, want %d", closed(), n)
			}
			write(0, second)
			write(1, second)
			time.Sleep(200 * time.Millisecond) // a real broker
		}
	}

	a := app()
	a.runs(2 * parts)
	write(3, 1)
	begin(3, 2)
	end(kgo.TryAbort)
	for _, p := range []int32{0, 1} {
		write(p, 10, 70)
	}
	await(3, 80) // the first minute of 0, 1 and 3
	if c := a.end(); c.Aborts != 0 || c.Dropped["late-dropped"] != 0 || c.Reports == 0 {
		t.Errorf("%d aborts, %v, %d reports", c.Aborts, c.Dropped, c.Reports)
	}

	b := app()
	b.runs(2 * parts)
	begin(3, 71) // open for longer than IdleAfter
	for _, p := range []int32{0, 1} {
		write(p, 130)
	}
	time.Sleep(3 * idleAfter) // a real broker: nothing is to happen
	if n := closed(); n != 3 {
		t.Errorf("%d windows have closed while a transaction is open in a partition, want 3", n)
	}
	end(kgo.TryCommit)
	await(6, 140) // the second minute of 0, 1 and 3
	if c := b.end(); c.Aborts != 0 || c.Dropped["late-dropped"] != 0 {
		t.Errorf("%d aborts, %v", c.Aborts, c.Dropped)
	}
}
