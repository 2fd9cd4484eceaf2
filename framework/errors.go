package framework

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/internal/engine"
	"github.com/headrace/headrace/internal/graph"
)

// ErrClosed is returned by a second Run: an App runs once.
var ErrClosed = errors.New("framework: the app has run already; make another with New")

// ErrFenced is wrapped by the error of Run when other processes keep taking this app's transactional ids or its places in the group:
// two processes run with the same Config.Instance, or on copies of one state directory.
var ErrFenced = errors.New("framework: another process uses this instance; give each process its own Config.Instance, or a state directory that is no copy")

// ErrAnotherTopology is wrapped by WorkerStatus.Err of a worker that stays Joining because the leader of the group runs another topology.
var ErrAnotherTopology = errors.New("framework: another topology runs in this group, so that there are no tasks for this one; " +
	"stop the old version everywhere, or give the new one another Config.AppID")

// RecordError is a record that could not be processed under the policy topology.Fail: it cannot be decoded, has a negative timestamp, or
// the topology's own code failed or panicked on it. Run returns it.
//
// The record's effects have been rolled back and its position is not committed, so it comes first when the app starts again.
// Kafka Streams: a StreamsException from a deserialization or processing exception handler that says FAIL.
type RecordError struct {
	// Task is the task as Kafka Streams writes it: 0_2 is partition 2 of sub-topology 0.
	Task string
	// Topic, Partition and Offset are the place of the record. Topic is empty if no record was in process but something that time
	// had made due.
	Topic     string
	Partition int32
	Offset    int64
	// Operator is the node that failed, as in the topology's description, and Place where the program added it to the builder:
	// "flights.go:40".
	Operator string
	Place    string
	// Reason is undecodable, bad-timestamp, failed or refused, as the counters of a Snapshot name it. Refused is an output
	// that its topic does not take: too large, a timestamp out of bounds, no right to write. Operator is then the sink.
	Reason string
	// Err is the cause. Stack is set if it was a panic.
	Err   error
	Stack []byte
}

// Error names the place, the operator, the cause and the way out.
func (e *RecordError) Error() string {
	at := "task " + e.Task
	if e.Topic != "" {
		at = fmt.Sprintf("record %s[%d]@%d", e.Topic, e.Partition, e.Offset)
	}
	operator := e.Operator
	if e.Place != "" {
		operator += " (" + e.Place + ")"
	}
	if e.Reason == graph.Refused.String() {
		return fmt.Sprintf("framework: %s: %s: %v; or leave it out with topology.Skip or topology.DeadLetter, by OnError of the topic or Config.OnRecordError", at, operator, e.Err)
	}
	return fmt.Sprintf("framework: %s cannot be processed at %s: %v; mend the record's writer or the operator, or leave it out with topology.Skip or topology.DeadLetter, by OnError or Config.OnRecordError", at, operator, e.Err)
}

// Unwrap returns the cause.
func (e *RecordError) Unwrap() error { return e.Err }

func recordError(e *engine.RecordError) *RecordError {
	return &RecordError{
		Task: e.Task.String(), Topic: e.Topic, Partition: e.Partition, Offset: e.Offset,
		Operator: e.Node, Place: e.At, Reason: e.Reason.String(), Err: e.Err, Stack: e.Stack,
	}
}

// class says what an error from the client or a broker asks for.
type class uint8

const (
	// retry: the same call may succeed in a while.
	retry class = iota
	// fenced: somebody has taken the transactional id or the transaction was timed out. The client is useless.
	fenced
	// broken: the client or its transaction is in a state that nothing mends. Make a new client.
	broken
	// refused: the broker refuses for a reason that stays: rights, size, names. The app must stop and say so.
	refused
)

// classify is the one place where errors of Kafka become decisions. What is unknown is retried, since all our retries back off and
// are logged.
func classify(err error) class {
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return retry
	case isAny(err, kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.FencedInstanceID, kerr.InvalidProducerIDMapping, kerr.InvalidTxnState):
		return fenced
	case isAny(err, kgo.ErrClientClosed, kgo.ErrAborting, kerr.OutOfOrderSequenceNumber, kerr.UnknownProducerID):
		return broken
	case isAny(err,
		kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed,
		kerr.TransactionalIDAuthorizationFailed, kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism,
		kerr.UnsupportedVersion, kerr.InvalidTopicException, kerr.PolicyViolation, kerr.InvalidConfig, kerr.InvalidGroupID,
		kerr.InvalidReplicationFactor, kerr.InvalidPartitions, kerr.OffsetMetadataTooLarge, kerr.InvalidTransactionTimeout, kerr.InvalidSessionTimeout,
		kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidTimestamp, kerr.InvalidRecord, kerr.InvalidRequiredAcks):
		return refused
	}
	return retry
}

func isAny(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}

// appError ends Run. Anything else that goes wrong in a worker is mended by the worker.
type appError struct{ err error }

func (e *appError) Error() string { return e.err.Error() }
func (e *appError) Unwrap() error { return e.err }

// fatal marks err as one that ends Run.
func fatal(format string, args ...any) error {
	return &appError{fmt.Errorf("framework: "+format, args...)}
}

func isFatal(err error) bool {
	var a *appError
	var r *RecordError
	return errors.As(err, &a) || errors.As(err, &r)
}
