//go:build synctests

package ops

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/internal/kafkatest"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/topology"
)

const partitions = 4

// shown is a running app with its handler.
type shown struct {
	t      *testing.T
	app    *framework.App
	client *Client
	h      http.Handler
	stop   func()
}

// show runs an app that counts words, and its handler. look sees every record.
func show(t *testing.T, c *kafkatest.Cluster, change func(*framework.Config), look func(word string)) *shown {
	t.Helper()
	b := topology.NewBuilder()
	in := topology.From(b, topology.Topic("in", serde.String(), serde.String())).Peek(func(_, word string) { look(word) })
	topology.Count(in.GroupByKey(), "counts").To(topology.Topic("out", serde.String(), serde.Int64()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	v := &shown{t: t, client: NewClient()}
	cfg := framework.Config{
		AppID: "words", Brokers: c.ListenAddrs(), Topology: top, State: state.Memory(), Logger: slog.New(slog.DiscardHandler),
		Kafka: append(c.Options(), v.client.Option()),
	}
	if change != nil {
		change(&cfg)
	}
	if v.app, err = framework.New(cfg); err != nil {
		t.Fatal(err)
	}
	if v.h, err = NewHandler(Config{App: v.app, Client: v.client}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- v.app.Run(ctx) }()
	v.stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		done <- nil
	}
	t.Cleanup(v.stop)
	return v
}

func (v *shown) get(path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	v.h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

func (v *shown) await(path string, code int) {
	v.t.Helper()
	for range 3000 {
		if v.get(path).Code == code {
			return
		}
		time.Sleep(100 * time.Millisecond) // in a bubble
	}
	v.t.Fatalf("%s never answered %d: %s", path, code, v.get(path).Body)
}

// series returns every series of ours with its value, a histogram by its count.
func (v *shown) series() (values map[string]float64, kinds map[string]dto.MetricType) {
	v.t.Helper()
	r, err := newRegistry(Config{App: v.app, Client: v.client}, v.app.Snapshot)
	if err != nil {
		v.t.Fatal(err)
	}
	all, err := r.Gather()
	if err != nil {
		v.t.Fatal(err)
	}
	values, kinds = map[string]float64{}, map[string]dto.MetricType{}
	for _, f := range all {
		if !strings.HasPrefix(f.GetName(), "headrace_") {
			continue
		}
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += fmt.Sprintf(" %s=%s", l.GetName(), l.GetValue())
			}
			kinds[name] = f.GetType()
			values[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return values, kinds
}

func write(t *testing.T, c *kafkatest.Cluster, from, n int) {
	t.Helper()
	var records []*kgo.Record
	for i := from; i < from+n; i++ {
		records = append(records, &kgo.Record{
			Topic: "in", Partition: int32(i % partitions), Key: fmt.Appendf(nil, "key-%d", i), Value: []byte("v"),
			Timestamp: time.UnixMilli(1_600_000_000_000 + int64(i)),
		})
	}
	c.Produce(t, records...)
}

func bubble(t *testing.T, f func(t *testing.T, c *kafkatest.Cluster)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { f(t, kafkatest.Start(t, kfake.SeedTopics(partitions, "in", "out"))) })
}

// Counters of a process never go down, whatever the group does, and over all processes they are what was written and read; keys make
// no series.
func TestCountersOverRebalances(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		outputs := c.Count(t, "out")
		last, gauges := map[*shown]map[string]float64{}, map[string]bool{}
		look := func(v *shown) map[string]float64 {
			t.Helper()
			now, kinds := v.series()
			for name, kind := range kinds {
				gauges[name] = gauges[name] || kind == dto.MetricType_GAUGE
			}
			for name, was := range last[v] {
				if is, ok := now[name]; !gauges[name] && (!ok || is < was) {
					t.Errorf("%s went from %v to %v", name, was, is)
				}
			}
			last[v] = now
			return now
		}
		wrote := 0
		settle := func(n int, all ...*shown) {
			t.Helper()
			write(t, c, wrote, n)
			wrote += n
			for i := 0; outputs() < wrote; i++ {
				for _, v := range all {
					look(v)
				}
				if i > 3000 {
					t.Fatalf("only %d of %d outputs came", outputs(), wrote)
				}
				time.Sleep(20 * time.Millisecond) // in a bubble
			}
		}
		a := show(t, c, nil, func(string) {})
		a.await("/readyz", http.StatusOK)
		settle(400, a)
		few := len(look(a))
		settle(4000, a)
		if many := len(look(a)); many != few {
			t.Errorf("%d series after 4400 keys, %d after 400", many, few)
		}
		b := show(t, c, nil, func(string) {})
		settle(400, a, b)
		b.await("/readyz", http.StatusOK)
		a.await("/readyz", http.StatusOK)
		settle(400, a, b)
		b.stop()
		settle(400, a, b)
		a.await("/readyz", http.StatusOK)
		va, vb := look(a), look(b)
		a.stop()
		for name, want := range map[string]int{
			"headrace_read_records_total application_id=words topic=in":     wrote,
			"headrace_records_processed_total application_id=words":         wrote,
			"headrace_written_records_total application_id=words topic=out": wrote,
			"headrace_topic_lag_records application_id=words topic=in":      0,
		} {
			if got := va[name] + vb[name]; got != float64(want) {
				t.Errorf("%s is %v and %v, want %d in sum", name, va[name], vb[name], want)
			}
		}
		if va["headrace_rebalances_total application_id=words"] < 2 || va["headrace_tasks_lost_total application_id=words"] == 0 {
			t.Error("the group has not rebalanced")
		}
		// Everything that was seen is in the table.
		names := map[string]bool{}
		for _, m := range table {
			names[m.name] = true
		}
		missing := maps.Clone(names)
		for _, name := range slices.Sorted(maps.Keys(va)) {
			name, _, _ = strings.Cut(name, " ")
			if !names[name] {
				t.Errorf("%s is not in the table", name)
			}
			delete(missing, name)
		}
		for _, name := range []string{
			"headrace_restore_remaining_records", "headrace_records_dropped_total", "headrace_node_watermark_lag_seconds",
			"headrace_node_watermark_timestamp_seconds", "headrace_node_watermark_hold_seconds", "headrace_late_records_seconds",
			"headrace_client_connect_errors_total", "headrace_client_write_errors_total", "headrace_client_read_errors_total",
			"headrace_client_request_throttled_seconds",
		} {
			delete(missing, name) // nothing of that kind has happened
		}
		for name := range missing {
			t.Errorf("%s is in the table, and was not seen", name)
		}
	})
}

