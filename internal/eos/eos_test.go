package eos_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/internal/eos"
	"github.com/headrace/headrace/serde"
)

func encode[T any](t *testing.T, s serde.Serde[T], v T) []byte {
	t.Helper()
	b, err := s.Append(nil, v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func keyOf(source int64) string { return fmt.Sprintf("k%d", source) }

// run is a right run, small enough to be made by hand: two keys, and what the applications make of their events.
type run struct {
	events  []eos.Event
	totals  []eos.Record
	results []eos.Record
	late    []eos.Record
	ticks   []eos.Record
}

const base = 1_000_000_000_000

func right(t *testing.T) *run {
	r := &run{}
	at := []int64{100, 600, 1_200, 9_000, 1_500, 9_100, 60_000}
	totals := make(map[int64]eos.Total)
	for i, ms := range at {
		e := eos.Event{Source: int64(i % 2), N: int64(i/2 + 1), Amount: int64(10 + i), At: base + ms, End: i == len(at)-1}
		r.events = append(r.events, e)
		if e.End {
			continue
		}
		totals[e.Source] = totals[e.Source].Add(e)
		r.totals = append(r.totals, eos.Record{Topic: eos.Totals, Offset: int64(i), Key: keyOf(e.Source), Value: encode(t, eos.TotalSerde, totals[e.Source])})
	}
	// The event at 1,500 comes behind the one at 9,000, when the watermark is at 7,000.
	aside := r.events[4]
	r.late = []eos.Record{{Topic: eos.Late, Key: "g00", Value: encode(t, eos.EventSerde, aside), Headers: []kgo.RecordHeader{
		{Key: "x-late-watermark", Value: []byte(strconv.Itoa(base + 6_500))},
		{Key: "x-late-window-end", Value: []byte(strconv.Itoa(base + 2_000))},
	}}}
	result := func(group int64, start int64, events ...eos.Event) {
		v := eos.Result{Start: base + start, Weight: eos.Weight(group)}
		for _, e := range events {
			v.Cell = v.Cell.Add(e)
		}
		r.results = append(r.results, eos.Record{Topic: eos.Windows, Offset: int64(len(r.results)), Key: fmt.Sprintf("g%02d", group), Value: encode(t, eos.ResultSerde, v)})
	}
	result(0, 0, r.events[0])
	result(1, 0, r.events[1])
	result(0, 1_000, r.events[2])
	result(1, 9_000, r.events[3], r.events[5])
	for i := range int64(5) {
		r.ticks = append(r.ticks, eos.Record{Topic: eos.Ticks, Offset: i, Key: "t0-0", Value: encode(t, serde.Int64(), i+1)})
	}
	return r
}

func (r *run) check() *eos.Report {
	rep := &eos.Report{}
	counted := slices.DeleteFunc(slices.Clone(r.events), func(e eos.Event) bool { return e.End })
	eos.CheckTotals(rep, counted, r.totals, keyOf, true)
	eos.CheckWindows(rep, [][]eos.Event{r.events}, r.results, r.late, true)
	eos.CheckTimers(rep, r.ticks)
	return rep
}

func TestCheckersPassWhatIsRight(t *testing.T) {
	t.Parallel()
	if rep := right(t).check(); !rep.OK() {
		t.Errorf("nothing is wrong, but:\n%s", rep.Describe())
	}
}

// Each violation is planted into a right run, and has to be found by the checker named, as the kind named.
func TestCheckersFindWhatIsPlanted(t *testing.T) {
	t.Parallel()
	total := func(t *testing.T, r *run, i int, change func(*eos.Total)) {
		v, err := eos.TotalSerde.Decode(r.totals[i].Value)
		if err != nil {
			t.Fatal(err)
		}
		change(&v)
		r.totals[i].Value = encode(t, eos.TotalSerde, v)
	}
	result := func(t *testing.T, r *run, i int, change func(*eos.Result)) {
		v, err := eos.ResultSerde.Decode(r.results[i].Value)
		if err != nil {
			t.Fatal(err)
		}
		change(&v)
		r.results[i].Value = encode(t, eos.ResultSerde, v)
	}
	for _, tt := range []struct {
		name    string
		checker string
		kind    eos.Kind
		plant   func(*testing.T, *run)
	}{
		{"a total is missing in the middle", eos.Fold, eos.Lost, func(_ *testing.T, r *run) { r.totals = slices.Delete(r.totals, 2, 3) }},
		{"the last total is missing", eos.Fold, eos.Lost, func(_ *testing.T, r *run) { r.totals = r.totals[:len(r.totals)-1] }},
		{"a total comes twice", eos.Fold, eos.Duplicated, func(_ *testing.T, r *run) { r.totals = append(r.totals, r.totals[3]) }},
		{"an event counts twice", eos.Fold, eos.Duplicated, func(t *testing.T, r *run) {
			total(t, r, 5, func(v *eos.Total) { v.Count++ })
		}},
		{"two totals have changed places", eos.Fold, eos.OutOfOrder, func(_ *testing.T, r *run) { r.totals[0], r.totals[2] = r.totals[2], r.totals[0] }},
		{"a sum forgets an event", eos.Fold, eos.Wrong, func(t *testing.T, r *run) { total(t, r, 4, func(v *eos.Total) { v.Sum -= 10 }) }},
		{"a total is of another event", eos.Fold, eos.Wrong, func(t *testing.T, r *run) { total(t, r, 4, func(v *eos.Total) { v.Last-- }) }},
		{"a total of an unknown key", eos.Fold, eos.Wrong, func(_ *testing.T, r *run) { r.totals[1].Key = "k7" }},
		{"a window has no result", eos.WindowResult, eos.Lost, func(_ *testing.T, r *run) { r.results = r.results[1:] }},
		{"a window has two results", eos.WindowResult, eos.Duplicated, func(_ *testing.T, r *run) { r.results = append(r.results, r.results[3]) }},
		{"windows close out of order", eos.WindowResult, eos.OutOfOrder, func(_ *testing.T, r *run) { r.results[0], r.results[2] = r.results[2], r.results[0] }},
		{"a window lacks an event", eos.Conservation, eos.Lost, func(t *testing.T, r *run) { result(t, r, 3, func(v *eos.Result) { v.Count-- }) }},
		{"a window has an event twice", eos.Conservation, eos.Duplicated, func(t *testing.T, r *run) { result(t, r, 3, func(v *eos.Result) { v.Count++ }) }},
		{"a window's sum is wrong", eos.WindowResult, eos.Wrong, func(t *testing.T, r *run) { result(t, r, 3, func(v *eos.Result) { v.Sum++ }) }},
		{"a window of nothing", eos.WindowResult, eos.Wrong, func(t *testing.T, r *run) { result(t, r, 3, func(v *eos.Result) { v.Start += 1_000 }) }},
		{"a join missed the table", eos.WindowResult, eos.Wrong, func(t *testing.T, r *run) { result(t, r, 1, func(v *eos.Result) { v.Weight = 0 }) }},
		{"an event is set aside and counted", eos.Conservation, eos.Duplicated, func(t *testing.T, r *run) {
			r.late = append(r.late, r.late[0])
			r.late[1].Value = encode(t, eos.EventSerde, r.events[5])
		}},
		{"an event is set aside twice", eos.Conservation, eos.Duplicated, func(_ *testing.T, r *run) { r.late = append(r.late, r.late[0]) }},
		{"an event that is not late is set aside", eos.TrulyLate, eos.Wrong, func(t *testing.T, r *run) {
			result(t, r, 2, func(v *eos.Result) { v.Count++; v.Sum += 14 }) // what was late is in its window
			r.results = r.results[:3]
			r.late[0].Value = encode(t, eos.EventSerde, r.events[3])
		}},
		{"an event was not late by the operator's own watermark", eos.TrulyLate, eos.Wrong, func(_ *testing.T, r *run) {
			r.late[0].Headers[0].Value = []byte(strconv.Itoa(base + 1_900))
		}},
		{"the operator's watermark was ahead of the partition", eos.TrulyLate, eos.Wrong, func(_ *testing.T, r *run) {
			r.late[0].Headers[0].Value = []byte(strconv.Itoa(base + 7_001))
		}},
		{"a counter leaves one out", eos.Timers, eos.Lost, func(_ *testing.T, r *run) { r.ticks = slices.Delete(r.ticks, 2, 3) }},
		{"a counter repeats itself", eos.Timers, eos.Duplicated, func(_ *testing.T, r *run) { r.ticks = slices.Insert(r.ticks, 2, r.ticks[1]) }},
		{"a counter starts anew", eos.Timers, eos.Duplicated, func(_ *testing.T, r *run) { r.ticks = append(r.ticks, r.ticks...) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := right(t)
			tt.plant(t, r)
			wantViolation(t, r.check(), tt.checker, tt.kind)
		})
	}
}

func wantViolation(t *testing.T, rep *eos.Report, checker string, kind eos.Kind) {
	t.Helper()
	for _, v := range rep.Examples {
		if v.Checker == checker && v.Kind == kind {
			return
		}
	}
	t.Errorf("%s was to find that something is %s; the report is:\n%s", checker, kind, rep.Describe())
}

func entries(of ...string) map[string]eos.Entry {
	out := make(map[string]eos.Entry)
	for i := 0; i < len(of); i += 2 {
		out[of[i]] = eos.Entry{Value: []byte(of[i+1]), Time: 7}
	}
	return out
}

func changelog() [][]eos.Record {
	put := func(offset int64, k, v string) eos.Record {
		return eos.Record{Topic: "log", Offset: offset, Key: k, Value: []byte(v), Time: 7}
	}
	return [][]eos.Record{{put(0, "a", "1"), put(1, "b", "1"), put(3, "a", "2"), {Topic: "log", Offset: 4, Key: "b"}, put(6, "c", "1")}}
}

func TestStoresAreFoldsOfTheirChangelogs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		copies []eos.StoreCopy
		right  bool
	}{
		{"one that is whole", []eos.StoreCopy{{Position: 7, Entries: entries("a", "2", "c", "1")}}, true},
		{"one that lags, beside it", []eos.StoreCopy{{Position: 8, Entries: entries("a", "2", "c", "1")}, {Position: 2, Entries: entries("a", "1", "b", "1")}}, true},
		{"none that is whole", []eos.StoreCopy{{Position: 4, Entries: entries("a", "2", "b", "1")}}, false},
		{"none at all", nil, false},
		{"a position ahead of its data", []eos.StoreCopy{{Position: 7, Entries: entries("a", "2")}}, false},
		{"data ahead of its position", []eos.StoreCopy{{Position: 7, Entries: entries("a", "2", "c", "1")}, {Position: 2, Entries: entries("a", "2", "b", "1")}}, false},
		{"a key that was deleted", []eos.StoreCopy{{Position: 7, Entries: entries("a", "2", "b", "1", "c", "1")}}, false},
		{"an old value", []eos.StoreCopy{{Position: 7, Entries: entries("a", "1", "c", "1")}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rep := &eos.Report{}
			eos.CheckStore(rep, "s", changelog(), []int64{0}, tt.copies)
			if rep.OK() != tt.right {
				t.Errorf("the stores are right: %v, but the report is:\n%s", tt.right, rep.Describe())
			}
			if !tt.right {
				wantViolation(t, rep, eos.Stores, eos.StoreDiffers)
			}
		})
	}
	t.Run("trimmed", func(t *testing.T) {
		t.Parallel()
		trimmed := [][]eos.Record{changelog()[0][2:]}
		whole := eos.StoreCopy{Position: 7, Entries: entries("a", "2", "c", "1")}
		for _, tt := range []struct {
			name  string
			older eos.StoreCopy
			right bool
		}{
			{"it holds what was deleted since", eos.StoreCopy{Position: 4, Entries: entries("a", "2", "b", "1")}, true},
			{"it is older than the log", eos.StoreCopy{Position: 2, Entries: entries("a", "1", "b", "1")}, true},
			{"it lacks what is left", eos.StoreCopy{Position: 4, Entries: entries("b", "1")}, false},
		} {
			rep := &eos.Report{}
			eos.CheckStore(rep, "s", trimmed, []int64{2}, []eos.StoreCopy{whole, tt.older})
			if rep.OK() != tt.right {
				t.Errorf("%s: right is %v, but the report is:\n%s", tt.name, tt.right, rep.Describe())
			}
		}
		rep := &eos.Report{}
		eos.CheckStore(rep, "s", trimmed, []int64{2}, []eos.StoreCopy{{Position: 7, Entries: entries("a", "2", "b", "1", "c", "1")}})
		wantViolation(t, rep, eos.Stores, eos.StoreDiffers)
	})
	t.Run("outputs", func(t *testing.T) {
		t.Parallel()
		rep := &eos.Report{}
		outputs := []eos.Record{{Key: "a", Value: []byte("1")}, {Key: "c", Value: []byte("1")}, {Key: "a", Value: []byte("2")}}
		eos.CheckOutputs(rep, "s", eos.FoldLog(changelog()[0], 7), outputs)
		if !rep.OK() {
			t.Errorf("they agree, but:\n%s", rep.Describe())
		}
		eos.CheckOutputs(rep, "s", eos.FoldLog(changelog()[0], 7), outputs[:2])
		wantViolation(t, rep, eos.Stores, eos.StoreDiffers)
	})
	t.Run("empty", func(t *testing.T) {
		t.Parallel()
		rep := &eos.Report{}
		eos.CheckEmpty(rep, "s", nil)
		if !rep.OK() {
			t.Errorf("nothing is left, but:\n%s", rep.Describe())
		}
		eos.CheckEmpty(rep, "s", entries("a", "1"))
		wantViolation(t, rep, eos.Stores, eos.StoreDiffers)
	})
}

