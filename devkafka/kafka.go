package devkafka

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// KafkaConfig says what broker StartKafka makes. The zero KafkaConfig is a broker on a free port, without topics, whose data is gone
// when it is closed.
type KafkaConfig struct {
	// Port is the TCP port on 127.0.0.1. 0, the default, takes a free one.
	Port int
	// Topics are created, with that many partitions, unless DataDir has them already.
	Topics map[string]int32
	// TopicConfigs are settings of Topics by name of the topic, for those that are created: {"flights": {"retention.ms": "-1"}}.
	// Mind the defaults of a real broker: it deletes what is stamped more than seven days ago, and refuses what is stamped more
	// than an hour ahead.
	TopicConfigs map[string]map[string]string
	// Properties are lines of server.properties. They go before the defaults of StartKafka and of Kafka.
	Properties map[string]string
	// DataDir is a directory that keeps data and log from one StartKafka to the next. It may serve one broker at a time. Empty, the
	// default, is a temporary directory that Close removes.
	DataDir string
	// HeapMB is the largest heap of the Java process, in MiB. Default 512.
	HeapMB int
	// Java is the program that runs Kafka, of a JDK 17 or newer. Default java, looked up in the PATH.
	Java string
}

// Kafka is a real Apache Kafka in a process of its own. It is safe for concurrent use.
type Kafka struct {
	program
	dir  string
	kept bool // dir is the user's
	port int

	mu     sync.Mutex // guards what follows, and makes starts and stops follow one another
	proc   *process
	closed bool
}

const (
	// startTimeout is for a machine that does much else besides.
	startTimeout = 2 * time.Minute
	// stopTimeout is how long an orderly end may take before the process is killed.
	stopTimeout = 30 * time.Second
	// attempts at finding a free port: between the look and Kafka's bind somebody else may take it.
	attempts = 5
)

// StartKafka starts an Apache Kafka: one node that is broker and controller (KRaft), with transactions, groups and everything else
// as it is in production, but for replication. It accepts connections and has its topics when StartKafka returns, after some
// seconds; end it with Close.
//
// It needs a JDK 17 or newer. The first call on a machine also needs Apache Maven (mvn) and its repository: it fetches Kafka and
// what Kafka needs, 44 MB, into headrace/kafka-<version> of the user's cache directory, and starts it once to let Java prepare its
// classes. Later calls need neither. Processes that want to fetch at the same time wait for one another.
//
// Offsets, transaction and share-state topics have one replica and eight partitions, members of a group need not wait for others
// (group.initial.rebalance.delay.ms=0), sessions may be as short as a second (group.min.session.timeout.ms=1000), and a broker that
// was killed is let in again after three (broker.session.timeout.ms=3000).
//
// On Linux the process ends with the one that started it, however that ends; elsewhere a parent that is killed leaves it behind.
// A signal from the terminal does not reach it.
//
// It fails if java or mvn is missing, naming it and the way out, if the port is taken, if a property is refused, and if Kafka does
// not come up within two minutes; then the error has the end of its log.
func StartKafka(c KafkaConfig) (*Kafka, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	java, err := lookJava(c.Java)
	if err != nil {
		return nil, err
	}
	home, err := install(java)
	if err != nil {
		return nil, err
	}
	return c.start(program{java: java, home: home, heapMB: c.HeapMB})
}

func (c *KafkaConfig) check() error {
	var errs []error
	for _, topic := range slices.Sorted(maps.Keys(c.Topics)) {
		if c.Topics[topic] < 1 {
			errs = append(errs, fmt.Errorf("devkafka: topic %s: %d partitions; a topic has at least one", topic, c.Topics[topic]))
		}
	}
	for _, topic := range slices.Sorted(maps.Keys(c.TopicConfigs)) {
		if _, ok := c.Topics[topic]; !ok {
			errs = append(errs, fmt.Errorf("devkafka: TopicConfigs has %s, which is not in Topics; add it there with its number of partitions", topic))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.Properties)) {
		if slices.Contains(ownProperties, key) {
			errs = append(errs, fmt.Errorf("devkafka: Properties sets %s, which StartKafka must set itself; use Port and DataDir", key))
		}
		if strings.ContainsAny(key+c.Properties[key], "\r\n") {
			errs = append(errs, fmt.Errorf("devkafka: property %q has a line break; give one line", key))
		}
	}
	if c.HeapMB < 0 {
		errs = append(errs, fmt.Errorf("devkafka: HeapMB is %d; give a positive number, or 0 for 512", c.HeapMB))
	}
	return errors.Join(errs...)
}

func (c *KafkaConfig) start(p program) (*Kafka, error) {
	k := &Kafka{program: p, dir: c.DataDir, kept: c.DataDir != ""}
	var err error
	if k.kept {
		if k.dir, err = filepath.Abs(c.DataDir); err == nil {
			err = os.MkdirAll(k.dir, 0o755)
		}
	} else {
		k.dir, err = os.MkdirTemp("", "devkafka-")
	}
	if err != nil {
		return nil, fmt.Errorf("devkafka: make a data directory: %w", err)
	}
	if err := k.startAnywhere(c); err != nil {
		k.Close()
		return nil, err
	}
	if err := k.createTopics(c); err != nil {
		k.Close()
		return nil, err
	}
	return k, nil
}

