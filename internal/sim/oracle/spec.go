package oracle

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
)

// Spec is a topology as data. Keys and values are strings in all of it.
type Spec struct {
	Nodes []Node
	// Policy is what the application says.
	Policy Policy
}

// Kind is a verb of the DSL.
type Kind string

// The kinds of nodes. Aggregates with a Size or a Win are windowed; Changes makes a stream of a table, and of a windowed one a stream whose
// keys are "key@start". A windowed aggregate that has a windowed one for input, and no Changes between, has its windows for keys.
const (
	Source      Kind = "source"
	Table       Kind = "table"
	Filter      Kind = "filter"
	MapValues   Kind = "mapvalues"
	Map         Kind = "map"
	FlatMap     Kind = "flatmap"
	Merge       Kind = "merge"
	Repartition Kind = "repartition"
	GroupBy     Kind = "groupby"
	Aggregate   Kind = "aggregate"
	Reduce      Kind = "reduce"
	OrDelete    Kind = "ordelete"
	Total       Kind = "total" // that can subtract
	Changes     Kind = "changes"
	Join        Kind = "join"
	LeftJoin    Kind = "leftjoin"
	Process     Kind = "process"
	To          Kind = "to"
)

// Policy is what becomes of a record that fails.
type Policy string

// The policies. The empty one is that of the application, and the application's is Fail.
const (
	Inherit    Policy = ""
	Fail       Policy = "fail"
	Skip       Policy = "skip"
	DeadLetter Policy = "dead-letter"
)

// DeadLetters is the topic of dead letters.
const DeadLetters = "dead"

// Node is an operator.
type Node struct {
	Kind Kind
	In   []int // upstream; of joins, the stream and then the table
	// Name is that of the topic, the repartition topic, the store or the processor.
	Name  string
	Store string // of a Process or a Table
	Parts int32  // of an outside topic, or of a repartition topic, where 0 follows

	Disorder           int64
	OwnTime, KeepNulls bool
	Future             int64  // how far ahead of the broker's time records may be, 0 for any; Sideline is for those that are further
	Gen                string // what makes watermarks, if that is not the largest time

	Win                  string // windows other than multiples of Advance
	Zone                 string // of a calendar
	First                int    // day of a week
	Size, Advance, Grace int64
	Sideline             string // topic for late records; empty drops them
	Correct              int64  // for how long windows are corrected when they have closed
	Retract              bool   // corrections are preceded by retractions
	OnClose, Final       bool
	Early                int64 // early results, each time that the watermark passes a multiple,
	EarlyCount           int   // and after so many records
	Discard, Retracting  bool
	ByChannel            bool // late is judged by the input partition, too
	Accept               bool // revisions

	// Bad is the letter of values on which the node fails, with a panic if Panic. A Process fails in some punctuations, too.
	Bad    byte
	Panic  bool
	Policy Policy

	// Limit is how many bytes of key, value and headers the topic of a To takes, 0 for any.
	Limit int

	// Every and Wall are the periods of punctuations, 0 for none.
	Every, Wall int64
}

// Windowed says whether the node is a windowed aggregate.
func (n *Node) Windowed() bool { return n.Size > 0 || n.Win != "" }

// Folds says whether the node is an aggregate.
func (n *Node) Folds() bool {
	return n.Kind == Aggregate || n.Kind == Reduce || n.Kind == OrDelete || n.Kind == Total
}

// Keeps says whether the node has a store of its own, and its name.
func (n *Node) Keeps() (string, bool) {
	switch n.Kind {
	case Aggregate, Reduce, OrDelete, Total:
		return n.Name, true
	case Table:
		return n.Store, true
	case Process:
		return n.Store, n.Store != ""
	}
	return "", false
}

// Reads says whether the node reads a topic.
func (n *Node) Reads() bool { return n.Kind == Source || n.Kind == Table || n.Repartitions() }

// Repartitions says whether the node is behind a topic of the application's own.
func (n *Node) Repartitions() bool { return n.Kind == Repartition || n.Kind == GroupBy }

// What makes watermarks: records that say so, by the letter w, or the second largest time.
const (
	Punctuate = "punctuated"
	Second    = "second"
)

// TooFarAhead says whether a record with this time, that the broker has another of, is left out.
func (n *Node) TooFarAhead(at, broker int64) bool {
	return n.Future > 0 && at != NoTime && at > broker && at-max(broker, 0) > n.Future
}

// PolicyOf is the policy that holds at a node.
func (s *Spec) PolicyOf(node int) Policy {
	for _, p := range []Policy{s.Nodes[node].Policy, s.Policy} {
		if p != Inherit {
			return p
		}
	}
	return Fail
}

// Down returns the nodes that a node feeds without a topic between, in the order in which they were added. A repartition node is
// among them: its sink is.
func (s *Spec) Down(node int) []int {
	var down []int
	for i := range s.Nodes {
		n := &s.Nodes[i]
		for at, in := range n.In {
			if in == node && (at == 0 || n.Kind == Merge) {
				down = append(down, i)
			}
		}
	}
	return down
}

