package exercise

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/framework"
)

// Fate is what became of a payment.
type Fate int

// What can become of a payment.
const (
	InTime     Fate = iota
	OutOfOrder      // in time, behind one with a later time
	Corrected       // late, and it changed a result
	Sidelined       // late, and put into another topic
	Dropped         // late, and nowhere
)

// Unknown is the watermark before there is one.
const Unknown int64 = math.MinInt64

// An Input is a payment as it was read back, with the watermarks that the journal has: the one by which it was judged, and the one behind it.
type Input struct {
	Event
	Before, After int64
	Fate          Fate
	LateBy        int64 // ms by which the watermark was past the end of the window, for what was late
}

// A Result is a record of the topic of results. Place is the payment behind which it came, by its place in the order of arrival.
type Result struct {
	Key        string
	Start, End int64
	Total
	Revision   int
	Pane       string
	Retraction bool
	Place      int
}

// An Aside is a payment in the topic of late ones, with what its headers say.
type Aside struct {
	Event
	Offset              int64 // of the payment in its own topic
	Reason              string
	Start, End          int64
	Watermark, LateByMs int64
}

// A Window is what became of one window of one key.
type Window struct {
	Key        string
	Start, End int64
	Results    []Result
	Open       *Total // what the changelog has, if nothing was put out
	Closed     int    // the payment behind which the watermark closed it, -1 if none did
	Gone       int    // and behind which it could not be corrected any more
}

// Last is what the window amounts to in the end.
func (w Window) Last() Total {
	if w.Open != nil {
		return *w.Open
	}
	for _, r := range slices.Backward(w.Results) {
		if !r.Retraction {
			return r.Total
		}
	}
	return Total{}
}

// An Outcome is all that was read back of a run.
type Outcome struct {
	Run
	Setup
	Inputs  []Input
	Windows []Window
	Aside   []Aside
	// DroppedCount is what the app says it dropped at the windows.
	DroppedCount int64
	// Balance is the last sum of each account that the stage behind the windows has put out. Under Upsert it counts every revision.
	Balance map[string]Total
}

// collect reads everything back.
func collect(ctx context.Context, brokers []string, adm *kadm.Client, s framework.Snapshot, r Run, setup Setup, after []int64) (*Outcome, error) {
	n := namesOf(r)
	o := &Outcome{Run: r, Setup: setup}
	topics := []string{n.in, n.journal, n.results, n.aside, n.changelog(), n.balance}
	have := map[string][]*kgo.Record{}
	for _, topic := range topics {
		records, err := read(ctx, brokers, adm, topic)
		if err != nil {
			return nil, fmt.Errorf("exercise: run %s: %w", r.Name, err)
		}
		have[topic] = records
	}
	for _, d := range s.Drops {
		if d.Operator == totalsStore && string(d.Reason) == "late-dropped" {
			o.DroppedCount += d.Records
		}
	}
	steps := []func() error{
		func() error { return o.inputs(have[n.in], have[n.journal]) },
		func() error { return o.results(have[n.results], after) },
		func() error { return o.aside(have[n.aside]) },
		func() error { return o.open(have[n.changelog()]) },
		func() error { return o.balance(have[n.balance]) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, fmt.Errorf("exercise: run %s: %w", r.Name, err)
		}
	}
	o.judge()
	return o, nil
}

func (o *Outcome) inputs(payments, journal []*kgo.Record) error {
	for _, r := range payments {
		var p payment
		if err := json.Unmarshal(r.Value, &p); err != nil {
			return fmt.Errorf("payment at offset %d: %w", r.Offset, err)
		}
		o.Inputs = append(o.Inputs, Input{Event: Event{At: r.Timestamp.UnixMilli(), Amount: p.Amount, Key: string(r.Key)}, Before: Unknown, After: Unknown})
	}
	at, w := -1, Unknown
	for _, r := range journal {
		var e entry
		if err := json.Unmarshal(r.Value, &e); err != nil {
			return fmt.Errorf("journal at offset %d: %w", r.Offset, err)
		}
		if e.Watermark != nil {
			w = *e.Watermark
		}
		if e.Offset != nil {
			if at++; at >= len(o.Inputs) || *e.Offset != int64(at) {
				return fmt.Errorf("journal at offset %d: it has payment %d, expected was %d of %d", r.Offset, *e.Offset, at, len(o.Inputs))
			}
			o.Inputs[at].Before = w
		}
		if at >= 0 {
			o.Inputs[at].After = w
		}
	}
	if at != len(o.Inputs)-1 {
		return fmt.Errorf("the journal has %d payments of %d", at+1, len(o.Inputs))
	}
	return nil
}

