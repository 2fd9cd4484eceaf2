package topology_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/topology/topologytest"
)

var (
	alarms = topology.EventTimers("alarms", str)
	snooze = topology.EventTimers("snooze", str)
	clocks = topology.WallClockTimers("clocks", str)
	rings  = state.KeyValueOf("rings", str, i64)
)

// alarm does what values say: "set=10", "hold=10/3" (set at 10, holding 3), "cancel", "get"; with "snooze." or "wall." in front it is of
// the other timers. A value may be several commands, with commas between. The last one may be "error" or "panic".
//
// A timer that fires emits how often it has for its key. That of a key with again in it sets itself again, and one that ends in -error or
// -panic fails, after that.
type alarm struct {
	timers map[string]*topology.TimersView[string]
	rings  *state.KeyValueView[string, int64]
	out    topology.Emitter[string, string]
}

func newAlarm() *alarm { return &alarm{timers: map[string]*topology.TimersView[string]{}} }

func (p *alarm) Init(t *topology.Task, out topology.Emitter[string, string]) (err error) {
	if p.rings, err = rings.Open(t); err != nil {
		return err
	}
	for _, h := range []struct {
		name   string
		timers topology.Timers[string]
	}{{"", alarms}, {"snooze", snooze}, {"wall", clocks}} {
		ring := func(key string, at time.Time) error { return p.ring(h.name, key, at) }
		if p.timers[h.name], err = h.timers.Open(t, ring); err != nil {
			return err
		}
	}
	p.out = out
	return nil
}

func (p *alarm) ring(name, key string, at time.Time) error {
	n, _, err := p.rings.Get(key)
	if err != nil {
		return err
	}
	if err := p.rings.Put(key, n+1); err != nil {
		return err
	}
	if err := p.out(topology.Record[string, string]{Key: key, Value: fmt.Sprint(name, "ring", n+1), Time: at.UnixMilli()}); err != nil {
		return err
	}
	if strings.Contains(key, "again") && n < 3 {
		return p.timers[name].Set(key, at.Add(2*ms))
	}
	_, how, _ := strings.Cut(key, "-")
	return failing(how)
}

func (p *alarm) Process(r topology.Record[string, string], out topology.Emitter[string, string]) error {
	for _, command := range strings.Split(r.Value, ",") {
		if err := p.do(r, command, out); err != nil {
			return err
		}
	}
	return nil
}

func (p *alarm) do(r topology.Record[string, string], command string, out topology.Emitter[string, string]) error {
	name := ""
	if first, rest, ok := strings.Cut(command, "."); ok {
		name, command = first, rest
	}
	timers := p.timers[name]
	var when, earliest int64
	if n, _ := fmt.Sscanf(command, "set=%d", &when); n == 1 {
		return timers.Set(r.Key, at(when))
	}
	if n, _ := fmt.Sscanf(command, "hold=%d/%d", &when, &earliest); n == 2 {
		return timers.SetHolding(r.Key, at(when), at(earliest))
	}
	switch command {
	case "cancel":
		return timers.Cancel(r.Key)
	case "get":
		have, ok, err := timers.Get(r.Key)
		if err != nil {
			return err
		}
		text := "none"
		if ok {
			text = fmt.Sprint(have.UnixMilli())
		}
		return out(topology.Record[string, string]{Key: r.Key, Value: text, Time: r.Time})
	}
	return failing(command)
}

func withAlarm(b *topology.Builder) {
	topology.Process(topology.From(b, s), "alarm", newAlarm, alarms, snooze, clocks, rings).To(outStrings)
}

