package eos

import (
	"bytes"
	"encoding/binary"

	"github.com/headrace/headrace/state"
)

// Entry is what a store holds of a key.
type Entry struct {
	Value []byte
	Time  int64
}

// StoreCopy is a store of one partition as it was found on the disk of one process.
type StoreCopy struct {
	Owner     string // the process
	Partition int32
	// Position is the next offset of the changelog that it would read.
	Position int64
	// Entries are by the changelog's key.
	Entries map[string]Entry
}

// FoldLog returns what the records of a changelog partition below the offset make, oldest first.
func FoldLog(records []Record, below int64) map[string]Entry {
	out := make(map[string]Entry)
	for _, r := range records {
		switch {
		case r.Offset >= below:
		case r.Value == nil:
			delete(out, r.Key)
		default:
			out[r.Key] = Entry{r.Value, r.Time}
		}
	}
	return out
}

// CheckStore holds each copy of a store to its changelog, read-committed, up to the copy's position; one copy of each partition must have
// all of it. starts are the offsets at which the partitions begin: where they have been trimmed, an old copy may hold what has been
// deleted since, so it is only held to what is left. It returns what the whole changelog makes, of all partitions.
func CheckStore(rep *Report, store string, changelog [][]Record, starts []int64, copies []StoreCopy) map[string]Entry {
	whole := make(map[string]Entry)
	for p, records := range changelog {
		end := int64(0)
		if n := len(records); n > 0 {
			end = records[n-1].Offset + 1
		}
		complete := false
		for _, c := range copies {
			if int(c.Partition) != p {
				continue
			}
			complete = complete || c.Position >= end
			want := FoldLog(records, c.Position)
			if starts[p] > 0 && c.Position < end {
				for k, e := range c.Entries {
					if _, ok := want[k]; !ok {
						want[k] = e
					}
				}
			}
			if c.Position < starts[p] {
				continue
			}
			if text := difference(c.Entries, want); text != "" {
				rep.add(Stores, StoreDiffers, "store %s[%d] of %s at offset %d is not the fold of its changelog: %s", store, p, c.Owner, c.Position, text)
			}
		}
		if !complete {
			rep.add(Stores, StoreDiffers, "store %s[%d]: no process has it up to the end of its changelog, %d", store, p, end)
		}
		for k, e := range FoldLog(records, end) {
			if _, twice := whole[k]; twice {
				rep.add(Stores, StoreDiffers, "store %s: key %q is in two partitions", store, k)
			}
			whole[k] = e
		}
	}
	return whole
}

// CheckOutputs holds what a changelog makes to the last output of each key. They have the same value.
func CheckOutputs(rep *Report, store string, folded map[string]Entry, outputs []Record) {
	last := make(map[string]Entry)
	for _, r := range outputs {
		last[r.Key] = Entry{Value: r.Value}
	}
	for k, e := range folded {
		e.Time = 0
		folded[k] = e
	}
	if text := difference(folded, last); text != "" {
		rep.add(Stores, StoreDiffers, "store %s is not the fold of the outputs: %s", store, text)
	}
}

// CheckEmpty wants nothing to be left in a store.
func CheckEmpty(rep *Report, store string, folded map[string]Entry) {
	for k, e := range folded {
		rep.add(Stores, StoreDiffers, "store %s still holds %q = %x", store, k, e.Value)
	}
}

// difference describes the first one found, and how many there are.
func difference(got, want map[string]Entry) string {
	text, n := "", 0
	see := func(k string, got, want any) {
		if n++; text == "" {
			text = sprint("key %q is %v, want %v", k, got, want)
		}
	}
	for k, w := range want {
		g, ok := got[k]
		switch {
		case !ok:
			see(k, "missing", w)
		case g.Time != w.Time || !bytes.Equal(g.Value, w.Value):
			see(k, g, w)
		}
	}
	for k, g := range got {
		if _, ok := want[k]; !ok {
			see(k, g, "none")
		}
	}
	if n > 1 {
		text += sprint(", and %d more", n-1)
	}
	return text
}

// ReadStore reads a store of a backend into a copy, with keys as its changelog has them.
func ReadStore(owner string, partition int32, b state.Backend, store int, kind state.Kind) (StoreCopy, error) {
	c := StoreCopy{Owner: owner, Partition: partition, Position: b.Position(store).Offset, Entries: make(map[string]Entry)}
	for e, err := range b.Scan(store, nil, nil) {
		if err != nil {
			return c, err
		}
		if kind.Local(e.Key) {
			continue // no changelog has it
		}
		at, value, err := state.SplitValue(e.Value)
		if err != nil {
			return c, err
		}
		key := e.Key
		start, inner, ok := int64(0), []byte(nil), false
		switch kind {
		case state.WindowKind:
			start, inner, ok = state.SplitWindowKey(e.Key)
		case state.SlidingKind:
			start, inner, ok = state.SplitSlidingKey(e.Key)
		case state.SessionKind:
			if start, end, inner, ok := state.SplitSessionKey(e.Key); ok {
				key = binary.BigEndian.AppendUint64(bytes.Clone(inner), uint64(end))
				key = binary.BigEndian.AppendUint64(key, uint64(start))
			}
		}
		if ok {
			key = binary.BigEndian.AppendUint64(bytes.Clone(inner), uint64(start))
			key = append(key, 0, 0, 0, 0)
		}
		c.Entries[string(key)] = Entry{bytes.Clone(value), at}
	}
	return c, nil
}
