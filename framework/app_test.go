package framework_test

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/topology"
)

func counting(t *testing.T) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder()
	in := topology.From(b, topology.Topic("in", serde.String(), serde.String()))
	topology.Count(in.GroupByKey(), "counts")
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

func TestNewReturnsAllMistakesAtOnce(t *testing.T) {
	t.Parallel()
	_, err := framework.New(framework.Config{
		AppID: "a b", Instance: "c/d", Topology: counting(t), Workers: -1, CommitInterval: time.Hour, MaxPendingBytes: -5,
		OnRecordError: 9, Kafka: []kgo.Opt{kgo.TransactionalID("mine"), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t")},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"Config.AppID", "Config.Brokers", "Config.Instance", "Config.State", "counts", "Config.Workers", "Config.CommitInterval",
		"Config.MaxPendingBytes", "Config.OnRecordError", "sets TransactionalID", "sets ConsumerGroup", "sets ConsumeTopics",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %s:\n%v", want, err)
		}
	}
}

func TestNewTakesTheZeroConfigWithWhatItMustKnow(t *testing.T) {
	t.Parallel()
	app, err := framework.New(framework.Config{
		AppID: "app", Brokers: []string{"localhost:9092"}, Topology: counting(t), State: state.Memory(),
		Kafka: []kgo.Opt{kgo.DialTimeout(time.Second)},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := app.Snapshot()
	if len(s.Workers) != 1 || s.Workers[0].State != framework.Starting || len(s.Tasks) != 0 || s.Expected != nil {
		t.Errorf("before Run the snapshot is %+v", s)
	}
}
