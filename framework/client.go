package framework

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/internal/wire"
)

// owned are the client options on which the guarantee rests. Who sets one through Config.Kafka is told so.
var owned = []struct {
	name   string
	option any
	use    string
}{
	{"SeedBrokers", kgo.SeedBrokers, "Config.Brokers"},
	{"ConsumerGroup", kgo.ConsumerGroup, "Config.AppID"},
	{"TransactionalID", kgo.TransactionalID, "Config.AppID and Config.Instance"},
	{"InstanceID", kgo.InstanceID, "Config.Instance"},
	{"ConsumeTopics", kgo.ConsumeTopics, "a source of the topology"},
	{"ConsumeRegex", kgo.ConsumeRegex, "a source of the topology for each topic"},
	{"FetchIsolationLevel", kgo.FetchIsolationLevel, "nothing: inputs are read committed"},
	{"DisableIdempotentWrite", kgo.DisableIdempotentWrite, "nothing: transactions need it"},
	{"RequiredAcks", kgo.RequiredAcks, "nothing: transactions need all"},
	{"BlockRebalanceOnPoll", kgo.BlockRebalanceOnPoll, "nothing: the app does this"},
	{"SessionTimeout", kgo.SessionTimeout, "Config.SessionTimeout"},
	{"RebalanceTimeout", kgo.RebalanceTimeout, "nothing: it is 15 s"},
	{"HeartbeatInterval", kgo.HeartbeatInterval, "nothing: it is 500 ms, since every member's commits wait for the slowest"},
	{"TransactionTimeout", kgo.TransactionTimeout, "Config.TransactionTimeout"},
	{"ProducerLinger", kgo.ProducerLinger, "Config.CommitInterval"},
	{"AutoCommitInterval", kgo.AutoCommitInterval, "Config.CommitInterval"},
	{"DefaultProduceTopic", kgo.DefaultProduceTopic, "a sink of the topology"},
	{"AllowAutoTopicCreation", kgo.AllowAutoTopicCreation, "nothing: a topic made by accident has the wrong number of partitions"},
}

func checkClientOptions(opts []kgo.Opt) error {
	if len(opts) == 0 {
		return nil
	}
	for i, o := range opts {
		if o == nil || nilInside(o) {
			return fmt.Errorf("framework: Config.Kafka: option %d of %d is nil", i+1, len(opts))
		}
	}
	plain, err := kgo.NewClient()
	if err != nil {
		return fmt.Errorf("framework: make a client: %w", err)
	}
	defer plain.Close()
	users, err := kgo.NewClient(opts...)
	if err != nil {
		return fmt.Errorf("framework: Config.Kafka: the client refuses its options: %w", err)
	}
	defer users.Close()
	var errs []error
	for _, o := range owned {
		if !reflect.DeepEqual(plain.OptValues(o.option), users.OptValues(o.option)) {
			errs = append(errs, fmt.Errorf("framework: Config.Kafka sets %s, which the app must own; use %s instead", o.name, o.use))
		}
	}
	return errors.Join(errs...)
}

// clientOptions are those of every client of the app.
func (s *settings) clientOptions() []kgo.Opt {
	return append(append([]kgo.Opt{
		kgo.ClientID(s.AppID),
		kgo.DisableClientMetrics(),
		kgo.MetadataMinAge(250 * time.Millisecond),
	}, s.Kafka...), kgo.SeedBrokers(s.Brokers...))
}

// session is one worker's membership, and its producer: they live and die together, since the broker fences a transaction by the
// membership under which its offsets are committed.
type session struct {
	client *kgo.Client
	txn    *kgo.GroupTransactSession // of client; nil without transactions
	owns   *ownership
	cancel context.CancelFunc

	// rebalanced counts the revoke and lost callbacks that the session let through. It tells that the session's flag is up, that is
	// that the next End aborts; of what was revoked it tells nothing reliable.
	rebalanced atomic.Uint64
	// blocked says that a rebalance waits for the worker to open the gate.
	blocked atomic.Bool
}

// Client returns the session's client. With transactions, what it could commit or produce is the session's alone.
func (s *session) Client() *kgo.Client { return s.client }

// PollRecords takes the gate, and up to max records.
func (s *session) PollRecords(ctx context.Context, max int) kgo.Fetches {
	return s.client.PollRecords(ctx, max)
}

// AllowRebalance opens the gate.
func (s *session) AllowRebalance() { s.client.AllowRebalance() }