// From before Run to after it, with a step that hangs in between.
func TestProbesOfAnApp(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		stuck := make(chan struct{})
		var block atomic.Bool
		v := show(t, c, func(c *framework.Config) {
			c.Topology = nil
			c.TaskTimeout = 30 * time.Second
			c.Topology = hanging(t, &block, stuck)
		}, nil)
		v.await("/readyz", http.StatusOK)
		v.await("/startupz", http.StatusOK)
		if w := v.get("/livez"); w.Code != http.StatusOK {
			t.Errorf("livez answers %d: %s", w.Code, w.Body)
		}
		block.Store(true)
		write(t, c, 0, 4)
		v.await("/livez", http.StatusServiceUnavailable)
		var r Report
		if err := json.Unmarshal(v.get("/readyz").Body.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		if len(r.Reasons) != 1 || r.Reasons[0].Reason != "stalled" || r.Reasons[0].Doing != "step" || !strings.HasPrefix(r.Reasons[0].Task, "0_") || r.Instance == "" {
			t.Errorf("readyz says %+v", r)
		}
		if s, _ := v.series(); s["headrace_workers_stalled application_id=words"] != 1 || s["headrace_ready application_id=words"] != 0 {
			t.Error("the metrics do not show the stall")
		}
		block.Store(false)
		close(stuck)
		v.await("/livez", http.StatusOK)
		v.await("/readyz", http.StatusOK)
		c.Close()
		v.await("/readyz", http.StatusServiceUnavailable)
		for _, path := range []string{"/livez", "/startupz"} {
			if w := v.get(path); w.Code != http.StatusOK {
				t.Errorf("without brokers %s answers %d: %s", path, w.Code, w.Body)
			}
		}
		if body := v.get("/readyz").Body.String(); !strings.Contains(body, `"failing"`) && !strings.Contains(body, `"starting"`) && !strings.Contains(body, `"joining"`) {
			t.Errorf("without brokers readyz says %s", body)
		}
	})
}

func hanging(t *testing.T, block *atomic.Bool, until chan struct{}) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder()
	topology.From(b, topology.Topic("in", serde.String(), serde.String())).Peek(func(string, string) {
		if block.Load() {
			<-until
		}
	}).To(topology.Topic("out", serde.String(), serde.String()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// A process without its topics is alive, and neither ready nor started.
func TestProbesWhileTopicsAreMissing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := kafkatest.Start(t)
		var block atomic.Bool
		v := show(t, c, func(c *framework.Config) { c.TopicTimeout = time.Hour; c.Topology = hanging(t, &block, nil) }, nil)
		time.Sleep(10 * time.Second) // in a bubble
		for path, want := range map[string]int{
			"/livez": http.StatusOK, "/readyz": http.StatusServiceUnavailable, "/startupz": http.StatusServiceUnavailable, "/metrics": http.StatusOK,
		} {
			if w := v.get(path); w.Code != want {
				t.Errorf("%s answers %d, want %d: %s", path, w.Code, want, w.Body)
			}
		}
	})
}
