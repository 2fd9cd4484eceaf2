package engine_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/headrace/headrace/internal/engine"
	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/internal/wire"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/topology"
)

// TestScripts runs the scripts in testdata. Each begins with what the world should be; the commands are:
//
//	topology NAME [parts=N] [policy=skip] [absent=TOPIC:N] [ARG=…]   make and start the tasks of one of the topologies
//	push TOPIC [part=N]                one record a line: "key value @timestamp", "~" for null; "marker"; "report P/N W"
//	step [task=S_P] [budget=N] [now=N] [times=N]    poll all, step; says what user code said
//	run [task=S_P]                     step and commit all tasks, or one, until nothing is left
//	commit / cut [task=S_P]            what the transaction has; commit then commits it
//	crash [task=S_P]                   make the task again from its backend and its committed clocks
//	status, clocks, pending, store     of the task
//	log TOPIC                          what has been committed to a topic
//	fail WHAT… / heal                  make user code or the backend fail
//
// The task is the first one unless it is named.
func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts: ", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			s := &script{}
			datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
				out := s.run(t, d)
				if out == "" {
					return "ok\n"
				}
				return out
			})
		})
	}
}

type script struct {
	r   *rig
	out strings.Builder
}

// place is where an operator was added: the golden files would change with every line of topologies_test.go.
var place = regexp.MustCompile(`topologies_test\.go:[1-9][0-9]*`)

func (s *script) printf(format string, args ...any) {
	s.out.WriteString(place.ReplaceAllString(fmt.Sprintf(format, args...), "topologies_test.go:N") + "\n")
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	s.out.Reset()
	a := args{}
	var plain []string
	for _, c := range d.CmdArgs {
		if len(c.Vals) == 0 {
			plain = append(plain, c.Key)
		} else {
			a[c.Key] = c.Vals[0]
		}
	}
	if d.Cmd == "topology" {
		s.start(t, plain[0], a)
		return s.out.String()
	}
	u := s.r.tasks[0]
	for _, other := range s.r.tasks {
		if other.id.String() == a["task"] {
			u = other
		}
	}
	switch d.Cmd {
	case "push":
		s.push(t, plain[0], a, d.Input)
	case "step":
		s.step(u, a)
	case "run":
		s.all(a)
	case "cut":
		s.cut(u, u.task.Cut())
	case "commit":
		s.cut(u, u.task.Cut())
		if _, err := u.commit(); err != nil {
			s.printf("error: %v", err)
		}
	case "crash":
		if err := u.crash(); err != nil {
			s.printf("error: %v", err)
		}
	case "status":
		s.status(u)
	case "clocks":
		s.clocks(u.task.Cut())
	case "pending":
		s.printf("%t", u.task.Pending())
	case "store":
		s.store(t, u)
	case "log":
		for p, log := range s.r.partitions(plain[0]) {
			for _, raw := range log {
				s.printf("%d: %s", p, record(raw))
			}
		}
	case "fail":
		for _, what := range plain {
			switch what {
			case "get":
				u.backend.get = true
			case "scan":
				u.backend.scan = true
			case "apply":
				u.backend.apply = true
			default:
				s.r.fail[what] = true
			}
		}
	case "heal":
		u.backend.get, u.backend.scan, u.backend.apply = false, false, false
		clear(s.r.fail)
	default:
		t.Fatalf("%s: no command %q", d.Pos, d.Cmd)
	}
	return s.out.String()
}

func (s *script) start(t *testing.T, name string, a args) {
	b := topology.NewBuilder()
	topologies[name](&s.r, b, a)
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	s.r = newRig(top, max(1, a.num("parts")))
	if a["policy"] == "skip" {
		s.r.policy.Action = graph.Skip
	}
	if topic, n, ok := strings.Cut(a["absent"], ":"); ok {
		s.r.absent[topic], _ = strconv.Atoi(n)
	}
	if err := s.r.start(); err != nil {
		t.Fatal(err)
	}
}

func (s *script) push(t *testing.T, topic string, a args, input string) {
	for line := range strings.Lines(input) {
		f := strings.Fields(line)
		raw := graph.Raw{}
		null := func(s string) []byte {
			if s == "~" {
				return nil
			}
			return []byte(s)
		}
		switch {
		case f[0] == "marker":
			raw.Control = true
		case f[0] == "report" && len(f) == 2: // whatever these bytes are
			raw.Headers = []graph.Header{{Key: wire.HeaderWatermark, Value: []byte(f[1])}}
		case f[0] == "report":
			var rep wire.Report
			if _, err := fmt.Sscanf(f[1]+" "+f[2], "%d/%d %d", &rep.Producer, &rep.Producers, &rep.Watermark); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			raw = reportRecord(rep)
		default:
			at, err := strconv.ParseInt(strings.TrimPrefix(f[2], "@"), 10, 64)
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			raw = graph.Raw{Key: null(f[0]), Value: null(f[1]), Time: at}
			for _, h := range f[3:] {
				k, v, _ := strings.Cut(h, "=")
				raw.Headers = append(raw.Headers, graph.Header{Key: k, Value: []byte(v)})
			}
		}
		s.r.write(topic, a.num("part"), raw)
	}
}

func (s *script) step(u *unit, a args) {
	if a["now"] != "" {
		u.now = int64(a.num("now"))
	}
	budget := 1 << 20
	if a["budget"] != "" {
		budget = a.num("budget")
	}
	for range max(1, a.num("times")) {
		u.poll(math.MaxInt)
		p, err := u.task.Step(u.now, budget)
		for _, line := range s.r.journal {
			s.printf("%s", line)
		}
		s.r.journal = nil
		s.printf("units %d, more %t", p.Units, p.More)
		var rec *engine.RecordError
		switch {
		case errors.As(err, &rec):
			s.printf("record error, %s, with stack %t: %v", rec.Reason, len(rec.Stack) > 0, err)
		case err != nil:
			s.printf("error: %v", err)
		}
	}
}