// connect makes the session of a worker: a client that knows its producer id, and so, with transactions, has fenced whoever had the
// same transactional id before, and made the broker finish what that one left.
func (w *worker) connect(ctx context.Context) (*session, error) {
	s := &session{}
	// Not ctx: the session must outlive it to commit and to leave.
	clientCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel = cancel
	member := wire.Member{Instance: w.app.instance, Worker: int32(w.id), Topology: w.app.set.fingerprint}
	deal := newBalancer(member, w.app.layout.groupTasks)
	deal.log = w.log
	s.owns = newOwnership(deal, member.Topology)
	opts := append(w.app.set.clientOptions(),
		kgo.WithContext(clientCtx),
		kgo.WithLogger(clientLogger{w.log, &w.app.quiet}),
		kgo.ConsumerGroup(w.app.set.AppID),
		kgo.ConsumeTopics(w.app.layout.inputTopics()...),
		kgo.Balancers(s.owns),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, revoked map[string][]int32) {
			s.owns.sessionEnds()
			if planted == trustCallbacks {
				s.owns.revoked(revoked)
			}
			if s.txn != nil && len(revoked) > 0 { // otherwise the session's flag is not set
				s.rebalanced.Add(1)
			}
		}),
		kgo.OnPartitionsLost(func(context.Context, *kgo.Client, map[string][]int32) {
			s.owns.lost()
			if s.txn != nil {
				s.rebalanced.Add(1)
			}
		}),
		kgo.OnPartitionsCallbackBlocked(func(context.Context, *kgo.Client) {
			s.blocked.Store(true)
			w.wake()
		}),
		kgo.SessionTimeout(w.app.set.SessionTimeout),
		kgo.HeartbeatInterval(w.app.set.heartbeat()),
		kgo.RebalanceTimeout(rebalanceTimeout),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		// Positions must move over the markers of transactions, or a partition that ends with one is never read to its end.
		kgo.KeepControlRecords(),
		// Where a task starts is said by the worker. A position that the log no longer has is an error: records are gone.
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		// A fetch that is under way does not see a partition that is resumed: this is how long it may take.
		kgo.FetchMaxWait(250*time.Millisecond),
		kgo.FetchMaxBytes(int32(min(w.app.set.MaxQueuedBytes, 16<<20))),
		kgo.FetchMaxPartitionBytes(1<<20),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchMaxBytesFn(func(topic string) int32 {
			if topic == "" {
				return w.app.clientBatch(topic) // the client checks its options
			}
			return w.app.maxBatch(topic)
		}),
		kgo.ProducerBatchCompression(kgo.SnappyCompression(), kgo.NoCompression()),
		// Everything is produced at once and then flushed, which ends the linger: it only keeps the first batch from going alone.
		kgo.ProducerLinger(5*time.Millisecond),
		kgo.MaxBufferedRecords(1<<20),
		kgo.UnknownTopicRetries(10),
	)
	if w.app.static {
		opts = append(opts, kgo.InstanceID(w.memberName()))
	}
	if err := s.open(opts, w.app.set, w.transactionalID()); err != nil {
		cancel()
		return nil, fatal("worker %d: the client refuses its options: %w", w.id, err)
	}
	s.owns.start(func() string { member, _ := s.client.GroupMetadata(); return member })
	idCtx, done := context.WithTimeout(ctx, w.app.set.endTimeout())
	defer done()
	if _, _, err := s.client.ProducerID(idCtx); err != nil {
		s.close(0)
		return nil, fmt.Errorf("get a producer id for %s: %w", w.transactionalID(), err)
	}
	return s, nil
}

// open makes the client, with or without transactions. Callbacks may come before it has returned: they wait.
func (s *session) open(opts []kgo.Opt, set *settings, transactionalID string) (err error) {
	if set.Guarantee == AtLeastOnce {
		s.client, err = kgo.NewClient(append(opts, kgo.DisableAutoCommit())...)
		return err
	}
	txn, err := kgo.NewGroupTransactSession(append(opts, kgo.TransactionalID(transactionalID), kgo.TransactionTimeout(set.TransactionTimeout))...)
	if err != nil {
		return err
	}
	s.txn, s.client = txn, txn.Client()
	return nil
}

// openGateAfter opens the gate if the end of a transaction takes that long, and returns what calls it off. While the transaction ends
// nobody touches tasks, and a rebalance that gets through makes it end with an abort, so this is safe at any time. It is needed when
// the group has thrown the member out: the client then waits for a heartbeat that nobody sends, until it is told that the membership
// is lost, and that waits for the gate.
func (s *session) openGateAfter(patience time.Duration) (callOff func()) {
	var mu sync.Mutex
	off := false
	timer := time.AfterFunc(patience, func() {
		mu.Lock()
		defer mu.Unlock()
		if !off {
			s.AllowRebalance()
		}
	})
	return func() {
		timer.Stop()
		mu.Lock()
		defer mu.Unlock()
		off = true // not a moment later: the next poll shuts the gate
	}
}

// close leaves the group and closes the client. A static member does not leave: what it has waits for whoever comes next under its
// name, until the session times out, or leaveStatic. It takes no longer than about patience: a join that is under way can hold a leave
// up for long, and then the session timeout does it for us.
func (s *session) close(patience time.Duration) {
	s.AllowRebalance()
	ctx, done := context.WithTimeout(context.Background(), patience)
	defer done()
	_ = s.Client().LeaveGroupContext(ctx) // whether or not it worked, the group will notice
	s.cancel()
	s.client.CloseAllowingRebalance()
	s.AllowRebalance() // closing polls once more, and a leave that is under way would wait for that poll's gate for ever
}
