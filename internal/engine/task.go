package engine

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"unsafe"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/internal/wire"
	"github.com/headrace/headrace/state"
)

// Task processes one partition of one sub-topology. It belongs to one goroutine.
//
// After an error from Step, or when its transaction is aborted, a task is thrown away and made anew from its backend and its
// committed clocks: nothing in it can be trusted then.
type Task struct {
	cfg     Config
	inst    *graph.Instance
	sources []source
	stores  []state.Store
	txn     *state.Txn

	made             // since the last Freeze
	ice     made     // what is frozen, and else empty, to be used again
	cut     Cut      // of what is frozen
	frozen  bool     //
	from    origin   // of what the unit in process emits
	unitAt  int      // how many outputs there were before it
	reports []report // one for each sink

	idles  int   // sources that are idle
	turned bool  // some have fallen idle or woken since the last step
	floor  int64 // what other tasks have come to
	// confirmed: they have been seen to be idle again since that was last reported.
	confirmed bool

	now      int64
	time     int64 // what Store.Time returns
	at       int   // the node whose user code runs
	record   *graph.Raw
	building bool
	lookDue  bool // time has moved: some clock may be due

	picky     bool  // some outputs are known to be refused
	refusal   error // the unit in process made one of them,
	refusedAt int   // at this node

	storeErr error // a store failed: the task's trouble, which no policy for records may hide

	records int64
	counts  []Counts   // by node
	late    []Lateness // by node
	counted []counted
}

// made is what a task has made for a transaction.
type made struct {
	outs    []graph.Output
	origins []origin // of each output
	arena   graph.Arena
	lent    int // bytes of inputs that the outputs refer to, of sidelined records
}

// reset gives everything up, to be used again.
func (m *made) reset() {
	if cap(m.outs) > 1<<16 && len(m.outs) < cap(m.outs)/4 {
		m.outs, m.origins = nil, nil // a burst is over
	}
	clear(m.outs)
	m.outs, m.origins = m.outs[:0], m.origins[:0]
	m.arena.Reset()
	m.lent = 0
}

// counted is one record more of a reason, in the unit in process; or, with NumReasons, by how much one was late.
type counted struct {
	node   int
	reason graph.Reason
	late   int64
}

// New makes the task: its closures, with the committed clocks set and every watermark passed on. It processes nothing.
func New(cfg Config) (*Task, error) {
	if len(cfg.Sources) != len(cfg.Sub.Sources) {
		return nil, fmt.Errorf("engine: task %s has %d sources, got the state of %d", cfg.ID, len(cfg.Sub.Sources), len(cfg.Sources))
	}
	t := &Task{cfg: cfg, txn: cfg.Txn, now: cfg.Now, building: true, lookDue: true, floor: math.MaxInt64}
	t.records = survived(cfg.ID)
	t.counts, t.late = make([]Counts, len(cfg.Sub.Nodes)), make([]Lateness, len(cfg.Sub.Nodes))
	t.picky = len(cfg.Limits) > 0 || len(cfg.Refused) > 0
	t.reports = make([]report, len(cfg.Sub.Sinks))
	for i := range t.reports {
		t.reports[i] = report{w: graph.Unknown, sent: graph.Unknown, at: math.MinInt64}
	}
	t.stores = make([]state.Store, len(cfg.Sub.Stores))
	for i := range t.stores {
		t.stores[i] = &taskStore{t.txn.Store(i, func() int64 { return t.time }), t, i}
	}
	inst, err := t.build()
	if err == nil {
		err = t.storeErr
	}
	if err != nil {
		return nil, fmt.Errorf("engine: make task %s: %w", cfg.ID, err)
	}
	t.inst = inst
	if err := t.load(cfg.Operators); err != nil {
		return nil, fmt.Errorf("engine: make task %s: %w", cfg.ID, err)
	}
	t.sources = make([]source, len(cfg.Sources))
	for i := range t.sources {
		if err := t.sources[i].init(&cfg.Sub.Sources[i], cfg.Sources[i], inst.Entries[i]); err != nil {
			return nil, fmt.Errorf("engine: make task %s: %w", cfg.ID, err)
		}
		t.sources[i].index = int32(i)
	}
	t.turned = true
	t.turn()
	for i := range t.sources {
		t.sources[i].leave = t.sources[i].told // from here on it has to be seen again that there is nothing
	}
	t.building = false
	return t, nil
}