// window finds a window, or makes it.
func (o *Outcome) window(key string, start int64) *Window {
	for i := range o.Windows {
		if w := &o.Windows[i]; w.Key == key && w.Start == start {
			return w
		}
	}
	o.Windows = append(o.Windows, Window{Key: key, Start: start, End: o.windows().End(start), Closed: -1, Gone: -1})
	return &o.Windows[len(o.Windows)-1]
}

func (o *Outcome) results(records []*kgo.Record, after []int64) error {
	for _, r := range records {
		key, start, err := windowedKey(r.Key, 0)
		if err != nil {
			return fmt.Errorf("result at offset %d: %w", r.Offset, err)
		}
		out := Result{Key: key, Start: start, End: o.windows().End(start), Place: len(after) - 1}
		if err := json.Unmarshal(r.Value, &out.Total); err != nil {
			return fmt.Errorf("result at offset %d: %w", r.Offset, err)
		}
		for i, end := range after {
			if r.Offset < end {
				out.Place = i
				break
			}
		}
		for _, h := range r.Headers {
			switch h.Key {
			case "x-rev":
				if out.Revision, err = strconv.Atoi(string(h.Value)); err != nil {
					return fmt.Errorf("result at offset %d: header %s: %w", r.Offset, h.Key, err)
				}
			case "x-pane":
				out.Pane = string(h.Value)
			case "x-retract":
				out.Retraction = string(h.Value) == "true"
			}
		}
		w := o.window(key, start)
		w.Results = append(w.Results, out)
	}
	return nil
}

// windowedKey takes a key of Kafka Streams' form apart: the key, eight bytes of the start, and in changelogs four of a sequence.
func windowedKey(b []byte, behind int) (key string, start int64, err error) {
	n := len(b) - 8 - behind
	if n < 0 {
		return "", 0, fmt.Errorf("a key of %d bytes is too short for a window", len(b))
	}
	return string(b[:n]), int64(binary.BigEndian.Uint64(b[n:])), nil
}

func (o *Outcome) aside(records []*kgo.Record) error {
	for _, r := range records {
		var p payment
		if err := json.Unmarshal(r.Value, &p); err != nil {
			return fmt.Errorf("late payment at offset %d: %w", r.Offset, err)
		}
		a := Aside{Event: Event{At: r.Timestamp.UnixMilli(), Amount: p.Amount, Key: string(r.Key)}}
		for _, h := range r.Headers {
			for name, to := range map[string]*int64{
				"x-late-window-start": &a.Start, "x-late-window-end": &a.End, "x-late-watermark": &a.Watermark,
				"x-late-by-ms": &a.LateByMs, "x-origin-offset": &a.Offset,
			} {
				if h.Key != name {
					continue
				}
				n, err := strconv.ParseInt(string(h.Value), 10, 64)
				if err != nil {
					return fmt.Errorf("late payment at offset %d: header %s: %w", r.Offset, name, err)
				}
				*to = n
			}
			if h.Key == "x-late-reason" {
				a.Reason = string(h.Value)
			}
		}
		o.Aside = append(o.Aside, a)
	}
	return nil
}

// open takes from the changelog what the store holds of windows that have not been put out.
func (o *Outcome) open(records []*kgo.Record) error {
	type windowKey struct {
		key   string
		start int64
	}
	held := map[windowKey][]byte{}
	for _, r := range records {
		key, start, err := windowedKey(r.Key, 4)
		if err != nil {
			return fmt.Errorf("changelog at offset %d: %w", r.Offset, err)
		}
		held[windowKey{key, start}] = r.Value
	}
	for k, value := range held {
		if value == nil {
			continue
		}
		w := o.window(k.key, k.start)
		if len(w.Results) > 0 {
			continue
		}
		w.Open = &Total{}
		if err := json.Unmarshal(value, w.Open); err != nil {
			return fmt.Errorf("changelog of window %d of %q: %w", k.start, k.key, err)
		}
	}
	slices.SortFunc(o.Windows, func(a, b Window) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Key, b.Key)) })
	return nil
}

func (o *Outcome) balance(records []*kgo.Record) error {
	o.Balance = map[string]Total{}
	for _, r := range records {
		var t Total
		if err := json.Unmarshal(r.Value, &t); err != nil {
			return fmt.Errorf("balance at offset %d: %w", r.Offset, err)
		}
		o.Balance[string(r.Key)] = t
	}
	return nil
}

