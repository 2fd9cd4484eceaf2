package engine_test

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/headrace/headrace/internal/engine"
	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/topology"
)

func started(t testing.TB, name string, a args, parts int) *rig {
	t.Helper()
	b := topology.NewBuilder()
	r := &rig{}
	topologies[name](&r, b, a)
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	*r = *newRig(top, parts)
	if err := r.start(); err != nil {
		t.Fatal(err)
	}
	return r
}

func (u *unit) mustStep(t testing.TB, budget int) engine.Progress {
	t.Helper()
	u.poll(1 << 30)
	p, err := u.task.Step(u.now, budget)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Pending is true if there is something of any of the four kinds, and false after a commit.
func TestPendingTruthTable(t *testing.T) {
	t.Parallel()
	value := graph.Raw{Key: []byte("k"), Value: []byte("v"), Time: 7}
	for _, c := range []struct {
		name, topology string
		a              args
		prepare        func(t *testing.T, r *rig) // and commit
		act            func(r *rig)
		outputs        int
		mutations      bool
		moved          bool
		reports        int
	}{
		{name: "nothing", topology: "process", a: args{"wall": "1000"}},
		{
			name: "an offset only", topology: "repartition", a: args{"size": "10"},
			prepare: func(_ *testing.T, r *rig) {
				r.write("in", 0, graph.Raw{Key: []byte("k"), Value: []byte("filtered"), Time: 7})
			},
			act:   func(r *rig) { r.write("in", 0, graph.Raw{Key: []byte("k"), Value: []byte("filtered"), Time: 6}) },
			moved: true,
		},
		{
			name: "an output and an offset", topology: "merge",
			act:     func(r *rig) { r.write("a", 0, value) },
			outputs: 1, moved: true,
		},
		{
			name: "a change of state and an offset", topology: "windows", a: args{"size": "10"},
			act:       func(r *rig) { r.write("in", 0, value) },
			mutations: true, moved: true,
		},
		{
			name: "outputs and state without an offset: a punctuation", topology: "process", a: args{"wall": "1000"},
			act:     func(r *rig) { r.tasks[0].now = 1000 },
			outputs: 1, mutations: true,
		},
		{
			name: "a report and an offset", topology: "repartition", a: args{"size": "10"},
			act:   func(r *rig) { r.write("in", 0, graph.Raw{Key: []byte("k"), Value: []byte("filtered"), Time: 7}) },
			moved: true, reports: 1,
		},
		{
			name: "a report only: it is made again with the task", topology: "repartition", a: args{"size": "10"},
			prepare: func(_ *testing.T, r *rig) { r.write("in", 0, value) },
			act: func(r *rig) {
				if err := r.tasks[0].crash(); err != nil {
					panic(err)
				}
			},
			reports: 1,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := started(t, c.topology, c.a, 1)
			u := r.tasks[0]
			if c.prepare != nil {
				c.prepare(t, r)
				u.mustStep(t, 100)
				if _, err := u.commit(); err != nil {
					t.Fatal(err)
				}
			}
			if u.task.Pending() {
				t.Fatal("pending before anything happened")
			}
			before := u.sources[0].Offset
			if c.act != nil {
				c.act(r)
			}
			u.mustStep(t, 100)
			want := c.outputs > 0 || c.mutations || c.moved || c.reports > 0
			if got := u.task.Pending(); got != want {
				t.Errorf("pending %t, want %t", got, want)
			}
			mutations := false
			for range u.task.Mutations() {
				mutations = true
			}
			if heavy := u.task.PendingBytes() > 0; heavy != (c.outputs > 0 || c.mutations) {
				t.Errorf("%d bytes are pending", u.task.PendingBytes())
			}
			cut, err := u.commit()
			if err != nil {
				t.Fatal(err)
			}
			if len(cut.Outputs) != c.outputs || mutations != c.mutations || (cut.Sources[0].Offset != before) != c.moved || len(cut.Reports) != c.reports {
				t.Errorf("%d outputs, mutations %t, offset %d → %d, %d reports; that is another case than the one meant", len(cut.Outputs), mutations, before, cut.Sources[0].Offset, len(cut.Reports))
			}
			if u.task.Pending() || u.task.PendingBytes() != 0 {
				t.Errorf("pending %t with %d bytes after the commit", u.task.Pending(), u.task.PendingBytes())
			}
		})
	}
}