// all runs tasks until no task has anything to do.
func (s *script) all(a args) {
	for busy := true; busy; {
		busy = false
		for _, u := range s.r.tasks {
			if a["task"] != "" && a["task"] != u.id.String() {
				continue
			}
			u.poll(math.MaxInt)
			p, err := u.task.Step(u.now, 1<<20)
			if err != nil {
				s.printf("error: %v", err)
				return
			}
			if u.task.Pending() {
				if _, err := u.commit(); err != nil {
					s.printf("error: %v", err)
					return
				}
				p.Units++
			}
			busy = busy || p.Units > 0
		}
	}
	for _, line := range s.r.journal {
		s.printf("%s", line)
	}
	s.r.journal = nil
}

func (s *script) cut(u *unit, cut engine.Cut) {
	if len(cut.Outputs) > 20 {
		s.printf("%d outputs", len(cut.Outputs))
		cut.Outputs = nil
	}
	for _, o := range cut.Outputs {
		s.printf("%s: %s", u.sub.Sinks[o.Sink].Topic, record(graph.Raw{Key: o.Key, Value: o.Value, Headers: o.Headers, Time: o.Time}))
	}
	for _, r := range cut.Reports {
		s.printf("%s: report %s", u.sub.Sinks[r.Sink].Topic, mark(r.Watermark))
	}
	var ms []state.Mutation
	for m := range u.task.Mutations() {
		ms = append(ms, m)
	}
	if len(ms) > 20 {
		s.printf("%d changes of state", len(ms))
		ms = nil
	}
	for _, m := range ms {
		s.printf("%s: %s", u.sub.Stores[m.Store].Name, entry(u.sub.Stores[m.Store], m.Key, m.Value))
	}
	for _, c := range cut.Sources {
		s.printf("offset %s %d", u.sources[c.Source].Topic, c.Offset)
	}
}

func (s *script) clocks(cut engine.Cut) {
	for _, c := range cut.Sources {
		var ch []string
		for _, k := range c.Clock.Channels {
			ch = append(ch, fmt.Sprintf("%d:%s", k.Producer, mark(k.Watermark)))
		}
		s.printf("source %d: max %s, W %s, %d producers %v", c.Source, mark(c.Clock.MaxTime), mark(c.Clock.Watermark), c.Clock.Producers, ch)
	}
	for _, o := range cut.Operators {
		var v []string
		for _, n := range o.Values {
			v = append(v, mark(n))
		}
		s.printf("operator %s: %v", o.Name, v)
	}
}

func (s *script) status(u *unit) {
	st := u.task.Status()
	for _, src := range st.Sources {
		s.printf("%s: offset %d, queued %d, W %s", src.Topic, src.Offset, src.Queued, mark(src.Watermark))
	}
	for _, o := range st.Operators {
		s.printf("%s: W %s, due %t", o.Name, mark(o.Watermark), o.Due)
	}
	s.printf("records %d", st.Records)
	for i, n := range st.Total() {
		if n > 0 {
			s.printf("%s %d", graph.Reason(i), n)
		}
	}
}

func (s *script) store(t *testing.T, u *unit) {
	for i, spec := range u.sub.Stores {
		for e, err := range u.backend.Backend.Scan(i, nil, nil) {
			if err != nil {
				t.Fatal(err)
			}
			s.printf("%s: %s", spec.Name, entry(spec, e.Key, e.Value))
		}
	}
}

// mark is a watermark for reading.
func mark(w int64) string {
	switch w {
	case graph.Unknown:
		return "unknown"
	case math.MaxInt64:
		return "end"
	}
	return strconv.FormatInt(w, 10)
}

// key prints a key and the starts of the windows that it is in, the innermost first.
func key(b []byte) string {
	if b == nil {
		return "~"
	}
	if n := len(b) - 8; n >= 0 && (b[n] == 0 || b[n] == 0x7f) {
		return key(b[:n]) + "@" + strconv.FormatInt(int64(binary.BigEndian.Uint64(b[n:])), 10)
	}
	return string(b)
}

func record(r graph.Raw) string {
	v := "~"
	if r.Value != nil {
		v = string(r.Value)
	}
	var h []string
	for _, x := range r.Headers {
		if x.Key != wire.HeaderWatermark {
			h = append(h, " "+x.Key+"="+string(x.Value))
			continue
		}
		rep, err := wire.DecodeReport(x.Value)
		if err != nil {
			h = append(h, " x-wm?")
			continue
		}
		return fmt.Sprintf("report %d/%d %s", rep.Producer, rep.Producers, mark(rep.Watermark))
	}
	sort.Strings(h)
	return fmt.Sprintf("%s=%s @%d%s", key(r.Key), v, r.Time, strings.Join(h, ""))
}

func entry(spec state.Spec, k, v []byte) string {
	name := string(k)
	if spec.Kind == state.WindowKind {
		start, inner, _ := state.SplitWindowKey(k)
		name = key(inner) + "@" + strconv.FormatInt(start, 10)
	}
	if v == nil {
		return name + " deleted"
	}
	at, value, err := state.SplitValue(v)
	if err != nil {
		return name + "=" + err.Error()
	}
	return fmt.Sprintf("%s=%s @%d", name, value, at)
}
