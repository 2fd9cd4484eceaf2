package eos

import "fmt"

func sprint(format string, args ...any) string { return fmt.Sprintf(format, args...) }

// Seen is what a read-committed reader saw, as it saw it: the offset and a fingerprint of each record, partition by partition. It belongs
// to one goroutine.
type Seen map[Place][]Sight

// Sight is one record seen.
type Sight struct {
	Offset int64
	sum    uint64
}

// See adds a record.
func (s Seen) See(r Record) { s[r.Place()] = append(s[r.Place()], Sight{r.Offset, r.sum()}) }

// CheckReader holds what a reader saw while things failed to what is there in the end.
func CheckReader(rep *Report, live, final Seen) {
	for at, want := range final {
		got := live[at]
		for i, w := range want {
			if i >= len(got) {
				rep.add(LiveReader, Lost, "%s: the reader saw %d records, there are %d", at, len(got), len(want))
				break
			}
			if g := got[i]; g != w {
				kind := Wrong
				switch {
				case g.Offset < w.Offset && i > 0 && g.Offset <= got[i-1].Offset:
					kind = Duplicated
				case g.Offset > w.Offset:
					kind = Lost
				}
				rep.add(LiveReader, kind, "%s: record %d that the reader saw is at offset %d, in the end there is another, at offset %d", at, i, g.Offset, w.Offset)
				break
			}
		}
	}
	for at, got := range live {
		if n := len(final[at]); len(got) > n {
			rep.add(LiveReader, Duplicated, "%s: the reader saw %d records, there are %d", at, len(got), n)
		}
	}
}

// Ends are what the broker says of a partition.
type Ends struct{ Stable, End int64 }

// CheckOpen wants no transaction to be open: neither in a partition nor in the list of the broker.
func CheckOpen(rep *Report, ends map[Place]Ends, open []string) {
	for at, e := range ends {
		if e.Stable != e.End {
			rep.add(Open, Wrong, "%s: the last stable offset is %d, the end is %d: a transaction is open", at, e.Stable, e.End)
		}
	}
	for _, text := range open {
		rep.add(Open, Wrong, "the broker lists an open transaction: %s", text)
	}
}

// CheckOffsets wants the committed offset of each input partition to be behind its last record.
func CheckOffsets(rep *Report, group string, committed, last map[Place]int64) {
	for at, offset := range last {
		switch got, ok := committed[at]; {
		case !ok:
			rep.add(Offsets, Wrong, "group %s has committed no offset of %s, whose last record is %d", group, at, offset)
		case got <= offset:
			rep.add(Offsets, Wrong, "group %s has committed offset %d of %s, whose last record is %d", group, got, at, offset)
		}
	}
}
