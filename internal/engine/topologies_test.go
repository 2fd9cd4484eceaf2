package engine_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/window"
)

// args are the arguments of a script's topology.
type args map[string]string

func (a args) ms(name string) time.Duration { return time.Duration(a.num(name)) * time.Millisecond }

func (a args) num(name string) int {
	n, err := strconv.Atoi(a[name])
	if err != nil && a[name] != "" {
		panic(fmt.Sprintf("argument %s=%s is no number", name, a[name]))
	}
	return n
}

// text is a topic of strings. A value "garbage" cannot be decoded, and one with "poison" in it cannot be encoded.
func text(name string, a args) topology.TopicOf[string, string] {
	t := topology.Topic(name, serde.String(), serde.Serde[string](picky{}))
	if a["disorder"] != "" {
		t = t.Watermarks(window.BoundedDisorder(a.ms("disorder")))
	}
	return t
}

type picky struct{}

func (picky) Append(dst []byte, s string) ([]byte, error) {
	if strings.Contains(s, "poison") {
		return append(dst, "half of it"...), errors.New("poison cannot be encoded")
	}
	return append(dst, s...), nil
}

func (picky) Decode(b []byte) (string, error) {
	switch s := string(b); s {
	case "garbage":
		return "", errors.New("this is garbage")
	case "decode-panic":
		panic("the serde fell over")
	default:
		return s, nil
	}
}

func concat(a, v string) string {
	if v == "add-panic" {
		panic("add fell over")
	}
	if strings.HasSuffix(a, "trap") {
		panic("add fell into the trap")
	}
	if a == "" {
		return v
	}
	return a + "+" + v
}

func fixed(a args, prefix string) window.Fixed {
	w := window.Tumbling(a.ms(prefix + "size"))
	if a[prefix+"advance"] != "" {
		w = window.Hopping(a.ms(prefix+"size"), a.ms(prefix+"advance"))
	}
	return w.Grace(a.ms(prefix + "grace"))
}

func late(a args) window.Late {
	if a["late"] == "sideline" {
		return window.Sideline("late")
	}
	return window.Drop()
}

func emit(a args) []topology.AggregateOption {
	if a["emit"] == "update" {
		return nil
	}
	return []topology.AggregateOption{topology.EmitOnClose()}
}

var windowed = window.KeySerde(serde.String())

