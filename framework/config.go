package framework

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/topology"
)

// Config is what an App is made of. AppID, Brokers and Topology are enough for a topology without stores; the zero value of every
// other field is a safe default. It is read once, by New.
type Config struct {
	// AppID names the application. It is the consumer group's id and the prefix of internal topics and transactional ids. All
	// instances of an application have the same. Kafka Streams: application.id.
	AppID string
	// Brokers are some brokers of the cluster, as host:port.
	Brokers []string
	// Topology is what to run.
	Topology *topology.Topology
	// State opens the stores. It is required when the topology has one: state.Memory() says aloud that a restart reads all state
	// from Kafka again.
	State state.Provider

	// Workers is how many workers the app runs, each a goroutine, a group member and a transactional producer of its own.
	// Default 1. More than there are tasks are idle. Kafka Streams: num.stream.threads.
	Workers int
	// Instance names this process among those of the application. Empty is the name that State keeps, if it keeps state on disk, and
	// else a random one. No two live processes may have the same.
	//
	// The tasks of a process that was killed move to the others after SessionTimeout, whatever its name, unless it is back before.
	//
	// A name that lasts pays when the process comes back, even after it was killed: it finishes its predecessor's transaction at once,
	// instead of waiting for a timeout, and takes its place in the group, so that no task moves and no other process is held up. Its
	// workers are static members of the group then, <instance>-<worker>. Kafka Streams: group.instance.id, and the process id in the
	// state directory.
	Instance string
	// KeepMembership says that Run leaves the workers' places in the group to whoever comes back under the same Instance: for rolling
	// restarts, in which tasks need not move. Until it comes, at the longest for SessionTimeout, its partitions are not processed. It
	// needs an Instance, or State on disk. Without it, the tasks move to other processes as soon as Run has returned.
	KeepMembership bool

	// Guarantee is ExactlyOnce by default. AtLeastOnce needs no transactions, of the broker or in time; outputs and state may have what a
	// record did more than once. All instances of an application have the same; it can be changed from one start of all to the next.
	// Kafka Streams: processing.guarantee.
	Guarantee Guarantee
	// CommitInterval is the longest time between two commits while there is something to commit. Default 100 ms. Outputs are
	// visible to readers when they are committed. Kafka Streams: commit.interval.ms.
	CommitInterval time.Duration
	// MinCommitInterval is the shortest time between two commits of one worker. Default 10 ms. A worker that has caught up with its
	// input commits after this time. Each worker also keeps 5 ms for every worker of the app, so that an app makes no more than 200
	// commits a second.
	MinCommitInterval time.Duration
	// SessionTimeout is how long the group waits for a worker that gives no sign of life before it gives its tasks to others.
	// Default 15 s, at least 1 s. While it waits, nobody else can have the tasks of a process that died, and the processing of
	// their partitions stands still. Less notices sooner, but takes a long pause, of the garbage collector, the disk or the machine,
	// for a death: the tasks move, and what the worker had not committed is processed again by others. Brokers refuse what is
	// outside of their group.min.session.timeout.ms, 6 s by default, and group.max.session.timeout.ms. Kafka Streams:
	// session.timeout.ms, 45 s.
	SessionTimeout time.Duration
	// TransactionTimeout is how long a transaction may be open before the broker aborts it. Default 30 s. It must be longer than
	// CommitInterval and at least SessionTimeout. A transaction that a process left behind without coming back keeps read-committed
	// readers of its outputs, and whoever gets its tasks, waiting for that long at most. Less makes that wait shorter, but a worker
	// whose commit takes longer, because a broker is slow or away, loses the transaction and does its work again. Brokers refuse
	// more than their transaction.max.timeout.ms, 15 min by default. Kafka Streams: transaction.timeout.ms, 10 s.
	TransactionTimeout time.Duration
	// TxnGap is how long nothing is produced after a commit. Default 5 ms: a broker makes a produce that follows a commit at once
	// wait for 20 ms. Negative is no gap.
	TxnGap time.Duration
	// MaxQueuedBytes bounds the records that a worker has fetched and not yet processed. Default 32 MiB. It is exceeded by at most
	// one fetch.
	MaxQueuedBytes int
	// MaxPendingBytes bounds what a worker has done and not begun to commit: outputs and changes of state, with what the client needs to
	// send them. At a quarter of it a commit begins early, if none is under way; at all of it the worker waits. What is being committed
	// comes on top, and is no more than this either. Default 24 MiB.
	MaxPendingBytes int
	// CacheBytes is how much a worker keeps in memory, of all stores of its tasks together, of what it has read from them and committed
	// to them, for each look into a store on disk costs microseconds. Stores in memory need none. Default 32 MiB; negative is no cache.
	// Kafka Streams: statestore.cache.max.bytes, 10 MB, which also merges updates; this one never does.
	CacheBytes int

	// MaxDrift, if not 0, is how far event time of one input partition may be ahead of others before its records have to wait: of the
	// other inputs of its task, and of the same inputs of the other tasks of its worker. Inputs that are idle are not waited for. Default
	// 0: nobody waits.
	//
	// It bounds what operators keep for the difference. Where two inputs are merged or joined, or several partitions are read into a
	// repartition topic, windows stay open until the last input has passed them, and one that is hours ahead leaves hours of them open.
	// With MaxDrift no more are than it covers. Results are the same, but those of what comes first come later. What waits is queued up to
	// MaxQueuedBytes, and then is not fetched. It is whole milliseconds. Flink: watermark alignment.
	MaxDrift time.Duration
	// IdleAfter is how long an input partition has to have had nothing before it is idle: it holds the watermark back no longer, so windows
	// and timers go on with the other partitions. A partition without any record falls idle, too. That there is nothing is asked of the
	// broker, and what is in an open transaction counts as something; a partition that the app itself does not read for the moment, or that
	// it is behind in, is not idle. Records that come to a partition while it is idle wake it, and are late if they are older than what the
	// others have come to: a producer that was away for longer than IdleAfter and then sends what it has kept meets the late policy. While
	// all inputs of a task are idle its watermark rests: see AdvanceWhenIdle.
	//
	// Default 30 s, which outlasts a producer's restart and the timeouts of its session and transaction. Negative is never: then every
	// partition has to have a record now and then. Kafka Streams, whose time is that of the furthest partition of a task, waits for none.
	IdleAfter time.Duration
	// AdvanceWhenIdle lets the watermark of a task all whose inputs are idle go on with the wall clock, this much behind it, so that the last
	// windows close although nothing more comes. What is late then depends on when the app ran: it is not deterministic, and a replay may
	// come to another result. Default 0: it rests.
	AdvanceWhenIdle time.Duration
	// MaxTaskIdle is how long a task waits for an input partition that has nothing, while its others have records, so that records of all
	// inputs are processed by their timestamps. For one that is known to have more it always waits. Default 0: it does not wait. No more than
	// IdleAfter. Kafka Streams: max.task.idle.ms.
	MaxTaskIdle time.Duration
	// ReportInterval is how often at most a task writes the watermark, when it moves, into each partition of a repartition topic behind which
	// event time is used; that it falls idle or wakes up it writes at once. Default 200 ms. Less makes windows behind the topic close sooner;
	// each report is a small record for each writing task and partition, which Counters.Reports counts.
	ReportInterval time.Duration

	// TopicTimeout is how long Run waits for a broker to answer, and for input and output topics that do not exist. Default 10 s. Give
	// more where brokers or topics are made at the same time as the app.
	TopicTimeout time.Duration
	// ReplicationFactor is that of the internal topics. Default -1, the broker's own default.
	ReplicationFactor int16

	// OnRecordError is for records that cannot be decoded, have a negative timestamp, on which the topology's own code fails or
	// panics, or of which an output is made that its topic does not take: too large, a timestamp out of the topic's bounds, no right
	// to write. It holds where the topology says nothing itself (OnError of a topic, a stream or a table). Default topology.Fail(): Run
	// ends with a *RecordError; nothing is left out unless you say so.
	OnRecordError topology.ErrorPolicy
	// SkipLostInput is for input that retention has deleted before it was processed, because the app was behind for longer than the
	// topic keeps records. By default Run ends, and the error names the topic and the offsets. With it, the app goes on behind them,
	// logs an error and counts the offsets in Counters.Lost. Kafka Streams goes on, by auto.offset.reset.
	SkipLostInput bool
	// TaskTimeout is how long a worker may be at one step, of up to 256 records, or at one commit before it counts as stuck: the log
	// says where, with the stack of its goroutine, Snapshot has a Stall, and probes say that the app is not ready. Nothing is ended by it.
	// Default 5 min; negative is never. Kafka Streams: task.timeout.ms, and max.poll.interval.ms for the topology's own code.
	TaskTimeout time.Duration
	// Observers are told what happens, in this order.
	Observers []Observer
	// Logger takes what people should know. Default slog.Default(). Payloads are never logged.
	Logger *slog.Logger
	// Kafka are settings of the client that have no field here: TLS, SASL, a dialer. New refuses those that the app must own.
	Kafka []kgo.Opt
}