// startAnywhere configures, formats and starts, with other ports if somebody takes those that were free.
func (k *Kafka) startAnywhere(c *KafkaConfig) error {
	for attempt := 1; ; attempt++ {
		port, err := freePort(c.Port)
		if err != nil {
			return err
		}
		controller, err := freePort(0)
		if err != nil {
			return err
		}
		k.port = port
		if err := os.WriteFile(k.properties(), serverProperties(c.Properties, port, controller, k.data()), 0o644); err != nil {
			return fmt.Errorf("devkafka: write the configuration: %w", err)
		}
		if _, err := os.Stat(filepath.Join(k.data(), "meta.properties")); err != nil {
			if err := k.format(); err != nil {
				return err
			}
		}
		k.mu.Lock()
		err = k.up()
		k.mu.Unlock()
		if err == nil || attempt == attempts || !strings.Contains(err.Error(), "Address already in use") {
			return err
		}
	}
}

func (k *Kafka) properties() string { return filepath.Join(k.dir, "server.properties") }
func (k *Kafka) data() string       { return filepath.Join(k.dir, "data") }

// ownProperties are those that tie the node to this process.
var ownProperties = []string{
	"process.roles", "node.id", "broker.id", "controller.quorum.voters", "controller.quorum.bootstrap.servers", "controller.listener.names",
	"listeners", "advertised.listeners", "listener.security.protocol.map", "inter.broker.listener.name", "log.dir", "log.dirs",
	"metadata.log.dir",
}

