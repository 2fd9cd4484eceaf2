package topology

import "github.com/headrace/headrace/internal/graph"

// ErrorPolicy says what becomes of a record that cannot be processed: it cannot be decoded, has a negative timestamp, an operator
// fails or panics on it, or an output that is made of it is refused by its topic. Fail, Skip and DeadLetter make one; the zero
// ErrorPolicy leaves it to what is said further out.
//
// The most specific one holds: that of the operator (Stream.OnError, Table.OnError) or topic (TopicOf.OnError) at which it failed, else
// that of the application, else Fail. Whatever it says, all that the record did before it failed is taken back first, everywhere in the
// task, and with Skip and DeadLetter the position goes on behind it in the same transaction.
//
// A store or a broker that fails is nobody's record: no policy hides it. Kafka Streams: the handlers of deserialization, processing
// and production exceptions.
type ErrorPolicy struct{ p graph.Policy }

// Fail ends the application with an error that names the record, the operator and the cause. The record stays: it is the next to be
// processed when the application starts again. It is the default. Kafka Streams: LogAndFailProcessingExceptionHandler.
func Fail() ErrorPolicy { return ErrorPolicy{graph.Policy{Action: graph.Fail}} }

// Skip leaves the record out, counts it by operator and reason, and logs where it is, at the most one for an operator in ten seconds. Of what time has made due it leaves out the one
// window, punctuation or timer. A record of a table that cannot be decoded deletes its key. Kafka Streams:
// LogAndContinueProcessingExceptionHandler.
func Skip() ErrorPolicy { return ErrorPolicy{graph.Policy{Action: graph.Skip}} }

// DeadLetter leaves the record out as Skip does, and writes it to a topic in the same transaction: the key, the value, the headers
// and the timestamp as the task read them, to the partition that its key gives, once however many operators have failed on it. Behind
// GroupBy and Repartition that is the record of the repartition topic. What time has made due has no record: its dead letter has null
// for key and value.
//
// Headers are added behind its own, those of Kafka Streams (KIP-1034): __streams.errors.exception with the type of the innermost
// error, or panic, and .message, .topic, .partition and .offset, all as text. The message of an error may hold what the topology's code
// put into it. The topic must exist. Where it does not take the dead letter either, the application ends as under Fail: nothing is
// lost. Kafka Streams: errors.dead.letter.queue.topic.name.
func DeadLetter(topic string) ErrorPolicy {
	return ErrorPolicy{graph.Policy{Action: graph.DeadLetter, Topic: topic}}
}

// WithStack adds the header __streams.errors.stacktrace, with the stack of a panic, to dead letters. It shows names and places of the
// program's code to whoever reads the topic.
func (p ErrorPolicy) WithStack() ErrorPolicy {
	p.p.Stack = true
	return p
}

// Compiled returns the policy as the plan has it. Its type is internal: it is for the packages that run a topology.
func (p ErrorPolicy) Compiled() graph.Policy { return p.p }

// Validate says what is wrong with the name of the topic for dead letters.
func (p ErrorPolicy) Validate() error {
	if p.p.Action != graph.DeadLetter {
		return nil
	}
	return checkName(p.p.Topic)
}

// onError sets what is said at a node.
func (b *Builder) onError(m *meta, p ErrorPolicy) {
	if err := p.Validate(); err != nil {
		b.fail("dead-letter topic %q: %w", p.p.Topic, err)
	}
	m.onError, m.erredAt = p.p, here()
}

// OnError says what becomes of a record on which the operator just added fails, in place of what the application says:
// FlatMap(s, f).OnError(Skip()). Behind From it is the source, in place of what the topic says; behind GroupByKey and Stream the operator
// is the one before. It returns the stream.
func (s Stream[K, V]) OnError(p ErrorPolicy) Stream[K, V] {
	builder(s.n).onError(s.n.m, p)
	return s
}

// OnError says what becomes of a record on which the aggregate or table just added fails, as Stream.OnError does.
func (t Table[K, V]) OnError(p ErrorPolicy) Table[K, V] {
	builder(t.n).onError(t.n.m, p)
	return t
}