// build makes the closures. A panic in it is one of user code: a processor's Init.
func (t *Task) build() (inst *graph.Instance, err error) {
	defer recovered(&err)
	return t.cfg.Sub.New(runtime{t})
}

// load sets the operators' committed clocks. A clock without an operator belongs to one that the topology no longer has.
func (t *Task) load(clocks []wire.OperatorClock) error {
	for i, op := range t.inst.Clocks {
		for _, other := range t.inst.Clocks[:i] {
			if other.Name() == op.Name() {
				return fmt.Errorf("two operators keep event time under the name %s, and a restart could not tell them apart; rename one", op.Name())
			}
		}
	}
	for _, c := range clocks {
		for _, op := range t.inst.Clocks {
			if op.Name() != c.Name {
				continue
			}
			if err := op.Load(c.Values); err != nil {
				return fmt.Errorf("clock of operator %s: %w", c.Name, err)
			}
		}
	}
	return nil
}

// ID returns the task's id.
func (t *Task) ID() TaskID { return t.cfg.ID }

// Push appends a record, or a control marker, to the queue of a source. Records come in offset order.
func (t *Task) Push(source int, r graph.Raw) {
	s := &t.sources[source]
	s.push(r)
	if s.idle && !s.plan.Repartition && !r.Control {
		s.idle, t.turned = false, true
	}
}

// Queued returns how many records of a source wait, and about how many bytes they take.
func (t *Task) Queued(source int) (records, bytes int) {
	s := &t.sources[source]
	records, bytes = s.q.len(), s.q.bytes
	if s.decoded {
		records++
		bytes += size(&s.head)
	}
	return records, bytes
}

// Pending says whether there is anything to commit that is not frozen: an offset, a change of state, an output or a report.
func (t *Task) Pending() bool {
	if len(t.outs) > 0 || t.txn.Pending() {
		return true
	}
	for i := range t.sources {
		if t.sources[i].next != t.sources[i].committed {
			return true
		}
	}
	return t.reporting()
}

// clientBytes is about what a client needs for a record that it sends.
const clientBytes = 160

// PendingBytes is about how many bytes that is, with what it takes to send them.
func (t *Task) PendingBytes() int {
	n := t.arena.Held() + t.txn.Bytes() + t.lent + len(t.outs)*int(unsafe.Sizeof(graph.Output{})+unsafe.Sizeof(origin{}))
	n += (len(t.outs) + t.txn.Len()) * clientBytes
	if reportEarly && n > 0 {
		n = max(n, 1<<30) // commit now, whatever is still queued
	}
	return n
}

// Mutations returns the last value of each key changed in the transaction of Cut, store by store and in key order.
func (t *Task) Mutations() iter.Seq[state.Mutation] { return t.txn.Mutations() }

// Freeze sets apart, at a step boundary, what the next transaction has to commit: Cut, Mutations, OutputID, Refused and Committed are of
// that from then on, whatever is stepped meanwhile. While something is frozen it does nothing.
func (t *Task) Freeze() {
	if t.frozen {
		return
	}
	t.cut = t.Cut()
	t.made, t.ice = t.ice, t.made
	// As much again is likely, and growing to it by steps would copy it over and over.
	t.outs, t.origins = slices.Grow(t.outs, len(t.ice.outs)), slices.Grow(t.origins, len(t.ice.outs))
	t.setApart()
	// If the transaction does not commit, nothing of the task is used again.
	t.reported(t.cut.Reports)
	for i := range t.sources {
		t.sources[i].committed = t.sources[i].next
	}
	t.frozen = true
}

// Cut returns what the transaction has to commit: what is frozen, or else everything up to here.
func (t *Task) Cut() Cut {
	if t.frozen {
		return t.cut
	}
	if reportEarly {
		t.lookAhead()
	}
	cut := Cut{Outputs: t.outs, Reports: t.cutReports()}
	for i := range t.sources {
		if s := &t.sources[i]; !s.cfg.Absent {
			cut.Sources = append(cut.Sources, SourceCut{Source: i, Offset: s.next, Clock: s.clock()})
		}
	}
	for _, c := range t.inst.Clocks {
		cut.Operators = append(cut.Operators, wire.OperatorClock{Name: c.Name(), Values: c.Save(nil)})
	}
	return cut
}

