package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/term"

	"github.com/headrace/headrace/cmd/sample-app/timeline"
	"github.com/headrace/headrace/window"
)

// timelineConfig is what timeline is told.
type timelineConfig struct {
	Topic              string
	Partition, Records int
	Time, Sum          string
	Window, Hop        time.Duration
	Disorder, Horizon  time.Duration
	Late, Out          string
	ASCII              bool
}

func (c *timelineConfig) windows() window.Fixed {
	if c.Hop == 0 {
		return window.Tumbling(c.Window)
	}
	return window.Hopping(c.Window, c.Hop)
}

const (
	timeOfRecord = "record"
	timeOfHeader = "header:"
	timeOfValue  = "value:"
	timelineFile = "timeline"
	// quiet is how long timeline waits for records that are there.
	quiet = 20 * time.Second
)

func eventTimeOf(c *config, v string) error {
	named := func(kind string) bool { return strings.HasPrefix(v, kind) && v != kind }
	if v != timeOfRecord && !named(timeOfHeader) && !named(timeOfValue) {
		return fmt.Errorf("%q is none of record, header:NAME and value:FIELD", v)
	}
	c.Timeline.Time = v
	return nil
}

// timelineCommand draws a topic.
func timelineCommand(ctx context.Context, p process) int {
	c, code := configured(inTimeline, "timeline", p)
	if c == nil {
		return code
	}
	if err := drawTopic(ctx, c, p.stdout); err != nil {
		fmt.Fprintf(p.stderr, "sample-app timeline: %v\n", err)
		return exitFail
	}
	return exitOK
}

func drawTopic(ctx context.Context, c *config, stdout io.Writer) error {
	records, partitions, err := lastRecords(ctx, c)
	if err != nil {
		return err
	}
	t, err := c.Timeline.of(records, partitions)
	if err != nil {
		return err
	}
	style := timeline.Style{Width: plainWidth, ASCII: c.Timeline.ASCII}
	if f, ok := stdout.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		style.Color = os.Getenv("NO_COLOR") == ""
		if w, _, err := term.GetSize(int(f.Fd())); err == nil {
			style.Width = w
		}
	}
	if err := t.Text(stdout, style); err != nil {
		return err
	}
	var n [timeline.Dropped + 1]int
	for _, r := range t.Records {
		n[r.Fate]++
	}
	fmt.Fprintf(stdout, "\n%d records of %d partitions, %d out of order, %d late: %d corrected, %d set aside, %d dropped. With a disorder of %s none would be late.\n",
		len(t.Records), partitions, n[timeline.OutOfOrder], n[timeline.Corrected]+n[timeline.Sidelined]+n[timeline.Dropped],
		n[timeline.Corrected], n[timeline.Sidelined], n[timeline.Dropped], short(disorderOf(records)))
	if c.Timeline.Out == "none" {
		return nil
	}
	names, err := writePictures(&timeline.Figure{Panels: []*timeline.Timeline{t}}, c.Timeline.Out, timelineFile)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "As a picture: %s\n", strings.Join(names, ", "))
	return nil
}

// seen is a record of a topic as far as it matters here.
type seen struct {
	partition int32
	offset    int64
	at        int64
	amount    float64
	numbered  bool // it has the field that is summed
}