func serverProperties(users map[string]string, port, controller int, data string) []byte {
	all := map[string]string{
		"process.roles":                  "broker,controller",
		"node.id":                        "1",
		"controller.quorum.voters":       fmt.Sprintf("1@127.0.0.1:%d", controller),
		"controller.listener.names":      "CONTROLLER",
		"listeners":                      fmt.Sprintf("PLAINTEXT://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d", port, controller),
		"advertised.listeners":           fmt.Sprintf("PLAINTEXT://127.0.0.1:%d", port),
		"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"log.dirs":                       data,

		"offsets.topic.replication.factor":                 "1",
		"offsets.topic.num.partitions":                     "8",
		"transaction.state.log.replication.factor":         "1",
		"transaction.state.log.min.isr":                    "1",
		"transaction.state.log.num.partitions":             "8",
		"share.coordinator.state.topic.replication.factor": "1",
		"share.coordinator.state.topic.min.isr":            "1",
		"share.coordinator.state.topic.num.partitions":     "8",
		"group.initial.rebalance.delay.ms":                 "0",
		"group.min.session.timeout.ms":                     "1000",

		// A broker that was killed is let in again when its old session is over, which takes nine seconds by default.
		"broker.session.timeout.ms":    "3000",
		"broker.heartbeat.interval.ms": "500",
	}
	maps.Copy(all, users)
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, "%s=%s\n", key, strings.ReplaceAll(all[key], `\`, `\\`))
	}
	return []byte(b.String())
}

// Ports below those that systems give to outgoing connections: with one of theirs, a client that dials a broker which is down can
// get connected to itself, and the port is taken when the broker comes back.
const firstPort, portCount = 20000, 12000

// freePort returns the port, or a free one if it is 0.
func freePort(port int) (int, error) {
	for attempt := 0; ; attempt++ {
		try := port
		if port == 0 {
			n, err := rand.Int(rand.Reader, big.NewInt(portCount))
			if err != nil {
				return 0, fmt.Errorf("devkafka: choose a port: %w", err)
			}
			try = firstPort + int(n.Int64())
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(try)))
		if err == nil {
			return try, l.Close()
		}
		if port != 0 || attempt == 100 {
			return 0, fmt.Errorf("devkafka: start Kafka on port %d: %w; give another KafkaConfig.Port, or 0 for a free one", try, err)
		}
	}
}

// format makes the data directory that of a cluster.
func (k *Kafka) format() error {
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		return fmt.Errorf("devkafka: make a cluster id: %w", err)
	}
	id[0] &= 0x7f // so that it does not begin with a dash, like an option
	p := k.program
	p.record = "" // what is to be recorded is the broker
	cmd := p.command("kafka.tools.StorageTool", "format", "-t", base64.RawURLEncoding.EncodeToString(id[:]), "-c", k.properties())
	cmd.Dir = k.dir
	if out, err := run(cmd); err != nil {
		return fmt.Errorf("devkafka: format the data directory: %w%s", err, k.explain(out))
	}
	return nil
}

// explain shows the end of what Kafka said, and what it means where that is known.
func (k *Kafka) explain(out []byte) string {
	hint := ""
	if strings.Contains(string(out), "UnsupportedClassVersionError") {
		hint = fmt.Sprintf("; %s is older than Java 17: install a JDK 17 or newer, or name it in KafkaConfig.Java", k.java)
	}
	return hint + "\n" + tail(out)
}

// up starts the process and waits until it serves. The caller holds the lock.
func (k *Kafka) up() error {
	log, err := os.OpenFile(k.LogPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("devkafka: open Kafka's log: %w", err)
	}
	defer log.Close()
	before, err := log.Stat()
	if err != nil {
		return fmt.Errorf("devkafka: open Kafka's log: %w", err)
	}
	cmd := k.command("kafka.Kafka", k.properties())
	cmd.Dir, cmd.Stdout, cmd.Stderr = k.dir, log, log
	if k.proc, err = spawn(cmd); err != nil {
		return fmt.Errorf("devkafka: start Kafka: %w", err)
	}
	if err := k.await(); err != nil {
		k.proc.kill()
		said, _ := os.ReadFile(k.LogPath()) // the error is told without it, too
		return fmt.Errorf("devkafka: start Kafka on port %d: %w%s", k.port, err, k.explain(said[min(int(before.Size()), len(said)):]))
	}
	return nil
}

var errEnded = errors.New("the process ended")

// await returns when the broker answers and is a member of its cluster.
func (k *Kafka) await() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	cl, err := k.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	for {
		if err := cl.Ping(ctx); err == nil {
			if brokers, err := adm.ListBrokers(ctx); err == nil && len(brokers) > 0 {
				return nil
			}
		}
		select {
		case <-k.proc.done:
			return errEnded
		case <-ctx.Done():
			return fmt.Errorf("no answer within %v", startTimeout)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (k *Kafka) client() (*kgo.Client, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(k.Addrs()...), kgo.DisableClientMetrics(), kgo.MetadataMinAge(10*time.Millisecond))
	if err != nil {
		return nil, fmt.Errorf("devkafka: make a client: %w", err)
	}
	return cl, nil
}

// createTopics makes topics, and returns when all have leaders.
func (k *Kafka) createTopics(c *KafkaConfig) error {
	if len(c.Topics) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	cl, err := k.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	names := slices.Sorted(maps.Keys(c.Topics))
	asked := false
	for {
		have, err := adm.ListTopics(ctx, names...)
		if err != nil {
			return fmt.Errorf("devkafka: look up topics: %w", err)
		}
		ready := 0
		for _, topic := range names {
			switch d := have[topic]; {
			case !have.Has(topic) && !asked:
				if _, err := adm.CreateTopic(ctx, c.Topics[topic], 1, settings(c.TopicConfigs[topic]), topic); err != nil {
					return fmt.Errorf("devkafka: create topic %s with %d partitions: %w", topic, c.Topics[topic], err)
				}
			case !have.Has(topic): // made, but not everybody knows
			case len(d.Partitions) != int(c.Topics[topic]):
				return fmt.Errorf("devkafka: topic %s has %d partitions in %s, not %d; ask for as many, or remove the directory", topic, len(d.Partitions), k.dir, c.Topics[topic])
			case led(d):
				ready++
			}
		}
		asked = true
		if ready == len(names) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("devkafka: %d of %d topics had no leader after %v; see %s", len(names)-ready, len(names), startTimeout, k.LogPath())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func settings(of map[string]string) map[string]*string {
	all := make(map[string]*string, len(of))
	for key, value := range of {
		all[key] = &value
	}
	return all
}

func led(d kadm.TopicDetail) bool {
	for _, p := range d.Partitions {
		if p.Err != nil || p.Leader < 0 {
			return false
		}
	}
	return true
}

// Addrs returns the addresses to give to clients, as host:port. They stay the same over Restart.
func (k *Kafka) Addrs() []string {
	return []string{net.JoinHostPort("127.0.0.1", strconv.Itoa(k.port))}
}

// LogPath is the file that has what Kafka logs. It is in the data directory, and goes with it.
func (k *Kafka) LogPath() string { return filepath.Join(k.dir, "kafka.log") }

// Kill ends the process at once, as kill -9 does, and keeps the data. Restart brings it back. Killing what does not run does
// nothing.
func (k *Kafka) Kill() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.proc.kill()
}

// Restart ends the process in an orderly way, if it runs, and starts it again with the same data and the same port. It accepts
// connections when Restart returns. It fails as StartKafka does, and after Close.
//
// A transaction whose end was being written when a single broker went down may stay open in its partitions for ever (seen with
// Kafka 4.3.1, after kills and in order): readers that are read-committed wait at it, and kafka-transactions.sh abort ends it.
func (k *Kafka) Restart() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return errors.New("devkafka: restart Kafka: it has been closed; start another one")
	}
	k.proc.stop(stopTimeout)
	return k.up()
}

// Close ends the process and removes its data, or keeps it in DataDir, if there is one, after an orderly end. Clients see their
// connections fail. Closing again does nothing.
func (k *Kafka) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return
	}
	k.closed = true
	if k.kept {
		k.proc.stop(stopTimeout)
		return
	}
	k.proc.kill()
	_ = os.RemoveAll(k.dir) // what cannot be removed is in the directory of temporary things
}
