package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/internal/engine"
	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/window"
)

var errRefused = errors.New("the broker does not take it")

// splitting writes each letter of a value, counts records per key, and writes the count of each window of ten when it closes.
func splitting(t *testing.T) *rig {
	t.Helper()
	b := topology.NewBuilder()
	in := topology.From(b, topology.Topic("in", serde.String(), serde.String()))
	letters := topology.FlatMap(in, func(r topology.Record[string, string], emit func(key, value string) error) error {
		for _, letter := range r.Value {
			if err := emit(r.Key, string(letter)); err != nil {
				return err
			}
		}
		return nil
	})
	letters.To(topology.Topic("letters", serde.String(), serde.String()))
	perTen := topology.Windowed(in.GroupByKey(), window.Tumbling(10*time.Millisecond), window.Drop())
	topology.Count(perTen, "per-ten", topology.EmitOnClose()).
		To(topology.Topic("counts", window.KeySerde(serde.String()).Size(10*time.Millisecond), serde.Int64()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(top, 1)
	r.refuse = map[engine.OutputID]error{}
	if err := r.start(); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) in(time int64, key, value string) {
	r.write("in", 0, graph.Raw{Key: []byte(key), Value: []byte(value), Time: time})
}

// written returns what a transaction would write, each as sink, key, and value or time.
func (u *unit) written(cut engine.Cut) []string {
	var out []string
	for _, o := range cut.Outputs {
		if u.sub.Sinks[o.Sink].Topic == "letters" {
			out = append(out, fmt.Sprintf("%s=%s", o.Key, o.Value))
		} else {
			out = append(out, fmt.Sprintf("count of %c at %d: %d", o.Key[0], o.Time, o.Value[len(o.Value)-1]))
		}
	}
	return out
}

// find returns the id of an output by what written says of it.
func (u *unit) find(t *testing.T, cut engine.Cut, what string) engine.OutputID {
	t.Helper()
	for i, w := range u.written(cut) {
		if w == what {
			return u.task.OutputID(i)
		}
	}
	t.Fatalf("there is no output %q in %q", what, u.written(cut))
	return engine.OutputID{}
}

// An output that was refused is found again after a rebuild, whatever comes between: Skip leaves its record out with all that it
// did, and nothing else.
func TestRefusedOutputIsSkippedWithItsRecord(t *testing.T) {
	t.Parallel()
	r := splitting(t)
	r.policy.Action = graph.Skip
	u := r.tasks[0]
	if err := u.crash(); err != nil { // for the policy to be taken
		t.Fatal(err)
	}
	r.in(1, "a", "xyz")
	r.in(2, "b", "pq")
	r.in(3, "a", "z")
	u.mustStep(t, 100)
	cut := u.task.Cut()
	r.refuse[u.find(t, cut, "a=y")] = errRefused
	if err := u.crash(); err != nil {
		t.Fatal(err)
	}
	r.in(25, "c", "")
	u.mustStep(t, 1) // other steps than before
	u.mustStep(t, 100)
	cut = u.task.Cut()
	want := []string{"b=p", "b=q", "a=z", "count of a at 3: 1", "count of b at 2: 1"}
	if diff := cmp.Diff(want, u.written(cut)); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
	}
	if n := total(u.task); n[graph.Refused] != 1 || n[graph.Failed] != 0 {
		t.Errorf("counted %v, want one refused", n)
	}
	if len(r.journal) != 1 || !strings.Contains(r.journal[0], "in[0]@0") || !strings.Contains(r.journal[0], errRefused.Error()) {
		t.Errorf("told %q, want in[0]@0 and the cause", r.journal)
	}
	if cut.Sources[0].Offset != 4 {
		t.Errorf("the position is %d, want 4", cut.Sources[0].Offset)
	}
}

// What time has made due has no record of its own: it is found again by what it is.
func TestRefusedResultIsSkippedAlone(t *testing.T) {
	t.Parallel()
	r := splitting(t)
	r.policy.Action = graph.Skip
	u := r.tasks[0]
	if err := u.crash(); err != nil {
		t.Fatal(err)
	}
	r.in(1, "a", "")
	r.in(2, "b", "")
	r.in(25, "c", "")
	u.mustStep(t, 100)
	cut := u.task.Cut()
	if got := u.task.Refused(0, errRefused); got.Topic != "" || got.Reason != graph.Refused {
		t.Errorf("the error for a window's result is %+v, want none of a record", got)
	}
	r.refuse[u.find(t, cut, "count of a at 1: 1")] = errRefused
	if err := u.crash(); err != nil {
		t.Fatal(err)
	}
	u.mustStep(t, 100)
	if diff := cmp.Diff([]string{"count of b at 2: 1"}, u.written(u.task.Cut())); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
	}
	if _, err := u.commit(); err != nil {
		t.Fatal(err)
	}
	r.in(45, "d", "")
	u.mustStep(t, 100)
	if diff := cmp.Diff([]string{"count of c at 25: 1"}, u.written(u.task.Cut())); diff != "" {
		t.Errorf("outputs after that (-want +got):\n%s", diff)
	}
}