func TestReaderDuringFaults(t *testing.T) {
	t.Parallel()
	rec := func(offset int64, v string) eos.Record {
		return eos.Record{Topic: "out", Offset: offset, Key: "k", Value: []byte(v)}
	}
	seen := func(records ...eos.Record) eos.Seen {
		s := make(eos.Seen)
		for _, r := range records {
			s.See(r)
		}
		return s
	}
	final := seen(rec(0, "a"), rec(1, "b"), rec(3, "c"))
	for _, tt := range []struct {
		name string
		live eos.Seen
		kind eos.Kind
	}{
		{"one is missing", seen(rec(0, "a"), rec(3, "c")), eos.Lost},
		{"the end is missing", seen(rec(0, "a"), rec(1, "b")), eos.Lost},
		{"all are missing", seen(), eos.Lost},
		{"one comes twice", seen(rec(0, "a"), rec(1, "b"), rec(1, "b"), rec(3, "c")), eos.Duplicated},
		{"there was one that is gone", seen(rec(0, "a"), rec(1, "b"), rec(3, "c"), rec(4, "d")), eos.Duplicated},
		{"one was another", seen(rec(0, "a"), rec(1, "x"), rec(3, "c")), eos.Wrong},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rep := &eos.Report{}
			eos.CheckReader(rep, tt.live, final)
			wantViolation(t, rep, eos.LiveReader, tt.kind)
		})
	}
	rep := &eos.Report{}
	eos.CheckReader(rep, seen(rec(0, "a"), rec(1, "b"), rec(3, "c")), final)
	if !rep.OK() {
		t.Errorf("it saw the same, but:\n%s", rep.Describe())
	}
}

