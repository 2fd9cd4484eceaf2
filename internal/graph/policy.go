package graph

import "slices"

// Action says what becomes of a record, or of a unit of work that time has made due, that cannot be processed.
type Action uint8

const (
	// Inherit is what is said further out: for the application, and else Fail.
	Inherit Action = iota
	// Fail ends the application.
	Fail
	// Skip leaves the record out.
	Skip
	// DeadLetter leaves it out and writes it as it was read to another topic.
	DeadLetter
)

// Policy is what is said at one place.
type Policy struct {
	Action Action
	Topic  string // of dead letters
	Stack  bool   // put the stack of a panic into their headers
}

// WithPolicy returns the plan with p for the nodes that say nothing themselves. Dead letters need a sink: it is added where it is
// missing.
func (p *Plan) WithPolicy(policy Policy) *Plan {
	if policy.Action == Inherit {
		return p
	}
	out := &Plan{Fingerprint: p.Fingerprint}
	for _, sub := range p.SubTopologies {
		c := *sub
		c.Nodes, c.Sinks = slices.Clone(sub.Nodes), slices.Clone(sub.Sinks)
		for i := range c.Nodes {
			if c.Nodes[i].OnError.Action == Inherit {
				c.Nodes[i].OnError = policy
			}
		}
		c.AddDeadLetterSinks()
		out.SubTopologies = append(out.SubTopologies, &c)
	}
	return out
}

// AddDeadLetterSinks adds a sink for each topic that dead letters of the nodes go to.
func (s *SubTopology) AddDeadLetterSinks() {
	for i := range s.Nodes {
		if p := &s.Nodes[i].OnError; p.Action == DeadLetter && s.DeadLetterSink(p.Topic) < 0 {
			s.Sinks = append(s.Sinks, Sink{Node: "dead letters to " + p.Topic, Topic: p.Topic, DeadLetters: true})
		}
	}
}

// DeadLetterSink is the index of the sink for dead letters to a topic, -1 if there is none.
func (s *SubTopology) DeadLetterSink(topic string) int {
	return slices.IndexFunc(s.Sinks, func(k Sink) bool { return k.DeadLetters && k.Topic == topic })
}
