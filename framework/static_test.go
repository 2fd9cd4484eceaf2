//go:build synctests

package framework_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/state"
)

// named gives a member a name that lasts.
func named(name string, keep bool) func(*framework.Config) {
	return func(c *framework.Config) { c.Instance, c.KeepMembership, c.Workers = name, keep, 2 }
}

// staticMembers are the static members that the group has.
func (w *world) staticMembers() []string {
	w.t.Helper()
	names := []string{}
	for _, m := range w.c.GroupInfo(appID).Members {
		if m.InstanceID != nil {
			names = append(names, *m.InstanceID)
		}
	}
	slices.Sort(names)
	return names
}

// A clean stop takes the members out of the group: nobody waits for a session to time out.
func TestAStaticMemberLeavesWhenItStops(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.start("a", named("one", false)), w.start("b", named("two", false))
		a.runs(1)
		b.runs(1)
		if diff := cmp.Diff([]string{"one-0", "one-1", "two-0", "two-1"}, w.staticMembers()); diff != "" {
			t.Errorf("members of the group (-want +got):\n%s", diff)
		}
		w.write(200)
		w.awaitOutputs()
		a.stop()
		stopped := time.Now()
		if diff := cmp.Diff([]string{"two-0", "two-1"}, w.staticMembers()); diff != "" {
			t.Errorf("after the stop, members of the group (-want +got):\n%s", diff)
		}
		w.write(200)
		w.awaitOutputs()
		if took := time.Since(stopped); took > 10*time.Second {
			t.Errorf("the other took over after %v, want less than the session timeout, 15 s", took)
		}
		b.runs(2 * partitions)
		b.stop()
		w.check(true)
	})
}

// With KeepMembership the tasks wait for whoever comes back under the name, and go to others if nobody does.
func TestAStaticMemberStaysIfItIsToldTo(t *testing.T) {
	bubble(t, func(w *world) {
		w.stores = newDumps()
		keep := named("one", true)
		a, b := w.start("a", keep), w.start("b", named("two", false))
		a.runs(1)
		b.runs(1)
		w.write(200)
		w.awaitOutputs()
		before := b.Snapshot()
		had := len(before.Tasks)
		a.stop()
		if diff := cmp.Diff([]string{"one-0", "one-1", "two-0", "two-1"}, w.staticMembers()); diff != "" {
			t.Errorf("after the stop, members of the group (-want +got):\n%s", diff)
		}
		w.write(200)
		time.Sleep(10 * time.Second) // in a bubble; less than the session timeout
		if n := len(b.Snapshot().Tasks); n != had {
			t.Errorf("while one waits for its successor, two runs %d tasks, want %d as before", n, had)
		}
		back := time.Now()
		again := w.start("again", keep)
		w.awaitOutputs()
		if took := time.Since(back); took > 5*time.Second {
			t.Errorf("the successor took over after %v, want at once", took)
		}
		if lost := b.Snapshot().Counters.TasksLost - before.Counters.TasksLost; lost > 0 {
			t.Errorf("two lost %d tasks when one came back", lost)
		}
		again.stop()
		left := time.Now()
		w.write(200)
		w.awaitOutputs()
		if took := time.Since(left); took < 10*time.Second || took > 30*time.Second {
			t.Errorf("the tasks of one were taken over after %v, want about the session timeout, 15 s", took)
		}
		b.stop()
		w.check(true)
	})
}

// place is a provider that claims to keep state.
type place struct {
	state.Provider
	id    string
	err   error
	calls []string
}

func (p *place) Instance() (string, error) {
	p.calls = append(p.calls, "instance")
	return p.id, p.err
}
func (p *place) Remove(string) error { return errors.New("nothing was damaged") }
func (p *place) Close() error {
	p.calls = append(p.calls, "close")
	return nil
}

// Where state is kept the instance has its name from there, and Run lets go of the place at its end.
func TestTheInstanceIsThatOfThePlace(t *testing.T) {
	bubble(t, func(w *world) {
		p := &place{Provider: w.stores.provider(), id: "fromtheplace"}
		a := w.start("a", func(c *framework.Config) { c.State = p })
		a.runs(2 * partitions)
		if diff := cmp.Diff([]string{"fromtheplace-0"}, w.staticMembers()); diff != "" {
			t.Errorf("members of the group (-want +got):\n%s", diff)
		}
		w.write(20)
		w.awaitOutputs()
		a.stop()
		if diff := cmp.Diff([]string{"instance", "close"}, p.calls); diff != "" {
			t.Errorf("calls of the provider (-want +got):\n%s", diff)
		}
		held := &place{Provider: w.stores.provider(), err: errors.New("in use by pid 7")}
		says(t, w.start("b", func(c *framework.Config) { c.State, c.Instance = held, "mine" }).ends(), "in use by pid 7")
		w.check(true)
	})
}

// Without a name that lasts, the members are not static: the group forgets them when they leave, as always.
func TestAMemberWithoutANameIsNotStatic(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.start("a", nil)
		a.runs(2 * partitions)
		if got := w.staticMembers(); len(got) > 0 {
			t.Errorf("static members %v, want none", got)
		}
		a.stop()
		_, err := framework.New(w.config(func(c *framework.Config) { c.KeepMembership = true }))
		if err == nil || !strings.Contains(err.Error(), "KeepMembership") {
			t.Errorf("New takes KeepMembership without a name that lasts: %v", err)
		}
	})
}
