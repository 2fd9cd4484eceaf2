package topology_test

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/serde"

	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/topology/topologytest"
	"github.com/headrace/headrace/window"
)

// modelTimer is a timer of the model: what a map can say of one.
type modelTimer struct{ at, hold int64 }

// model says what the processor alarm has to emit, and what the watermark behind it is: from the definition, with maps and no store.
type model struct {
	timers  map[string]modelTimer
	snooze  map[string]modelTimer
	rung    map[string]int
	w, sent int64
	failed  int64
	lines   []string
}

func (m *model) emit(key, value string, at int64) {
	w := "?"
	if m.sent != math.MinInt64 {
		w = fmt.Sprint(m.sent)
	}
	m.lines = append(m.lines, fmt.Sprintf("%s:%s W=%s@%d", key, value, w, at))
}

func (m *model) record(key, value string, at, disorder int64) {
	before, set := maps.Clone(m.timers), maps.Clone(m.snooze)
	n := len(m.lines)
	for _, command := range strings.Split(value, ",") {
		timers := m.timers
		if rest, ok := strings.CutPrefix(command, "snooze."); ok {
			timers, command = m.snooze, rest
		}
		var when, hold int64
		if n, _ := fmt.Sscanf(command, "set=%d", &when); n == 1 {
			timers[key] = modelTimer{when, math.MaxInt64}
			continue
		}
		if n, _ := fmt.Sscanf(command, "hold=%d/%d", &when, &hold); n == 2 {
			timers[key] = modelTimer{when, hold}
			continue
		}
		switch command {
		case "cancel":
			delete(timers, key)
		case "get":
			text := "none"
			if t, ok := timers[key]; ok {
				text = fmt.Sprint(t.at)
			}
			m.emit(key, text, at)
		case "error":
			m.timers, m.snooze, m.lines = before, set, m.lines[:n]
			m.failed++
		}
	}
	m.w = max(m.w, at-disorder)
	m.due()
}

// due fires what is due, one after another, and then lets the watermark go on.
func (m *model) due() {
	for m.w != math.MinInt64 {
		name, key := "", ""
		var first *modelTimer
		for _, set := range []string{"", "snooze"} {
			timers := m.timers
			if set != "" {
				timers = m.snooze
			}
			for k, t := range timers {
				if t.at <= m.w && (first == nil || t.at < first.at || t.at == first.at && set == name && k < key) {
					name, key, first = set, k, &t
				}
			}
		}
		if first == nil {
			break
		}
		timers := m.timers
		if name != "" {
			timers = m.snooze
		}
		delete(timers, key)
		if _, how, _ := strings.Cut(key, "-"); how == "error" {
			m.failed++
			continue
		}
		m.rung[key]++
		m.emit(key, fmt.Sprint(name, "ring", m.rung[key]), first.at)
		if strings.Contains(key, "again") && m.rung[key] < 4 {
			timers[key] = modelTimer{first.at + 2, math.MaxInt64}
		}
	}
	out := m.w
	for _, timers := range []map[string]modelTimer{m.timers, m.snooze} {
		for _, t := range timers {
			out = min(out, t.hold)
		}
	}
	m.sent = max(m.sent, out)
}

// Timers do what the definition says, with commits anywhere between two units of work, and crashes that lose what was not committed.
func TestTimersAreTheModel(tt *testing.T) {
	tt.Parallel()
	const disorder = 10
	lines, crashes, held := 0, 0, 0
	for seed := range uint64(60) {
		input, chaos := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
		b := topology.NewBuilder()
		in := topology.From(b, s.Watermarks(window.BoundedDisorder(disorder*ms)))
		ring := topology.Process(in, "alarm", newAlarm, alarms, snooze, clocks, rings)
		topology.Process(ring, "told", func() *told { return &told{} }).To(outStrings)
		d := topologytest.New(tt, topologytest.Build(tt, b.Build), topologytest.Manual(), topologytest.OnError(topology.Skip()))
		stream, out := topologytest.Input(d, s), topologytest.Output(d, outStrings)
		m := &model{timers: map[string]modelTimer{}, snooze: map[string]modelTimer{}, rung: map[string]int{}, w: math.MinInt64, sent: math.MinInt64}

		now := int64(100)
		keys := []string{"a", "b", "c", "d", "again", "a-error", "b-error"}
		for range 30 + input.IntN(300) {
			now += input.Int64N(4)
			if input.IntN(40) == 0 {
				now += 100
			}
			var commands []string
			for range 1 + input.IntN(2) {
				c := ""
				if input.IntN(4) == 0 {
					c = "snooze."
				}
				when := now + input.Int64N(50) - 20
				switch input.IntN(12) {
				case 0:
					c += "cancel"
				case 1, 2:
					c += "get"
				case 3, 4, 5:
					c += fmt.Sprintf("hold=%d/%d", when, when-input.Int64N(20))
				default:
					c += fmt.Sprintf("set=%d", when)
				}
				commands = append(commands, c)
			}
			if input.IntN(10) == 0 {
				commands = append(commands, "error")
			}
			key, value, ts := keys[input.IntN(len(keys))], strings.Join(commands, ","), now-input.Int64N(15)
			stream.Pipe(at(ts), key, value)
			m.record(key, value, ts, disorder)
			if m.sent < m.w {
				held++
			}
		}
		crashes += inSteps(d, chaos, 9, 4)
		d.Settle()
		var got []string
		for _, r := range out.All() {
			got = append(got, show(r))
		}
		if diff := gocmp.Diff(m.lines, got); diff != "" {
			tt.Fatalf("seed %d (-model +got):\n%s", seed, diff)
		}
		if n := d.Counts()["failed"]; n != m.failed {
			tt.Errorf("seed %d: %d failed, want %d", seed, n, m.failed)
		}
		left := map[string]int64{}
		for name, timers := range map[string]map[string]modelTimer{"alarms": m.timers, "snooze": m.snooze} {
			for _, t := range timers {
				left[name] += 2 // the timer, and when it is due
				if t.hold != math.MaxInt64 {
					left[name]++
				}
			}
			if n := timersLeft(tt, d, name); int64(n) != left[name] {
				tt.Errorf("seed %d: the store %s has %d entries, want %d", seed, name, n, left[name])
			}
		}
		lines += len(got)
	}
	if lines < 3000 || crashes < 300 || held < 1000 {
		tt.Errorf("the test shows little: %d lines, %d crashes, held %d times", lines, crashes, held)
	}
}

