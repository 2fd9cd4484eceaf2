package oracle

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
)

// Record is a record of a topic.
type Record struct {
	Offset     int64
	Key, Value []byte // nil is null
	Time       int64
	Headers    []Header
	Report     *Report
}

// Header is a record header.
type Header struct{ Key, Value string }

// Report is a watermark report of one of Producers writers.
type Report struct {
	Producer, Producers int32
	Watermark           int64
}

// Unknown is the watermark before anything is known, and NoTime the time of a record that has none.
const (
	Unknown = math.MinInt64
	NoTime  = math.MinInt64
)

// Event is something that a task did next. Source is an index into Sub.Sources.
type Event struct {
	What   What
	Source int
	Offset int64 // Took
	Time   int64 // Moved: the watermark; Ticked: the wall time
	Node   int   // Ticked: the Process
}

// What an Event is.
type What uint8

// A task has taken a record, has told its operators the watermark of a source, or has fired a punctuation of the wall clock.
const (
	Took What = iota
	Moved
	Ticked
)

// Cut is a commit: what of the events it covers, and what it reported to each repartition topic.
type Cut struct {
	Events int
	// Due are the names of the operators for which the last event has made more due than was done.
	Due []string
	// First says that it is the first since the task was made: what was due has been told by then, and is only looked at again.
	First   bool
	Reports map[string]int64
}

// Input is what a task read and how.
type Input struct {
	Spec      *Spec
	Sub       Sub
	Partition int32
	// Logs has what is committed of each source's partition, nil if there is no such partition.
	Logs   [][]Record
	Events []Event
	Cuts   []Cut
}

// Output is a record that the task writes.
type Output struct {
	Topic        string
	PartitionKey []byte
	Record
}

// Entry is a value in a store.
type Entry struct {
	Time  int64
	Value string
}

// Result is what has to come of it.
type Result struct {
	Outputs []Output // in order, but for dead letters
	// Stores are the stores by name; the keys of windows are those of [WindowKey].
	Stores map[string]map[string]Entry
	Counts map[string]int64 // by reason
	Taken  int64

	// Accepted is what has gone into each window as a total, by node and key of a window, and Watermarks is how far event time is at
	// each node.
	Accepted   map[int]map[string]string
	Watermarks []int64
	// Panes are the windows that may have something in the store of panes, by the name of the aggregate.
	Panes map[string]map[string]bool
	// Gone are sessions that need not be in the stores any more.
	Gone map[string]map[string]Entry
	// Saw is how often the task has met each thing of event time.
	Saw map[string]int64
}

// WindowKey is the key of a window in Result.
func WindowKey(start int64, key string) string { return fmt.Sprintf("%016x %s", uint64(start), key) }

// Run goes through the events. An error is something that the task may not do.
func Run(in Input) (*Result, error) {
	b := &batch{Input: in, res: &Result{
		Stores: map[string]map[string]Entry{}, Counts: map[string]int64{}, Accepted: map[int]map[string]string{}, Panes: map[string]map[string]bool{},
		Saw: map[string]int64{}, Gone: map[string]map[string]Entry{},
	}, sent: map[string]int64{}, aside: map[int]bool{}}
	n := len(in.Spec.Nodes)
	b.down = make([][]int, n)
	b.w, b.out, b.edges = make([]int64, n), make([]int64, n), make([]int64, n)
	b.due, b.was, b.round = make([]int64, n), make([]int64, n), make([]int64, n)
	b.sessions, b.past = make([][]*session, n), make([][]*session, n)
	b.divides, b.hist = make([]windows, n), make([]map[string]history, n)
	for i := range n {
		b.down[i] = in.Spec.Down(i)
		b.w[i], b.out[i], b.edges[i], b.due[i], b.was[i], b.round[i] = Unknown, Unknown, Unknown, Unknown, Unknown, Unknown
		b.hist[i] = map[string]history{}
	}
	for _, i := range in.Sub.Nodes {
		if name, ok := in.Spec.Nodes[i].Keeps(); ok {
			b.res.Stores[name] = map[string]Entry{}
		}
	}
	b.sources = make([]source, len(in.Sub.Sources))
	for i := range b.sources {
		b.sources[i] = source{node: in.Sub.Sources[i], max: Unknown, second: Unknown, w: Unknown, next: Unknown}
		if in.Logs[i] == nil && in.Spec.Nodes[b.sources[i].node].Kind != Table {
			b.sources[i].w = math.MaxInt64
		}
	}
	b.settle()
	before := b.reported()
	cuts := in.Cuts
	for k := 0; ; k++ {
		for len(cuts) > 0 && cuts[0].Events == k {
			if err := b.cut(cuts[0], before); err != nil {
				return nil, err
			}
			cuts = cuts[1:]
		}
		if k == len(in.Events) {
			break
		}
		was := b.reported()
		if err := b.event(in.Events[k]); err != nil {
			return nil, fmt.Errorf("event %d: %w", k, err)
		}
		b.settle()
		// Nothing is taken while something is due. A restart tells the watermark again, whatever is.
		if in.Events[k].What == Took || !maps.Equal(was, b.reported()) {
			before = was
		}
	}
	b.res.Watermarks = b.w
	for _, i := range in.Sub.Nodes {
		m := map[string]bool{}
		for k := range b.hist[i] {
			m[k] = true
		}
		for _, s := range b.sessions[i] {
			n := b.node(i)
			k := SessionKey(s.start, s.end(n), s.key)
			b.res.Stores[n.Name][k], m[k] = Entry{s.last, s.value}, true
		}
		for _, s := range b.past[i] { // they may be there for a quarter of a gap longer
			if n := b.node(i); !b.sessionOver(s, b.w[i], n.Size+n.Grace+n.Correct+n.Size/4+1) {
				k := SessionKey(s.start, s.end(n), s.key)
				if b.res.Gone[n.Name] == nil {
					b.res.Gone[n.Name] = map[string]Entry{}
				}
				b.res.Gone[n.Name][k], m[k] = Entry{s.last, s.value}, true
			}
		}
		b.res.Panes[in.Spec.Nodes[i].Name] = m
	}
	return b.res, b.finished()
}

