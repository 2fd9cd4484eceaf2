package framework_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/state/pebblestore"
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
		OnRecordError: topology.DeadLetter("no topic"), Kafka: []kgo.Opt{kgo.TransactionalID("mine"), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t")},
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

type provider struct{ state.Provider }

// TestNewRefusesWhatIsNilInside: what would panic later, in the middle of a rebalance, is said at once.
func TestNewRefusesWhatIsNilInside(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cfg  framework.Config
		want string
	}{
		{framework.Config{Topology: counting(t), State: (*provider)(nil)}, "Config.State is a nil *framework_test.provider"},
		{framework.Config{Topology: counting(t), State: (*pebblestore.Provider)(nil)}, "Config.State is a nil *pebblestore.Provider"},
		{framework.Config{Topology: new(topology.Topology), State: state.Memory()}, "Config.Topology is nil"},
		{framework.Config{Topology: counting(t), State: state.Memory(), Kafka: []kgo.Opt{kgo.DialTimeout(1), nil}}, "Config.Kafka: option 2 of 2 is nil"},
	} {
		c.cfg.AppID, c.cfg.Brokers = "app", []string{"localhost:9092"}
		if _, err := framework.New(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

// TestNewHoldsTimeoutsToEachOther: what is allowed works together with what else is set, and what is refused says with which field
// it does not.
func TestNewHoldsTimeoutsToEachOther(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		session, transaction, commit time.Duration
		refused                      []string // what the error says; none: it is allowed
	}{
		{0, 0, 0, nil},
		{3 * time.Second, 10 * time.Second, 0, nil},
		{10 * time.Second, 10 * time.Second, 8 * time.Second, nil},
		{time.Minute, 0, 0, []string{"TransactionTimeout is 30s", "SessionTimeout"}},
		{10 * time.Second, 9 * time.Second, 0, []string{"TransactionTimeout is 9s", "SessionTimeout"}},
		{500 * time.Millisecond, 0, 0, []string{"SessionTimeout is 500ms"}},
		{-1, 0, 0, []string{"SessionTimeout"}},
		{0, -1, 0, []string{"TransactionTimeout"}},
		{6 * time.Second, 6 * time.Second, 5 * time.Second, []string{"CommitInterval is 5s", "TransactionTimeout"}},
		{0, 0, 25 * time.Second, []string{"CommitInterval is 25s", "TransactionTimeout"}},
	} {
		_, err := framework.New(framework.Config{
			AppID: "app", Brokers: []string{"localhost:9092"}, Topology: counting(t), State: state.Memory(),
			SessionTimeout: c.session, TransactionTimeout: c.transaction, CommitInterval: c.commit,
		})
		if len(c.refused) == 0 && err != nil {
			t.Errorf("session %v, transaction %v, commit %v: %v", c.session, c.transaction, c.commit, err)
		}
		for _, want := range c.refused {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("session %v, transaction %v, commit %v: the error does not say %q: %v", c.session, c.transaction, c.commit, want, err)
			}
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

func TestBrokersAreAddresses(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"localhost:9092", "kafka", "10.0.0.1:1", "[::1]:9092", "broker-0.kafka.svc.cluster.local:19092"} {
		if _, err := framework.New(framework.Config{AppID: "a", Brokers: []string{good}, Topology: counting(t), State: state.Memory()}); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "http://x", "a,b:1", "a:b", "x:99999", " x:1", "x:0", ":9092", "a:1:2"} {
		_, err := framework.New(framework.Config{AppID: "a", Brokers: []string{bad}, Topology: counting(t), State: state.Memory()})
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("Config.Brokers has %q", bad)) {
			t.Errorf("%q: got %v, want that it is no address", bad, err)
		}
	}
}
