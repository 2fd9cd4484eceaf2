package main

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// config is what the commands that talk to a cluster are told. Every field has its row in settings.
type config struct {
	Brokers []string

	AppID              string
	Instance           string
	KeepMembership     bool
	Workers            int
	State, StateDir    string
	Guarantee          string
	CommitInterval     time.Duration
	SessionTimeout     time.Duration
	TransactionTimeout time.Duration
	TopicTimeout       time.Duration
	ReplicationFactor  int16
	DrainTimeout       time.Duration

	TLS struct {
		Enabled            bool
		CAFile, ServerName string
		CertFile, KeyFile  string
	}
	SASL struct {
		Mechanism, Username     string
		PasswordFile, TokenFile string
		AllowPlaintext          bool
	}

	HTTPAddr      string
	LogFormat     string
	LogLevel      string
	ProgressEvery time.Duration

	Records, Partitions, Rate int
	VerifyTimeout             time.Duration

	Timeline timelineConfig
}

// commands is the set of those that have a setting as a flag.
type commands uint8

const (
	inRun commands = 1 << iota
	inFeed
	inVerify
	inHealthcheck
	inTimeline

	inAll = inRun | inFeed | inVerify | inTimeline
)

// A setting is one thing to configure. Its key is what the file calls it, with dots where it is nested; the names of its variable and
// its flag follow from that.
type setting struct {
	key     string
	short   string // the flag, where it is not made of the key
	in      commands
	initial string
	kafka   string // what Kafka's own clients and Kafka Streams call it
	doc     string
	// secret: what is meant is the name of a file, but people put there what should be in the file. It is shown only if there is
	// such a file.
	secret bool
	bool   bool
	set    func(*config, string) error
}

const (
	envPrefix = "HEADRACE_"

	exactlyOnce = "exactly-once"
	atLeastOnce = "at-least-once"
)

func (s *setting) env() string {
	return envPrefix + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(s.key))
}

func (s *setting) flag() string {
	if s.short != "" {
		return s.short
	}
	return strings.ReplaceAll(s.key, ".", "-")
}