// An event-time timer fires when the watermark reaches its time, once, and not before.
func TestEventTimer(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, outStrings, withAlarm)
	sc.in("a:set=10@1")
	sc.in("b:get@9", "b:none@9")
	sc.in("b:get@10", "b:none@10", "a:ring1@10")
	sc.in("b:get@100", "b:none@100")
	sc.in("a:set=150@100")
	sc.in("a:get@101", "a:150@101")
	sc.in("a:set=120@101") // in place of that one: earlier
	sc.in("b:ok@120", "a:ring2@120")
	sc.in("b:ok@160")
	sc.in("a:set=170@160")
	sc.in("a:set=180@160") // later
	sc.in("b:ok@170")
	sc.in("a:get@171", "a:180@171")
	sc.in("b:ok@180", "a:ring3@180")
	sc.in("a:set=190@181")
	sc.in("a:set=195@181")
	sc.in("a:cancel@182")
	sc.in("a:cancel@182") // there is none
	sc.in("a:get@183", "a:none@183")
	sc.in("b:ok@300")
	sc.in("a:set=5@300", "a:ring4@5") // has come already
	sc.in("a:set=400,cancel,set=401@300")
	sc.in("b:ok@401", "a:ring5@401")
	sc.counts(map[string]int64{})
	if left := timersLeft(tt, sc.d, "alarms"); left != 0 {
		tt.Errorf("the store has %d entries, and no timer is set", left)
	}
}

// timersLeft counts what a store of timers keeps.
func timersLeft(tt *testing.T, d *topologytest.Driver, name string) int {
	tt.Helper()
	view, err := state.KeyValueOf(name, serde.Bytes(), serde.Bytes()).Open(d.Stores(0))
	if err != nil {
		tt.Fatal(err)
	}
	n := 0
	for _, err := range view.All() {
		if err != nil {
			tt.Fatal(err)
		}
		n++
	}
	return n
}

// Timers that fall due together fire by time, then as they were opened, then by key, those of a firing in their turn.
func TestTimersFireInOrder(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, outStrings, withAlarm)
	sc.in("c:set=30@1")
	sc.in("b:set=20@1")
	sc.in("a:set=30@1")
	sc.in("again:set=27@1")
	sc.in("b:snooze.set=29@1")
	sc.in("z:ok@1000", "b:ring1@20", "again:ring1@27", "again:ring2@29", "b:snoozering2@29", "a:ring1@30", "c:ring1@30", "again:ring3@31", "again:ring4@33")
}

// A timer that was set is there after a crash, and one that has fired is not, whatever is lost in between.
func TestTimersSurviveACrash(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, outStrings, withAlarm, topologytest.Manual())
	for _, r := range []string{"a:set=10@1", "b:set=10@1", "c:set=30@1", "d:set=20@1", "d:set=30@1", "e:set=10@1", "e:cancel@1"} {
		sc.pipe(r)
	}
	sc.d.Settle()
	sc.d.Crash()
	sc.pipe("z:ok@10")
	sc.d.Run() // they fire, and nothing of it is committed
	sc.d.Crash()
	for range 6 { // the record, and a look; then one timer fires
		sc.d.Step(1)
		sc.d.Commit()
	}
	sc.d.Crash()
	sc.d.Settle()
	sc.wants("10", "a:ring1@10", "b:ring1@10")
	sc.pipe("z:ok@30")
	sc.d.Settle()
	sc.wants("30", "c:ring1@30", "d:ring1@30")
	sc.d.Crash()
	sc.d.Settle()
	sc.wants("a restart")
}

// Timers in processing time go by the driver's clock, which no record moves, and fire once for all the time that they were away.
func TestWallClockTimers(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, outStrings, withAlarm, topologytest.StartAt(at(100)))
	sc.in("b:wall.set=120@5")
	sc.in("a:wall.set=120@5")
	sc.in("c:wall.set=110@5")
	sc.in("d:wall.set=105,wall.cancel@5")
	sc.in("e:wall.set=50@5", "e:wallring1@50") // has come already
	sc.in("z:ok@1000")
	sc.d.Advance(9 * ms)
	sc.wants("109")
	sc.d.Advance(1 * ms)
	sc.wants("110", "c:wallring1@110")
	sc.in("again:wall.set=115@5")
	sc.d.Crash()
	sc.d.Advance(20 * ms)
	sc.wants("130", "again:wallring1@115", "again:wallring2@117", "again:wallring3@119", "a:wallring1@120", "b:wallring1@120", "again:wallring4@121")
	sc.d.Advance(time.Hour)
	sc.d.Crash()
	sc.wants("nothing left")
}