// source is an input partition.
type source struct {
	node     int
	at       int // index into the log
	max, w   int64
	second   int64 // largest time
	next     int64 // what w has to become
	channels map[int32]int64
	writers  int32
}

type batch struct {
	Input
	res     *Result
	sources []source
	down    [][]int
	// w is the watermark of each node and out what it tells those behind it. edges is that of the sink of a repartition node. due is when the next
	// punctuation of a Process is.
	w, out, edges, due []int64
	// was is the watermark at which windows were closed last, round the time of the last early results.
	was, round []int64
	divides    []windows
	sessions   [][]*session
	past       [][]*session         // that are gone
	hist       []map[string]history // of each node's windows that have given a result, or may
	sent       map[string]int64

	raw    *Record // in hand
	source int
	time   int64 // that a store gives to what is written
	undo   []func()
	counts []string
	// refused is the node of the first output of the unit that its topic does not take. It matters if nothing fails.
	refused int
	aside   map[int]bool // nodes that have set it aside
}

func (b *batch) node(i int) *Node { return &b.Spec.Nodes[i] }

// event does what an event says.
func (b *batch) event(e Event) error {
	if e.What == Ticked {
		b.unit(nil, 0, func() error { return b.tick(e) })
		return nil
	}
	s := &b.sources[e.Source]
	log, topic := b.Logs[e.Source], b.node(s.node).Name
	repartition := b.node(s.node).Repartitions()
	if e.What == Moved {
		was := s.w
		s.w = max(s.w, s.next)
		for repartition && s.w == was && e.Time > was && s.at < len(log) && log[s.at].Report != nil {
			s.report(log[s.at].Report)
			s.at++
		}
		if s.w != e.Time {
			return fmt.Errorf("the watermark of %s moves to %d, and should be %d", topic, e.Time, s.w)
		}
		return nil
	}
	if err := b.unheard(s); err != nil {
		return err
	}
	for s.at < len(log) && log[s.at].Report != nil {
		was := s.w
		s.report(log[s.at].Report)
		if s.w != was {
			return fmt.Errorf("the report at offset %d of %s moves the watermark to %d, and nobody heard of it before offset %d", log[s.at].Offset, topic, s.w, e.Offset)
		}
		s.at++
	}
	if s.at == len(log) || log[s.at].Offset != e.Offset {
		next := int64(-1)
		if s.at < len(log) {
			next = log[s.at].Offset
		}
		return fmt.Errorf("offset %d of %s is taken, and the next record is at offset %d (-1: none)", e.Offset, topic, next)
	}
	r := &log[s.at]
	s.at++
	b.res.Taken++
	at, ok := b.take(e.Source, r)
	if ok && !repartition && at != NoTime {
		s.observe(b.node(s.node), at, string(r.Value))
		b.saw(SawPunctuated, b.node(s.node).Gen == Punctuate)
		b.saw(SawSecond, b.node(s.node).Gen == Second)
	}
	return nil
}

// observe is what a record makes of the watermark.
func (s *source) observe(n *Node, at int64, v string) {
	if at > s.max {
		s.max, s.second = at, s.max
	} else {
		s.second = max(s.second, at)
	}
	switch {
	case n.Gen == Punctuate && Has(v, 'w'):
		s.next = max(s.next, at-n.Disorder)
	case n.Gen == Second && s.second != Unknown:
		s.next = s.second - n.Disorder
	case n.Gen == "":
		s.next = s.max - n.Disorder
	}
}

