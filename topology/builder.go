package topology

import (
	"errors"
	"fmt"
	"hash/fnv"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/state"
)

// Builder collects the operators of one topology. Use NewBuilder.
type Builder struct {
	nodes   []*meta
	sources []*sourceDef
	sinks   []*sinkDef
	stores  []*storeDef
	errs    []error
	names   map[string]string // store and repartition names, with where they were given
	clocks  map[string]string // names under which event time is kept, with where
	topics  map[string]string // topics read, with where
	built   string            // where Build was called
}

// NewBuilder returns an empty builder.
func NewBuilder() *Builder {
	return &Builder{names: map[string]string{}, clocks: map[string]string{}, topics: map[string]string{}}
}

// meta is the untyped side of an operator.
type meta struct {
	id     int // in Builder.nodes
	name   string
	at     string // where the user added it, as "flights.go:40"
	kind   graph.NodeKind
	topic  string
	stores []*storeDef
	down   []*meta
	up     []*meta

	past     revised
	windows  string // the store, of an aggregate over windows that time closes
	numbered bool   // its name is by its position only
	onError  graph.Policy
	erredAt  string // where that was said

	sub   int // set by Build
	local int // index in SubTopology.Nodes, set by Build
}

// label is the operator's name for whoever counts. A name that is numbered by position changes with every operator before it.
func (m *meta) label() string {
	for _, s := range m.stores {
		if m.numbered && s.owner == m {
			return s.spec.Name
		}
	}
	return m.name
}

type sourceDef struct {
	m      *meta
	at     string // where it was added
	src    graph.Source
	store  *storeDef // of a table
	future *sinkDef  // of what is too far ahead
	local  int       // index in SubTopology.Sources
	make   func(in *instance) (graph.Entry, error)
}

type sinkDef struct {
	m     *meta
	sink  graph.Sink
	at    string // where it was added
	local int
}

type storeDef struct {
	spec  state.Spec
	owner *meta
	local int

	timers bool   // it holds the timers of a processor
	within string // the store that it is a part of
}

// instance is one task's closures being made.
type instance struct {
	rt     graph.Runtime
	made   map[any]any // nodes that several edges lead to
	clocks []graph.Clock
	givers []graph.Giver
}

// Topology is a checked topology. It is immutable and safe for concurrent use.
type Topology struct{ plan *graph.Plan }

// Plan returns the compiled plan. Its type is internal: it is for the packages that run a topology.
func (t *Topology) Plan() *graph.Plan { return t.plan }

// here is the place in the user's code that called into this package.
func here() string {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		if !strings.HasPrefix(f.Function, "github.com/headrace/headrace/topology.") || strings.HasSuffix(f.File, "_test.go") {
			return fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		if !more {
			return "unknown place"
		}
	}
}

func (b *Builder) fail(format string, args ...any) {
	b.must()
	b.errs = append(b.errs, fmt.Errorf("%s: "+format, append([]any{here()}, args...)...))
}

// need reports a callback that is nil.
func (b *Builder) need(what string, isNil bool) {
	if b.must(); isNil {
		b.fail("%s: the function is nil; give one", what)
	}
}

// serdes reports one that is missing, or has a mistake of its own to tell: one that is made of a schema has its Err.
func (b *Builder) serdes(of, missing string, all ...any) {
	b.must()
	for _, s := range all {
		if isNil(s) {
			b.fail("%s: %s", of, missing)
			return
		}
		if bad, ok := s.(interface{ Err() error }); ok {
			if err := bad.Err(); err != nil {
				b.fail("%s: %w", of, err)
			}
		}
	}
}

// check adds err, with the place, if there is one.
func (b *Builder) check(err error) {
	if err != nil {
		b.fail("%w", err)
	}
}

func (b *Builder) node(kind graph.NodeKind, name string, up ...*meta) *meta {
	m := &meta{id: len(b.nodes), kind: kind, name: name, at: path.Base(here()), up: up}
	if strings.HasSuffix(name, "-") { // a Kafka Streams name, numbered by position: for reading only
		m.name, m.numbered = fmt.Sprintf("%s%010d", name, m.id), true
	}
	for _, u := range up {
		u.down = append(u.down, m)
		m.past = m.past.or(u.past)
	}
	b.nodes = append(b.nodes, m)
	return m
}