// A firing that fails leaves no trace and is over; the others go on. Under Fail the error names the timers, the time and the place.
func TestAFailedFiringLeavesNoTrace(tt *testing.T) {
	tt.Parallel()
	for _, how := range []string{"error", "panic"} {
		for _, policy := range []topology.ErrorPolicy{topology.Skip(), topology.DeadLetter("dead")} {
			sc := run(tt, outStrings, withAlarm, topologytest.OnError(policy), topologytest.StartAt(at(0)))
			sc.in("b:set=10@1")
			sc.in("a-" + how + ":hold=10/5@1")
			sc.in("a-" + how + ":set=10,snooze.set=10,wall.set=10@1")
			sc.in("again-" + how + ":set=10@1") // fails when it is set no more
			sc.in("z:ok@20", "again-"+how+":ring1@10", "b:ring1@10", "again-"+how+":ring2@12", "again-"+how+":ring3@14")
			sc.counts(map[string]int64{"failed": 3})
			sc.d.Advance(10 * ms)
			sc.wants("wall clock")
			sc.counts(map[string]int64{"failed": 4})
			sc.in("a-" + how + ":set=30," + how + "@20") // a record that fails has set nothing
			sc.in("a-"+how+":get@30", "a-"+how+":none@30")
			sc.d.Crash()
			sc.in("z:ok@40")
			sc.counts(map[string]int64{"failed": 5})
			for _, name := range []string{"alarms", "snooze", "clocks"} {
				if left := timersLeft(tt, sc.d, name); left != 0 {
					tt.Errorf("%s: the store %s has %d entries, and no timer is set", how, name, left)
				}
			}
			if got := rung(tt, sc.d); got != "again-"+how+":3 b:1" {
				tt.Errorf("%s: firings that count: %s", how, got)
			}
		}
		sc := run(tt, outStrings, withAlarm)
		sc.in("a-" + how + ":set=10@1")
		err := sc.d.Try(func() { sc.pipe("z:ok@10") })
		want := []string{"task 0_0 at alarm (timers_test.go:", "oh no"}
		if how == "error" {
			want = append(want, "timer alarms of 1970-01-01T00:00:00.01Z: oh no")
		}
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				tt.Errorf("got %v, want %q", err, w)
			}
		}
	}
}

func rung(tt *testing.T, d *topologytest.Driver) string {
	tt.Helper()
	view, err := rings.Open(d.Stores(0))
	if err != nil {
		tt.Fatal(err)
	}
	var all []string
	for it, err := range view.All() {
		if err != nil {
			tt.Fatal(err)
		}
		all = append(all, fmt.Sprint(it.Key, ":", it.Value))
	}
	return strings.Join(all, " ")
}

// told passes records on with the watermark that it has.
type told struct{ t *topology.Task }

func (p *told) Init(t *topology.Task, _ topology.Emitter[string, string]) error {
	p.t = t
	return nil
}

func (p *told) Process(r topology.Record[string, string], out topology.Emitter[string, string]) error {
	w := "?"
	if at, ok := p.t.Watermark(); ok {
		w = fmt.Sprint(at.UnixMilli())
	}
	return out(topology.With(r, r.Key, r.Value+" W="+w))
}

// The watermark behind a processor waits for timers that are due, and for what they hold. It goes on as soon as they do not.
func TestTimersHoldTheWatermark(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, outStrings, func(b *topology.Builder) {
		ring := topology.Process(topology.From(b, s), "alarm", newAlarm, alarms, snooze, clocks, rings)
		topology.Process(ring, "told", func() *told { return &told{} }).To(outStrings)
	}, topologytest.StartAt(at(0)))
	sc.in("a:get@5", "a:none W=?@5")
	sc.in("a:set=20,get@6", "a:20 W=5@6")
	sc.in("b:set=30@6")
	sc.in("z:get@40", "z:none W=6@40", "a:ring1 W=6@20", "b:ring1 W=6@30")
	sc.in("z:get@40", "z:none W=40@40")
	sc.in("a:hold=60/41@45")
	sc.in("b:hold=70/44@50")
	sc.in("c:wall.hold=10/47,hold=90/80@50")
	sc.in("z:get@55", "z:none W=41@55")
	sc.in("z:get@60", "z:none W=41@60", "a:ring2 W=41@60")
	sc.in("z:get@60", "z:none W=44@60")
	sc.d.Crash()
	sc.in("z:get@61", "z:none W=44@61")
	sc.in("b:cancel,get@61", "b:none W=44@61") // the record is still judged by what was held before it
	sc.in("z:get@61", "z:none W=47@61")
	sc.d.Advance(10 * ms)
	sc.wants("what the clock held", "c:wallring1 W=47@10")
	sc.in("z:get@62", "z:none W=61@62")
	sc.in("c:set=95@81") // set without holding, it holds no more
	sc.in("z:get@82", "z:none W=81@82")
	sc.in("c:hold=95/10@82") // what has been passed on cannot be held
	sc.in("z:get@84", "z:none W=82@84")
	sc.in("z:get@95", "z:none W=82@95", "c:ring2 W=82@95")
	sc.in("z:get@96", "z:none W=95@96")
}