// settings are a Config with its defaults, checked.
type settings struct {
	Config
	plan        *graph.Plan
	fingerprint uint64
}

const (
	minSessionTimeout = time.Second
	heartbeatInterval = 500 * time.Millisecond // everybody's commit waits for the slowest to notice a rebalance
	rebalanceTimeout  = 15 * time.Second
	drainTimeout      = 10 * time.Second
	// commitsPerSecond bounds the commits of an app.
	commitsPerSecond = 200
)

// heartbeat is how often a worker gives a sign of life. Two may get lost before its session ends.
func (s *settings) heartbeat() time.Duration { return min(heartbeatInterval, s.SessionTimeout/3) }

// endTimeout bounds a commit. It is below the transaction's timeout, so that the broker has not yet ended what we still try to.
func (s *settings) endTimeout() time.Duration { return endTimeout(s.TransactionTimeout) }

func endTimeout(transactionTimeout time.Duration) time.Duration { return transactionTimeout / 6 * 5 }

var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]+$`)

// check returns the settings, or all mistakes.
func (c Config) check() (*settings, error) {
	var plan *graph.Plan
	var fingerprint uint64
	if c.Topology != nil && c.Topology.Plan() != nil { // the zero Topology has none
		plan, fingerprint = c.Topology.Plan().WithPolicy(c.OnRecordError.Compiled()), c.Topology.Fingerprint()
	}
	return c.checkPlan(plan, fingerprint)
}

// nilInside says whether v is an interface around a nil pointer, map or function.
func nilInside(v any) bool {
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Func:
		return r.IsNil()
	default:
		return false
	}
}

func (c Config) checkPlan(plan *graph.Plan, fingerprint uint64) (*settings, error) {
	var errs []error
	mistake := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("framework: Config."+format, args...))
	}
	switch {
	case c.AppID == "":
		mistake("AppID is empty: name the application")
	case !topicName.MatchString(c.AppID) || len(c.AppID) > 100:
		mistake("AppID %q cannot begin the name of a topic: use at most 100 letters, digits, '.', '_' and '-'", c.AppID)
	}
	if len(c.Brokers) == 0 {
		mistake("Brokers is empty: give at least one broker as host:port")
	}
	for _, b := range c.Brokers {
		if err := checkBroker(b); err != nil {
			mistake("Brokers has %q: %w; give host:port", b, err)
		}
	}
	if c.Instance != "" && (!topicName.MatchString(c.Instance) || len(c.Instance) > 100) {
		mistake("Instance %q is not a name: use at most 100 letters, digits, '.', '_' and '-'", c.Instance)
	}
	if plan == nil {
		mistake("Topology is nil: give what Build returned")
	} else {
		if err := checkPlan(plan, namesOf(c.AppID)); err != nil {
			errs = append(errs, err)
		}
		if nilInside(c.State) {
			mistake("State is a nil %T: give one that was made, or state.Memory()", c.State)
		} else if stores := storeNames(plan); len(stores) > 0 && c.State == nil {
			mistake("State is nil but the topology has stores %v: give state.Memory(), or a provider that keeps state on disk", stores)
		}
	}
	if _, durable := c.State.(state.Durable); c.KeepMembership && c.Instance == "" && !durable {
		mistake("KeepMembership is set, but the next process has another name: give Instance, or State that is kept on disk")
	}
	for _, f := range []struct {
		name  string
		value time.Duration
	}{
		{"CommitInterval", c.CommitInterval},
		{"MinCommitInterval", c.MinCommitInterval},
		{"TopicTimeout", c.TopicTimeout},
		{"SessionTimeout", c.SessionTimeout},
		{"TransactionTimeout", c.TransactionTimeout},
		{"MaxDrift", c.MaxDrift},
		{"ReportInterval", c.ReportInterval},
	} {
		if f.value < 0 {
			mistake("%s is %v: give a positive duration, or 0 for the default", f.name, f.value)
		}
	}
	for _, f := range []struct {
		name  string
		value int
	}{
		{"Workers", c.Workers}, {"MaxQueuedBytes", c.MaxQueuedBytes}, {"MaxPendingBytes", c.MaxPendingBytes},
	} {
		if f.value < 0 {
			mistake("%s is %d: give a positive number, or 0 for the default", f.name, f.value)
		}
	}
	if c.MaxDrift > 0 && c.MaxDrift < time.Millisecond {
		mistake("MaxDrift is %v: give a millisecond at least, or 0 for none", c.MaxDrift)
	}
	setDefault(&c.Workers, 1)
	setDefault(&c.CommitInterval, 100*time.Millisecond)
	setDefault(&c.MinCommitInterval, 10*time.Millisecond)
	setDefault(&c.SessionTimeout, 15*time.Second)
	setDefault(&c.TransactionTimeout, 30*time.Second)
	if c.Guarantee > AtLeastOnce {
		mistake("Guarantee is %d: give ExactlyOnce or AtLeastOnce", c.Guarantee)
	}
	if c.Guarantee == AtLeastOnce {
		c.TxnGap = -1 // there is none to keep
	}
	setDefault(&c.TaskTimeout, 5*time.Minute)
	setDefault(&c.IdleAfter, 30*time.Second)
	setDefault(&c.ReportInterval, 200*time.Millisecond)
	for _, f := range []struct {
		name  string
		value time.Duration
	}{
		{"MaxTaskIdle", c.MaxTaskIdle}, {"AdvanceWhenIdle", c.AdvanceWhenIdle},
	} {
		if f.value < 0 || f.value%time.Millisecond != 0 {
			mistake("%s is %v: give whole milliseconds, or 0 for none", f.name, f.value)
		}
	}
	if c.IdleAfter >= 0 && c.MaxTaskIdle > c.IdleAfter {
		mistake("MaxTaskIdle is %v, above IdleAfter, which is %v: give less, or the watermark would go on without a partition that the task still waits for", c.MaxTaskIdle, c.IdleAfter)
	}
	if c.IdleAfter < 0 && c.AdvanceWhenIdle > 0 {
		mistake("AdvanceWhenIdle is %v, but no partition is ever idle: IdleAfter is negative", c.AdvanceWhenIdle)
	}
	if c.IdleAfter < 0 && c.MaxDrift > 0 {
		mistake("MaxDrift is %v, but a partition without records would hold all others: IdleAfter is negative", c.MaxDrift)
	}
	setDefault(&c.TxnGap, 5*time.Millisecond)
	setDefault(&c.MaxQueuedBytes, 32<<20)
	setDefault(&c.MaxPendingBytes, 24<<20)
	setDefault(&c.CacheBytes, 32<<20)
	setDefault(&c.TopicTimeout, 10*time.Second)
	setDefault(&c.ReplicationFactor, -1)
	c.TxnGap = max(c.TxnGap, 0)
	if end := endTimeout(c.TransactionTimeout); c.CommitInterval >= end {
		mistake("CommitInterval is %v: give less than %v, the time that a transaction has within TransactionTimeout, which is %v", c.CommitInterval, end, c.TransactionTimeout)
	}
	if c.SessionTimeout > 0 && c.SessionTimeout < minSessionTimeout {
		mistake("SessionTimeout is %v: give at least %v, or 0 for the default", c.SessionTimeout, minSessionTimeout)
	}
	if c.TransactionTimeout < c.SessionTimeout {
		// A pause that the group forgives would cost the transaction.
		mistake("TransactionTimeout is %v, below SessionTimeout, which is %v: give more", c.TransactionTimeout, c.SessionTimeout)
	}
	if c.MinCommitInterval > c.CommitInterval {
		mistake("MinCommitInterval is %v, above CommitInterval, which is %v: give less", c.MinCommitInterval, c.CommitInterval)
	}
	c.MinCommitInterval = max(c.MinCommitInterval, time.Duration(c.Workers)*time.Second/commitsPerSecond)
	if err := c.OnRecordError.Validate(); err != nil {
		mistake("OnRecordError: dead-letter topic %q: %w", c.OnRecordError.Compiled().Topic, err)
	}
	if c.ReplicationFactor < -1 {
		mistake("ReplicationFactor is %d: give a positive number, or 0 for the broker's default", c.ReplicationFactor)
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if err := checkClientOptions(c.Kafka); err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return &settings{Config: c, plan: plan, fingerprint: fingerprint}, nil
}

// checkBroker says why an address cannot be one. Without a port it is Kafka's 9092.
func checkBroker(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		if strings.ContainsRune(addr, ':') && !strings.HasPrefix(addr, "[") {
			return errors.New("this is no address")
		}
		host, port = addr, "9092"
	}
	if host == "" || strings.ContainsAny(host, "/, \t\n@") {
		return errors.New("this is no name of a host")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("%q is no port", port)
	}
	return nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func storeNames(plan *graph.Plan) []string {
	var names []string
	for _, sub := range plan.SubTopologies {
		for i := range sub.Stores {
			names = append(names, sub.Stores[i].Name)
		}
	}
	return names
}
