package ops

import (
	"math"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headrace/headrace/framework"
)

// collector makes metrics of a Snapshot when it is scraped. It keeps nothing.
type collector struct {
	snapshot     func() framework.Snapshot
	noPartitions bool
	version      string
}

// version is that of this module in the program, empty if it does not say.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	const module = "github.com/headrace/headrace"
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == module {
			return m.Version
		}
	}
	return ""
}

func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range table {
		if m.group != groupClient {
			ch <- m.desc
		}
	}
}

func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s, now := c.snapshot(), time.Now()
	out := scrape{ch}
	c.workers(out, &s, now)
	c.topics(out, &s, now)
	c.transactions(out, &s)
	c.state(out, &s)
}

// scrape takes metrics.
type scrape struct{ ch chan<- prometheus.Metric }

func (s scrape) put(m *metric, value float64, labels ...string) {
	t := prometheus.GaugeValue
	if m.kind == counter {
		t = prometheus.CounterValue
	}
	made, err := prometheus.NewConstMetric(m.desc, t, value, labels...)
	if err != nil {
		made = prometheus.NewInvalidMetric(m.desc, err)
	}
	s.ch <- made
}

func (s scrape) count(m *metric, n int64, labels ...string) { s.put(m, float64(n), labels...) }

// histogram writes one whose counts are by bucket, the last without a bound.
func (s scrape) histogram(m *metric, bounds []time.Duration, counts []int64, sum float64, labels ...string) {
	buckets, total := make(map[float64]uint64, len(bounds)), uint64(0)
	for i, n := range counts {
		total += uint64(n)
		if i < len(bounds) {
			buckets[bounds[i].Seconds()] = total
		}
	}
	h, err := prometheus.NewConstHistogram(m.desc, total, sum, buckets, labels...)
	if err != nil {
		h = prometheus.NewInvalidMetric(m.desc, err)
	}
	s.ch <- h
}

func (s scrape) flag(m *metric, is bool) {
	if is {
		s.put(m, 1)
		return
	}
	s.put(m, 0)
}

func (c *collector) workers(out scrape, s *framework.Snapshot, now time.Time) {
	out.put(appInfo, 1, s.Instance, c.version)
	out.flag(ready, len(unready(s, now)) == 0)
	states := map[framework.WorkerState]int64{}
	stalled, failing := int64(0), int64(0)
	for i := range s.Workers {
		w := &s.Workers[i]
		states[w.State]++
		if w.Stall != nil {
			stalled++
		}
		if isFailing(w, now) {
			failing++
		}
	}
	for _, state := range []framework.WorkerState{framework.Starting, framework.Joining, framework.Restoring, framework.Running, framework.Stopped} {
		out.count(workers, states[state], string(state))
	}
	out.count(workersStalled, stalled)
	out.count(workersFailing, failing)
	out.count(tasks, int64(len(s.Restoring)), string(framework.TaskRestoring))
	out.count(tasks, int64(len(s.Tasks)), string(framework.TaskRunning))
	expected := 0
	for _, n := range s.Expected {
		expected += n
	}
	out.count(tasksExpected, int64(expected))
	out.count(tasksBuilt, s.Counters.TasksBuilt)
	out.count(tasksLost, s.Counters.TasksLost)
}

// seconds makes Unix seconds of Unix milliseconds.
func seconds(ms int64) float64 { return float64(ms) / 1000 }