// What a firing emits with the timer's time is in time for windows behind, however far the watermark has jumped.
func TestFiringsAreNotLateBehind(tt *testing.T) {
	tt.Parallel()
	sc := run(tt, outWindows(10*ms), func(b *topology.Builder) {
		ring := topology.Process(topology.From(b, s), "alarm", newAlarm, alarms, snooze, clocks, rings)
		g := topology.Repartition(ring, "ring", 0, str, str).GroupByKey()
		topology.Count(topology.Windowed(g, tumbling10, dropLate), "w", topology.EmitOnClose()).To(outWindows(10 * ms))
	})
	for _, r := range []string{"a:set=15@1", "b:set=25@1", "again:set=38@1"} {
		sc.in(r)
	}
	sc.in("z:ok@1000000", "a[10,20)=1@15", "b[20,30)=1@25", "again[30,40)=1@38", "again[40,50)=3@44")
	sc.counts(map[string]int64{})
}

// What cannot be told at Build, or in Init, is.
func TestTimerMistakes(tt *testing.T) {
	tt.Parallel()
	for want, stores := range map[string][]topology.StoreSpec{
		`store "rings": the name is taken`:                                         {rings, topology.EventTimers("rings", str)},
		`timers "x": no serde for their keys`:                                      {topology.EventTimers[string]("x", nil)},
		`store "alarms": it holds the timers of alarm, and nobody else can use it`: {alarms, state.KeyValueOf("alarms", str, str)},
		`store "alarms": the name is taken`:                                        {alarms, alarms},
	} {
		b := topology.NewBuilder()
		topology.Process(topology.From(b, s), "alarm", newAlarm, stores...)
		if _, err := b.Build(); err == nil || !strings.Contains(err.Error(), want) {
			tt.Errorf("got %v, want %q", err, want)
		}
	}
	for want, init := range map[string]func(t *topology.Task) error{
		`timers "alarms" are named in Process, and not opened`: func(*topology.Task) error { return nil },
		`timers "alarms": the function is nil`: func(t *topology.Task) error {
			_, err := alarms.Open(t, nil)
			return err
		},
		`timers "alarms": opened twice`: func(t *topology.Task) error {
			for range 2 {
				if _, err := alarms.Open(t, func(string, time.Time) error { return nil }); err != nil {
					return err
				}
			}
			return nil
		},
		`what is named in Process are timers, and what is opened is not`: func(t *topology.Task) error {
			_, err := state.KeyValueOf("alarms", str, str).Open(t)
			return err
		},
		`store "snooze" is not among those of processor alarm`: func(t *topology.Task) error {
			_, err := snooze.Open(t, func(string, time.Time) error { return nil })
			return err
		},
	} {
		b := topology.NewBuilder()
		topology.Process(topology.From(b, s), "alarm", func() initOnly { return initOnly{init} }, alarms)
		if _, err := topologytest.Open(topologytest.Build(tt, b.Build)); err == nil || !strings.Contains(err.Error(), want) {
			tt.Errorf("got %v, want %q", err, want)
		}
	}
}

type initOnly struct{ init func(*topology.Task) error }

func (p initOnly) Init(t *topology.Task, _ topology.Emitter[string, string]) error { return p.init(t) }

func (p initOnly) Process(topology.Record[string, string], topology.Emitter[string, string]) error {
	return nil
}