// A sink's limits are known before anything is produced. Under Fail the error names the record and the sink.
func TestLimitsOfASink(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]engine.SinkLimit{
		"too large": {MaxBytes: 2, TooLarge: errRefused},
		"closed":    {Closed: errRefused},
	} {
		r := splitting(t)
		r.limits = make([]engine.SinkLimit, len(r.tasks[0].sub.Sinks))
		for i, s := range r.tasks[0].sub.Sinks {
			if s.Topic == "letters" {
				r.limits[i] = limit
			}
		}
		u := r.tasks[0]
		if err := u.crash(); err != nil {
			t.Fatal(err)
		}
		r.in(1, "a", "")
		if limit.Closed == nil {
			r.in(2, "b", "q") // two bytes are allowed
		}
		u.mustStep(t, 100)
		r.in(3, "bb", "q")
		u.poll(100)
		_, err := u.task.Step(0, 100)
		var rec *engine.RecordError
		if !errors.As(err, &rec) || !errors.Is(err, errRefused) {
			t.Fatalf("%s: Step returned %v, want a *RecordError with the cause", name, err)
		}
		if want := int64(len(r.partitions("in")[0]) - 1); rec.Offset != want || rec.Topic != "in" || rec.Reason != graph.Refused || !strings.Contains(rec.Node, "SINK") {
			t.Errorf("%s: the error is of %+v, want in[0]@%d at a sink", name, rec, want)
		}
	}
}

// A record of which an output is refused becomes a dead letter, though the dead letter is the first output that the record makes now,
// as the refused one was before. If the dead letter is refused, too, nothing hides that.
func TestRefusedOutputBecomesADeadLetter(t *testing.T) {
	t.Parallel()
	r := splitting(t)
	r.policy = graph.Policy{Action: graph.DeadLetter, Topic: "dead"}
	u := r.tasks[0]
	r.in(1, "a", "xyz")
	r.in(2, "b", "pq")
	if err := u.crash(); err != nil { // for the policy to be taken
		t.Fatal(err)
	}
	u.mustStep(t, 100)
	r.refuse[u.find(t, u.task.Cut(), "a=x")] = errRefused
	if err := u.crash(); err != nil {
		t.Fatal(err)
	}
	u.mustStep(t, 100)
	cut := u.task.Cut()
	if len(cut.Outputs) != 3 || string(cut.Outputs[0].Value) != "xyz" || string(cut.Outputs[1].Value) != "p" {
		t.Fatalf("outputs %v, want the dead letter xyz, p and q", cut.Outputs)
	}
	if n := total(u.task); n[graph.Refused] != 1 {
		t.Errorf("counted %v, want one refused", n)
	}
	r.refuse[u.task.OutputID(0)] = errors.New("nor this")
	if err := u.crash(); err != nil {
		t.Fatal(err)
	}
	u.poll(100)
	_, err := u.task.Step(0, 100)
	var rec *engine.RecordError
	if !errors.As(err, &rec) || rec.Offset != 0 || !errors.Is(err, errRefused) || !strings.Contains(err.Error(), "dead letter cannot be written: nor this") {
		t.Errorf("Step returned %v, want that of record 0, with both causes", err)
	}
}
