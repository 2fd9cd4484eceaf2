package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
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
	deadline := time.Now().Add(a.set.TopicTimeout)
	for {
		have := make(map[string]int32)
		details, err := a.adm.ListTopics(ctx, slices.Concat(inputs, outputs)...)
		if classify(err) == refused {
			return nil, fatal("look up topics: %w", err)
		}
		for topic, d := range details {
			if classify(d.Err) == refused {
				return nil, fatal("topic %s: %w; grant the app to describe it", topic, d.Err)
			}
			if d.Err == nil && len(d.Partitions) > 0 {
				have[topic] = int32(len(d.Partitions))
			}
		}
		noIn, noOut := missing(inputs, have), missing(outputs, have)
		switch {
		case err == nil && len(noIn)+len(noOut) == 0:
			return have, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case time.Now().After(deadline):
			return nil, missingError(a.set.TopicTimeout, noIn, noOut, err)
		}
		a.warnWaiting(noIn, noOut, err)
		if err := sleep(ctx, topicPoll); err != nil {
			return nil, err
		}
	}
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

func missingError(after time.Duration, inputs, outputs []string, err error) error {
	if err != nil {
		return fatal("no broker answered within %v (Config.TopicTimeout): %w; check Config.Brokers", after, err)
	}
	var what []string
	if len(inputs) > 0 {
		what = append(what, "input topics "+strings.Join(inputs, ", "))
	}
	if len(outputs) > 0 {
		what = append(what, "output topics "+strings.Join(outputs, ", "))
	}
	return fatal("%s did not exist after %v (Config.TopicTimeout); create them, since only you know how many partitions they need", strings.Join(what, " and "), after)
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
		details, err := a.adm.ListTopics(ctx, names...)
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
			return fatal("make the internal topics: %w", err)
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(deadline):
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
		case ok && d.Err == nil && int32(len(d.Partitions)) == t.partitions:
			ready++
			continue
		case ok && d.Err == nil && len(d.Partitions) > 0:
			errs = append(errs, fatal("internal topic %s has %d partitions and needs %d: the topology or an input topic has changed since it was made; go back, or take another Config.AppID, or stop all instances and delete the app's internal topics and its group's offsets",
				t.name, len(d.Partitions), t.partitions))
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