func TestRepartitionPassesEachEventOnce(t *testing.T) {
	t.Parallel()
	events := []eos.Event{{Source: 1, N: 1}, {Source: 1, N: 2}}
	passed := func(events ...eos.Event) []eos.Record {
		out := []eos.Record{{Topic: "hop", Offset: 9}} // a report
		for i, e := range events {
			out = append(out, eos.Record{Topic: "hop", Offset: int64(i), Value: encode(t, eos.EventSerde, e)})
		}
		return out
	}
	rep := &eos.Report{}
	eos.CheckHop(rep, events, passed(events...), false)
	eos.CheckHop(rep, events, passed(events[1]), true)
	if !rep.OK() {
		t.Errorf("each passed once, but:\n%s", rep.Describe())
	}
	rep = &eos.Report{}
	eos.CheckHop(rep, events, passed(events[1]), false)
	wantViolation(t, rep, eos.Hop, eos.Lost)
	rep = &eos.Report{}
	eos.CheckHop(rep, events, passed(events[0], events[1], events[0]), true)
	wantViolation(t, rep, eos.Hop, eos.Duplicated)
	rep = &eos.Report{}
	eos.CheckCounters(rep, "app", 3, 2)
	wantViolation(t, rep, eos.Counters, eos.Wrong)
}