// claim reserves the name of a store or a repartition topic.
func (b *Builder) claim(what, name string) {
	if err := checkName(name); err != nil {
		b.fail("%s %q: %w", what, name, err)
		return
	}
	if at, taken := b.names[name]; taken {
		for _, def := range b.stores {
			if def.spec.Name == name && def.within != "" {
				at += fmt.Sprintf(", for a part of store %q", def.within)
			}
		}
		b.fail("%s %q: the name is taken at %s; stores and repartition topics need names of their own", what, name, at)
		return
	}
	b.names[name] = here()
}

// clock reserves the name under which an operator's event time is checkpointed.
func (b *Builder) clock(what, name string) {
	if at, taken := b.clocks[name]; taken {
		b.fail("%s %q: the name is taken at %s; what an operator knows of time is kept under its name", what, name, at)
		return
	}
	b.clocks[name] = here()
}

// maxName is how many characters a name may have that becomes a part of a topic's.
const maxName = 200

// checkName holds a name to what Kafka accepts in a topic's name.
func checkName(name string) error {
	if name == "" || name == "." || name == ".." {
		return errors.New("not a name that a Kafka topic can have; use letters, digits, '.', '_' and '-'")
	}
	if len(name) > maxName {
		return fmt.Errorf("%d characters are too many for a part of a topic's name; use at most %d", len(name), maxName)
	}
	var bad []string // each once, in order
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			if q := strconv.QuoteRune(c); !slices.Contains(bad, q) {
				bad = append(bad, q)
			}
		}
	}
	switch len(bad) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("character %s cannot be in a Kafka topic's name; use letters, digits, '.', '_' and '-'", bad[0])
	}
	return fmt.Errorf("characters %s cannot be in a Kafka topic's name; use letters, digits, '.', '_' and '-'", strings.Join(bad, ", "))
}

func (b *Builder) source(m *meta, src graph.Source) *sourceDef {
	if err := checkName(src.Topic); err != nil && !src.Repartition { // claim has checked those
		b.fail("topic %q: %w", src.Topic, err)
	}
	key := src.Topic
	if src.Repartition {
		key = "repartition " + key
	}
	if at, taken := b.topics[key]; taken {
		b.fail("topic %s is read at %s already; a topology reads a topic once: keep the stream or table in a variable", src.Topic, at)
	}
	b.topics[key] = here()
	m.topic = src.Topic
	src.Node = m.name
	def := &sourceDef{m: m, at: here(), src: src}
	b.sources = append(b.sources, def)
	return def
}

func (b *Builder) sink(m *meta, s graph.Sink) *sinkDef {
	if err := checkName(s.Topic); err != nil && !s.Repartition { // claim has checked those
		b.fail("topic %q: %w", s.Topic, err)
	}
	m.topic = s.Topic
	s.Node = m.name
	def := &sinkDef{m: m, sink: s, at: here()}
	b.sinks = append(b.sinks, def)
	return def
}

func (b *Builder) store(m *meta, spec state.Spec) *storeDef {
	b.claim("store", spec.Name)
	def := &storeDef{spec: spec, owner: m}
	m.stores = append(m.stores, def)
	b.stores = append(b.stores, def)
	return def
}

// within adds a store beside one of an aggregate, under its name and a suffix.
func (b *Builder) within(m *meta, name, suffix, what string, spec state.Spec) *storeDef {
	if checkName(name) == nil && checkName(name+suffix) != nil {
		b.fail("store %q: it has %d characters, and with it comes another one for the %s of its windows, by the name with %q behind; use at most %d", name, len(name), what, suffix, maxName-len(suffix))
	}
	spec.Name = name + suffix
	def := &storeDef{spec: spec, owner: m, within: name}
	if checkName(spec.Name) == nil { // otherwise that of the name in front says it
		b.claim(fmt.Sprintf("the %s of store %q are kept in store", what, name), spec.Name)
	}
	m.stores = append(m.stores, def)
	b.stores = append(b.stores, def)
	return def
}

