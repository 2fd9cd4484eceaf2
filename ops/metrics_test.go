package ops

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/headrace/headrace/framework"
)

// full is a Snapshot in which there is something of everything.
func full() framework.Snapshot {
	now := time.Now()
	return framework.Snapshot{
		AppID: "words", Instance: "a1",
		Workers: []framework.WorkerStatus{
			{ID: 0, State: framework.Running, Stall: &framework.Stall{Since: now}},
			{ID: 1, State: framework.Restoring, FailingSince: now.Add(-time.Minute), ErrAt: now},
		},
		Tasks: []framework.TaskStatus{{
			SubTopology: 0, Partition: 1, ID: "0_1", StateBytes: 4096,
			Sources: []framework.SourceStatus{
				{Topic: "in", Partition: 1, Offset: 90, End: 100, Queued: 4, Watermark: 1_000_000_000_000},
				{Topic: "table", Partition: 1, Offset: 7, End: 7, Watermark: -1 << 63},
			},
			Operators: []framework.OperatorStatus{{Name: "counts", Watermark: 999_999_000_000, Passed: 999_998_000_000}},
		}, {
			SubTopology: 0, Partition: 2, ID: "0_2", StateBytes: -1,
			Sources: []framework.SourceStatus{{Topic: "in", Partition: 2, Offset: 50, End: 55, Watermark: 1_000_000_060_000}},
		}},
		Restoring: []framework.RestoreStatus{{ID: "0_3", Worker: 1, Stores: []framework.StoreProgress{{Store: "counts", Offset: 10, End: 40}}}},
		Expected:  map[int]int{0: 4, 1: 2},
		Counters: framework.Counters{
			Records: 140, Commits: 3, Aborts: 2, ReadBacks: 2, ReadBacksCommitted: 1, TasksBuilt: 3, TasksLost: 1, RecordsRestored: 10,
			StoresWiped: 1, StatesDamaged: 1, OffsetsTrimmed: 12, Rebalances: 2, Fenced: 1, Sessions: 2, Lost: 5,
		},
		Drops: []framework.Drops{{SubTopology: 0, Operator: "KSTREAM-FILTER-0000000001", Reason: "null-key", Outcome: framework.Dropped, Records: 6}},
		Late: []framework.Lateness{{
			Operator: "counts", Bounds: []time.Duration{time.Second, time.Minute}, Counts: []int64{2, 3, 1}, SumSeconds: 120,
		}},
		Read:        []framework.Flow{{Topic: "in", Records: 140, Bytes: 1400}},
		Written:     []framework.Flow{{Topic: "out", Records: 120, Bytes: 1200}},
		Aborts:      map[framework.AbortReason]int64{framework.AbortRebalance: 2},
		CommitTimes: framework.Histogram{Bounds: []time.Duration{10 * time.Millisecond, time.Second}, Counts: []int64{2, 1, 0}, Sum: 500 * time.Millisecond},
	}
}

func registryOf(t *testing.T, c Config, s framework.Snapshot) *prometheus.Registry {
	t.Helper()
	r, err := newRegistry(c, func() framework.Snapshot { return s })
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// families are the names that a registry has, of ours, each with its labels as a set.
func families(t *testing.T, r prometheus.Gatherer) map[string][]string {
	t.Helper()
	all, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for _, f := range all {
		if !strings.HasPrefix(f.GetName(), "headrace_") {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				if l.GetName() != "application_id" {
					labels = append(labels, l.GetName())
				} else if l.GetValue() != "words" {
					t.Errorf("%s is of the application %s", f.GetName(), l.GetValue())
				}
			}
			if len(labels)+1 != len(m.GetLabel()) {
				t.Errorf("%s does not say of which application it is", f.GetName())
			}
			out[f.GetName()] = labels
		}
	}
	return out
}

