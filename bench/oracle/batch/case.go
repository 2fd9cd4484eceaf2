package batch

import (
	"encoding/json"
	"fmt"
	"strings"
)

// A Window is a kind of window.
type Window string

// The kinds of windows.
const (
	Tumbling Window = "tumbling"
	Hopping  Window = "hopping"
	Sliding  Window = "sliding"
	Session  Window = "session"
)

// An Emit says when results are due.
type Emit string

// When results are due: on every update, or once, when the window closes. What gives one result: Close is EmitOnClose here and
// EmitStrategy.onWindowClose in Kafka Streams. Final is EmitFinal, and Suppress is Suppress with UntilWindowCloses, both beside a Kafka
// Streams that emits every update and suppresses all but the last.
const (
	Update   Emit = "update"
	Close    Emit = "close"
	Final    Emit = "final"
	Suppress Emit = "suppress"
)

// A Fold says what is made of the values in a window.
type Fold string

// What is made of values.
const (
	Count Fold = "count"
	Sum   Fold = "sum"
)

// Case is a windowed aggregate and its input, which is one partition. Times are milliseconds.
type Case struct {
	Window    Window   `json:"window"`
	Size      int64    `json:"size,omitempty"`    // tumbling, hopping
	Advance   int64    `json:"advance,omitempty"` // tumbling, hopping
	Gap       int64    `json:"gap,omitempty"`     // session
	Diff      int64    `json:"diff,omitempty"`    // sliding
	Grace     int64    `json:"grace"`
	Retention int64    `json:"retention,omitempty"` // how long the store of Kafka Streams keeps windows; 0 is its default. It has no meaning beyond that
	Fold      Fold     `json:"fold"`
	Emit      Emit     `json:"emit"`
	In        []Record `json:"in"`
}

// Kind is what cases are counted by.
func (c *Case) Kind() string { return string(c.Window) + "/" + string(c.Emit) }

// String is the case for people: its settings, and its input as a:1@5.
func (c *Case) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s, %s:", c.Window, c.Fold, c.Emit)
	for _, f := range []struct {
		name string
		v    int64
	}{{"size", c.Size}, {"advance", c.Advance}, {"gap", c.Gap}, {"diff", c.Diff}} {
		if f.v != 0 {
			fmt.Fprintf(&b, " %s %d", f.name, f.v)
		}
	}
	fmt.Fprintf(&b, " grace %d", c.Grace)
	if c.Retention != 0 {
		fmt.Fprintf(&b, " retention %d", c.Retention)
	}
	for _, r := range c.In {
		fmt.Fprintf(&b, " %s", r)
	}
	return b.String()
}

// Record is one of the input.
type Record struct {
	Key     string
	Value   int64
	NullKey bool
	Null    bool // the value is null
	Time    int64
}

type jsonRecord struct {
	K *string `json:"k,omitempty"`
	V *int64  `json:"v,omitempty"`
	T int64   `json:"t"`
}

// MarshalJSON leaves out what is null.
func (r Record) MarshalJSON() ([]byte, error) {
	j := jsonRecord{K: &r.Key, V: &r.Value, T: r.Time}
	if r.NullKey {
		j.K = nil
	}
	if r.Null {
		j.V = nil
	}
	return json.Marshal(j)
}

// UnmarshalJSON is the reverse of MarshalJSON.
func (r *Record) UnmarshalJSON(b []byte) error {
	var j jsonRecord
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	*r = Record{NullKey: j.K == nil, Null: j.V == nil, Time: j.T}
	if j.K != nil {
		r.Key = *j.K
	}
	if j.V != nil {
		r.Value = *j.V
	}
	return nil
}

func (r Record) String() string {
	k, v := r.Key, fmt.Sprint(r.Value)
	if r.NullKey {
		k = "null"
	}
	if r.Null {
		v = "null"
	}
	return fmt.Sprintf("%s:%s@%d", k, v, r.Time)
}

// Result is one of the output. End is exclusive for tumbling and hopping windows, inclusive for sliding windows and sessions.
type Result struct {
	Key        string
	Start, End int64
	Value      int64
	Null       bool // a tombstone
	Time       int64
}

// UnmarshalJSON reads what the Java peer writes.
func (r *Result) UnmarshalJSON(b []byte) error {
	var j struct {
		K       string
		S, E, T int64
		V       *int64
	}
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	*r = Result{Key: j.K, Start: j.S, End: j.E, Time: j.T, Null: j.V == nil}
	if j.V != nil {
		r.Value = *j.V
	}
	return nil
}

func (r Result) String() string {
	v := fmt.Sprint(r.Value)
	if r.Null {
		v = "null"
	}
	return fmt.Sprintf("%s[%d,%d]=%s@%d", r.Key, r.Start, r.End, v, r.Time)
}

// Answer is what comes of a case.
type Answer struct {
	Out     [][]Result `json:"out"`     // for each record
	Dropped int64      `json:"dropped"` // records that went nowhere, a late one for each window that it missed
}
