package engine_test

import (
	"errors"
	"fmt"
	"iter"

	"github.com/headrace/headrace/internal/engine"
	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/internal/wire"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/topology"
)

// rig runs all tasks of a topology over logs in memory. What a task commits goes into the logs of the topics that it writes, and
// its reports behind that into every partition, as a transaction would; what it does not commit is seen by nobody.
type rig struct {
	plan   *graph.Plan
	parts  int
	absent map[string]int // topics that have fewer partitions than parts
	policy graph.Policy
	limits []engine.SinkLimit
	refuse map[engine.OutputID]error
	logs   map[string][][]graph.Raw
	// Of the tasks that are made next: see engine.Config.
	interval, repeat, repeatIdle, taskIdle, drift, lag int64
	tasks                                              []*unit

	journal []string // what user code says
	fail    map[string]bool
}

// unit is a task with what outlives it: its backend, and what it committed last.
type unit struct {
	r       *rig
	id      engine.TaskID
	sub     *graph.SubTopology
	backend *flaky
	sources []engine.SourceConfig
	clocks  []wire.OperatorClock

	task   *engine.Task
	polled []int64
	now    int64
}

func newRig(t *topology.Topology, parts int) *rig {
	return &rig{plan: t.Plan(), parts: parts, absent: map[string]int{}, logs: map[string][][]graph.Raw{}, fail: map[string]bool{}}
}

// start makes every task for the first time.
func (r *rig) start() error {
	for _, sub := range r.plan.SubTopologies {
		for p := range r.parts {
			b, err := state.Memory().Open("task", sub.Stores)
			if err != nil {
				return err
			}
			u := &unit{
				r: r, id: engine.TaskID{SubTopology: sub.ID, Partition: int32(p)}, sub: sub, backend: &flaky{Backend: b},
				sources: make([]engine.SourceConfig, len(sub.Sources)),
			}
			for i, s := range sub.Sources {
				n, few := r.absent[s.Topic]
				u.sources[i] = engine.SourceConfig{Topic: s.Topic, Absent: few && p >= n}
			}
			r.tasks = append(r.tasks, u)
			if err := u.build(); err != nil {
				return err
			}
		}
	}
	return nil
}

// build makes the task from what was committed: the one way in, at the start as after a crash.
func (u *unit) build() error {
	u.polled = make([]int64, len(u.sources))
	for i := range u.sources {
		u.polled[i] = u.sources[i].Offset
		if u.sub.Sources[i].Table {
			u.sources[i].ReadTo = int64(len(u.log(i)))
		}
	}
	var err error
	u.task, err = engine.New(engine.Config{
		ID: u.id, Sub: (&graph.Plan{SubTopologies: []*graph.SubTopology{u.sub}}).WithPolicy(u.r.policy).SubTopologies[0], Txn: state.NewTxn(u.backend, u.sub.Stores), Sources: u.sources, Operators: u.clocks,
		ReportInterval: u.r.interval, ReportRepeat: u.r.repeat, IdleRepeat: u.r.repeatIdle, MaxTaskIdle: u.r.taskIdle, MaxDrift: u.r.drift, AdvanceWhenIdle: u.r.lag,
		Now: u.now, Limits: u.r.limits, Refused: u.r.refuse,
		LeftOut: func(e *engine.RecordError, _ bool) { u.r.say("skipped %s: %v", e.Reason, e) },
	})
	return err
}

func (r *rig) say(format string, args ...any) {
	r.journal = append(r.journal, fmt.Sprintf(format, args...))
}

func (r *rig) partitions(topic string) [][]graph.Raw {
	if r.logs[topic] == nil {
		r.logs[topic] = make([][]graph.Raw, r.parts)
	}
	return r.logs[topic]
}