func TestNothingIsLeftOpen(t *testing.T) {
	t.Parallel()
	at := eos.Place{Topic: "out"}
	rep := &eos.Report{}
	eos.CheckOpen(rep, map[eos.Place]eos.Ends{at: {9, 9}}, nil)
	eos.CheckOffsets(rep, "g", map[eos.Place]int64{at: 9}, map[eos.Place]int64{at: 8})
	if !rep.OK() {
		t.Errorf("nothing is open, but:\n%s", rep.Describe())
	}
	for _, plant := range []func(*eos.Report){
		func(rep *eos.Report) { eos.CheckOpen(rep, map[eos.Place]eos.Ends{at: {8, 9}}, nil) },
		func(rep *eos.Report) { eos.CheckOpen(rep, nil, []string{"txn"}) },
	} {
		rep := &eos.Report{}
		plant(rep)
		wantViolation(t, rep, eos.Open, eos.Wrong)
	}
	for _, committed := range []map[eos.Place]int64{{at: 8}, {}} {
		rep := &eos.Report{}
		eos.CheckOffsets(rep, "g", committed, map[eos.Place]int64{at: 8})
		wantViolation(t, rep, eos.Offsets, eos.Wrong)
	}
}

func TestLetters(t *testing.T) {
	t.Parallel()
	letter := func(offset int64, v string) eos.Record {
		return eos.Record{Topic: "letters", Offset: offset, Value: []byte(v)}
	}
	rep := &eos.Report{}
	eos.CheckLetters(rep, []string{"a", "b"}, []eos.Record{letter(0, "b"), letter(1, "a")})
	if !rep.OK() {
		t.Errorf("all letters are there, but:\n%s", rep.Describe())
	}
	for kind, letters := range map[eos.Kind][]eos.Record{
		eos.Lost:       {letter(0, "b")},
		eos.Duplicated: {letter(0, "b"), letter(1, "a"), letter(2, "b")},
		eos.Wrong:      {letter(0, "b"), letter(1, "a"), letter(2, "c")},
	} {
		rep := &eos.Report{}
		eos.CheckLetters(rep, []string{"a", "b"}, letters)
		wantViolation(t, rep, eos.Letters, kind)
	}
}
