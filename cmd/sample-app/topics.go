package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/cmd/sample-app/data"
)

// appTopic is a topic that the app does not make itself.
type appTopic struct {
	name    string
	configs map[string]string
}

// The flights are of 2001, and so are the results: with a retention they would be deleted as soon as they are written.
//
// The app waits until all its topics are there, and reads a table up to the end that it has then. So the table is made and filled
// before the others are made: an app that runs already finds an airport for each flight.
var (
	tableTopics = []appTopic{{airportsTopic, map[string]string{"cleanup.policy": "compact"}}}
	otherTopics = []appTopic{
		{delaysTopic, map[string]string{"retention.ms": "-1"}},
		{lateTopic, map[string]string{"retention.ms": "-1"}},
		{flightsTopic, map[string]string{"retention.ms": "-1"}},
	}
)

// leadersTimeout is how long a topic that was just made may have no leaders.
const leadersTimeout = 30 * time.Second

// makeTopics makes what is missing of the topics, in their order, checks what is there, and returns when all have leaders. told is
// called for each that it makes.
func makeTopics(ctx context.Context, adm *kadm.Client, topics []appTopic, partitions int, replicas int16, told func(topic string)) error {
	var names []string
	for _, t := range topics {
		names = append(names, t.name)
	}
	have, err := adm.ListTopics(ctx, names...)
	if err != nil {
		return fmt.Errorf("look for topics: %w", err)
	}
	for _, t := range topics {
		if have.Has(t.name) {
			if err := checkRetention(ctx, adm, t.name); err != nil {
				return err
			}
			continue
		}
		configs := map[string]*string{}
		for k, v := range t.configs {
			configs[k] = &v
		}
		if _, err := adm.CreateTopic(ctx, int32(partitions), replicas, configs, t.name); err != nil {
			return fmt.Errorf("make topic %s with %d partitions: %w", t.name, partitions, err)
		}
		told(t.name)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, leadersTimeout, fmt.Errorf("topics %v have no leaders after %v", names, leadersTimeout))
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		have, err = adm.ListTopics(ctx, names...)
		if err == nil && led(have, names) {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

func led(have kadm.TopicDetails, names []string) bool {
	for _, name := range names {
		if !have.Has(name) {
			return false
		}
		for _, p := range have[name].Partitions {
			if p.Err != nil || p.Leader < 0 {
				return false
			}
		}
	}
	return true
}

// checkRetention refuses a topic that deletes records of 2001. Where the settings may not be read, nobody knows.
func checkRetention(ctx context.Context, adm *kadm.Client, topic string) error {
	described, err := adm.DescribeTopicConfigs(ctx, topic)
	if err != nil || len(described) != 1 || described[0].Err != nil {
		return nil
	}
	set := map[string]string{}
	for _, c := range described[0].Configs {
		set[c.Key] = c.MaybeValue()
	}
	ms, err := strconv.ParseInt(set["retention.ms"], 10, 64)
	if err != nil || ms < 0 || !strings.Contains(set["cleanup.policy"], "delete") {
		return nil
	}
	return fmt.Errorf("topic %s keeps records for %v (retention.ms=%d), and these are of 2001: it would delete them; "+
		"kafka-configs.sh --alter --entity-type topics --entity-name %s --add-config retention.ms=-1", topic, time.Duration(ms)*time.Millisecond, ms, topic)
}

var errNoTopic = errors.New("there is no topic " + flightsTopic)

// fedSoFar returns the partitions of the topic of the flights, and how many records were written to it. Nobody writes it in
// transactions, so that each offset is a record.
func fedSoFar(ctx context.Context, adm *kadm.Client) (partitions int, records int64, err error) {
	have, err := adm.ListTopics(ctx, flightsTopic)
	if err != nil {
		return 0, 0, fmt.Errorf("look for topic %s: %w", flightsTopic, err)
	}
	if !have.Has(flightsTopic) {
		return 0, 0, errNoTopic
	}
	ends, err := adm.ListEndOffsets(ctx, flightsTopic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return 0, 0, fmt.Errorf("end of topic %s: %w", flightsTopic, err)
	}
	ends.Each(func(o kadm.ListedOffset) { records += o.Offset })
	return len(have[flightsTopic].Partitions), records, nil
}

// tableTime is the event time of the airports: before all flights, since a task that has both takes what is older first.
var tableTime = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// loadAirports writes the table that the flights are joined with.
func loadAirports(ctx context.Context, client *kgo.Client) error {
	zr, err := gzip.NewReader(bytes.NewReader(data.Airports))
	if err != nil {
		return fmt.Errorf("airports: %w", err)
	}
	rows, err := csv.NewReader(zr).ReadAll()
	if err != nil {
		return fmt.Errorf("airports: %w", err)
	}
	var records []*kgo.Record
	for _, row := range rows[1:] {
		value, err := json.Marshal(Airport{IATA: row[0], Name: row[1], City: row[2], State: row[3]})
		if err != nil {
			return err
		}
		records = append(records, &kgo.Record{Topic: airportsTopic, Key: []byte(row[0]), Value: value, Timestamp: tableTime})
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("airports: cannot load the table: %w", err)
	}
	return nil
}