// Build checks the topology and compiles it. It reports all mistakes at once, each with the place in the caller's code. It can be
// called once, after the last operator was added.
func (b *Builder) Build() (*Topology, error) {
	b.must()
	if b.built != "" {
		return nil, fmt.Errorf("topology: Build was called at %s already; a Builder builds one topology", b.built)
	}
	b.built = here()
	if len(b.sources) == 0 {
		b.errs = append(b.errs, errors.New("the topology has no source; start with From or TableFrom"))
	}
	b.loops()
	b.ends()
	if len(b.errs) > 0 {
		return nil, fmt.Errorf("topology: %w", errors.Join(b.errs...))
	}
	b.silence()
	plan := &graph.Plan{}
	for id, nodes := range b.split() {
		plan.SubTopologies = append(plan.SubTopologies, b.compile(id, nodes))
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(describe(plan)))
	plan.Fingerprint = h.Sum64()
	return &Topology{plan}, nil
}

// loops finds the outside topics that the topology both reads and writes. A sideline's is one of them, too.
func (b *Builder) loops() {
	for _, s := range b.sinks {
		if read, ok := b.topics[s.sink.Topic]; ok && !s.sink.Repartition {
			b.errs = append(b.errs, fmt.Errorf("%s: topic %s is written here, and read at %s: what is written would come in again; use another topic, or Repartition to go on behind a topic of the application's own", s.at, s.sink.Topic, read))
		}
	}
	for _, m := range b.nodes {
		if read, ok := b.topics[m.onError.Topic]; ok && m.onError.Action == graph.DeadLetter {
			b.errs = append(b.errs, fmt.Errorf("%s: dead letters go to topic %s, which is read at %s: they would come in again, and fail again; use another topic", m.erredAt, m.onError.Topic, read))
		}
	}
}

// ends finds the streams with which nothing is done: the app would read and commit the topic, and make nothing of it. A table may be
// wanted for its store.
func (b *Builder) ends() {
	for _, s := range b.sources {
		said := func(err error) bool { return strings.HasPrefix(err.Error(), s.at+": ") }
		if s.store == nil && !s.src.Repartition && len(s.m.down) == 0 && !slices.ContainsFunc(b.errs, said) {
			b.errs = append(b.errs, fmt.Errorf("%s: nothing is done with the stream of topic %s; add an operator or To behind From, or leave it out", s.at, s.src.Topic))
		}
	}
}

// silence finds the repartition topics behind which nothing uses event time: no watermark need be reported into them.
func (b *Builder) silence() {
	seen := map[*meta]bool{}
	var uses func(m *meta) bool
	uses = func(m *meta) bool {
		if seen[m] {
			return false // elsewhere it is seen to
		}
		seen[m] = true
		if _, timed := b.clocks[m.name]; timed && !m.numbered {
			return true
		}
		for _, s := range m.stores {
			if _, timed := b.clocks[s.spec.Name]; timed || s.spec.Kind != state.KeyValueKind {
				return true
			}
		}
		for _, d := range m.down {
			if uses(d) {
				return true
			}
		}
		for _, k := range b.sinks {
			if k.m != m || !k.sink.Repartition {
				continue
			}
			for _, s := range b.sources {
				if s.src.Repartition && s.src.Topic == k.sink.Topic && uses(s.m) {
					return true
				}
			}
		}
		return false
	}
	for _, k := range b.sinks {
		if k.sink.Repartition {
			clear(seen)
			k.sink.NoReports = !uses(k.m)
		}
	}
}

// split finds the parts that only topics connect: operators joined by an edge or by a store belong to one sub-topology. They are
// numbered in the order in which their first node was added.
func (b *Builder) split() [][]*meta {
	root := make([]int, len(b.nodes))
	for i := range root {
		root[i] = i
	}
	var find func(int) int
	find = func(i int) int {
		if root[i] != i {
			root[i] = find(root[i])
		}
		return root[i]
	}
	union := func(i, j int) {
		i, j = find(i), find(j)
		root[max(i, j)] = min(i, j)
	}
	for _, m := range b.nodes {
		for _, d := range m.down {
			union(m.id, d.id)
		}
		for _, s := range m.stores {
			union(m.id, s.owner.id)
		}
	}
	var parts [][]*meta
	at := map[int]int{}
	for _, m := range b.nodes {
		r := find(m.id)
		i, ok := at[r]
		if !ok {
			i = len(parts)
			at[r] = i
			parts = append(parts, nil)
		}
		m.sub, m.local = i, len(parts[i])
		parts[i] = append(parts[i], m)
	}
	return parts
}