func (c *collector) topics(out scrape, s *framework.Snapshot, now time.Time) {
	out.count(recordsProcessed, s.Counters.Records)
	for _, f := range s.Read {
		out.count(recordsRead, f.Records, f.Topic)
		out.count(bytesRead, f.Bytes, f.Topic)
	}
	for _, f := range s.Written {
		out.count(recordsWritten, f.Records, f.Topic)
		out.count(bytesWritten, f.Bytes, f.Topic)
	}
	lag := map[string]int64{}
	slowest, nodes := map[string]int64{}, map[string]int64{} // watermarks
	holds := map[string]int64{}
	lower := func(m map[string]int64, name string, watermark int64) {
		if was, ok := m[name]; watermark != math.MinInt64 && (!ok || watermark < was) {
			m[name] = watermark
		}
	}
	clock := now.UnixMilli()
	for i := range s.Tasks {
		for _, src := range s.Tasks[i].Sources {
			lag[src.Topic] += src.Lag()
			if !src.Idle {
				lower(slowest, src.Topic, src.Watermark)
			}
			if c.noPartitions {
				continue
			}
			partition := strconv.Itoa(int(src.Partition))
			out.count(partitionLag, src.Lag(), src.Topic, partition)
			out.count(partitionQueued, int64(src.Queued), src.Topic, partition)
			idle := int64(0)
			if src.Idle {
				idle = 1
			}
			out.count(partitionIdle, idle, src.Topic, partition)
			out.count(partitionBehind, src.Behind, src.Topic, partition)
			if src.Watermark != math.MinInt64 {
				out.put(partitionWatermark, seconds(src.Watermark), src.Topic, partition)
				out.put(partitionWatermarkLag, seconds(clock-src.Watermark), src.Topic, partition)
			}
		}
		for _, op := range s.Tasks[i].Operators {
			lower(nodes, op.Name, op.Watermark)
			if op.Watermark != math.MinInt64 && op.Passed != math.MinInt64 {
				holds[op.Name] = max(holds[op.Name], op.Watermark-op.Passed)
			}
		}
	}
	for topic, n := range lag {
		out.count(topicLag, n, topic)
	}
	for topic, w := range slowest {
		out.put(topicWatermarkLag, seconds(clock-w), topic)
	}
	for node, w := range nodes {
		out.put(nodeWatermark, seconds(w), node)
		out.put(nodeWatermarkLag, seconds(clock-w), node)
	}
	for node, ms := range holds {
		out.put(nodeWatermarkHold, seconds(ms), node)
	}
	for i := range s.Late {
		l := &s.Late[i]
		out.histogram(lateBy, l.Bounds, l.Counts, l.SumSeconds, strconv.Itoa(l.SubTopology), l.Operator)
	}
	out.count(reports, s.Counters.Reports)
	for _, d := range s.Drops {
		out.count(recordsDropped, d.Records, strconv.Itoa(d.SubTopology), d.Operator, d.Reason, string(d.Outcome))
	}
	out.count(offsetsLost, s.Counters.Lost)
}

// abortReasons are there from the start, at 0, so that the first abort can be seen as a rise.
var abortReasons = []framework.AbortReason{
	framework.AbortRebalance, framework.AbortRefused, framework.AbortProduce, framework.AbortFenced, framework.AbortBroker, framework.AbortUnclear,
}

func (c *collector) transactions(out scrape, s *framework.Snapshot) {
	n := &s.Counters
	out.count(commits, n.Commits)
	for _, reason := range abortReasons {
		out.count(aborts, s.Aborts[reason], string(reason))
	}
	out.count(readBacks, n.ReadBacks)
	out.count(readYes, n.ReadBacksCommitted)
	out.count(fencings, n.Fenced)
	out.count(sessions, n.Sessions)
	out.count(rebalance, n.Rebalances)

	out.histogram(commitDuration, s.CommitTimes.Bounds, s.CommitTimes.Counts, s.CommitTimes.Sum.Seconds())
}

func (c *collector) state(out scrape, s *framework.Snapshot) {
	n := &s.Counters
	out.count(restored, n.RecordsRestored)
	out.count(storesWiped, n.StoresWiped)
	out.count(statesDamaged, n.StatesDamaged)
	out.count(trimmed, n.OffsetsTrimmed)
	for i := range s.Restoring {
		r := &s.Restoring[i]
		for _, st := range r.Stores {
			out.count(restoreRemaining, max(st.End-st.Offset, 0), r.ID, st.Store)
		}
	}
	for i := range s.Tasks {
		if t := &s.Tasks[i]; t.StateBytes >= 0 {
			out.count(stateBytes, t.StateBytes, t.ID)
		}
	}
}