// write appends to a log, with the offset that follows.
func (r *rig) write(topic string, partition int, raw graph.Raw) {
	log := r.partitions(topic)
	raw.Topic, raw.Partition, raw.Offset = topic, int32(partition), int64(len(log[partition]))
	log[partition] = append(log[partition], raw)
}

// partition is a partitioner of the tests' own, easy on the eye: keys that begin with neighbouring letters alternate.
func (r *rig) partition(key []byte) int {
	if len(key) == 0 {
		return 0
	}
	return int(key[0]) % r.parts
}

func (u *unit) log(source int) []graph.Raw {
	return u.r.partitions(u.sub.Sources[source].Topic)[u.id.Partition]
}

// poll pushes up to n records of each source that have not been pushed.
func (u *unit) poll(n int) {
	for i := range u.sources {
		if u.sources[i].Absent {
			continue
		}
		log := u.log(i)
		for k := 0; k < n && u.polled[i] < int64(len(log)); k++ {
			u.task.Push(i, log[u.polled[i]])
			u.polled[i]++
		}
	}
}

// commit is a transaction that commits.
func (u *unit) commit() (engine.Cut, error) {
	cut := u.task.Cut()
	for _, o := range cut.Outputs {
		p := int(o.Partition)
		if p < 0 {
			p = u.r.partition(o.PartitionKey)
		}
		u.r.write(u.sub.Sinks[o.Sink].Topic, p, graph.Raw{
			Key: clone(o.Key), Value: clone(o.Value), Headers: o.Headers, Time: o.Time,
		})
	}
	for _, rep := range cut.Reports {
		topic := u.sub.Sinks[rep.Sink].Topic
		for p := range u.r.partitions(topic) {
			u.r.write(topic, p, reportRecord(wire.Report{
				SubTopology: int32(u.sub.ID), Producer: u.id.Partition, Producers: int32(u.r.parts), Watermark: rep.Watermark, State: rep.State,
			}))
		}
	}
	if err := u.task.Committed(make([]*state.Position, len(u.sub.Stores))); err != nil {
		return cut, err
	}
	for _, s := range cut.Sources {
		u.sources[s.Source].Offset, u.sources[s.Source].Clock = s.Offset, throughWire(s.Clock, cut.Operators).Source
	}
	u.clocks = throughWire(wire.SourceClock{}, cut.Operators).Operators
	return cut, nil
}

func (u *unit) crash() error { return u.build() }

// throughWire returns what a restart reads of a commit.
func throughWire(s wire.SourceClock, ops []wire.OperatorClock) wire.Commit {
	c, ours, err := wire.DecodeCommit(wire.EncodeCommit(wire.Commit{Source: s, Operators: ops}))
	if err != nil || !ours {
		panic(fmt.Sprint("a commit did not come back: ", ours, err))
	}
	return c
}

func reportRecord(r wire.Report) graph.Raw {
	return graph.Raw{Headers: []graph.Header{{Key: wire.HeaderWatermark, Value: wire.AppendReport(nil, r)}}}
}

// clone keeps null and empty apart.
func clone(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append([]byte{}, b...)
}

// flaky is a backend that can be told to fail.
type flaky struct {
	state.Backend
	get, scan, apply bool
}

var errDisk = errors.New("the disk is gone")

func (f *flaky) Get(store int, key []byte) ([]byte, bool, error) {
	if f.get {
		return nil, false, errDisk
	}
	return f.Backend.Get(store, key)
}

func (f *flaky) Scan(store int, from, to []byte) iter.Seq2[state.Entry, error] {
	if f.scan {
		return func(yield func(state.Entry, error) bool) { yield(state.Entry{}, errDisk) }
	}
	return f.Backend.Scan(store, from, to)
}

func (f *flaky) Apply(m iter.Seq[state.Mutation], p []*state.Position) error {
	if f.apply {
		return errDisk
	}
	return f.Backend.Apply(m, p)
}

func total(t *engine.Task) engine.Counts {
	st := t.Status()
	return st.Total()
}