// Sidelined records are not copied, but their bytes are held up to the commit, and count.
func TestPendingBytesCountWhatIsSetAside(t *testing.T) {
	t.Parallel()
	r := started(t, "windows", args{"size": "10", "late": "sideline"}, 1)
	u := r.tasks[0]
	r.write("in", 0, graph.Raw{Key: []byte("k"), Value: []byte("v"), Time: 100})
	u.mustStep(t, 10)
	before := u.task.PendingBytes()
	r.write("in", 0, graph.Raw{Key: []byte("k"), Value: make([]byte, 10_000), Time: 1})
	u.mustStep(t, 10)
	if got := u.task.PendingBytes() - before; got < 10_000 {
		t.Errorf("%d bytes for a record of 10,000 that was set aside", got)
	}
	if _, err := u.commit(); err != nil || u.task.PendingBytes() != 0 {
		t.Errorf("%d bytes are pending after the commit, %v", u.task.PendingBytes(), err)
	}
}

// What a cut hands out stays as it is while it is being produced, that is up to Committed, and refers to nothing that a later
// record overwrites.
func TestOutputsStayUpToTheCommit(t *testing.T) {
	t.Parallel()
	r := started(t, "merge", nil, 1)
	u := r.tasks[0]
	const n = 5000 // more than the first chunk of the arena
	for i := range n {
		r.write("a", 0, graph.Raw{Key: []byte("key" + strconv.Itoa(i)), Value: []byte(strings.Repeat(strconv.Itoa(i), 1+i%200)), Time: int64(i)})
	}
	for round := range 2 {
		u.mustStep(t, n/2)
		cut := u.task.Cut()
		for k, o := range cut.Outputs {
			i := round*n/2 + k
			if string(o.Key) != "key"+strconv.Itoa(i) || string(o.Value) != strings.Repeat(strconv.Itoa(i), 1+i%200) || &o.Key[0] != &o.PartitionKey[0] {
				t.Fatalf("output %d is %s=%s", i, o.Key, o.Value)
			}
		}
		if len(cut.Outputs) != n/2 {
			t.Fatalf("%d outputs", len(cut.Outputs))
		}
		if _, err := u.commit(); err != nil {
			t.Fatal(err)
		}
	}
}

// The state of sources must fit the plan.
func TestNewWantsTheStateOfEachSource(t *testing.T) {
	t.Parallel()
	r := started(t, "merge", nil, 1)
	u := r.tasks[0]
	_, err := engine.New(engine.Config{ID: u.id, Sub: u.sub, Txn: state.NewTxn(u.backend, nil), Sources: u.sources[:1]})
	if err == nil || !strings.Contains(err.Error(), "task 0_0 has 2 sources, got the state of 1") {
		t.Error(err)
	}
}

// Committed clocks go to operators by name: two of one name would take each other's time.
func TestClocksNeedNames(t *testing.T) {
	t.Parallel()
	u := started(t, "windows", args{"size": "10"}, 1).tasks[0]
	sub, made := *u.sub, u.sub.New
	sub.New = func(rt graph.Runtime) (*graph.Instance, error) {
		in, err := made(rt)
		in.Clocks = append(in.Clocks, in.Clocks[0])
		return in, err
	}
	u.sub = &sub
	if err := u.build(); err == nil || !strings.Contains(err.Error(), "two operators keep event time under the name w") {
		t.Error(err)
	}
}

// The runtime lends stores to closures while they are made, and not to code that runs later.
func TestOpenStoreEndsWithNew(t *testing.T) {
	t.Parallel()
	u := started(t, "windows", args{"size": "10"}, 1).tasks[0]
	var rt graph.Runtime
	sub, made := *u.sub, u.sub.New
	sub.New = func(r graph.Runtime) (*graph.Instance, error) {
		rt = r
		if _, err := r.OpenStore("w", state.KeyValueKind); err == nil || !strings.Contains(err.Error(), "w is a window store, not a key-value store") {
			t.Error(err)
		}
		if _, err := r.OpenStore("other", state.WindowKind); err == nil || !strings.Contains(err.Error(), "other: the operator did not declare it") {
			t.Error(err)
		}
		return made(r)
	}
	u.sub = &sub
	if err := u.build(); err != nil {
		t.Fatal(err)
	}
	if _, err := rt.OpenStore("w", state.WindowKind); err == nil || !strings.Contains(err.Error(), "the task is running") {
		t.Error(err)
	}
}

