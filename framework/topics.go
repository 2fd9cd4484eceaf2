package framework

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// topicPoll is how often missing topics are looked for.
const topicPoll = 500 * time.Millisecond

// prepare looks up the topics, makes those of the app, and returns the plan laid over them.
func (a *App) prepare(ctx context.Context) (*layout, error) {
	inputs, outputs := a.userTopics()
	have, err := a.awaitTopics(ctx, inputs, outputs)
	if err != nil {
		return nil, err
	}
	names := namesOf(a.set.AppID)
	lay, internal, err := resolve(a.set.plan, names, have)
	if err != nil {
		return nil, &appError{err}
	}
	if err := a.createTopics(ctx, lay, internal); err != nil {
		return nil, err
	}
	if err := a.checkInternal(ctx, lay, internal); err != nil {
		return nil, err
	}
	var all []string
	for topic := range lay.topics {
		all = append(all, topic)
	}
	details, err := a.adm.ListTopics(ctx, all...)
	if err != nil {
		return nil, fmt.Errorf("framework: look up topics: %w", err)
	}
	for topic, info := range lay.topics {
		d := details[topic]
		if d.Err != nil {
			return nil, fmt.Errorf("framework: look up topic %s: %w", topic, d.Err)
		}
		lay.topics[topic] = topicInfo{partitions: info.partitions, id: d.ID}
	}
	if lay.outgrows() {
		if _, err := a.metaTopic(ctx, lay); err != nil {
			return nil, err
		}
	}
	a.readSettings(ctx, lay, outputs)
	return lay, nil
}

// userTopics returns the topics that the user has to make: what the topology reads, and what it writes.
func (a *App) userTopics() (inputs, outputs []string) {
	for _, sub := range a.set.plan.SubTopologies {
		for i := range sub.Sources {
			if !sub.Sources[i].Repartition {
				inputs = append(inputs, sub.Sources[i].Topic)
			}
		}
		for i := range sub.Sinks {
			if !sub.Sinks[i].Repartition {
				outputs = append(outputs, sub.Sinks[i].Topic)
			}
		}
	}
	slices.Sort(inputs)
	slices.Sort(outputs)
	return slices.Compact(inputs), slices.Compact(outputs)
}

// awaitTopics waits until all topics exist, and returns their counts of partitions.
func (a *App) awaitTopics(ctx context.Context, inputs, outputs []string) (map[string]int32, error) {
	look, done, err := a.impatient()
	if err != nil {
		return nil, err
	}
	defer done()
	began := time.Now()
	deadline := began.Add(a.set.TopicTimeout)
	for {
		have := make(map[string]int32)
		seen, err := look(ctx, slices.Concat(inputs, outputs)...)
		for _, topic := range slices.Sorted(maps.Keys(seen)) {
			d := seen[topic]
			if classify(d.err) == refused {
				on := a.set.outputTopic(topic)
				if slices.Contains(inputs, topic) {
					on = a.set.inputTopic(topic)
				}
				return nil, a.set.explain("look up topic "+topic, d.err, on)
			}
			if d.err == nil && d.partitions > 0 {
				have[topic] = d.partitions
			}
		}
		if classify(err) == refused || isMisconfigured(err) {
			return nil, a.set.explain("look up topics", err, resource{})
		}
		noIn, noOut := missing(inputs, have), missing(outputs, have)
		switch {
		case err == nil && len(noIn)+len(noOut) == 0:
			return have, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !time.Now().Add(topicPoll).Before(deadline):
			return nil, missingError(time.Since(began), a.set.TopicTimeout, noIn, noOut, err)
		}
		a.warnWaiting(noIn, noOut, err)
		if err := sleep(ctx, topicPoll); err != nil {
			return nil, err
		}
	}
}

// seenTopic is what a broker says of a topic.
type seenTopic struct {
	partitions int32
	err        error
}

// firstLookTimeout bounds one look at topics while Run starts.
const firstLookTimeout = 3 * time.Second

// impatient returns a look at topics by a client that does not try again: what is wrong with a connection is told at once, and not
// hidden behind retries until the time is over.
func (a *App) impatient() (look func(ctx context.Context, topics ...string) (map[string]seenTopic, error), done func(), err error) {
	cl, err := kgo.NewClient(append(a.set.clientOptions(), kgo.RequestRetries(0), kgo.WithLogger(clientLogger{a.log, &a.quiet}))...)
	if err != nil {
		return nil, nil, fmt.Errorf("framework: make a client: %w", err)
	}
	return func(ctx context.Context, topics ...string) (map[string]seenTopic, error) {
		ctx, cancel := context.WithTimeout(ctx, firstLookTimeout)
		defer cancel()
		req := kmsg.NewPtrMetadataRequest()
		for _, topic := range topics {
			t := kmsg.NewMetadataRequestTopic()
			t.Topic = kmsg.StringPtr(topic)
			req.Topics = append(req.Topics, t)
		}
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return nil, err
		}
		out := make(map[string]seenTopic)
		for i := range resp.Topics {
			if t := &resp.Topics[i]; t.Topic != nil {
				out[*t.Topic] = seenTopic{int32(len(t.Partitions)), kerr.ErrorForCode(t.ErrorCode)}
			}
		}
		return out, nil
	}, cl.Close, nil
}