// topologies are those that scripts name.
var topologies = map[string]func(r **rig, b *topology.Builder, a args){
	// Two topics merged into one.
	"merge": func(r **rig, b *topology.Builder, a args) {
		saw := func(k, v string) { (*r).say("saw %s=%s", k, v) }
		topology.From(b, text("a", a)).Merge(topology.From(b, text("b", a))).Peek(saw).To(text("out", a))
	},
	// A topic whose values are its event times.
	"events": func(_ **rig, b *topology.Builder, a args) {
		in := text("in", a).KeepNulls().EventTime(func(r topology.Record[string, string]) time.Time {
			ms, err := strconv.ParseInt(r.Value, 10, 64)
			if err != nil {
				panic(err)
			}
			return time.UnixMilli(ms)
		})
		topology.From(b, in).To(text("out", a))
	},
	// Windows that a record reaches by two ways.
	"twice": func(_ **rig, b *topology.Builder, a args) {
		in := topology.From(b, text("in", a))
		w := topology.Windowed(in.Merge(in.Filter(func(string, string) bool { return true })).GroupByKey(), fixed(a, ""), late(a))
		topology.Aggregate(w, "w", serde.String(), concat, emit(a)...).To(topology.Topic("out", windowed, serde.String()))
	},
	// Two topics merged and sent through a repartition topic, whose reader counts windows.
	"merge-repartition": func(_ **rig, b *topology.Builder, a args) {
		m := topology.From(b, text("a", a)).Merge(topology.From(b, text("b", a)))
		g := topology.GroupBy(m, "by", func(_, v string) string { return v }, serde.String(), serde.Serde[string](picky{}))
		topology.Aggregate(topology.Windowed(g, fixed(a, ""), late(a)), "w", serde.String(), concat, emit(a)...).
			To(topology.Topic("out", windowed, serde.String()))
	},
	// A stream joined with a table.
	"join": func(_ **rig, b *topology.Builder, a args) {
		t := topology.TableFrom(b, "t", text("table", a))
		topology.JoinTable(topology.From(b, text("s", a)), t, func(v, t string) string { return v + "/" + t }).To(text("out", a))
	},
	// Windows over one topic. A result with "boom" in it panics behind the window.
	"windows": func(_ **rig, b *topology.Builder, a args) {
		w := topology.Windowed(topology.From(b, text("in", a)).GroupByKey(), fixed(a, ""), late(a))
		t := topology.Aggregate(w, "w", serde.String(), concat, emit(a)...)
		topology.MapValues(t.Stream(), func(v string) string {
			if strings.Contains(v, "boom") {
				panic("boom")
			}
			return v
		}).To(topology.Topic("out", windowed, serde.String()))
	},
	// Windows over windows, in one sub-topology.
	"chain": func(_ **rig, b *topology.Builder, a args) {
		small := topology.Aggregate(
			topology.Windowed(topology.From(b, text("in", a)).GroupByKey(), fixed(a, ""), late(a)), "small", serde.String(), concat, emit(a)...)
		big := topology.Windowed(small.Stream().GroupByKey(), fixed(a, "big"), window.Drop())
		topology.Aggregate(big, "big", serde.String(), concat, topology.EmitOnClose()).
			To(topology.Topic("out", window.KeySerde(windowed), serde.String()))
	},
	// Windows over windows, through a repartition topic.
	"rechain": func(_ **rig, b *topology.Builder, a args) {
		small := topology.Aggregate(
			topology.Windowed(topology.From(b, text("in", a)).GroupByKey(), fixed(a, ""), window.Drop()), "small", serde.String(), concat, emit(a)...)
		plain := topology.Map(small.Stream(), func(k window.Key[string], v string) (string, string) { return k.Key, v })
		g := topology.GroupBy(plain, "by", func(string, string) string { return "all" }, serde.String(), serde.String())
		topology.Aggregate(topology.Windowed(g, fixed(a, "big"), late(a)), "big", serde.String(), concat, topology.EmitOnClose()).
			To(topology.Topic("out", windowed, serde.String()))
	},
	// A topic filtered and sent through a repartition topic, whose reader keeps windows.
	"repartition": func(_ **rig, b *topology.Builder, a args) {
		kept := topology.From(b, text("in", a)).Filter(func(_, v string) bool { return v != "filtered" })
		g := topology.GroupBy(kept, "by", func(k, _ string) string { return k }, serde.String(), serde.String())
		topology.Aggregate(topology.Windowed(g, fixed(a, ""), late(a)), "w", serde.String(), concat, emit(a)...).
			To(topology.Topic("out", windowed, serde.String()))
	},
	// A topic with two branches, each of which can fail: an aggregate, and a processor.
	"branches": func(r **rig, b *topology.Builder, a args) {
		in := topology.From(b, text("in", a)).Filter(func(_, v string) bool {
			if v == "filter-panic" {
				panic(errors.New("filter fell over"))
			}
			return true
		})
		topology.Aggregate(in.GroupByKey(), "agg", serde.String(), concat).To(text("totals", a))
		topology.Process(in, "noter", func() *noter { return &noter{r: *r, a: a} }, seen).To(text("noted", a))
	},
	// Windows in one branch, a processor in the other.
	"late-and-fail": func(r **rig, b *topology.Builder, a args) {
		in := topology.From(b, text("in", a))
		topology.Aggregate(topology.Windowed(in.GroupByKey(), fixed(a, ""), late(a)), "w", serde.String(), concat, emit(a)...).
			To(topology.Topic("out", windowed, serde.String()))
		topology.Process(in, "noter", func() *noter { return &noter{r: *r, a: a} }, seen).To(text("noted", a))
	},
	// A processor, and behind it in the order of calls a branch of another operator.
	"ticks": func(r **rig, b *topology.Builder, a args) {
		in := topology.From(b, text("in", a))
		topology.Process(in, "noter", func() *noter { return &noter{r: *r, a: a} }, seen)
		in.To(text("copy", a))
	},
	// A processor alone, with punctuations.
	"process": func(r **rig, b *topology.Builder, a args) {
		s := topology.Process(topology.From(b, text("in", a)), "noter", func() *noter { return &noter{r: *r, a: a} }, seen)
		s.To(text("noted", a))
	},
	// A processor whose results fail behind it.
	"swallow": func(r **rig, b *topology.Builder, a args) {
		in := topology.From(b, text("in", a))
		s := topology.Process(in, "noter", func() *noter { return &noter{r: *r, a: a} }, seen)
		topology.FlatMap(s, func(rec topology.Record[string, string], emit func(string, string) error) error {
			if err := emit(rec.Key, rec.Value); err != nil && a["swallow"] == "" {
				return err
			}
			return nil
		}).Filter(func(_, v string) bool {
			if strings.HasPrefix(v, "behind-panic") {
				panic("a filter behind fell over")
			}
			return true
		}).To(text("noted", a))
	},
}