// Committed says that the transaction of Cut has committed: the overlay goes to the backend with the positions.
func (t *Task) Committed(positions []*state.Position) error {
	t.Freeze()
	if err := t.txn.Commit(positions); err != nil {
		return fmt.Errorf("engine: task %s: apply the committed transaction: %w", t.cfg.ID, err)
	}
	t.ice.reset()
	t.cut, t.frozen = Cut{}, false
	return nil
}

// CacheBytes sets how many bytes of what its backend holds the task may keep in memory.
func (t *Task) CacheBytes(limit int) { t.txn.CacheBytes(limit) }

// Status returns where the task stands.
func (t *Task) Status() Status {
	st := Status{Task: t.cfg.ID, Counts: slices.Clone(t.counts), Late: slices.Clone(t.late), Records: t.records}
	limit := t.drifts()
	for i := range t.sources {
		s := &t.sources[i]
		if s.cfg.Absent {
			continue
		}
		n, _ := t.Queued(i)
		st.Sources = append(st.Sources, SourceStatus{
			Topic: s.cfg.Topic, Partition: t.cfg.ID.Partition, Offset: s.next, Queued: n, Watermark: s.w,
			Idle: s.idle, Held: s.held(limit), Behind: s.behind, Records: s.records, Bytes: s.bytes,
		})
	}
	for _, c := range t.inst.Clocks {
		op := OperatorStatus{Name: c.Name(), Watermark: c.Watermark(), Passed: graph.Unknown, Due: c.Due(t.now)}
		if p, ok := c.(interface{ Passed() int64 }); ok {
			op.Passed = p.Passed()
		}
		st.Operators = append(st.Operators, op)
	}
	return st
}

// runtime is what the task lends to its closures.
type runtime struct{ t *Task }

var errUndeclared = errors.New("the operator did not declare it")

// OpenStore is allowed only while the task is made.
func (r runtime) OpenStore(name string, kind state.Kind) (state.Store, error) {
	if !r.t.building {
		return nil, fmt.Errorf("engine: open store %s: the task is running; open stores while it is made", name)
	}
	for i, spec := range r.t.cfg.Sub.Stores {
		if spec.Name != name {
			continue
		}
		if spec.Kind != kind {
			return nil, fmt.Errorf("engine: store %s is a %s store, not a %s store", name, spec.Kind, kind)
		}
		return r.t.stores[i], nil
	}
	return nil, fmt.Errorf("engine: open store %s: %w; name it where the operator is added", name, errUndeclared)
}

func (r runtime) Partition() int32    { return r.t.cfg.ID.Partition }
func (r runtime) Arena() *graph.Arena { return &r.t.arena }
func (r runtime) At() *int            { return &r.t.at }
func (r runtime) Record() *graph.Raw  { return r.t.record }
func (r runtime) SetTime(ms int64)    { r.t.time = ms }
func (r runtime) Now() int64          { return r.t.now }
func (r runtime) Look()               { r.t.lookDue = true }

func (r runtime) SourceWatermark() int64 {
	if r.t.record == nil {
		return graph.Unknown
	}
	return r.t.sources[r.t.from.source].w
}

func (r runtime) Late(node int, by int64) {
	r.t.counted = append(r.t.counted, counted{node: node, reason: graph.NumReasons, late: by})
}

func (r runtime) Count(node int, reason graph.Reason) {
	r.t.counted = append(r.t.counted, counted{node: node, reason: reason})
}

// taskStore remembers the failure of a store, whatever the code that met it made of the error.
type taskStore struct {
	state.Store
	t     *Task
	store int
}

func (s *taskStore) failed(err error) error {
	if err != nil && s.t.storeErr == nil && !errors.Is(err, state.ErrExpired) { // which is the record's fault
		s.t.storeErr = fmt.Errorf("engine: task %s: %w", s.t.cfg.ID, err)
	}
	return err
}

func (s *taskStore) Get(key []byte) ([]byte, bool, error) {
	v, ok, err := s.Store.Get(key)
	return v, ok, s.failed(err)
}

func (s *taskStore) Put(key, value []byte) error { return s.failed(s.Store.Put(key, value)) }
func (s *taskStore) Delete(key []byte) error     { return s.failed(s.Store.Delete(key)) }
func (s *taskStore) Expire(floor []byte) error   { return s.failed(s.t.txn.Expire(s.store, floor)) }

func (s *taskStore) Scan(from, to []byte) iter.Seq2[state.Entry, error] {
	return func(yield func(state.Entry, error) bool) {
		for e, err := range s.Store.Scan(from, to) {
			if !yield(e, s.failed(err)) {
				return
			}
		}
	}
}