// listTopics asks once, until the deadline at most.
func (a *App) listTopics(ctx context.Context, deadline time.Time, topics ...string) (kadm.TopicDetails, error) {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	return a.adm.ListTopics(ctx, topics...)
}

// warnWaiting says what Run waits for, now and then.
func (a *App) warnWaiting(inputs, outputs []string, err error) {
	msg, attrs := "waiting for a broker", []any{"brokers", a.set.Brokers, "err", err}
	if err == nil {
		msg, attrs = "waiting for topics", nil
		if len(inputs) > 0 {
			attrs = append(attrs, "inputs", inputs)
		}
		if len(outputs) > 0 {
			attrs = append(attrs, "outputs", outputs)
		}
	}
	if ok, _ := a.quiet.say(msg, time.Now()); ok {
		a.log.Warn(msg, append(attrs, "timeout", a.set.TopicTimeout)...)
	}
}

func missing(topics []string, have map[string]int32) []string {
	var out []string
	for _, t := range topics {
		if have[t] == 0 {
			out = append(out, t)
		}
	}
	return out
}

func missingError(waited, timeout time.Duration, inputs, outputs []string, err error) error {
	after := waited.Round(100 * time.Millisecond)
	if err != nil {
		if way := connectionWayOut(err); way != "" {
			return fatal("no broker answered within %v (Config.TopicTimeout is %v): %w; %s", after, timeout, err, way)
		}
		return fatal("no broker answered within %v (Config.TopicTimeout is %v): %w; check Config.Brokers, and that TLS is spoken where the listener has it", after, timeout, err)
	}
	var what []string
	if len(inputs) > 0 {
		what = append(what, "input topics "+strings.Join(inputs, ", "))
	}
	if len(outputs) > 0 {
		what = append(what, "output topics "+strings.Join(outputs, ", "))
	}
	return fatal("%s did not exist within %v (Config.TopicTimeout is %v); create them, since only you know how many partitions they need", strings.Join(what, " and "), after, timeout)
}

// createTopics makes the internal topics that are missing, and checks those that are there. Other instances do the same at the
// same time: that somebody else was first is no error.
func (a *App) createTopics(ctx context.Context, lay *layout, internal []internalTopic) error {
	names := make([]string, len(internal))
	for i, t := range internal {
		names[i] = t.name
	}
	if len(names) == 0 {
		return nil
	}
	deadline := time.Now().Add(a.set.TopicTimeout)
	for {
		details, err := a.listTopics(ctx, deadline, names...)
		if err == nil {
			var ready int
			if ready, err = a.createMissing(ctx, lay, internal, details); err == nil && ready == len(internal) {
				return nil
			}
		}
		switch {
		case isFatal(err):
			return err
		case classify(err) == refused:
			return a.set.explain("make the internal topics "+strings.Join(names, ", "), err, a.set.internalTopics())
		case ctx.Err() != nil:
			return ctx.Err()
		case !time.Now().Add(topicPoll).Before(deadline):
			return fatal("the internal topics %s were not there after %v (Config.TopicTimeout): %w", strings.Join(names, ", "), a.set.TopicTimeout, orUnknown(err))
		}
		if err := sleep(ctx, topicPoll/5); err != nil {
			return err
		}
	}
}

func orUnknown(err error) error {
	if err == nil {
		return kerr.UnknownTopicOrPartition
	}
	return err
}

// createMissing returns how many topics are there as they should be.
func (a *App) createMissing(ctx context.Context, lay *layout, internal []internalTopic, details kadm.TopicDetails) (int, error) {
	ready := 0
	var errs []error
	for _, t := range internal {
		d, ok := details[t.name]
		switch {
		case ok && d.Err == nil && (int32(len(d.Partitions)) == t.partitions || t.store == metaRecords && len(d.Partitions) > 0):
			ready++
			continue
		case ok && d.Err == nil && len(d.Partitions) > 0:
			errs = append(errs, fatal("internal topic %s has %d partitions and needs %d%s: the state of a key would be in another task than its records, and tables that are joined would not match; "+
				"copy what has grown to a topic of the new size under a new name, and read that under another Config.AppID from the start; if it is the topology that has changed, go back, or take another Config.AppID",
				t.name, len(d.Partitions), t.partitions, lay.because(t)))
			continue
		case ok && d.Err != nil && !errors.Is(d.Err, kerr.UnknownTopicOrPartition):
			errs = append(errs, fmt.Errorf("topic %s: %w", t.name, d.Err))
			continue
		case ok && d.Err == nil: // made, but not all partitions have a leader yet
			continue
		}
		resp, err := a.adm.CreateTopic(ctx, t.partitions, a.set.ReplicationFactor, internalConfigs(lay, t), t.name)
		if err == nil {
			err = resp.Err
		}
		switch {
		case err == nil:
			a.made = append(a.made, t)
			a.log.Info("made internal topic", "topic", t.name, "partitions", t.partitions)
		case errors.Is(err, kerr.TopicAlreadyExists):
		default:
			errs = append(errs, fmt.Errorf("make topic %s with %d partitions: %w", t.name, t.partitions, err))
		}
	}
	return ready, errors.Join(errs...)
}
