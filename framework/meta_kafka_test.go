//go:build kafka

package framework_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/devkafka"
	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/internal/wire"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/window"
)

type kafkaClock struct{}

func (kafkaClock) Init(t *topology.Task, _ topology.Emitter[string, string]) error {
	return t.EveryStreamTime(time.Hour, func(time.Time) error { return nil })
}

func (kafkaClock) Process(topology.Record[string, string], topology.Emitter[string, string]) error {
	return nil
}

// TestKafkaClocksThatDoNotFit: a broker takes 4,096 bytes of metadata. The first commit of more makes the meta topic and goes through; after a
// restart, what is late is late.
func TestKafkaClocksThatDoNotFit(tt *testing.T) {
	const parts = 2
	t := kafka(tt, devkafka.KafkaConfig{Topics: map[string]int32{"readings": parts}})
	app := func() *instance {
		b := topology.NewBuilder()
		in := topology.From(b, topology.Topic("readings", serde.String(), serde.String()))
		for i := range 40 {
			topology.Process(in, fmt.Sprintf("clock-%0144d", i), func() kafkaClock { return kafkaClock{} })
		}
		topology.Count(topology.Windowed(in.GroupByKey(), window.Tumbling(time.Second), window.Drop()), "per-second")
		return t.run(framework.Config{AppID: "many", Topology: t.build(b), State: state.Memory()})
	}
	writer := t.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	write := func(second int64) {
		for p := range int32(parts) {
			r := &kgo.Record{Topic: "readings", Partition: p, Key: []byte("k"), Value: []byte("x"), Timestamp: time.Unix(1_357_000_000+second, 0)}
			if err := writer.ProduceSync(context.Background(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	a := app()
	a.runs(parts)
	for second := range int64(10) {
		write(second)
		t.committed("many", "readings")
	}
	if c := a.end(); c.Aborts != 0 {
		t.Errorf("%d transactions were aborted", c.Aborts)
	}
	offsets, err := kadm.NewClient(t.Client(t)).FetchOffsets(context.Background(), "many")
	if err != nil {
		t.Fatal(err)
	}
	offsets.Each(func(o kadm.OffsetResponse) {
		if ref, is, err := wire.DecodeReference(o.Metadata); !is || err != nil || ref.Offset < 0 {
			t.Errorf("the clocks of %s[%d] are not in the meta topic: %+v, %v", o.Topic, o.Partition, ref, err)
		}
	})
	write(3)
	b := app()
	b.runs(parts)
	t.committed("many", "readings")
	if c := b.end(); c.Dropped["late-dropped"] != parts {
		t.Errorf("%v were dropped, want those of %d partitions that are late", c.Dropped, parts)
	}
}