// A hundred thousand timers that fall due at once all fire, in order, over many commits, each of which is small.
func TestManyTimersDueAtOnce(tt *testing.T) {
	tt.Parallel()
	const n, budget = 100_000, 500
	type firing struct {
		key int64
		at  int64
	}
	var fired []firing
	b := topology.NewBuilder()
	many := topology.EventTimers("many", serde.OrderedInt64())
	nums := topology.Topic("s", serde.OrderedInt64(), i64)
	topology.Process(topology.From(b, nums), "many", func() *each {
		return &each{handle: many, fired: func(key, at int64) { fired = append(fired, firing{key, at}) }}
	}, many)
	d := topologytest.New(tt, topologytest.Build(tt, b.Build), topologytest.Manual())
	in := topologytest.Input(d, nums)
	random := rand.New(rand.NewPCG(1, 1))
	var want []firing
	for key := range int64(n) {
		due := 1000 + random.Int64N(5000)
		in.Pipe(at(1), key, due)
		want = append(want, firing{key, due})
	}
	slices.SortFunc(want, func(a, b firing) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.key, b.key)) })
	d.Run()
	d.Commit()
	in.Pipe(at(10_000), -1, math.MaxInt64) // its timer never comes
	for commits := 0; ; commits++ {
		if d.Step(budget) == 0 {
			if commits < n/budget {
				tt.Errorf("%d commits", commits)
			}
			break
		}
		if commits == 50 {
			d.Commit()
			d.Crash()
			continue
		}
		d.Commit()
	}
	if !slices.Equal(want, fired) {
		for i := range want {
			if i >= len(fired) || want[i] != fired[i] {
				tt.Fatalf("%d fired; number %d is not %v", len(fired), i, want[i])
			}
		}
		tt.Fatalf("%d fired, want %d", len(fired), len(want))
	}
}

// A firing may set as many timers as it likes that are due: they come in order, too.
func TestAFiringSetsMany(tt *testing.T) {
	tt.Parallel()
	const n = 3000
	var fired []int64
	random := rand.New(rand.NewPCG(2, 2))
	b := topology.NewBuilder()
	many := topology.EventTimers("many", serde.OrderedInt64())
	nums := topology.Topic("s", serde.OrderedInt64(), i64)
	topology.Process(topology.From(b, nums), "many", func() *each {
		p := &each{handle: many}
		p.fired = func(key, due int64) {
			fired = append(fired, due)
			if key != 0 {
				return
			}
			for i := range int64(n) {
				if err := p.timers.Set(1+i, at(due+random.Int64N(1000))); err != nil {
					tt.Error(err)
				}
			}
		}
		return p
	}, many)
	d := topologytest.New(tt, topologytest.Build(tt, b.Build))
	in := topologytest.Input(d, nums)
	in.Pipe(at(1), 0, 1000)
	for i := range int64(n) {
		if i%3 == 0 {
			in.Pipe(at(1), 10_000+i, 500+i/2)
		}
	}
	in.Pipe(at(10_000), -1, math.MaxInt64)
	if len(fired) != 1+n+n/3 || !slices.IsSorted(fired) {
		tt.Errorf("%d fired, want %d; in order: %t", len(fired), 1+n+n/3, slices.IsSorted(fired))
	}
}

// each sets a timer for each record, for the time that its value says.
type each struct {
	handle topology.Timers[int64]
	fired  func(key, at int64)
	timers *topology.TimersView[int64]
}

func (p *each) Init(t *topology.Task, _ topology.Emitter[int64, int64]) (err error) {
	p.timers, err = p.handle.Open(t, func(key int64, at time.Time) error {
		p.fired(key, at.UnixMilli())
		return nil
	})
	return err
}

func (p *each) Process(r topology.Record[int64, int64], _ topology.Emitter[int64, int64]) error {
	return p.timers.Set(r.Key, at(r.Value))
}
