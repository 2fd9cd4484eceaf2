package framework

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/internal/graph"
)

// The settings of topics that decide what becomes of what the app writes.
const (
	timestampType   = "message.timestamp.type"
	timestampBefore = "message.timestamp.before.max.ms"
	timestampAfter  = "message.timestamp.after.max.ms"
	retentionTime   = "retention.ms"
	cleanupPolicy   = "cleanup.policy"
	maxMessageBytes = "max.message.bytes"
	deleteRetention = "delete.retention.ms"
)

// settingsTimeout bounds the look at the settings of topics: nothing depends on it.
const settingsTimeout = 5 * time.Second

// readSettings reads the settings of the topics that the app writes. It warns of those of output topics by which event times can be
// refused or deleted, and keeps how large a record may be. Who may not read settings goes without.
func (a *App) readSettings(ctx context.Context, lay *layout, outputs []string) {
	ctx, cancel := context.WithTimeout(ctx, settingsTimeout)
	defer cancel()
	var topics []string
	for i := range lay.subs {
		for _, topic := range slices.Concat(lay.subs[i].sinks, lay.subs[i].changelogs) {
			if topic != "" && !slices.Contains(topics, topic) {
				topics = append(topics, topic)
			}
		}
	}
	var tables []string
	for i := range lay.subs {
		for j, topic := range lay.subs[i].sources {
			if lay.subs[i].sub.Sources[j].Table {
				tables = append(tables, topic)
				topics = append(topics, topic)
			}
		}
	}
	if len(topics) == 0 {
		return
	}
	described, err := a.adm.DescribeTopicConfigs(ctx, topics...)
	if err != nil {
		a.log.Debug("the settings of topics cannot be read", "err", err)
		return
	}
	for _, d := range described {
		if d.Err != nil {
			a.log.Debug("the settings of a topic cannot be read", "topic", d.Name, "err", d.Err)
			continue
		}
		set := make(map[string]string)
		for _, c := range d.Configs {
			if c.Value != nil {
				set[c.Key] = *c.Value
			}
		}
		if n, err := strconv.ParseInt(set[maxMessageBytes], 10, 32); err == nil {
			a.maxBytes.Store(d.Name, int32(n))
		}
		if n, err := strconv.ParseInt(set[deleteRetention], 10, 64); err == nil && slices.Contains(tables, d.Name) {
			a.tombstones.Store(d.Name, time.Duration(min(n, maxTombstones.Milliseconds()))*time.Millisecond)
		}
		if slices.Contains(tables, d.Name) && set[cleanupPolicy] != "" && !strings.Contains(set[cleanupPolicy], "compact") {
			a.tombstones.Store(d.Name, allTombstones)
		}
		if slices.Contains(outputs, d.Name) {
			a.warnOfTimes(d.Name, set)
		}
		if slices.Contains(tables, d.Name) && !strings.Contains(set[cleanupPolicy], "compact") && set[cleanupPolicy] != "" {
			a.log.Warn("table topic is not compacted: rows are gone from the table when retention has deleted them and it is read again",
				"topic", d.Name, "setting", cleanupPolicy+"="+set[cleanupPolicy])
		}
	}
}

// warnOfTimes says in one line by which settings an output topic loses records because of their event times. Where they are the
// broker's own timestamps, they are of now.
func (a *App) warnOfTimes(topic string, set map[string]string) {
	own := slices.ContainsFunc(a.set.plan.SubTopologies, func(sub *graph.SubTopology) bool {
		return slices.ContainsFunc(sub.Sources, func(s graph.Source) bool { return s.OwnTime })
	})
	warnings := timeWarnings(set)
	if !own || len(warnings) == 0 {
		return
	}
	var settings, consequences []string
	for _, w := range warnings {
		settings, consequences = append(settings, w.setting), append(consequences, w.consequence)
	}
	a.log.Warn("output topic may not keep event times", "topic", topic,
		"setting", strings.Join(settings, ", "), "consequence", strings.Join(consequences, "; "))
}

// takesLess reads anew how large a batch a topic takes, and says whether it is less than was known.
func (a *App) takesLess(ctx context.Context, topic string) bool {
	ctx, cancel := context.WithTimeout(ctx, settingsTimeout)
	defer cancel()
	before := a.maxBatch(topic)
	described, err := a.adm.DescribeTopicConfigs(ctx, topic)
	if err != nil || len(described) != 1 || described[0].Err != nil {
		return false
	}
	for _, c := range described[0].Configs {
		if n, err := strconv.ParseInt(c.MaybeValue(), 10, 32); err == nil && c.Key == maxMessageBytes {
			a.maxBytes.Store(topic, int32(n))
		}
	}
	return a.maxBatch(topic) < before
}

type timeWarning struct{ setting, consequence string }

// timeWarnings says by which settings a topic refuses or deletes records because of their timestamps, which are event times.
func timeWarnings(set map[string]string) []timeWarning {
	if set[timestampType] == "LogAppendTime" {
		return nil // the broker stamps them itself
	}
	var out []timeWarning
	warn := func(key, consequence string) {
		ms, err := strconv.ParseInt(set[key], 10, 64)
		if err != nil || ms < 0 || ms == math.MaxInt64 {
			return
		}
		d := "more than " + set[key] + " ms"
		if ms < math.MaxInt64/int64(time.Millisecond) {
			d = "more than " + (time.Duration(ms) * time.Millisecond).String()
		}
		out = append(out, timeWarning{key + "=" + set[key], fmt.Sprintf(consequence, d)})
	}
	warn(timestampBefore, "records with an event time %s ago are refused, and meet the error policy")
	warn(timestampAfter, "records with an event time %s ahead are refused, and meet the error policy")
	if strings.Contains(set[cleanupPolicy], "delete") {
		warn(retentionTime, "records with an event time %s ago are deleted as soon as they are written")
	}
	return out
}

// smallestBatch is the smallest that the client accepts.
const smallestBatch = 512

// maxBatch is the largest batch of records for a topic, and so the largest record: the client's limit, and not more than the topic
// takes, or each large transaction would be refused.
func (a *App) maxBatch(topic string) int32 {
	n := a.clientBatch(topic)
	if limit, ok := a.maxBytes.Load(topic); ok {
		n = min(n, limit.(int32))
	}
	return max(n, smallestBatch)
}

// clientBatch is the limit of the user's options, or the client's own.
func (a *App) clientBatch(topic string) int32 {
	if fn, ok := a.client.OptValue(kgo.ProducerBatchMaxBytesFn).(func(string) int32); ok {
		return fn(topic)
	}
	return 1_000_012
}