// What is collected is what the table says, no more and no less, with its labels; and all of it is as Prometheus wants names to be.
func TestCollectsTheTable(t *testing.T) {
	t.Parallel()
	r := registryOf(t, Config{}, full())
	want := map[string][]string{}
	for _, m := range table {
		if m.group != groupClient {
			want[m.name] = slices.Sorted(slices.Values(m.labels))
		}
	}
	if diff := cmp.Diff(want, families(t, r)); diff != "" {
		t.Errorf("metrics (-table +collected):\n%s", diff)
	}
	problems, err := testutil.GatherAndLint(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestValues(t *testing.T) {
	t.Parallel()
	const app = `application_id="words"`
	for _, want := range []string{
		`headrace_workers{` + app + `,state="running"} 1`,
		`headrace_workers{` + app + `,state="joining"} 0`,
		`headrace_workers_stalled{` + app + `} 1`,
		`headrace_workers_failing{` + app + `} 1`,
		`headrace_ready{` + app + `} 0`,
		`headrace_tasks{` + app + `,state="running"} 2`,
		`headrace_tasks_expected{` + app + `} 6`,
		`headrace_partition_lag_records{` + app + `,partition="1",topic="in"} 10`,
		`headrace_topic_lag_records{` + app + `,topic="in"} 15`,
		`headrace_partition_watermark_timestamp_seconds{` + app + `,partition="1",topic="in"} 1e+09`,
		`headrace_read_records_total{` + app + `,topic="in"} 140`,
		`headrace_written_bytes_total{` + app + `,topic="out"} 1200`,
		`headrace_records_dropped_total{` + app + `,node="KSTREAM-FILTER-0000000001",outcome="dropped",reason="null-key",subtopology="0"} 6`,
		`headrace_late_records_seconds_bucket{` + app + `,node="counts",subtopology="0",le="60"} 5`,
		`headrace_late_records_seconds_bucket{` + app + `,node="counts",subtopology="0",le="+Inf"} 6`,
		`headrace_late_records_seconds_sum{` + app + `,node="counts",subtopology="0"} 120`,
		`headrace_node_watermark_hold_seconds{` + app + `,node="counts"} 1000`,
		`headrace_aborts_total{` + app + `,reason="rebalance"} 2`,
		`headrace_aborts_total{` + app + `,reason="fenced"} 0`,
		`headrace_commit_duration_seconds_bucket{` + app + `,le="0.01"} 2`,
		`headrace_commit_duration_seconds_bucket{` + app + `,le="+Inf"} 3`,
		`headrace_commit_duration_seconds_sum{` + app + `} 0.5`,
		`headrace_restore_remaining_records{` + app + `,store="counts",task="0_3"} 30`,
		`headrace_task_state_bytes{` + app + `,task="0_1"} 4096`,
		`headrace_app_info{app_instance="a1",` + app + `,version=`,
		"go_goroutines ", "process_cpu_seconds_total ",
	} {
		v := serve(t, Config{})
		v.s = full()
		if body := v.get("/metrics").Body.String(); !strings.Contains(body, "\n"+want) {
			name, _, _ := strings.Cut(want, "{")
			var got []string
			for line := range strings.Lines(body) {
				if strings.HasPrefix(line, name) {
					got = append(got, line)
				}
			}
			t.Errorf("no line %s; there is\n%s", want, strings.Join(got, ""))
		}
	}
}

// What is not known is left out, and single partitions if they are not wanted.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	got := families(t, registryOf(t, Config{NoPartitions: true}, full()))
	for name, labels := range got {
		if slices.Contains(labels, "partition") {
			t.Errorf("%s is of single partitions", name)
		}
	}
	if got["headrace_topic_lag_records"] == nil || got["headrace_topic_watermark_lag_seconds"] == nil {
		t.Errorf("the topics are missing, too: %v", slices.Sorted(maps.Keys(got)))
	}
	v := serve(t, Config{})
	v.s = full()
	body := v.get("/metrics").Body.String()
	if strings.Contains(body, `headrace_partition_watermark_timestamp_seconds{application_id="words",partition="1",topic="table"}`) {
		t.Error("a watermark that is not known has a value")
	}
	if strings.Contains(body, `headrace_task_state_bytes{application_id="words",task="0_2"}`) {
		t.Error("a size that is not known has a value")
	}
}

// A program's own metrics are served, too, and two of one name are an error.
func TestOwnCollectors(t *testing.T) {
	t.Parallel()
	own := prometheus.NewGauge(prometheus.GaugeOpts{Name: "flights", Help: "Flights in the air."})
	v := serve(t, Config{Collectors: []prometheus.Collector{own}})
	own.Set(3)
	if body := v.get("/metrics").Body.String(); !strings.Contains(body, "\nflights 3\n") {
		t.Error("the program's own metric is missing")
	}
	_, err := newHandler(Config{Collectors: []prometheus.Collector{own, own}}, full)
	if err == nil || !strings.Contains(err.Error(), "duplicate") {
		t.Errorf("got %v, want an error about the second", err)
	}
	if _, err := NewHandler(Config{}); err == nil || !strings.Contains(err.Error(), "Config.App") {
		t.Errorf("got %v, want an error about App", err)
	}
}

// What a scrape costs, for a process with a hundred tasks.
func BenchmarkScrape(b *testing.B) {
	s := full()
	for i := range int32(100) {
		task := s.Tasks[0]
		task.Partition, task.ID = i+10, fmt.Sprintf("0_%d", i+10)
		task.Sources = []framework.SourceStatus{{Topic: "in", Partition: i + 10, Watermark: 1_000_000_000_000}}
		s.Tasks = append(s.Tasks, task)
	}
	r, err := newRegistry(Config{}, func() framework.Snapshot { return s })
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := r.Gather(); err != nil {
			b.Fatal(err)
		}
	}
}