// settings is everything that can be configured, in the order in which it is told. Help, documentation, --print-config and the names
// that are suggested for mistyped ones come from here.
var settings = []setting{
	{
		key: "brokers", in: inAll, kafka: "bootstrap.servers",
		doc: "some brokers of the cluster, as host:port, separated by commas; required",
		set: brokers,
	},
	{
		key: "app-id", in: inRun, initial: appID, kafka: "application.id",
		doc: "name of the application: the consumer group, and how its internal topics and transactions begin",
		set: verbatim(func(c *config) *string { return &c.AppID }),
	},
	{
		key: "instance", in: inRun, kafka: "group.instance.id",
		doc: "name of this process among those of the application; without one, that of the state directory, or a random one",
		set: verbatim(func(c *config) *string { return &c.Instance }),
	},
	{
		key: "keep-membership", in: inRun, initial: "false", bool: true,
		doc: "leave the places in the group to whoever comes back under the same name, for rolling restarts",
		set: boolean(func(c *config) *bool { return &c.KeepMembership }),
	},
	{
		key: "workers", in: inRun, initial: "1", kafka: "num.stream.threads",
		doc: "workers of this process: each is a member of the group with a transactional producer",
		set: number(func(c *config) *int { return &c.Workers }, 1),
	},
	{
		key: "state", in: inRun, initial: "memory",
		doc: "where stores are kept: memory, or pebble, which is on disk",
		set: choice(func(c *config) *string { return &c.State }, "memory", "pebble"),
	},
	{
		key: "state-dir", in: inRun, kafka: "state.dir",
		doc: "directory of state pebble, for this process alone",
		set: verbatim(func(c *config) *string { return &c.StateDir }),
	},
	{
		key: "guarantee", in: inRun, initial: exactlyOnce, kafka: "processing.guarantee",
		doc: "exactly-once, or at-least-once, which needs no transactions and may count a flight twice after a failure",
		set: choice(func(c *config) *string { return &c.Guarantee }, exactlyOnce, atLeastOnce),
	},
	{
		key: "commit-interval", in: inRun, initial: "100ms", kafka: "commit.interval.ms",
		doc: "longest time between two commits",
		set: duration(func(c *config) *time.Duration { return &c.CommitInterval }),
	},
	{
		key: "session-timeout", in: inRun, initial: "15s", kafka: "session.timeout.ms",
		doc: "how long the group waits for a process that gives no sign of life; brokers take 6s and more by default",
		set: duration(func(c *config) *time.Duration { return &c.SessionTimeout }),
	},
	{
		key: "transaction-timeout", in: inRun, initial: "30s", kafka: "transaction.timeout.ms",
		doc: "how long a transaction may be open before the broker aborts it; not below session-timeout",
		set: duration(func(c *config) *time.Duration { return &c.TransactionTimeout }),
	},
	{
		key: "topic-timeout", in: inRun, initial: "1m",
		doc: "how long the start waits for brokers and topics that are not there",
		set: duration(func(c *config) *time.Duration { return &c.TopicTimeout }),
	},
	{
		key: "replication-factor", in: inRun | inFeed, initial: "-1", kafka: "replication.factor",
		doc: "replicas of the topics that are made; -1 is the brokers' default",
		set: replicas,
	},
	{
		key: "drain-timeout", in: inRun, initial: "10s",
		doc: "how long the work in progress may take to finish after SIGTERM or SIGINT",
		set: duration(func(c *config) *time.Duration { return &c.DrainTimeout }),
	},

	{
		key: "tls.enabled", in: inAll, initial: "false", bool: true, kafka: "security.protocol",
		doc: "talk TLS to the brokers, 1.2 or newer",
		set: boolean(func(c *config) *bool { return &c.TLS.Enabled }),
	},
	{
		key: "tls.ca-file", in: inAll, kafka: "ssl.truststore.location",
		doc: "PEM file of the authorities that sign the brokers' certificates; without it, those of the system",
		set: verbatim(func(c *config) *string { return &c.TLS.CAFile }),
	},
	{
		key: "tls.server-name", in: inAll,
		doc: "name that the brokers' certificates must have; without it, that of each broker's address",
		set: verbatim(func(c *config) *string { return &c.TLS.ServerName }),
	},
	{
		key: "tls.cert-file", in: inAll, kafka: "ssl.keystore.location",
		doc: "PEM file of this client's certificate, for mTLS; read again for each connection",
		set: verbatim(func(c *config) *string { return &c.TLS.CertFile }),
	},
	{
		key: "tls.key-file", in: inAll, secret: true, kafka: "ssl.key.location",
		doc: "PEM file of the certificate's private key",
		set: verbatim(func(c *config) *string { return &c.TLS.KeyFile }),
	},
	{
		key: "sasl.mechanism", in: inAll, kafka: "sasl.mechanism",
		doc: strings.Join(mechanisms, ", ") + "; without one there is no SASL",
		set: choice(func(c *config) *string { return &c.SASL.Mechanism }, append([]string{""}, mechanisms...)...),
	},
	{
		key: "sasl.username", in: inAll,
		doc: "user of PLAIN and SCRAM",
		set: verbatim(func(c *config) *string { return &c.SASL.Username }),
	},
	{
		key: "sasl.password-file", in: inAll, secret: true,
		doc: "file of the password, one line; read again for each connection",
		set: verbatim(func(c *config) *string { return &c.SASL.PasswordFile }),
	},
	{
		key: "sasl.token-file", in: inAll, secret: true,
		doc: "file of the token of OAUTHBEARER, one line; read again for each connection",
		set: verbatim(func(c *config) *string { return &c.SASL.TokenFile }),
	},
	{
		key: "sasl.allow-plaintext", in: inAll, initial: "false", bool: true,
		doc: "send password or token of PLAIN and OAUTHBEARER without TLS, for everybody on the network to read",
		set: boolean(func(c *config) *bool { return &c.SASL.AllowPlaintext }),
	},

	{
		key: "http.addr", in: inRun | inHealthcheck,
		doc: "address for metrics and probes, as host:port; none without it",
		set: verbatim(func(c *config) *string { return &c.HTTPAddr }),
	},
	{
		key: "log.format", in: inAll, initial: "auto",
		doc: "json, text, or auto: text on a terminal and else json",
		set: choice(func(c *config) *string { return &c.LogFormat }, "auto", "json", "text"),
	},
	{
		key: "log.level", in: inAll, initial: "info",
		doc: "debug, info, warn or error",
		set: choice(func(c *config) *string { return &c.LogLevel }, "debug", "info", "warn", "error"),
	},
	{
		key: "log.progress", in: inRun, initial: "30s",
		doc: "how often the log says how far the app is",
		set: duration(func(c *config) *time.Duration { return &c.ProgressEvery }),
	},

	{
		key: "feed.records", short: "records", in: inFeed | inVerify, initial: "20000",
		doc: "how many flights; beyond 20000 the file repeats, 90 days later each time",
		set: number(func(c *config) *int { return &c.Records }, 1),
	},
	{
		key: "feed.partitions", short: "partitions", in: inFeed, initial: "4",
		doc: "partitions of the topics that are missing",
		set: number(func(c *config) *int { return &c.Partitions }, 1),
	},
	{
		key: "feed.rate", short: "rate", in: inFeed, initial: "0",
		doc: "flights a second; 0 is as many as there can be",
		set: number(func(c *config) *int { return &c.Rate }, 0),
	},
	{
		key: "verify.timeout", short: "timeout", in: inVerify, initial: "90s",
		doc: "how long to wait while nothing new comes from the feed or the app",
		set: duration(func(c *config) *time.Duration { return &c.VerifyTimeout }),
	},

	{
		key: "timeline.topic", short: "topic", in: inTimeline,
		doc: "topic to draw; required",
		set: verbatim(func(c *config) *string { return &c.Timeline.Topic }),
	},
	{
		key: "timeline.partition", short: "partition", in: inTimeline, initial: "-1",
		doc: "the only partition to draw; -1 is all, in the order in which one task would take them",
		set: number(func(c *config) *int { return &c.Timeline.Partition }, -1),
	},
	{
		key: "timeline.records", short: "last", in: inTimeline, initial: "200",
		doc: "how many records to draw, the last ones, shared out among the partitions",
		set: number(func(c *config) *int { return &c.Timeline.Records }, 1),
	},
	{
		key: "timeline.time", short: "time", in: inTimeline, initial: "record",
		doc: "where event time is: record, which is the record's timestamp, header:NAME, or value:FIELD of a JSON value, in milliseconds or as RFC 3339",
		set: eventTimeOf,
	},
	{
		key: "timeline.sum", short: "sum", in: inTimeline,
		doc: "field of the JSON value that windows add up, with dots where it is nested; without it they count",
		set: verbatim(func(c *config) *string { return &c.Timeline.Sum }),
	},
	{
		key: "timeline.window", short: "window", in: inTimeline, initial: "1m",
		doc: "size of the windows",
		set: duration(func(c *config) *time.Duration { return &c.Timeline.Window }),
	},
	{
		key: "timeline.hop", short: "hop", in: inTimeline, initial: "0s",
		doc: "how far apart windows begin; 0s is their size, so that none overlap",
		set: durationFrom0(func(c *config) *time.Duration { return &c.Timeline.Hop }),
	},
	{
		key: "timeline.disorder", short: "disorder", in: inTimeline, initial: "5s",
		doc: "how much the watermark stays behind the latest record of each partition",
		set: durationFrom0(func(c *config) *time.Duration { return &c.Timeline.Disorder }),
	},
	{
		key: "timeline.horizon", short: "horizon", in: inTimeline, initial: "0s",
		doc: "how long a window that has closed is corrected",
		set: durationFrom0(func(c *config) *time.Duration { return &c.Timeline.Horizon }),
	},
	{
		key: "timeline.late", short: "late", in: inTimeline, initial: "drop",
		doc: "what happens to what is later than that: drop or sideline",
		set: choice(func(c *config) *string { return &c.Timeline.Late }, "drop", "sideline"),
	},
	{
		key: "timeline.out", short: "out", in: inTimeline, initial: ".",
		doc: "directory for timeline.svg and timeline.png; none writes no pictures",
		set: verbatim(func(c *config) *string { return &c.Timeline.Out }),
	},
	{
		key: "timeline.ascii", short: "ascii", in: inTimeline, initial: "false", bool: true,
		doc: "draw in the terminal with ASCII only",
		set: boolean(func(c *config) *bool { return &c.Timeline.ASCII }),
	},
}