// A task that skips record after record does not gather what those had put out.
func TestSkippedRecordsLeaveNoBytes(t *testing.T) {
	const n, size = 3000, 10_000
	bytes := func(name string) topology.TopicOf[[]byte, []byte] {
		return topology.Topic(name, serde.Bytes(), serde.Bytes())
	}
	b := topology.NewBuilder()
	topology.FlatMap(topology.From(b, bytes("in")), func(r topology.Record[[]byte, []byte], emit func([]byte, []byte) error) error {
		if err := emit(r.Key, r.Value); err != nil {
			return err
		}
		return errDisk
	}).To(bytes("out"))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(top, 1)
	r.policy.Action = graph.Skip
	if err := r.start(); err != nil {
		t.Fatal(err)
	}
	task := r.tasks[0].task
	for i := range n {
		task.Push(0, graph.Raw{Key: []byte("k"), Value: make([]byte, size), Time: int64(i), Offset: int64(i)})
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if p, err := task.Step(0, n); err != nil || p.Units != n {
		t.Fatal(p, err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > n*size/4 {
		t.Errorf("%d bytes allocated for %d skipped outputs of %d", got, n, size)
	}
	if got := total(task)[graph.Failed]; got != n {
		t.Errorf("%d records skipped", got)
	}
}

// A clock of an operator that the topology no longer has is left alone; one that does not fit is an error that names it.
func TestClocksOfAnotherTopology(t *testing.T) {
	t.Parallel()
	r := started(t, "windows", args{"size": "10"}, 1)
	u := r.tasks[0]
	r.write("in", 0, graph.Raw{Key: []byte("k"), Value: []byte("v"), Time: 100})
	u.mustStep(t, 10)
	if _, err := u.commit(); err != nil {
		t.Fatal(err)
	}
	gone := u.clocks[0]
	gone.Name = "gone"
	u.clocks = append(u.clocks, gone)
	if err := u.crash(); err != nil {
		t.Error(err)
	}
	if w := u.task.Status().Operators[0].Watermark; w != 100 {
		t.Errorf("W is %d after the restart, want 100", w)
	}
	u.clocks[0].Values = append(u.clocks[0].Values, 1, 2)
	if err := u.crash(); err == nil || !strings.Contains(err.Error(), "clock of operator w: 5 values, want 1, 3 or 4") {
		t.Error(err)
	}
}

// lateStore is a processor that opens a store when it is too late.
type lateStore struct{ host state.Host }

func (p *lateStore) Init(t *topology.Task, _ topology.Emitter[string, string]) error {
	p.host = t
	return nil
}

func (p *lateStore) Process(topology.Record[string, string], topology.Emitter[string, string]) error {
	_, err := seen.Open(p.host)
	return err
}

func TestStoresAreOpenedInInitOnly(t *testing.T) {
	t.Parallel()
	b := topology.NewBuilder()
	topology.Process(topology.From(b, text("in", nil)), "p", func() *lateStore { return &lateStore{} }, seen)
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(top, 1)
	if err := r.start(); err != nil {
		t.Fatal(err)
	}
	r.write("in", 0, graph.Raw{Key: []byte("k"), Value: []byte("v")})
	r.tasks[0].poll(1)
	var rec *engine.RecordError
	if _, err := r.tasks[0].task.Step(0, 1); !errors.As(err, &rec) || rec.Node != "p" || rec.Topic != "in" || rec.Offset != 0 {
		t.Error(err)
	}
}

// A stateless chain costs no allocation per record, decoding and encoding bytes.
func BenchmarkStepZeroAlloc(b *testing.B) {
	bytes := func(name string) topology.TopicOf[[]byte, []byte] {
		return topology.Topic(name, serde.Bytes(), serde.Bytes())
	}
	bl := topology.NewBuilder()
	topology.MapValues(topology.From(bl, bytes("in")).Filter(func(_, v []byte) bool { return len(v) > 0 }),
		func(v []byte) []byte { return v[1:] }).To(bytes("out"))
	top, err := bl.Build()
	if err != nil {
		b.Fatal(err)
	}
	r := newRig(top, 1)
	if err := r.start(); err != nil {
		b.Fatal(err)
	}
	task := r.tasks[0].task
	raw := graph.Raw{Key: make([]byte, 8), Value: make([]byte, 100)}
	round := func(n int) {
		for range n {
			raw.Time++
			raw.Offset++
			task.Push(0, raw)
		}
		if p, err := task.Step(0, n); err != nil || p.Units != n {
			b.Fatal(p, err)
		}
		if len(task.Cut().Outputs) != n {
			b.Fatal("not every record came through")
		}
		if err := task.Committed(nil); err != nil {
			b.Fatal(err)
		}
	}
	round(10_000) // what grows, grows once
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i += 1000 {
		round(1000)
	}
}

// BenchmarkClose closes windows of one start in one transaction.
func BenchmarkClose(b *testing.B) {
	for _, n := range []int{1000, 50_000} {
		b.Run(fmt.Sprint("windows=", n), func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				r := started(b, "windows", args{"size": "10"}, 1)
				u := r.tasks[0]
				for i := range n {
					r.write("in", 0, graph.Raw{Key: []byte(strconv.Itoa(i)), Value: []byte("v"), Time: 5})
				}
				u.mustStep(b, 2*n)
				if _, err := u.commit(); err != nil {
					b.Fatal(err)
				}
				r.write("in", 0, graph.Raw{Key: []byte("k"), Value: []byte("v"), Time: 10})
				b.StartTimer()
				u.mustStep(b, 2*n)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/window")
		})
	}
}