// judge says what became of each payment, from where it was found.
func (o *Outcome) judge() {
	latest := Unknown
	for i := range o.Inputs {
		in := &o.Inputs[i]
		start := o.windows().First(in.At)
		end := o.windows().End(start)
		if in.Before >= end {
			in.LateBy = in.Before - end
			in.Fate = Dropped // if nothing shows that it was taken
			for _, w := range o.Windows {
				if w.Key == in.Key && w.Start == start && slices.ContainsFunc(w.Results, func(r Result) bool { return !r.Retraction && r.Place == i }) {
					in.Fate = Corrected
				}
			}
		} else if in.At < latest {
			in.Fate = OutOfOrder
		}
		if slices.ContainsFunc(o.Aside, func(a Aside) bool { return a.Offset == int64(i) }) {
			in.Fate = Sidelined
		}
		latest = max(latest, in.At)
	}
	for n := range o.Windows {
		w := &o.Windows[n]
		for i, in := range o.Inputs {
			if w.Closed < 0 && in.After >= w.End {
				w.Closed = i
			}
			if w.Gone < 0 && in.After >= w.End+o.Late.horizon(o.Setup) {
				w.Gone = i
			}
		}
	}
}

// Accepted is what the windows amount to in the end, the closed and the open ones.
func (o *Outcome) Accepted() (closed, open Total) {
	for _, w := range o.Windows {
		if w.Open != nil {
			open = open.plus(*w.Open)
		} else {
			closed = closed.plus(w.Last())
		}
	}
	return closed, open
}

func (o *Outcome) of(fate Fate) (t Total) {
	for _, in := range o.Inputs {
		if in.Fate == fate {
			t = t.add(payment{in.Amount})
		}
	}
	return t
}

// Dropped is what was dropped. Its count is checked against the app's.
func (o *Outcome) Dropped() Total { return o.of(Dropped) }

// SetAside is what the topic of late payments has.
func (o *Outcome) SetAside() (t Total) {
	for _, a := range o.Aside {
		t = t.add(payment{a.Amount})
	}
	return t
}

// Sent is what was read back of the input.
func (o *Outcome) Sent() (t Total) {
	for _, in := range o.Inputs {
		t = t.add(payment{in.Amount})
	}
	return t
}

// Faults is what does not add up: each payment must be in a window, open or closed, or set aside, or dropped, once.
func (o *Outcome) Faults() (faults []string) {
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Sprintf("run %s: ", o.Name)+fmt.Sprintf(format, args...))
	}
	if len(o.Inputs) != len(o.Events) {
		fault("%d payments were sent, and %d read back", len(o.Events), len(o.Inputs))
	}
	for i := range min(len(o.Inputs), len(o.Events)) {
		if o.Inputs[i].Event != o.Events[i] {
			fault("payment %d was sent as %v and read back as %v", i+1, o.Events[i], o.Inputs[i].Event)
		}
	}
	closed, open := o.Accepted()
	dropped := o.Dropped()
	if dropped.Count != o.DroppedCount {
		fault("by the journal %d payments were dropped, the app has counted %d", dropped.Count, o.DroppedCount)
	}
	if got, want := closed.plus(open).plus(dropped).plus(o.SetAside()), o.Sent(); got != want {
		fault("in windows, set aside and dropped are %d payments of %d together; sent were %d of %d", got.Count, got.Sum, want.Count, want.Sum)
	}
	for _, w := range o.Windows {
		o.chain(w, fault)
	}
	want := map[string]Total{}
	for _, w := range o.Windows {
		if o.Late != Upsert {
			want[w.Key] = want[w.Key].plus(w.Last())
			if w.Open != nil {
				want[w.Key] = want[w.Key].minus(*w.Open)
			}
			continue
		}
		for _, r := range w.Results {
			want[w.Key] = want[w.Key].plus(r.Total)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if o.Balance[key] != want[key] {
			fault("the sum behind the windows is %d for %s, its closed windows have %d", o.Balance[key].Sum, key, want[key].Sum)
		}
	}
	return faults
}

// chain checks the results of one window: revisions count from 0, and what is taken back is what was put out before.
func (o *Outcome) chain(w Window, fault func(string, ...any)) {
	var last *Result
	for i := range w.Results {
		r := &w.Results[i]
		switch {
		case last == nil && (r.Revision != 0 || r.Retraction):
			fault("window %s of %s begins with revision %d", Seconds(w.Start), w.Key, r.Revision)
		case last == nil:
		case r.Retraction && r.Total != last.Total:
			fault("window %s of %s takes back %d, put out was %d", Seconds(w.Start), w.Key, r.Sum, last.Sum)
		case !r.Retraction && r.Revision != last.Revision+1:
			fault("window %s of %s goes on with revision %d behind %d", Seconds(w.Start), w.Key, r.Revision, last.Revision)
		}
		if !r.Retraction {
			last = r
		}
		if o.Late == Retract && r.Revision > 0 && !r.Retraction && (i == 0 || !w.Results[i-1].Retraction) {
			fault("window %s of %s has revision %d without taking back the one before", Seconds(w.Start), w.Key, r.Revision)
		}
	}
}