func settingOf(key string) *setting {
	if i := slices.IndexFunc(settings, func(s setting) bool { return s.key == key }); i >= 0 {
		return &settings[i]
	}
	return nil
}

func verbatim(field func(*config) *string) func(*config, string) error {
	return func(c *config, v string) error {
		*field(c) = v
		return nil
	}
}

func choice(field func(*config) *string, of ...string) func(*config, string) error {
	return func(c *config, v string) error {
		for _, o := range of {
			if strings.EqualFold(v, o) {
				*field(c) = o
				return nil
			}
		}
		named := slices.DeleteFunc(slices.Clone(of), func(o string) bool { return o == "" })
		return fmt.Errorf("%q is none of %s", v, strings.Join(named, ", "))
	}
}

func boolean(field func(*config) *bool) func(*config, string) error {
	return func(c *config, v string) (err error) {
		if *field(c), err = strconv.ParseBool(v); err != nil {
			return fmt.Errorf("%q is neither true nor false", v)
		}
		return nil
	}
}

func number(field func(*config) *int, least int) func(*config, string) error {
	return func(c *config, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < least {
			return fmt.Errorf("%q is not a number of at least %d", v, least)
		}
		*field(c) = n
		return nil
	}
}

func duration(field func(*config) *time.Duration) func(*config, string) error {
	return func(c *config, v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d <= 0 {
			return fmt.Errorf("%q is not a time with its unit, above zero: write 100ms, 15s or 1m", v)
		}
		*field(c) = d
		return nil
	}
}

func durationFrom0(field func(*config) *time.Duration) func(*config, string) error {
	return func(c *config, v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d < 0 {
			return fmt.Errorf("%q is not a time with its unit, 0s or more: write 0s, 5s or 1m", v)
		}
		*field(c) = d
		return nil
	}
}

func replicas(c *config, v string) error {
	n, err := strconv.ParseInt(v, 10, 16)
	if err != nil || n < -1 || n == 0 {
		return fmt.Errorf("%q is neither a number above zero nor -1", v)
	}
	c.ReplicationFactor = int16(n)
	return nil
}

// brokers does not repeat what it refuses: it may have a password in it, as addresses of other systems do.
func brokers(c *config, v string) error {
	c.Brokers = nil
	if v == "" {
		return nil
	}
	for i, b := range strings.Split(v, ",") {
		b = strings.TrimSpace(b)
		host, port, err := net.SplitHostPort(b)
		if n, portErr := strconv.Atoi(port); err != nil || host == "" || portErr != nil || n < 1 || n > 65535 || strings.ContainsAny(b, "@/") {
			return fmt.Errorf("broker %d is not written as host:port", i+1)
		}
		c.Brokers = append(c.Brokers, b)
	}
	return nil
}