// lastRecords reads the last records of each partition, committed ones, and returns them by partition and offset.
func lastRecords(ctx context.Context, c *config) (records []seen, partitions int, err error) {
	client, err := c.connect(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer client.Close()
	adm := kadm.NewClient(client)
	topic := c.Timeline.Topic
	starts, err := adm.ListStartOffsets(ctx, topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, 0, fmt.Errorf("topic %s: %w", topic, err)
	}
	ends, err := adm.ListCommittedOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, 0, fmt.Errorf("topic %s: %w", topic, err)
	}
	from, to := map[int32]kgo.Offset{}, map[int32]int64{}
	partitions = len(ends[topic])
	each := int64(max(1, c.Timeline.Records/max(1, partitions)))
	if c.Timeline.Partition >= 0 {
		if _, ok := ends.Lookup(topic, int32(c.Timeline.Partition)); !ok {
			return nil, 0, fmt.Errorf("topic %s has no partition %d, only %d partitions", topic, c.Timeline.Partition, partitions)
		}
		partitions, each = 1, int64(c.Timeline.Records)
	}
	ends.Each(func(end kadm.ListedOffset) {
		start, _ := starts.Lookup(topic, end.Partition)
		if (c.Timeline.Partition >= 0 && end.Partition != int32(c.Timeline.Partition)) || end.Offset <= start.Offset {
			return
		}
		from[end.Partition] = kgo.NewOffset().At(max(start.Offset, end.Offset-each))
		to[end.Partition] = end.Offset
	})
	if len(from) == 0 {
		return nil, 0, fmt.Errorf("topic %s has no records", topic)
	}
	opts, err := c.kafkaOptions()
	if err != nil {
		return nil, 0, err
	}
	reader, err := kgo.NewClient(append(opts,
		kgo.SeedBrokers(c.Brokers...), kgo.ClientID("sample-app"), kgo.DisableClientMetrics(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // a partition may end in that of a transaction
		kgo.FetchMaxWait(100*time.Millisecond))...)
	if err != nil {
		return nil, 0, err
	}
	defer reader.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, quiet, fmt.Errorf("topic %s cannot be read to its end within %v", topic, quiet))
	defer cancel()
	for len(to) > 0 {
		fetches := reader.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil, 0, context.Cause(ctx)
		}
		if err := fetches.Err(); err != nil {
			return nil, 0, fmt.Errorf("read topic %s: %w", topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			end, open := to[r.Partition]
			if r.Offset+1 >= end {
				delete(to, r.Partition)
			}
			if !open || r.Attrs.IsControl() || err != nil {
				return
			}
			var s seen
			if s, err = c.Timeline.record(r); err == nil {
				records = append(records, s)
			}
		})
		if err != nil {
			return nil, 0, err
		}
	}
	slices.SortFunc(records, func(a, b seen) int {
		if a.partition != b.partition {
			return int(a.partition - b.partition)
		}
		return int(min(max(a.offset-b.offset, -1), 1))
	})
	if c.Timeline.Sum != "" && len(records) > 0 && !slices.ContainsFunc(records, func(r seen) bool { return r.numbered }) {
		return nil, 0, fmt.Errorf("topic %s: no value of the last %d has a number at %s", topic, len(records), c.Timeline.Sum)
	}
	if len(records) == 0 {
		return nil, 0, fmt.Errorf("topic %s has nothing but ends of transactions in its last offsets; give more with --last", topic)
	}
	return records, partitions, nil
}

// record takes from a record what is drawn of it.
func (c *timelineConfig) record(r *kgo.Record) (seen, error) {
	s := seen{partition: r.Partition, offset: r.Offset, at: r.Timestamp.UnixMilli(), amount: 1}
	fail := func(format string, args ...any) (seen, error) {
		return s, fmt.Errorf("%s/%d at offset %d: %w", r.Topic, r.Partition, r.Offset, fmt.Errorf(format, args...))
	}
	field := func(path string) (value any, err error) {
		if err := json.Unmarshal(r.Value, &value); err != nil {
			return nil, fmt.Errorf("the value is no JSON: %w", err)
		}
		for name := range strings.SplitSeq(path, ".") {
			object, _ := value.(map[string]any)
			value = object[name]
		}
		return value, nil
	}
	if name, ok := strings.CutPrefix(c.Time, timeOfHeader); ok {
		i := slices.IndexFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == name })
		if i < 0 {
			return fail("it has no header %s, where event time should be", name)
		}
		if s.at, ok = instantOf(string(r.Headers[i].Value)); !ok {
			return fail("header %s is %q, neither milliseconds nor RFC 3339", name, r.Headers[i].Value)
		}
	}
	if path, ok := strings.CutPrefix(c.Time, timeOfValue); ok {
		at, err := field(path)
		if err != nil {
			return fail("%w", err)
		}
		if ms, isNumber := at.(float64); isNumber {
			s.at = int64(ms)
		} else if s.at, ok = instantOf(fmt.Sprint(at)); !ok {
			return fail("%s of the value is %v, neither milliseconds nor RFC 3339", path, at)
		}
	}
	if c.Sum == "" {
		return s, nil
	}
	value, err := field(c.Sum)
	if err != nil {
		return fail("%w", err)
	}
	s.amount, s.numbered = value.(float64) // what has none adds nothing
	return s, nil
}

// instantOf reads a time in milliseconds, from milliseconds or RFC 3339.
func instantOf(text string) (ms int64, ok bool) {
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
		return ms, true
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	return at.UnixMilli(), err == nil
}

// disorderOf is by how much a record is behind a later one of its partition at most.
func disorderOf(records []seen) time.Duration {
	latest, most := map[int32]int64{}, int64(0)
	for _, r := range records {
		if have, ok := latest[r.partition]; ok {
			most = max(most, have-r.at)
		}
		latest[r.partition] = max(latest[r.partition], r.at)
	}
	return time.Duration(most) * time.Millisecond
}

var errTooManyWindows = errors.New("too many windows to draw")
