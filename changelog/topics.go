package changelog

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/headrace/headrace/state"
)

const (
	changelogSuffix   = "-changelog"
	repartitionSuffix = "-repartition"
	metaStore         = "meta"

	// maxTopic is the most bytes that Kafka allows in a topic's name.
	maxTopic = 249

	// deleteRetention is how long compaction keeps tombstones at least. A store that was applied to less long ago can catch up by
	// reading on: it cannot have missed a deletion.
	deleteRetention = 7 * 24 * time.Hour
	anyTimestamp    = "9223372036854775807"
	smallSegment    = "52428800" // bytes
)

// Topic returns the name of a store's changelog topic, as Kafka Streams names it: <app>-<store>-changelog.
func Topic(app, store string) string { return app + "-" + store + changelogSuffix }

// RepartitionTopic returns the name of a repartition topic, as Kafka Streams names it: <app>-<name>-repartition.
func RepartitionTopic(app, name string) string { return app + "-" + name + repartitionSuffix }

// MetaTopic returns the name of the compacted topic in which an app keeps what is too long for the metadata of offsets:
// <app>-meta-changelog.
func MetaTopic(app string) string { return Topic(app, metaStore) }

// CheckTopic says whether Kafka takes the name for a topic: 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_' and '-', and
// neither "." nor "..".
func CheckTopic(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("changelog: a topic's name is empty")
	case name == "." || name == "..":
		return fmt.Errorf("changelog: Kafka has no topic named %q", name)
	case len(name) > maxTopic:
		return fmt.Errorf("changelog: topic name %q has %d characters, Kafka allows %d; shorten the application id or the name", name, len(name), maxTopic)
	}
	return checkCharacters("topic name", name)
}

// CheckStore says whether a store can have that name in app: whether its changelog topic can.
func CheckStore(app, store string) error {
	if err := checkNames(app, "store", store); err != nil {
		return err
	}
	if store == metaStore {
		return fmt.Errorf("changelog: no store can be named %q: %s is where the app keeps its clocks; choose another name", store, MetaTopic(app))
	}
	return CheckTopic(Topic(app, store))
}

// CheckRepartition says whether a repartition topic can have that name in app.
func CheckRepartition(app, name string) error {
	if err := checkNames(app, "repartition topic", name); err != nil {
		return err
	}
	return CheckTopic(RepartitionTopic(app, name))
}

func checkNames(app, what, name string) error {
	if app == "" {
		return fmt.Errorf("changelog: the application id is empty; the names of topics begin with it")
	}
	if name == "" {
		return fmt.Errorf("changelog: the name of a %s is empty", what)
	}
	if err := checkCharacters("application id", app); err != nil {
		return err
	}
	return checkCharacters(what+" name", name)
}

func checkCharacters(what, name string) error {
	bad := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-'
	}
	if i := strings.IndexFunc(name, bad); i >= 0 {
		c := []rune(name[i:])[0]
		return fmt.Errorf("changelog: %s %q has %q at byte %d; Kafka allows a-z, A-Z, 0-9, '.', '_' and '-'", what, name, c, i)
	}
	return nil
}

// Configs returns the configuration of the changelog topic of a store. It is never that of a table's source topic.
//
// Nothing here removes records by age: a window's changelog is trimmed by whoever knows which windows are over, since the
// timestamps are event time and may be of any year.
func Configs(spec state.Spec) map[string]string {
	c := internal("compact")
	if spec.Kind.Timed() {
		c["cleanup.policy"] = "compact,delete" // "delete" is what allows records to be deleted up to an offset
		c["retention.ms"] = "-1"
	}
	c["delete.retention.ms"] = strconv.FormatInt(deleteRetention.Milliseconds(), 10)
	return c
}

// MetaConfigs returns the configuration of the topic named by MetaTopic. Each commit that needs it writes the same few keys again, so
// that its segments are small: compaction leaves the last one alone.
func MetaConfigs() map[string]string {
	c := Configs(state.Spec{Kind: state.KeyValueKind})
	c["segment.bytes"] = smallSegment
	return c
}

// RepartitionConfigs returns the configuration of a repartition topic. Its records are deleted once they are processed.
func RepartitionConfigs() map[string]string {
	c := internal("delete")
	c["retention.ms"] = "-1"
	c["segment.bytes"] = smallSegment
	return c
}

// internal is what all topics of ours share: records keep the timestamp that they were given, whatever year it is of.
func internal(cleanup string) map[string]string {
	return map[string]string{
		"cleanup.policy":                  cleanup,
		"message.timestamp.type":          "CreateTime",
		"message.timestamp.before.max.ms": anyTimestamp,
		"message.timestamp.after.max.ms":  anyTimestamp,
	}
}
