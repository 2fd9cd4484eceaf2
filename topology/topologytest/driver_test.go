package topologytest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/topology/topologytest"
	"github.com/headrace/headrace/window"
)

var (
	clicks = topology.Topic("clicks", serde.String(), serde.String())
	pages  = topology.Topic("pages", serde.String(), serde.Int64())
	counts = topology.Topic("counts", serde.String(), serde.Int64())

	perUser = state.KeyValueOf("per-user", serde.String(), serde.Int64())
	perPage = state.KeyValueOf("per-page", serde.String(), serde.Int64())
)

func at(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// visits counts clicks per user, and per page behind a repartition topic.
func visits() (*topology.Topology, error) {
	b := topology.NewBuilder()
	s := topology.From(b, clicks)
	topology.Count(s.GroupByKey(), "per-user").To(counts)
	byPage := topology.GroupBy(s, "by-page", func(_, page string) string { return page }, serde.String(), serde.String())
	topology.Count(byPage, "per-page").To(pages)
	return b.Build()
}

// What a record leads to is there when Pipe returns, behind the repartition topic as well.
func TestPipeDoesAllThatFollows(t *testing.T) {
	t.Parallel()
	d := topologytest.New(t, topologytest.Build(t, visits), topologytest.Partitions(4))
	in, out := topologytest.Input(d, clicks), topologytest.Output(d, pages)
	in.Pipe(at(1), "ann", "/")
	in.Pipe(at(2), "bob", "/")
	in.Pipe(at(3), "cyd", "/home")
	if diff := cmp.Diff(map[string]int64{"/": 2, "/home": 1}, topologytest.Latest(out)); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
	if !out.Empty() {
		t.Error("Latest left something unread")
	}
}

// A record without a partition of its own goes where Kafka's clients would send it.
func TestRecordsAreRoutedAsKafkaDoes(t *testing.T) {
	t.Parallel()
	const partitions = 7
	b := topology.NewBuilder()
	echo := topology.Topic("echo", serde.String(), serde.String())
	topology.From(b, clicks).To(echo)
	d := topologytest.New(t, topologytest.Build(t, b.Build), topologytest.Partitions(partitions))
	in, out := topologytest.Input(d, clicks), topologytest.Output(d, echo)
	kafka := kgo.StickyKeyPartitioner(nil).ForTopic("clicks")
	for i := range 200 {
		key := strings.Repeat("é~a", i/4)[:i/4*4] + "wxyz"[:i%4]
		in.Pipe(at(int64(i)), key, "")
		want := kafka.Partition(&kgo.Record{Key: []byte(key)}, partitions)
		if r := out.Read(); r.Partition != want || r.Key != key {
			t.Errorf("key %q went to partition %d, Kafka sends it to %d", r.Key, r.Partition, want)
		}
	}
	// Null keys are spread.
	seen := map[int]bool{}
	for range partitions {
		in.PipeNullKey(at(1000), "x")
		seen[out.Read().Partition] = true
	}
	if len(seen) != partitions {
		t.Errorf("records with null keys went to %d partitions of %d", len(seen), partitions)
	}
}

// Outputs and repartitioned records are visible with the commit, not before; stores show the open transaction.
func TestManual(t *testing.T) {
	t.Parallel()
	d := topologytest.New(t, topologytest.Build(t, visits), topologytest.Manual())
	in, users, pages := topologytest.Input(d, clicks), topologytest.Output(d, counts), topologytest.Output(d, pages)
	in.Pipe(at(1), "ann", "/")
	in.Pipe(at(2), "ann", "/")
	user, err := perUser.Open(d.Stores(0))
	if err != nil {
		t.Fatal(err)
	}
	page, err := perPage.Open(d.Task(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	check := func(when string, wantUser, wantPage int64, wantUsers, wantPages int) {
		t.Helper()
		u, _, _ := user.Get("ann")
		p, _, _ := page.Get("/")
		if u != wantUser || p != wantPage {
			t.Errorf("%s: stores have %d and %d, want %d and %d", when, u, p, wantUser, wantPage)
		}
		if gotUsers, gotPages := len(users.All()), len(pages.All()); gotUsers != wantUsers || gotPages != wantPages {
			t.Errorf("%s: %d and %d new outputs, want %d and %d", when, gotUsers, gotPages, wantUsers, wantPages)
		}
	}
	check("nothing done", 0, 0, 0, 0)
	if n := d.Step(1); n != 1 {
		t.Errorf("Step(1) did %d units", n)
	}
	check("one record processed", 1, 0, 0, 0)
	d.Run()
	check("both processed", 2, 0, 0, 0)
	d.Commit()
	check("committed", 2, 0, 2, 0)
	d.Run()
	check("second sub-topology", 2, 2, 0, 0)
	d.Crash()
	check("crashed before its commit", 2, 0, 0, 0)
	d.Settle()
	check("settled", 2, 2, 0, 2)
	d.Crash()
	check("crashed with all committed", 2, 2, 0, 0)
}

func TestMistakesAreNamed(t *testing.T) {
	t.Parallel()
	top := topologytest.Build(t, visits)
	d := topologytest.New(t, top, topologytest.Partitions(2))
	in, out := topologytest.Input(d, clicks), topologytest.Output(d, counts)
	nope := topology.Topic("nope", serde.String(), serde.String())
	for _, c := range []struct {
		name string
		do   func()
		want []string
	}{
		{"input that is not read", func() { topologytest.Input(d, counts) }, []string{"Input(counts)", `["topic clicks"]`}},
		{"output that is not written", func() { topologytest.Output(d, nope) }, []string{
			"Output(nope)", `["repartition topic by-page" "topic counts" "topic pages"]`,
		}},
		{"partition that is not there", func() { in.PipeTo(2, at(1), "ann", "/") }, []string{"topic clicks has partitions 0 to 1, not 2"}},
		{"nothing to read", func() { out.Read() }, []string{"topic counts has no more records, 0 were read"}},
		{"time backwards", func() { d.Advance(-time.Second) }, []string{"wall time does not go back"}},
	} {
		err := d.Try(c.do)
		if err == nil {
			t.Errorf("%s: no error", c.name)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %q does not say %q", c.name, err, want)
			}
		}
	}
	if err := d.Try(func() { in.Pipe(at(1), "ann", "/") }); err != nil {
		t.Errorf("what works is no error: %v", err)
	}

	for _, c := range []struct {
		opt  topologytest.Option
		want string
	}{
		{topologytest.Partitions(0), "topic clicks cannot have 0 partitions"},
		{topologytest.TopicPartitions("klicks", 3), `TopicPartitions("klicks"): the topology has no such topic`},
	} {
		if _, err := topologytest.Open(top, c.opt); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Open: got %v, want %q", err, c.want)
		}
	}
	if _, err := topologytest.Open(nil); err == nil {
		t.Error("Open(nil) is no error")
	}

	for _, c := range []struct {
		open func() error
		want string
	}{
		{func() error { _, err := perUser.Open(d.Stores(2)); return err }, "partitions 0 to 1, not 2"},
		{func() error { _, err := perUser.Open(d.Task(1, 0)); return err }, `there is no store per-user; there are ["per-page"]`},
		{func() error {
			_, err := state.WindowsOf("per-user", serde.String(), serde.Int64(), time.Second).Open(d.Stores(0))
			return err
		}, "is a key-value store, not a window store"},
		{func() error {
			v, err := perUser.Open(d.Stores(0))
			if err != nil {
				return err
			}
			return v.Put("ann", 7)
		}, "a test reads stores only"},
	} {
		if err := c.open(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

// A panic that is not the driver's goes through Try.
func TestTryLetsOtherPanicsThrough(t *testing.T) {
	t.Parallel()
	d := topologytest.New(t, topologytest.Build(t, visits))
	defer func() {
		if v := recover(); v != "mine" {
			t.Errorf("recovered %v", v)
		}
	}()
	_ = d.Try(func() { panic("mine") })
}

// After a failure the same input is still to be processed, as it is for an application that was started again.
func TestFailure(t *testing.T) {
	t.Parallel()
	b := topology.NewBuilder()
	broken := true
	s := topology.From(b, clicks).Peek(func(_, v string) {
		if broken && v == "bad" {
			panic("no good")
		}
	})
	topology.Count(s.GroupByKey(), "per-user").To(counts)
	d := topologytest.New(t, topologytest.Build(t, b.Build))
	in, out := topologytest.Input(d, clicks), topologytest.Output(d, counts)
	in.Pipe(at(1), "ann", "good")
	for range 2 {
		err := d.Try(func() { d.Settle(); in.Pipe(at(2), "ann", "bad") })
		if err == nil || !strings.Contains(err.Error(), "record clicks[0]@1 at KSTREAM-PEEK-") || !strings.Contains(err.Error(), "panic: no good") {
			t.Fatalf("got %v, want the record, the operator and the panic", err)
		}
	}
	if got := topologytest.Latest(out)["ann"]; got != 1 {
		t.Errorf("after the failure: %d clicks, want 1", got)
	}
	broken = false
	d.Settle()
	if got := topologytest.Latest(out)["ann"]; got != 2 {
		t.Errorf("after the repair: %d clicks, want 2", got)
	}
}

// End closes what is open, through repartition topics too, and stays ended.
func TestEnd(t *testing.T) {
	t.Parallel()
	b := topology.NewBuilder()
	byPage := topology.GroupBy(topology.From(b, clicks), "by-page", func(_, page string) string { return page }, serde.String(), serde.String())
	w := topology.Windowed(byPage, window.Tumbling(time.Second).Grace(time.Hour), window.Drop())
	out := topology.Topic("out", window.KeySerde(serde.String()).Size(time.Second), serde.Int64())
	topology.Count(w, "windows", topology.EmitOnClose()).To(out)
	d := topologytest.New(t, topologytest.Build(t, b.Build), topologytest.Partitions(3))
	in, o := topologytest.Input(d, clicks), topologytest.Output(d, out)
	in.Pipe(at(0), "ann", "/")
	in.Pipe(at(999), "bob", "/")
	in.Pipe(at(1000), "cyd", "/")
	if !o.Empty() {
		t.Fatalf("before the end: %v", o.All())
	}
	d.End()
	want := map[window.Key[string]]int64{{Key: "/", Start: 0, End: 1000}: 2, {Key: "/", Start: 1000, End: 2000}: 1}
	if diff := cmp.Diff(want, topologytest.Latest(o)); diff != "" {
		t.Errorf("windows (-want +got):\n%s", diff)
	}
	in.Pipe(at(5000), "ann", "/")
	d.Crash()
	d.End()
	if !o.Empty() {
		t.Errorf("after the end: %v", o.All())
	}
	if diff := cmp.Diff(map[string]int64{"late-dropped": 1}, d.Counts()); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

// Counts are of what was committed: a crash neither loses nor doubles them.
func TestCountsAcrossCrashes(t *testing.T) {
	t.Parallel()
	d := topologytest.New(t, topologytest.Build(t, visits), topologytest.Manual())
	in := topologytest.Input(d, clicks)
	check := func(when string, want int64) {
		t.Helper()
		if got := d.Counts()["null-value"]; got != want {
			t.Errorf("%s: %d, want %d", when, got, want)
		}
	}
	in.PipeNull(at(1), "ann")
	d.Settle()
	in.PipeNull(at(2), "ann")
	d.Run()
	check("one committed, one open", 2)
	d.Crash()
	check("the open one undone", 1)
	d.Settle()
	d.Crash()
	check("committed", 2)
}

// Repartition topics have the partitions that they were given, else those of what they meet, else those of their writers.
func TestPartitionsOfRepartitionTopics(t *testing.T) {
	t.Parallel()
	table := topology.Topic("table", serde.String(), serde.String())
	out := topology.Topic("out", serde.String(), serde.String())
	for _, c := range []struct {
		name     string
		explicit int
		join     bool
		opts     []topologytest.Option
		want     int // partitions of the repartition topic, 0 for an error
	}{
		{"follows its writer", 0, false, []topologytest.Option{topologytest.TopicPartitions("clicks", 5)}, 5},
		{"as it was given", 3, false, []topologytest.Option{topologytest.TopicPartitions("clicks", 5)}, 3},
		{"matches the table", 0, true, []topologytest.Option{topologytest.TopicPartitions("clicks", 5), topologytest.TopicPartitions("table", 2)}, 2},
		{"cannot match the table", 3, true, []topologytest.Option{topologytest.TopicPartitions("table", 2)}, 0},
	} {
		b := topology.NewBuilder()
		s := topology.Repartition(topology.From(b, clicks), "again", c.explicit, serde.String(), serde.String())
		if c.join {
			s = topology.JoinTable(s, topology.TableFrom(b, "table", table), func(a, b string) string { return a + b })
		}
		s.To(out)
		d, err := topologytest.Open(topologytest.Build(t, b.Build), c.opts...)
		if c.want == 0 {
			if err == nil || !strings.Contains(err.Error(), "equal keys would be in different tasks") {
				t.Errorf("%s: got %v, want an error", c.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		in, again := topologytest.Input(d, clicks), topologytest.Output(d, topology.Topic("again", serde.String(), serde.String()))
		seen := map[int]bool{}
		for i := range 100 {
			in.Pipe(at(1), string(rune('!'+i)), "x")
			seen[again.Read().Partition] = true
		}
		if len(seen) != c.want {
			t.Errorf("%s: %d partitions in use, want %d", c.name, len(seen), c.want)
		}
	}
}
