package ops

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/internal/kafkatest"
)

// The clients of an app come and go; what they did stays counted, and is what the table says.
func TestClients(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t, kfake.SeedTopics(1, "in"))
	m := NewClient()
	sum := func() float64 { return testutil.ToFloat64(total{m, "headrace_client_produce_batches_total"}) }
	for n := 1; n <= 3; n++ {
		counted := make(written, 1)
		cl := c.Client(t, m.Option(), kgo.WithHooks(counted), kgo.DefaultProduceTopic("in"))
		if err := cl.ProduceSync(context.Background(), kgo.StringRecord("v")).FirstErr(); err != nil {
			t.Fatal(err)
		}
		<-counted // hooks are called in their order, and not before the record is acknowledged
		if got := len(m.live); got != 1 {
			t.Errorf("%d clients live, want 1", got)
		}
		cl.Close()
		if got := sum(); got != float64(n) {
			t.Errorf("%v batches after %d clients, want one of each", got, n)
		}
	}
	if len(m.live) != 0 {
		t.Errorf("%d clients live that are closed", len(m.live))
	}

	r := registryOf(t, Config{Client: m}, framework.Snapshot{AppID: "words"})
	problems, err := testutil.GatherAndLint(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	known := map[string][]string{}
	for _, row := range table {
		if row.group == groupClient {
			known[row.name] = slices.Sorted(slices.Values(row.labels))
		}
	}
	for name, labels := range families(t, r) {
		if !strings.HasPrefix(name, "headrace_client_") {
			continue
		}
		if diff := cmp.Diff(known[name], labels); diff != "" {
			t.Errorf("%s (-table +collected):\n%s", name, diff)
		}
	}
}

// written is a hook that says when a batch was counted.
type written chan struct{}

func (w written) OnProduceBatchWritten(kgo.BrokerMetadata, string, int32, kgo.ProduceBatchMetrics) {
	w <- struct{}{}
}

// Each row of the table is one that the client's hooks really have, under this name and with these labels.
func TestClientRows(t *testing.T) {
	t.Parallel()
	ch := make(chan *prometheus.Desc, 100)
	NewClient().Describe(ch)
	close(ch)
	described := map[string]string{}
	for d := range ch {
		text := d.String()
		name := text[strings.Index(text, `fqName: "`)+len(`fqName: "`):]
		described[name[:strings.Index(name, `"`)]] = text
	}
	for _, row := range table {
		if !row.client {
			continue
		}
		text, ok := described[row.name]
		if want := "variableLabels: {" + strings.Join(row.labels, ",") + "}"; !ok || !strings.Contains(text, want) {
			t.Errorf("%s: described as %q, want %s", row.name, text, want)
		}
	}
}

// total is a collector of one name of another, with all labels summed up.
type total struct {
	of   prometheus.Collector
	name string
}

func (c total) Describe(ch chan<- *prometheus.Desc) { ch <- prometheus.NewDesc("sum", "", nil, nil) }

func (c total) Collect(ch chan<- prometheus.Metric) {
	r := prometheus.NewRegistry()
	r.MustRegister(c.of)
	all, _ := r.Gather()
	sum := 0.0
	for _, f := range all {
		if f.GetName() == c.name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	ch <- prometheus.MustNewConstMetric(prometheus.NewDesc("sum", "", nil, nil), prometheus.GaugeValue, sum)
}
