package eos

// Names of the checkers.
const (
	Fold         = "fold"         // every intermediate value is the fold of the committed prefix of the input
	WindowResult = "windows"      // each window once, and equal to a batch
	Conservation = "conservation" // every event is in a window or set aside, and in one of them
	Correction   = "corrections"  // the revisions of a window come one behind the other, and end equal to a batch
	TrulyLate    = "late"         // what was set aside was late
	Hop          = "repartition"  // each event passes the repartition topic once
	Timers       = "timers"       // counters count 1, 2, 3, …
	Stores       = "stores"       // a store is the fold of its changelog up to its position, and of the outputs
	LiveReader   = "reader"       // who reads while things fail sees what is there in the end
	Open         = "open"         // no transaction is left open
	Offsets      = "offsets"      // the committed offsets say what was done
)

// CheckTotals holds the outputs of the totals to the events: for each key, in the order of the topic, the fold of its first event, of
// its first two, and so on to the last. events are in the order of their partitions, without end marks, up to the committed offset;
// outputs are in the order of theirs. With whole unset more outputs may still come.
func CheckTotals(rep *Report, events []Event, outputs []Record, key func(source int64) string, whole bool) {
	type line struct {
		want []Total // after each event
		next int     // the event that the next output has to reflect
		seen []bool
	}
	lines := make(map[string]*line)
	for _, e := range events {
		k := key(e.Source)
		l := lines[k]
		if l == nil {
			l = &line{}
			lines[k] = l
		}
		var last Total
		if n := len(l.want); n > 0 {
			last = l.want[n-1]
		}
		l.want = append(l.want, last.Add(e))
	}
	for _, l := range lines {
		l.seen = make([]bool, len(l.want))
	}
	for _, r := range outputs {
		got, err := TotalSerde.Decode(r.Value)
		l := lines[r.Key]
		if err != nil || l == nil {
			rep.add(Fold, Wrong, "%s: key %q, value %x: not of any key in the input (%v)", r, r.Key, r.Value, err)
			continue
		}
		i := int(got.Count) - 1
		switch {
		case i < 0 || i >= len(l.want):
			rep.add(Fold, Duplicated, "%s: %s = %+v, which counts more than its %d events", r, r.Key, got, len(l.want))
			continue
		case got != l.want[i]:
			rep.add(Fold, Wrong, "%s: %s = %+v, want %+v: not the fold of the first %d events", r, r.Key, got, l.want[i], i+1)
		case l.seen[i]:
			rep.add(Fold, Duplicated, "%s: %s = %+v for a second time", r, r.Key, got)
		case i < l.next:
			rep.add(Fold, OutOfOrder, "%s: %s = %+v comes behind the total of %d events", r, r.Key, got, l.next)
		case i > l.next && !whole:
			rep.add(Fold, Lost, "%s: %s = %+v, want the total of %d events first", r, r.Key, got, l.next+1)
		}
		l.seen[i] = true
		l.next = max(l.next, i+1)
	}
	if !whole {
		return
	}
	for k, l := range lines {
		for i, seen := range l.seen {
			if !seen {
				rep.add(Fold, Lost, "%s = %+v is in no output", k, l.want[i])
			}
		}
	}
}

// CheckTimers holds what the timers said to 1, 2, 3, … for each counter. It returns the last of each.
func CheckTimers(rep *Report, outputs []Record) map[string]int64 {
	last := make(map[string]int64)
	for _, r := range outputs {
		got, err := decodeInt64(r.Value)
		if err != nil {
			rep.add(Timers, Wrong, "%s: %v", r, err)
			continue
		}
		switch want := last[r.Key] + 1; {
		case got == want:
		case got > want:
			rep.add(Timers, Lost, "%s: counter %s says %d behind %d", r, r.Key, got, want-1)
		default:
			rep.add(Timers, Duplicated, "%s: counter %s says %d behind %d", r, r.Key, got, want-1)
		}
		last[r.Key] = max(last[r.Key], got)
	}
	return last
}

// CheckHop wants each event once in the repartition topic; reports of watermarks have no value. With trimmed set the topic's beginning is
// gone, and nothing is said of what is missing.
func CheckHop(rep *Report, events []Event, records []Record, trimmed bool) {
	at := make(map[ID]Record)
	for _, r := range records {
		if r.Value == nil {
			continue
		}
		e, err := EventSerde.Decode(r.Value)
		if err != nil {
			rep.add(Hop, Wrong, "%s: %v", r, err)
			continue
		}
		if first, twice := at[e.ID()]; twice {
			rep.add(Hop, Duplicated, "%s: event %+v is at %s already", r, e, first)
		}
		at[e.ID()] = r
	}
	if trimmed {
		return
	}
	for _, e := range events {
		if _, ok := at[e.ID()]; !ok {
			rep.add(Hop, Lost, "event %+v is not in the repartition topic", e)
		}
	}
}