// Timed says whether a node, or one behind it, uses event time: into a repartition topic in front of others no watermark is reported.
func (s *Spec) Timed(node int) bool {
	if n := &s.Nodes[node]; n.Windowed() || n.Kind == Process {
		return true
	}
	return slices.ContainsFunc(s.Down(node), s.Timed)
}

// Sub is a part of the topology that topics connect to the others.
type Sub struct {
	Nodes   []int // ascending; those that repartition are in the part that reads their topic
	Sources []int // those that read
}

// Split finds the parts.
func (s *Spec) Split() []Sub {
	part := make([]int, len(s.Nodes))
	for i := range part {
		part[i] = i
	}
	join := func(a, b int) {
		a, b = part[a], part[b]
		for i := range part {
			if part[i] == max(a, b) {
				part[i] = min(a, b)
			}
		}
	}
	for i := range s.Nodes {
		for _, in := range s.Nodes[i].In {
			if !s.Nodes[i].Repartitions() {
				join(i, in)
			}
		}
	}
	var subs []Sub
	for root := range part {
		var sub Sub
		for i := range part {
			if part[i] == root {
				sub.Nodes = append(sub.Nodes, i)
				if s.Nodes[i].Reads() {
					sub.Sources = append(sub.Sources, i)
				}
			}
		}
		if len(sub.Nodes) > 0 {
			subs = append(subs, sub)
		}
	}
	return subs
}

// The functions that the topology is given. They are what a user writes, and so the same on both sides.

// Tail is the last of the values that went into v: its letters decide what operators do with it.
func Tail(v string) string { return v[strings.LastIndexAny(v, "+~:")+1:] }

// Has says whether v has the letter.
func Has(v string, letter byte) bool { return letter != 0 && strings.IndexByte(Tail(v), letter) >= 0 }

// Undecodable says whether a serde refuses v.
func Undecodable(v string) bool { return strings.HasPrefix(v, "x") }

// TimeOf is the event time that a value has after its '@'.
func TimeOf(v string) int64 {
	var ms int64
	if _, after, ok := strings.Cut(Tail(v), "@"); ok {
		_, _ = fmt.Sscan(after, &ms) // 0 if there is none
	}
	return ms
}

// Keeps is the predicate of filters.
func Keeps(v string) bool { return !Has(v, 'f') }

// Mapped is what MapValues makes.
func Mapped(v string) string { return "m:" + v }

// Rekeyed is the key that Map and GroupBy make.
func Rekeyed(v string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(Tail(v)))
	return string('p' + byte(h.Sum32()%4))
}

// Twice says whether FlatMap makes two of v.
func Twice(v string) bool { return Has(v, 't') }

// Ends says whether AggregateOrDelete deletes at v.
func Ends(v string) bool { return Has(v, 'd') }

// Folded is the aggregate of a and v: a list of what went in, in order, of which only a hash is left when it gets long.
func Folded(a, v string) string {
	if a == "" {
		return v
	}
	s := a + "+" + v
	if len(s) <= 80 {
		return s
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(s))
	return fmt.Sprintf("%x~%s", h.Sum64(), Tail(v))
}

// Plus is the total with v in it: how many values there are and the sum of what they weigh. A total weighs what is in it. Minus takes v out.
func Plus(a, v string) string { return total(a, v, 1) }

// Minus undoes Plus.
func Minus(a, v string) string { return total(a, v, -1) }

func total(a, v string, sign int64) string {
	n, sum := weight(a)
	dn, dsum := weight(v)
	return fmt.Sprintf("%d~%d", n+sign*dn, sum+sign*dsum)
}

func weight(v string) (n, sum int64) {
	if v == "" {
		return 0, 0
	}
	count, weight, ok := strings.Cut(v[strings.LastIndexByte(v, ':')+1:], "~")
	n, err := strconv.ParseInt(count, 10, 64)
	if ok && err == nil {
		if sum, err = strconv.ParseInt(weight, 10, 64); err == nil {
			return n, sum
		}
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(v))
	return 1, int64(h.Sum32() % 100_000)
}

// Joined is what a join makes; ok says whether there was anything on the right.
func Joined(v, right string, ok bool) string {
	if !ok {
		right = "-"
	}
	return right + ":" + v
}

// Punctuated is what a punctuation at w makes of an entry, and Breaks whether a Process with a Bad letter fails there.
func Punctuated(w int64, v string) string { return fmt.Sprintf("%d:%s", w, v) }

// Breaks says whether the punctuation at w fails.
func Breaks(w, every int64) bool { return (w/every)%3 == 1 }

// Counted is what a punctuation by the wall clock makes.
func Counted(entries int) string { return fmt.Sprint(entries, " entries") }

// sorted are the keys in the order of their bytes.
func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
