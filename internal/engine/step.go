package engine

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/internal/wire"
)

// Step does up to budget units of work at the wall time now, in Unix milliseconds. The order is fixed: what time has made due,
// then markers and watermark reports at the head of a queue, then the record with the smallest event time among the heads (the
// first source on a tie). Records of streams wait until every table has been read to its end as of the task's making, and all records for
// those of a source that is known to have more and has nothing queued.
//
// Under the policy Fail the error is a *RecordError; any other error is one of the task's stores. After an error the task is of no use.
func (t *Task) Step(now int64, budget int) (Progress, error) {
	if reportEarly {
		budget = min(budget, 16) // so that commits fall between records that are queued
	}
	t.now = now
	t.lookDue = true
	t.turn()
	var p Progress
	for p.Units < budget {
		did, err := t.unit()
		if err != nil {
			return p, err
		}
		if !did {
			return p, nil
		}
		p.Units++
	}
	p.More = t.anything()
	return p, nil
}

// unit does the next unit of work, and says whether there was one.
func (t *Task) unit() (bool, error) {
	if t.lookDue {
		for _, c := range t.inst.Clocks {
			if c.Due(t.now) {
				return true, t.fire(c)
			}
		}
		t.lookDue = false
	}
	return t.take()
}

// Settle gives what operators keep back until a commit: it comes right before Freeze or Cut, and its errors are those of Step.
func (t *Task) Settle(now int64) error {
	t.now = now
	for _, g := range t.inst.Givers {
		for g.Holds() {
			if err := t.fire(g); err != nil {
				return err
			}
			t.lookDue = true // the watermark may go on behind it
		}
	}
	return nil
}

// anything says whether a unit could be done now. It may say so for a record that waits for a table.
func (t *Task) anything() bool {
	for i := range t.sources {
		if t.sources[i].decoded || t.sources[i].q.len() > 0 {
			return true
		}
	}
	for _, c := range t.inst.Clocks {
		if c.Due(t.now) {
			return true
		}
	}
	return false
}

// take does the next unit that the queues offer.
func (t *Task) take() (bool, error) {
	reading := false
	for i := range t.sources {
		reading = reading || t.sources[i].reading()
	}
	best, missing, limit := -1, false, t.drifts()
	for i := range t.sources {
		s := &t.sources[i]
		if s.ahead(limit) {
			continue
		}
		if !s.decoded {
			if s.q.len() == 0 {
				missing = missing || !(reading && !s.plan.Table) && t.missing(s)
				continue
			}
			if did, err := t.lift(s); did || err != nil {
				return did, err
			}
		}
		if reading && !s.plan.Table {
			continue
		}
		if best < 0 || s.time < t.sources[best].time {
			best = i
		}
	}
	if best < 0 || missing {
		return false, nil
	}
	return true, t.process(&t.sources[best])
}

// lift brings the front of the queue to the head. A marker, a report and a record that cannot be decoded are dealt with here and
// now: then did is true. Otherwise the head is decoded.
func (t *Task) lift(s *source) (did bool, err error) {
	s.q.pop(&s.head)
	r := &s.head
	if r.Control {
		s.next = r.Offset + 1
		return true, nil
	}
	// A report has no key and no value: a record of a user's may have come with the same header, and passes its headers on.
	if s.plan.Repartition && r.Key == nil && r.Value == nil {
		if v, ok := header(r, wire.HeaderWatermark); ok {
			rep, err := wire.DecodeReport(v)
			if err != nil { // under any policy: without it the watermark would stand still unseen
				return false, t.recordError(s, t.sourceNode(s), graph.Undecodable, err)
			}
			s.next = r.Offset + 1
			turned := s.report(rep)
			if s.idle { // rep has said so of the last of them, or again
				t.confirmed, s.leave = true, t.reach(s.leave)
			}
			if turned || s.idle {
				t.turned = true
				t.turn()
			}
			return true, nil
		}
	}
	s.time, err = t.head(s)
	if err == nil && s.time < 0 && s.time != graph.NoTime {
		return true, t.reject(s, t.sourceNode(s), graph.BadTimestamp, fmt.Errorf("event time %d ms is before 1970", s.time))
	}
	if err != nil {
		return true, t.reject(s, t.sourceNode(s), graph.Undecodable, err)
	}
	if s.plan.Future != nil && t.tooFarAhead(s) {
		return true, t.setAside(s)
	}
	s.decoded = true
	return false, nil
}

// reject applies the policy of a node, the source's for the most part, to a record that never reached an operator: it moves no watermark.
func (t *Task) reject(s *source, node int, reason graph.Reason, cause error) error {
	t.begin(s.index, s.head.Offset)
	if err := t.leaveOut(t.recordError(s, node, reason, cause), node, &s.head); err != nil {
		return err
	}
	if err := t.keep(s, true); err != nil {
		return err
	}
	s.taken()
	return nil
}

// keep gives a record that is left out the effect that it has in any case, if its source knows one.
func (t *Task) keep(s *source, bad bool) error {
	k, ok := s.entry.(graph.Keeper)
	if !ok {
		return nil
	}
	if err := k.Keep(&s.head, bad); err != nil && t.storeErr == nil {
		t.storeErr = fmt.Errorf("engine: task %s: keep what table topic %s has: %w", t.cfg.ID, s.cfg.Topic, err)
	}
	return t.storeErr
}

