package engine_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/internal/engine"
	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/topology"
)

var alarms = topology.EventTimers("alarms", serde.String())

// alarm sets a timer for each record's key, at the time that its value says, and emits when one fires.
type alarm struct {
	r      *rig
	timers *topology.TimersView[string]
}

func (p *alarm) Init(t *topology.Task, out topology.Emitter[string, string]) (err error) {
	p.timers, err = alarms.Open(t, func(key string, at time.Time) error {
		p.r.say("fired %s", key)
		if p.r.fail["swallow"] {
			_, _, _ = p.timers.Get("other") // does not look at the error
		}
		if err := out(topology.Record[string, string]{Key: key, Value: "fired", Time: at.UnixMilli()}); err != nil {
			return err
		}
		if p.r.fail["fire"] {
			return errors.New("the timer fell over")
		}
		return nil
	})
	return err
}

func (p *alarm) Process(r topology.Record[string, string], _ topology.Emitter[string, string]) error {
	p.r.say("record %s", r.Key)
	ms, err := strconv.ParseInt(r.Value, 10, 64)
	if err != nil {
		return err
	}
	return p.timers.Set(r.Key, time.UnixMilli(ms))
}

func withAlarms(t *testing.T, policy graph.Action) (*rig, *unit) {
	t.Helper()
	var r *rig
	b := topology.NewBuilder()
	s := topology.Process(topology.From(b, text("in", nil)), "alarm", func() *alarm { return &alarm{r: r} }, alarms)
	s.To(text("out", nil))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	r = newRig(top, 1)
	r.policy.Action = policy
	if err := r.start(); err != nil {
		t.Fatal(err)
	}
	return r, r.tasks[0]
}

func set(r *rig, key string, at, due int64) {
	r.write("in", 0, graph.Raw{Key: []byte(key), Value: []byte(strconv.FormatInt(due, 10)), Time: at})
}

// A firing is one unit of work: a commit may fall before and behind it, with its output and its end in one transaction. Records that
// wait come behind what is due.
func TestAFiringIsAUnit(t *testing.T) {
	t.Parallel()
	r, u := withAlarms(t, graph.Inherit)
	set(r, "b", 1, 10)
	set(r, "a", 1, 10)
	set(r, "c", 2, 9)
	set(r, "z", 20, 1000)
	set(r, "z", 21, 1000)
	set(r, "late", 5, 5) // has come already, and comes before the next record though W does not move
	set(r, "z", 21, 1000)
	var got []string
	for range 100 {
		before := len(r.journal)
		p := u.mustStep(t, 1)
		if p.Units == 0 {
			break
		}
		mutations := 0
		for range u.task.Mutations() {
			mutations++
		}
		cut, err := u.commit()
		if err != nil {
			t.Fatal(err)
		}
		if what := strings.Join(r.journal[before:], ","); what != "" {
			got = append(got, fmt.Sprintf("%s: %d outputs, %d changes", what, len(cut.Outputs), mutations))
			if err := u.crash(); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := []string{
		"record b: 0 outputs, 2 changes",
		"record a: 0 outputs, 2 changes",
		"record c: 0 outputs, 2 changes",
		"record z: 0 outputs, 2 changes",
		"fired c: 1 outputs, 2 changes",
		"fired a: 1 outputs, 2 changes",
		"fired b: 1 outputs, 2 changes",
		"record z: 0 outputs, 1 changes", // nothing but the timer itself
		"record late: 0 outputs, 2 changes",
		"fired late: 1 outputs, 2 changes",
		"record z: 0 outputs, 1 changes",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("units (-want +got):\n%s", diff)
	}
}

// To put a timer off costs one change, as often as it is done before the timer would have been due.
func TestATimerIsPutOffByOneWrite(t *testing.T) {
	t.Parallel()
	r, u := withAlarms(t, graph.Inherit)
	set(r, "a", 1, 100)
	u.mustStep(t, 100)
	if _, err := u.commit(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		at, due int64
		changes int
	}{
		{2, 200, 1},
		{3, 300, 1},
		{100, 300, 3}, // found at 100 and put where it belongs
		{101, 250, 3}, // brought forward
		{102, 350, 1},
	} {
		set(r, "a", c.at, c.due)
		for u.mustStep(t, 100).Units > 0 {
		}
		n := 0
		for range u.task.Mutations() {
			n++
		}
		if n != c.changes {
			t.Errorf("set for %d at %d: %d changes, want %d", c.due, c.at, n, c.changes)
		}
		if _, err := u.commit(); err != nil {
			t.Fatal(err)
		}
	}
	set(r, "z", 350, 1000)
	u.mustStep(t, 100)
	if cut := u.task.Cut(); len(cut.Outputs) != 1 || cut.Outputs[0].Time != 350 {
		t.Errorf("outputs %v, want one of 350", cut.Outputs)
	}
}

// A store that fails is nobody's firing: no policy hides it, and no code that swallows the error. The task made anew fires the timer.
func TestAStoreThatFailsIsNoFirings(t *testing.T) {
	t.Parallel()
	for what, fail := range map[string]func(r *rig, u *unit){
		"the look at what there is":      func(_ *rig, u *unit) { u.backend.scan = true },
		"the timer that is due":          func(_ *rig, u *unit) { u.backend.get = true },
		"what the firing swallows":       func(r *rig, u *unit) { r.fail["swallow"], u.backend.get = true, true },
		"the end of a firing that fails": func(r *rig, u *unit) { r.fail["fire"], r.fail["swallow"], u.backend.get = true, true, true },
	} {
		r, u := withAlarms(t, graph.Skip)
		set(r, "a", 1, 10)
		u.mustStep(t, 100)
		if _, err := u.commit(); err != nil {
			t.Fatal(err)
		}
		set(r, "z", 10, 1000)
		if err := u.crash(); err != nil { // what it has in memory is gone
			t.Fatal(err)
		}
		u.poll(100)
		units := 2 // a look, and the record
		if strings.HasPrefix(what, "the look") {
			units = 0
		}
		if _, err := u.task.Step(0, units); err != nil {
			t.Fatal(err)
		}
		fail(r, u)
		_, err := u.task.Step(0, 100)
		var rec *engine.RecordError
		if !errors.Is(err, errDisk) || errors.As(err, &rec) {
			t.Errorf("%s: got %v, want the disk's error, of no record", what, err)
		}
		u.backend.scan, u.backend.get = false, false
		clear(r.fail)
		r.journal = nil
		if err := u.crash(); err != nil {
			t.Fatal(err)
		}
		u.mustStep(t, 100)
		if diff := cmp.Diff([]string{"record z", "fired a"}, r.journal); diff != "" {
			t.Errorf("%s: the task made anew (-want +got):\n%s", what, diff)
		}
	}
}