func (b *Builder) compile(id int, nodes []*meta) *graph.SubTopology {
	sub := &graph.SubTopology{ID: id}
	var sources []*sourceDef
	for _, s := range b.stores {
		if s.owner.sub == id {
			s.local = len(sub.Stores)
			sub.Stores = append(sub.Stores, s.spec)
		}
	}
	for _, s := range b.sources {
		if s.m.sub == id {
			s.local = len(sub.Sources)
			if s.store != nil {
				s.src.Store = s.store.local
			}
			sub.Sources = append(sub.Sources, s.src)
			sources = append(sources, s)
		}
	}
	for _, s := range b.sinks {
		if s.m.sub == id {
			s.local = len(sub.Sinks)
			sub.Sinks = append(sub.Sinks, s.sink)
		}
	}
	for i, s := range sources {
		if s.future != nil {
			f := *s.src.Future
			f.Sink = s.future.local
			sub.Sources[i].Future = &f
		}
	}
	for _, m := range nodes {
		n := graph.Node{Name: m.name, Label: m.label(), At: m.at, Kind: m.kind, Topic: m.topic, OnError: m.onError}
		for _, s := range m.stores {
			n.Stores = append(n.Stores, s.spec.Name)
		}
		for _, d := range m.down {
			n.To = append(n.To, d.local)
		}
		n.FutureAside = slices.ContainsFunc(sources, func(s *sourceDef) bool { return s.m == m && s.future != nil })
		sub.Nodes = append(sub.Nodes, n)
		// Whoever keeps or reads state by key needs each key's records on one partition, whichever topic they come from.
		if len(m.stores) > 0 {
			if set := upstream(m, sources); len(set) > 1 {
				sub.Copartitioned = append(sub.Copartitioned, set)
			}
		}
	}
	sub.AddDeadLetterSinks()
	size := len(b.nodes)
	sub.New = func(rt graph.Runtime) (*graph.Instance, error) {
		if len(b.nodes) != size {
			return nil, fmt.Errorf("topology: operators were added after Build, which was called at %s; add them before", b.built)
		}
		in := &instance{rt: rt, made: map[any]any{}}
		out := &graph.Instance{}
		for _, s := range sources {
			e, err := s.make(in)
			if err != nil {
				return nil, fmt.Errorf("topology: %s: %w", s.m.name, err)
			}
			out.Entries = append(out.Entries, e)
		}
		// A node is finished after all that it feeds: reversed, upstream comes before downstream.
		slices.Reverse(in.clocks)
		slices.Reverse(in.givers)
		out.Clocks, out.Givers = in.clocks, in.givers
		return out, nil
	}
	return sub
}

// repartitionBefore names a repartition topic that m's records come from, "" if there is none.
func (b *Builder) repartitionBefore(m *meta) string {
	for _, s := range b.sources {
		if s.m == m && s.src.Repartition {
			return s.src.Topic
		}
	}
	for _, u := range m.up {
		if name := b.repartitionBefore(u); name != "" {
			return name
		}
	}
	return ""
}

// upstream returns the sources that reach m by edges or through its stores.
func upstream(m *meta, sources []*sourceDef) []int {
	seen := map[*meta]bool{}
	var walk func(*meta)
	walk = func(m *meta) {
		if seen[m] {
			return
		}
		seen[m] = true
		for _, u := range m.up {
			walk(u)
		}
		for _, s := range m.stores {
			walk(s.owner)
		}
	}
	walk(m)
	var set []int
	for i, s := range sources {
		if seen[s.m] {
			set = append(set, i)
		}
	}
	return set
}

// Fingerprint tells topologies apart: the members of one group must run the same.
func (t *Topology) Fingerprint() uint64 { return t.plan.Fingerprint }