// unheard says that a record should have moved the watermark and did not.
func (b *batch) unheard(s *source) error {
	if s.next <= s.w {
		return nil
	}
	return fmt.Errorf("the watermark of %s should have moved to %d, and is %d", b.node(s.node).Name, s.next, s.w)
}

func (s *source) report(r *Report) {
	if r.Producers != s.writers {
		s.writers, s.channels = r.Producers, map[int32]int64{}
	}
	if old, ok := s.channels[r.Producer]; !ok || r.Watermark > old {
		s.channels[r.Producer] = r.Watermark
	}
	if len(s.channels) == int(s.writers) {
		low := int64(math.MaxInt64)
		for _, w := range s.channels {
			low = min(low, w)
		}
		s.w = max(s.w, low)
	}
}

// take runs a record. ok says that it got as far as the operators, and so moves the watermark.
func (b *batch) take(index int, r *Record) (at int64, ok bool) {
	s := &b.sources[index]
	n := b.node(s.node)
	rc := rec{key: string(r.Key), nullKey: r.Key == nil, null: r.Value == nil, time: r.Time, raw: r}
	at = r.Time
	reason := ""
	switch {
	case !rc.null && Undecodable(string(r.Value)):
		reason = "undecodable"
	case n.OwnTime && rc.null:
		at = NoTime
	case n.OwnTime:
		at = TimeOf(string(r.Value))
		rc.time = at
	}
	if reason == "" && at < 0 && at != NoTime {
		reason = "bad-timestamp"
	}
	keep := func(bad bool) {
		if n.Kind != Table || r.Key == nil {
			return
		}
		if r.Value == nil || bad {
			b.delete(n.Store, string(r.Key))
		} else {
			b.put(n.Store, string(r.Key), Entry{r.Time, string(r.Value)})
		}
	}
	if reason != "" {
		b.leaveOut(s.node, reason, r, index, false)
		keep(true)
		return at, false
	}
	if n.TooFarAhead(at, r.Time) {
		b.ahead(index, r, at)
		return at, false
	}
	rc.value = string(r.Value)
	if n.Repartitions() {
		rc.pane, rc.hidden = heard(r.Headers)
		b.saw(SawHeard, rc.hidden > 0)
	}
	b.time = max(at, 0)
	failed := !b.unit(r, index, func() error {
		switch {
		case n.Kind == Table && rc.nullKey:
			b.count("null-key")
			return nil
		case n.Kind == Table:
			keep(false)
		case rc.null && !n.KeepNulls:
			b.count("null-value")
			return nil
		}
		return b.next(s.node, rc)
	})
	if failed {
		keep(false)
	}
	return at, true
}

// ahead leaves out a record that is too far in the future.
func (b *batch) ahead(index int, r *Record, at int64) {
	b.res.Counts["future"]++
	b.saw(SawFuture, true)
	n := b.node(b.sources[index].node)
	if n.Sideline == "" {
		return
	}
	h := append(slices.Clone(r.Headers), Header{"x-late-reason", "future"})
	if w := b.sources[index].w; w != Unknown {
		h = append(h, Header{"x-late-watermark", strconv.FormatInt(w, 10)})
	}
	h = append(h, Header{"x-origin-topic", n.Name}, Header{"x-origin-partition", strconv.Itoa(int(b.Partition))},
		Header{"x-origin-offset", strconv.FormatInt(r.Offset, 10)}, Header{"x-event-time", strconv.FormatInt(at, 10)})
	b.res.Outputs = append(b.res.Outputs, Output{
		Topic: n.Sideline, PartitionKey: r.Key, Record: Record{Key: r.Key, Value: r.Value, Time: r.Time, Headers: h},
	})
}

// failure is a node that fails.
type failure struct {
	node  int
	panic bool
}

func (*failure) Error() string { return "" }

// unit does all of f or nothing of it. It says whether f was good.
func (b *batch) unit(r *Record, source int, f func() error) bool {
	b.raw, b.source = r, source
	mark := len(b.res.Outputs)
	b.undo, b.counts = b.undo[:0], b.counts[:0]
	b.refused = -1
	clear(b.aside)
	err := f()
	b.raw = nil
	reason := "failed"
	if err == nil && b.refused >= 0 {
		err, reason = &failure{node: b.refused}, "refused"
	}
	if err == nil {
		for _, reason := range b.counts {
			b.res.Counts[reason]++
		}
		return true
	}
	for _, u := range slices.Backward(b.undo) {
		u()
	}
	b.res.Outputs = b.res.Outputs[:mark]
	fail := err.(*failure)
	b.leaveOut(fail.node, reason, r, source, fail.panic)
	return false
}