var seen = state.KeyValueOf("seen", serde.String(), serde.String())

// noter is a processor that writes and emits before it fails.
type noter struct {
	r    *rig
	a    args
	seen *state.KeyValueView[string, string]
}

func (n *noter) Init(t *topology.Task, out topology.Emitter[string, string]) error {
	if n.r.fail["init-panic"] {
		panic("Init fell over")
	}
	var err error
	if n.seen, err = seen.Open(t); err != nil {
		return err
	}
	if n.r.fail["init-read"] {
		_, _, _ = n.seen.Get("k") // does not look at the error
	}
	tick := func(kind string) func(time.Time) error {
		return func(at time.Time) error {
			ms := at.UnixMilli()
			n.r.say("%s punctuation at %d", kind, ms)
			if n.r.fail["tick-read"] {
				_, _, _ = n.seen.Get(kind) // does not look at the error
			}
			if n.r.fail["tick-early"] {
				return errors.New("the punctuation fell over at once")
			}
			if err := n.seen.Put(kind, strconv.FormatInt(ms, 10)); err != nil {
				return err
			}
			if err := out(topology.Record[string, string]{Key: kind, Value: strconv.FormatInt(ms, 10), Time: ms}); err != nil {
				return err
			}
			if n.r.fail[kind] {
				return errors.New("the punctuation fell over")
			}
			return nil
		}
	}
	if n.a["stream"] != "" {
		if err := t.EveryStreamTime(n.a.ms("stream"), tick("stream")); err != nil {
			return err
		}
	}
	if n.a["wall"] != "" {
		return t.EveryWallClock(n.a.ms("wall"), tick("wall"))
	}
	return nil
}

func (n *noter) Process(r topology.Record[string, string], out topology.Emitter[string, string]) (err error) {
	if n.r.fail["swallow"] {
		defer func() {
			if v := recover(); v != nil {
				n.r.say("recovered %v", v)
			}
			if err != nil {
				n.r.say("swallowed %v", err)
			}
			err = nil
		}()
	}
	if _, _, err := n.seen.Get(r.Key); err != nil {
		return err
	}
	for e, err := range n.seen.All() {
		if err != nil {
			return err
		}
		if e.Value == r.Value {
			n.r.say("seen before: %s", e.Value)
		}
	}
	if err := n.seen.Put(r.Key, r.Value); err != nil {
		return err
	}
	if err := out(r); err != nil {
		return err
	}
	switch r.Value {
	case "process-error":
		return errors.New("the processor gave up")
	case "process-panic":
		panic("the processor fell over")
	}
	return nil
}