// process runs the decoded head, then lets it move the watermark: late is judged by the watermark before the record.
func (t *Task) process(s *source) error {
	s.decoded = false
	if timeFirst {
		t.advance(s, s.generate())
	}
	if s.time < s.told && s.time >= s.w {
		s.behind++
	}
	t.time = max(s.time, 0)
	t.record = &s.head
	save := t.save()
	t.begin(s.index, s.head.Offset)
	err := t.run(s)
	t.record = nil
	node, reason, err := t.outcome(err)
	w, bad := t.generate(s)
	if bad != nil { // of a generator of the user's: the record cannot stay, or its effects would be there and its time not
		node, reason, err = t.sourceNode(s), graph.Failed, bad
	}
	if err != nil || t.storeErr != nil {
		t.rollback(save)
		if t.storeErr != nil {
			return t.storeErr
		}
		if err := t.leaveOut(t.recordError(s, node, reason, err), node, &s.head); err != nil {
			return err
		}
		if err := t.keep(s, false); err != nil {
			return err
		}
	}
	t.count()
	t.records++
	t.survive()
	s.taken()
	t.advance(s, w)
	return nil
}

// advance moves a source's watermark, and with it those that are idle.
func (t *Task) advance(s *source, w int64) {
	if s.raise(w) {
		t.lookDue = true
		t.follow()
	}
}

// outcome is what became of a unit: err, or else that it made an output that cannot be written; and which node is to blame for it.
func (t *Task) outcome(err error) (node int, reason graph.Reason, cause error) {
	refusal, at := t.refusal, t.refusedAt
	t.refusal = nil
	if err == nil && refusal != nil {
		return at, graph.Refused, refusal
	}
	return t.at, graph.Failed, err
}

// fire does one unit of what time has made due.
func (t *Task) fire(c graph.Duty) error {
	t.at = c.Node()
	save := t.save()
	t.begin(-1, int64(c.Node()))
	node, reason, err := t.outcome(t.runDue(c))
	if err == nil && t.storeErr == nil {
		t.count()
		return t.fired(c, false)
	}
	t.rollback(save)
	if t.storeErr != nil {
		return t.storeErr
	}
	rerr := &RecordError{Task: t.cfg.ID, Reason: reason, Err: err, Stack: Stack(err)}
	rerr.Node, rerr.At = t.node(node)
	if err := t.leaveOut(rerr, node, nil); err != nil {
		return err
	}
	return t.fired(c, true)
}

// fired lets the operator go on from a unit. What fails there is the operator's own store: no record is to blame.
func (t *Task) fired(c graph.Duty, failed bool) error {
	err := c.Fired(failed)
	if t.storeErr != nil {
		return t.storeErr
	}
	if err != nil {
		return fmt.Errorf("engine: task %s: operator %s: %w", t.cfg.ID, c.Name(), err)
	}
	return nil
}

// savepoint is what a unit may change in the task.
type savepoint struct {
	outs      int
	chunk, at int
}

func (t *Task) save() savepoint {
	t.txn.Savepoint()
	t.counted = t.counted[:0]
	chunk, at := t.arena.Mark()
	return savepoint{outs: len(t.outs), chunk: chunk, at: at}
}

func (t *Task) rollback(s savepoint) {
	t.txn.Rollback()
	clear(t.outs[s.outs:])
	t.outs, t.origins = t.outs[:s.outs], t.origins[:s.outs]
	t.arena.Rewind(s.chunk, s.at)
	t.counted = t.counted[:0]
}

// count takes in what the unit counted, now that it stays.
func (t *Task) count() {
	for _, c := range t.counted {
		if c.reason == graph.NumReasons {
			t.late[c.node].Add(c.late)
			continue
		}
		t.counts[c.node][c.reason]++
	}
	t.counted = t.counted[:0]
}

// head, run, generate and runDue are where user code runs: a panic in it becomes an error here.
func (t *Task) head(s *source) (eventTime int64, err error) {
	defer recovered(&err)
	return s.entry.Head(&s.head)
}

func (t *Task) run(s *source) (err error) {
	defer recovered(&err)
	return s.entry.Record()
}

func (t *Task) generate(s *source) (w int64, err error) {
	if s.gen != nil {
		defer recovered(&err)
	}
	return s.generate(), nil
}

func (t *Task) runDue(c graph.Duty) (err error) {
	defer recovered(&err)
	return c.Fire(t.now)
}

// panicError is a panic of user code.
type panicError struct {
	value any
	stack []byte
}

func (p *panicError) Error() string { return fmt.Sprintf("panic: %v", p.value) }

func (p *panicError) Unwrap() error {
	err, _ := p.value.(error)
	return err
}

func recovered(err *error) {
	if v := recover(); v != nil {
		*err = &panicError{value: v, stack: debug.Stack()}
	}
}

// Stack returns the stack of the panic of user code that led to err, nil if none did.
func Stack(err error) []byte {
	var p *panicError
	if errors.As(err, &p) {
		return p.stack
	}
	return nil
}

func (t *Task) recordError(s *source, node int, reason graph.Reason, cause error) *RecordError {
	e := &RecordError{
		Task: t.cfg.ID, Topic: s.cfg.Topic, Partition: t.cfg.ID.Partition, Offset: s.head.Offset,
		Reason: reason, Err: cause, Stack: Stack(cause),
	}
	e.Node, e.At = t.node(node)
	return e
}

func (t *Task) node(i int) (name, at string) {
	if i < 0 || i >= len(t.cfg.Sub.Nodes) {
		return "unknown", ""
	}
	return t.cfg.Sub.Nodes[i].Name, t.cfg.Sub.Nodes[i].At
}

// sourceNode is the index of the source's node.
func (t *Task) sourceNode(s *source) int { return t.nodeNamed(s.plan.Node) }

func (t *Task) nodeNamed(name string) int {
	return slices.IndexFunc(t.cfg.Sub.Nodes, func(n graph.Node) bool { return n.Name == name })
}

func header(r *graph.Raw, key string) ([]byte, bool) {
	for i := range r.Headers {
		if r.Headers[i].Key == key {
			return r.Headers[i].Value, true
		}
	}
	return nil, false
}
