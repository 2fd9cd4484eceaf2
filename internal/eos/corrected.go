package eos

import (
	"encoding/binary"
	"maps"
	"strconv"
	"strings"
)

// Headers of results that have a history.
const (
	revision = "x-rev"
	retract  = "x-retract"
)

// CorrectedResults is what CheckCorrected counted.
type CorrectedResults struct{ Results, Corrections int }

// CheckCorrected holds windows that are corrected, by taking the result before back, to the events: of each window the revisions 0, 1, 2, …,
// each but the first behind its retraction, and in the end what a batch makes of all its events, late ones included. sums are what is
// made of the results for each group: right after every transaction, and so in the end.
func CheckCorrected(rep *Report, input [][]Event, results, sums []Record) (out CorrectedResults) {
	batch, total := make(map[slot]Cell), make(map[string]Cell)
	for _, partition := range input {
		for _, e := range partition {
			if !e.End {
				batch[windowOf(e)], total[e.Group()] = batch[windowOf(e)].Add(e), total[e.Group()].Add(e)
			}
		}
	}
	type line struct {
		last  Cell
		next  int64 // revision
		taken bool  // the last result has been taken back
	}
	lines := make(map[slot]*line)
	for _, r := range results {
		got, err := CellSerde.Decode(r.Value)
		if err != nil || len(r.Key) < 8 {
			rep.add(Correction, Wrong, "%s: key %q, value %x: no result of a window (%v)", r, r.Key, r.Value, err)
			continue
		}
		n := len(r.Key) - 8
		at := slot{r.Key[:n], int64(binary.BigEndian.Uint64([]byte(r.Key[n:])))}
		l := lines[at]
		if l == nil {
			l = &line{taken: true}
			lines[at] = l
		}
		text, ok := r.header(revision)
		rev, err := strconv.ParseInt(text, 10, 64)
		if !ok {
			rev, err = 0, nil
		}
		_, back := r.header(retract)
		want := l.next
		if back {
			want--
		}
		switch {
		case err != nil:
			rep.add(Correction, Wrong, "%s: revision %q", r, text)
		case rev < want:
			rep.add(Correction, Duplicated, "%s: revision %d of %s at %d, want %d", r, rev, at.group, at.start, want)
		case rev > want:
			rep.add(Correction, Lost, "%s: revision %d of %s at %d, want %d", r, rev, at.group, at.start, want)
		case back && (l.taken || got != l.last):
			rep.add(Correction, Wrong, "%s: takes %+v of %s at %d back, and the last result is %+v (taken back: %v)", r, got, at.group, at.start, l.last, l.taken)
		case !back && !l.taken:
			rep.add(Correction, Wrong, "%s: revision %d of %s at %d, and the one before was not taken back", r, rev, at.group, at.start)
		}
		if l.taken = back; !back {
			l.last, l.next = got, l.next+1
			out.Results++
			if rev > 0 {
				out.Corrections++
			}
		}
	}
	for at, want := range batch {
		switch l := lines[at]; {
		case l == nil || l.last.Count < want.Count:
			rep.add(Correction, Lost, "the window of %s at %d: want %+v in the end", at.group, at.start, want)
		case l.last != want || l.taken:
			rep.add(Correction, Wrong, "the window of %s at %d ends as %+v (taken back: %v), want %+v", at.group, at.start, l.last, l.taken, want)
		}
	}
	last := make(map[string]Cell)
	for _, r := range sums {
		c, err := CellSerde.Decode(r.Value)
		if err != nil {
			rep.add(Correction, Wrong, "%s: %v", r, err)
		}
		last[r.Key] = c
	}
	for group, want := range total {
		if got := last[group]; got != want {
			rep.add(Correction, Wrong, "the sum of %s over its windows ends as %+v, want %+v", group, got, want)
		}
	}
	return out
}

// CheckWindowStore is CheckStore for the changelog of windows, which is not told of those that are gone: each copy must have what its
// changelog makes from some start on, and nothing before. It returns what the copies hold that have all of it, of each partition that with
// the least: another may be of a process that had all of the changelog before windows went that it is not told of.
func CheckWindowStore(rep *Report, store string, changelog [][]Record, starts []int64, copies []StoreCopy) map[string]Entry {
	left := make(map[string]Entry)
	for p, records := range changelog {
		end := int64(0)
		if n := len(records); n > 0 {
			end = records[n-1].Offset + 1
		}
		complete := false
		var fewest map[string]Entry
		for _, c := range copies {
			if int(c.Partition) != p {
				continue
			}
			if c.Position >= end {
				if !complete || len(c.Entries) < len(fewest) {
					fewest = c.Entries
				}
				complete = true
			}
			if c.Position < starts[p] || len(c.Entries) == 0 {
				continue
			}
			floor, first := "", true
			for k := range c.Entries {
				if s := startOf(k); first || strings.Compare(s, floor) < 0 {
					floor, first = s, false
				}
			}
			want := FoldLog(records, c.Position)
			for k := range want {
				if startOf(k) < floor {
					delete(want, k)
				}
			}
			if starts[p] > 0 { // what was there before the log was trimmed
				for k, e := range c.Entries {
					if _, ok := want[k]; !ok && c.Position < end {
						want[k] = e
					}
				}
			}
			if text := difference(c.Entries, want); text != "" {
				rep.add(Stores, StoreDiffers, "store %s[%d] of %s at offset %d is not what its changelog makes of the windows from %d on: %s",
					store, p, c.Owner, c.Position, int64(binary.BigEndian.Uint64([]byte(floor))), text)
			}
		}
		if !complete {
			rep.add(Stores, StoreDiffers, "store %s[%d]: no process has it up to the end of its changelog, %d", store, p, end)
		}
		maps.Copy(left, fewest)
	}
	return left
}

// startOf is the start of a window, in eight bytes, of its key in the changelog. No start here is negative, so they sort as numbers do.
func startOf(key string) string {
	if len(key) < 12 {
		return "\x00\x00\x00\x00\x00\x00\x00\x00"
	}
	return key[len(key)-12 : len(key)-4]
}
