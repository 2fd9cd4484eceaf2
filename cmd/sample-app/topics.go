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

// appTopics are the topics that the app does not make itself. The flights are of 2001, and so are the results: with a retention they
// would be deleted as soon as they are written.
var appTopics = []struct {
	name    string
	configs map[string]string
}{
	{flightsTopic, map[string]string{"retention.ms": "-1"}},
	{airportsTopic, map[string]string{"cleanup.policy": "compact"}},
	{delaysTopic, map[string]string{"retention.ms": "-1"}},
	{lateTopic, map[string]string{"retention.ms": "-1"}},
}

// leadersTimeout is how long a topic that was just made may have no leaders.
const leadersTimeout = 30 * time.Second

// makeTopics makes what is missing, checks what is there, and returns how many partitions the topic of the flights has. told is
// called for each topic that it makes.
func makeTopics(ctx context.Context, adm *kadm.Client, partitions int, replicas int16, told func(topic string)) (int, error) {
	var names []string
	for _, t := range appTopics {
		names = append(names, t.name)
	}
	have, err := adm.ListTopics(ctx, names...)
	if err != nil {
		return 0, fmt.Errorf("look for topics: %w", err)
	}
	for _, t := range appTopics {
		if have.Has(t.name) {
			if err := checkRetention(ctx, adm, t.name); err != nil {
				return 0, err
			}
			continue
		}
		configs := map[string]*string{}
		for k, v := range t.configs {
			configs[k] = &v
		}
		if _, err := adm.CreateTopic(ctx, int32(partitions), replicas, configs, t.name); err != nil {
			return 0, fmt.Errorf("make topic %s with %d partitions: %w", t.name, partitions, err)
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
			return len(have[flightsTopic].Partitions), nil
		}
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
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
		records = append(records, &kgo.Record{Topic: airportsTopic, Key: []byte(row[0]), Value: value})
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("airports: cannot load the table: %w", err)
	}
	return nil
}