// The values of the header of dead letters that says what the error was.
const (
	Panicked = "panic"
	Errored  = "*sim.failure"
)

func (b *batch) leaveOut(node int, reason string, r *Record, source int, panicked bool) {
	b.res.Counts[reason]++
	if b.Spec.PolicyOf(node) != DeadLetter {
		return
	}
	o := Output{Topic: DeadLetters, Record: Record{Time: NoTime}}
	if r != nil {
		o.Key, o.Value, o.PartitionKey, o.Time = r.Key, r.Value, r.Key, r.Time
		o.Headers = slices.Clone(r.Headers)
	}
	kind := Errored
	switch {
	case panicked:
		kind = Panicked
	case reason == "bad-timestamp":
		kind = ""
	}
	o.Headers = append(o.Headers, Header{"__streams.errors.exception", kind})
	if r != nil {
		o.Headers = append(o.Headers,
			Header{"__streams.errors.topic", b.node(b.Sub.Sources[source]).Name},
			Header{"__streams.errors.partition", strconv.Itoa(int(b.Partition))},
			Header{"__streams.errors.offset", strconv.FormatInt(r.Offset, 10)})
	}
	b.res.Outputs = append(b.res.Outputs, o)
}

func (b *batch) count(reason string) { b.counts = append(b.counts, reason) }

func (b *batch) put(store, key string, e Entry) {
	m := b.res.Stores[store]
	old, had := m[key]
	m[key] = e
	b.undo = append(b.undo, func() {
		if had {
			m[key] = old
		} else {
			delete(m, key)
		}
	})
}

func (b *batch) delete(store, key string) {
	m := b.res.Stores[store]
	old, had := m[key]
	delete(m, key)
	if had {
		b.undo = append(b.undo, func() { m[key] = old })
	}
}

// reported is the watermark at each repartition sink.
func (b *batch) reported() map[string]int64 {
	m := map[string]int64{}
	for _, up := range b.Sub.Nodes {
		for _, i := range b.down[up] {
			if n := b.node(i); n.Repartitions() && b.Spec.Timed(i) {
				m[n.Name] = b.edges[i]
			}
		}
	}
	return m
}

// cut checks what a commit reported: where event time is as of its last event, or, behind an operator that is not done with it, what it was
// before.
func (b *batch) cut(c Cut, before map[string]int64) error {
	for topic, want := range b.reported() {
		sent, ok := b.sent[topic]
		if !ok {
			sent = Unknown
		}
		got, reported := c.Reports[topic]
		if !reported {
			got = sent
		}
		waits, ticks := b.waits(topic, c.Due)
		switch {
		case !waits:
		case sent == want: // before a restart; it only has to look again
		case c.First && got == want:
		case !ticks || got == before[topic]: // a tick by the wall clock holds nothing back
			want = before[topic]
		}
		if got != want {
			return fmt.Errorf("the commit after %d events leaves the readers of %s at the watermark %d, and should leave them at %d", c.Events, topic, got, want)
		}
		b.sent[topic] = got
	}
	return nil
}

// waits says whether one of the operators between a repartition topic and the sources is due, and if that may be by the wall clock.
func (b *batch) waits(topic string, due []string) (waits, ticks bool) {
	i := slices.IndexFunc(b.Spec.Nodes, func(n Node) bool { return n.Repartitions() && n.Name == topic })
	for i = b.node(i).In[0]; ; i = b.node(i).In[0] {
		n := b.node(i)
		if slices.Contains(due, n.Name) {
			waits, ticks = true, ticks || n.Wall > 0
		}
		if n.Reads() {
			return waits, ticks
		}
	}
}

// finished says whether everything was taken.
func (b *batch) finished() error {
	for i := range b.sources {
		s := &b.sources[i]
		if err := b.unheard(s); err != nil {
			return err
		}
		for _, r := range b.Logs[i][s.at:] {
			if r.Report == nil {
				return fmt.Errorf("the record at offset %d of %s was never taken", r.Offset, b.node(s.node).Name)
			}
			was := s.w
			if s.report(r.Report); s.w != was {
				return fmt.Errorf("the report at offset %d of %s was never heard of", r.Offset, b.node(s.node).Name)
			}
		}
	}
	return nil
}

// timeOf reads what bytesOf wrote.
func timeOf(s string) int64 { return int64(binary.BigEndian.Uint64([]byte(s))) }

// bytesOf is how a windowed key on a topic has its start, behind the key.
func bytesOf(start int64) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(start)))
}
