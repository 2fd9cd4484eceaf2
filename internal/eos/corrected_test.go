package eos_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/internal/eos"
)

// revised is a result of g00's window at 0.
func revised(t *testing.T, rev int, count, sum int64, back bool) eos.Record {
	t.Helper()
	r := eos.Record{Topic: eos.Revised, Key: string(binary.BigEndian.AppendUint64([]byte("g00"), 0)), Value: encode(t, eos.CellSerde, eos.Cell{Count: count, Sum: sum})}
	if rev > 0 {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: "x-rev", Value: fmt.Append(nil, rev)})
	}
	if back {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: "x-retract", Value: []byte("true")})
	}
	return r
}

func TestCorrectionsCheck(t *testing.T) {
	t.Parallel()
	events := [][]eos.Event{{{N: 1, Amount: 5, At: 1}, {N: 2, Amount: 7, At: 2}, {N: 3, Amount: 1, At: 3}, {At: 9999, End: true}}}
	sum := func(count, sum int64) eos.Record {
		return eos.Record{Topic: eos.Sums, Key: "g00", Value: encode(t, eos.CellSerde, eos.Cell{Count: count, Sum: sum})}
	}
	right := []eos.Record{
		revised(t, 0, 1, 5, false),
		revised(t, 0, 1, 5, true), revised(t, 1, 2, 12, false),
		revised(t, 1, 2, 12, true), revised(t, 2, 3, 13, false),
	}
	rep := &eos.Report{}
	if got := eos.CheckCorrected(rep, events, right, []eos.Record{sum(1, 5), sum(3, 13)}); !rep.OK() || got != (eos.CorrectedResults{Results: 3, Corrections: 2}) {
		t.Errorf("they are right, but %+v and\n%s", got, rep.Describe())
	}
	pick := func(of ...int) (out []eos.Record) {
		for _, i := range of {
			out = append(out, right[i])
		}
		return out
	}
	for _, tt := range []struct {
		name    string
		results []eos.Record
		sums    []eos.Record
		kind    eos.Kind
	}{
		{"a correction is missing", pick(0, 1, 2), []eos.Record{sum(3, 13)}, eos.Lost},
		{"one in between is missing", pick(0, 3, 4), []eos.Record{sum(3, 13)}, eos.Lost},
		{"a retraction is missing", pick(0, 2, 3, 4), []eos.Record{sum(3, 13)}, eos.Wrong},
		{"a retraction comes twice", pick(0, 1, 1, 2, 3, 4), []eos.Record{sum(3, 13)}, eos.Wrong},
		{"a result comes twice", pick(0, 0, 1, 2, 3, 4), []eos.Record{sum(3, 13)}, eos.Duplicated},
		{"the last is taken back", append(pick(0, 1, 2, 3, 4), revised(t, 2, 3, 13, true)), []eos.Record{sum(3, 13)}, eos.Wrong},
		{"another is taken back", append(pick(0), append([]eos.Record{revised(t, 0, 1, 6, true)}, pick(2, 3, 4)...)...), []eos.Record{sum(3, 13)}, eos.Wrong},
		{"it counts too much", append(pick(0, 1, 2, 3), revised(t, 2, 4, 18, false)), []eos.Record{sum(3, 13)}, eos.Wrong},
		{"the sum counts a correction twice", right, []eos.Record{sum(5, 30)}, eos.Wrong},
		{"there is no sum", right, nil, eos.Wrong},
	} {
		rep := &eos.Report{}
		eos.CheckCorrected(rep, events, tt.results, tt.sums)
		t.Run(tt.name, func(t *testing.T) { wantViolation(t, rep, eos.Correction, tt.kind) })
	}
}

// A store of windows has what its changelog makes from some start on.
func TestWindowStoresAreWhatIsLeftOfTheirChangelogs(t *testing.T) {
	t.Parallel()
	key := func(start int64) string {
		return string(binary.BigEndian.AppendUint64([]byte("k"), uint64(start))) + "\x00\x00\x00\x00"
	}
	log := [][]eos.Record{{
		{Offset: 0, Key: key(0), Value: []byte("1"), Time: 7},
		{Offset: 1, Key: key(10), Value: []byte("2"), Time: 7},
		{Offset: 2, Key: key(20), Value: []byte("3"), Time: 7},
	}}
	hold := func(position int64, of ...any) eos.StoreCopy {
		c := eos.StoreCopy{Position: position, Entries: map[string]eos.Entry{}}
		for i := 0; i < len(of); i += 2 {
			c.Entries[key(int64(of[i].(int)))] = eos.Entry{Value: []byte(of[i+1].(string)), Time: 7}
		}
		return c
	}
	for _, tt := range []struct {
		name   string
		copies []eos.StoreCopy
		right  bool
		left   int
	}{
		{"all of it", []eos.StoreCopy{hold(3, 0, "1", 10, "2", 20, "3")}, true, 3},
		{"the later ones", []eos.StoreCopy{hold(3, 10, "2", 20, "3")}, true, 2},
		{"none", []eos.StoreCopy{hold(3)}, true, 0},
		{"one that does not know yet, and one that does", []eos.StoreCopy{hold(3, 10, "2", 20, "3"), hold(3, 20, "3")}, true, 1},
		{"an older one beside", []eos.StoreCopy{hold(3), hold(2, 0, "1", 10, "2")}, true, 0},
		{"a hole", []eos.StoreCopy{hold(3, 0, "1", 20, "3")}, false, 2},
		{"a wrong value", []eos.StoreCopy{hold(3, 20, "2")}, false, 1},
		{"one ahead of its position", []eos.StoreCopy{hold(3), hold(2, 20, "3")}, false, 0},
		{"none that is whole", []eos.StoreCopy{hold(2, 0, "1", 10, "2")}, false, 0},
	} {
		rep := &eos.Report{}
		left := eos.CheckWindowStore(rep, "s", log, []int64{0}, tt.copies)
		if rep.OK() != tt.right || len(left) != tt.left {
			t.Errorf("%s: right is %v, %d left, want %v, %d:\n%s", tt.name, rep.OK(), len(left), tt.right, tt.left, rep.Describe())
		}
	}
}
