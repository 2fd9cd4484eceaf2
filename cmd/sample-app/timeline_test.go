package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/cmd/sample-app/exercise"
	"github.com/headrace/headrace/cmd/sample-app/timeline"
	"github.com/headrace/headrace/devkafka"
)

// What timeline works out over the input topics of the exercise is what the app has done there.
func TestTimelineIsWhatTheAppDoes(t *testing.T) {
	t.Parallel()
	broker, err := devkafka.Start(devkafka.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	setup := exercise.Default()
	runs, _, err := exercise.Plan(exercise.Worked(), setup, -1)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		if r.Late == exercise.Retract {
			continue // it draws no retractions
		}
		o, err := exercise.Do(t.Context(), broker.Addrs(), r, setup, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		c, err := configure(inTimeline, "sample-app timeline", process{args: []string{
			"--brokers", broker.Addrs()[0], "--topic", "exercise-" + r.Name + "-payments", "--sum", "amount",
		}})
		if err != nil {
			t.Fatal(err)
		}
		if r.Late == exercise.Upsert {
			c.Timeline.Horizon = setup.Horizon
		}
		if r.Late != exercise.Drop {
			c.Timeline.Late = "sideline"
		}
		records, partitions, err := lastRecords(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Timeline.of(records, partitions)
		if err != nil {
			t.Fatal(err)
		}
		want := pictureOf(o)
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(timeline.Timeline{}, "Title", "Subtitle"), cmpopts.IgnoreFields(timeline.Result{}, "Key")); diff != "" {
			t.Errorf("run %s (-app +timeline):\n%s", r.Name, diff)
		}
	}
}

func timelined(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = timelineCommand(t.Context(), process{args: args, stdout: &out, stderr: &errs})
	return code, out.String(), errs.String()
}

// A topic of two partitions, with event time in a header, overlapping windows, and a partition that is behind.
func TestTimeline(t *testing.T) {
	t.Parallel()
	broker, err := devkafka.Start(devkafka.Config{Topics: map[string]int32{"orders": 3, "empty": 1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	client := newClient(t, kgo.SeedBrokers(broker.Addrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	send := func(partition int32, second, amount int) {
		value, err := json.Marshal(map[string]any{"order": map[string]int{"amount": amount}})
		if err != nil {
			t.Fatal(err)
		}
		at := noon.Add(time.Duration(second) * time.Second)
		header := at.Format(time.RFC3339)
		if second%2 == 0 {
			header = strconv.FormatInt(at.UnixMilli(), 10)
		}
		r := &kgo.Record{Topic: "orders", Partition: partition, Value: value, Headers: []kgo.RecordHeader{{Key: "at", Value: []byte(header)}}}
		if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range []int{1, 15, 22, 18, 41, 70, 33, 90} {
		send(0, s, s)
	}
	for _, s := range []int{5, 12, 60, 61, 100} {
		send(1, s, 1)
	}
	dir := t.TempDir()
	code, stdout, stderr := timelined(t, "--brokers", broker.Addrs()[0], "--topic", "orders", "--time", "header:at", "--sum", "order.amount",
		"--window", "30s", "--hop", "15s", "--horizon", "10s", "--late", "sideline", "--out", dir)
	if code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	golden(t, "timeline.txt", strings.ReplaceAll(stdout, dir+string(filepath.Separator), ""))
	for _, name := range []string{"timeline.svg", "timeline.png"} {
		if st, err := os.Stat(filepath.Join(dir, name)); err != nil || st.Size() < 10_000 {
			t.Errorf("%s: %v", name, err)
		}
	}

	code, stdout, stderr = timelined(t, "--brokers", broker.Addrs()[0], "--topic", "orders", "--time", "header:at", "--partition", "1", "--last", "2", "--out", "none")
	if code != exitOK || !strings.Contains(stdout, "2 records of 1 partitions") {
		t.Errorf("the last two of partition 1: exit code %d, %s%s", code, stdout, stderr)
	}
	code, stdout, stderr = timelined(t, "--brokers", broker.Addrs()[0], "--topic", "orders", "--time", "value:order.amount", "--partition", "0", "--out", "none", "--ascii")
	if code != exitOK || !strings.Contains(stdout, "With a disorder of 37ms none would be late") {
		t.Errorf("by a field of the value: exit code %d, %s%s", code, stdout, stderr)
	}
	for _, c := range []struct {
		want string
		code int
		args []string
	}{
		{"say which topic to draw", exitUsage, nil},
		{"none of record, header:NAME and value:FIELD", exitUsage, []string{"--topic", "orders", "--time", "value"}},
		{"order of the value is map[amount:1], neither", exitFail, []string{"--topic", "orders", "--time", "value:order"}},
		{"is larger than size", exitUsage, []string{"--topic", "orders", "--hop", "1h"}},
		{"has no records", exitFail, []string{"--topic", "empty"}},
		{"has no partition 3, only 3", exitFail, []string{"--topic", "orders", "--partition", "3"}},
		{"has no header on", exitFail, []string{"--topic", "orders", "--time", "header:on"}},
		{"has a number at amount", exitFail, []string{"--topic", "orders", "--sum", "amount"}},
		{"UNKNOWN_TOPIC_OR_PARTITION", exitFail, []string{"--topic", "nothing"}},
	} {
		code, _, stderr := timelined(t, append([]string{"--brokers", broker.Addrs()[0], "--out", "none"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: exit code %d, %q; want %d and %q", c.args, code, stderr, c.code, c.want)
		}
	}
}
