package framework

import (
	"math"

	"github.com/headrace/headrace/state"
)

// maxStretches bounds a trail. Beyond it, stretches get longer: less is trimmed then, and later.
const maxStretches = 1024

// trail knows which part of a windowed changelog is still needed: the log in stretches, each with the latest start of a window that may
// have its value in it. When all windows up to that start are gone from the store, so is the need for the stretch.
//
// It need not be exact, but it never says too little: a window that is in the store has its last value at or behind the first stretch
// whose latest start is not before the window's. Starts ascend from stretch to stretch, since an earlier stretch with a later start is
// needed for longer and takes those behind it along.
//
// Sessions sort by their end, and so have that in the place of a start.
//
// It goes with the open backend, and belongs to whoever holds that.
type trail struct {
	topic     [16]byte
	stretches []stretch
	end       int64 // up to where it knows the log
	grain     int   // how many pieces a stretch is made of at least, 0 for one
	pieces    int   // of the last stretch
}

type stretch struct {
	from   int64 // to the next stretch, or to the end
	latest int64 // start of a window; noWindow if there is none
}

const noWindow = math.MinInt64

// extend says that the log now goes to the end at, and that the windows with values in what is new begin at latest or before.
func (t *trail) extend(at, latest int64) {
	if at <= t.end {
		return
	}
	n := len(t.stretches)
	switch {
	case n == 0 || latest > t.stretches[n-1].latest && t.pieces >= t.grain:
		t.stretches = append(t.stretches, stretch{t.end, latest})
		t.pieces = 1
	default:
		t.stretches[n-1].latest = max(t.stretches[n-1].latest, latest)
		t.pieces++
	}
	t.end = at
	if len(t.stretches) <= maxStretches {
		return
	}
	t.grain = 2 * max(t.grain, 1)
	half := t.stretches[:0]
	for i := 0; i < len(t.stretches); i += 2 {
		s := t.stretches[i]
		if i+1 < len(t.stretches) {
			s.latest = t.stretches[i+1].latest
		}
		half = append(half, s)
	}
	t.stretches = half
}

// resume brings the trail to the position of a store that has been restored. latest is the latest start of a window in it: whatever the
// log has of later windows, they are gone.
func (t *trail) resume(p state.Position, latest func() (int64, error)) error {
	if p.TopicID != t.topic || p.Offset < t.end {
		*t = trail{topic: p.TopicID} // another log, or less of it than we knew
	}
	if p.Offset <= t.end {
		return nil
	}
	at, err := latest()
	if err != nil {
		return err
	}
	t.extend(p.Offset, at)
	return nil
}

// trim says up to which offset the log is not needed any more, if the earliest window in the store begins at earliest.
func (t *trail) trim(earliest int64) int64 {
	n := 0
	for n < len(t.stretches) && t.stretches[n].latest < earliest {
		n++
	}
	t.stretches = t.stretches[n:]
	if len(t.stretches) < maxStretches/4 {
		t.grain /= 2
	}
	if len(t.stretches) == 0 {
		return t.end
	}
	return t.stretches[0].from
}

// earliestStart returns the earliest start of a window in a store of that kind, math.MaxInt64 if there is none.
func earliestStart(r state.Reader, store int, kind state.Kind) (int64, error) {
	at, ok, err := firstFrom(r, store, kind, math.MinInt64)
	if err != nil || !ok {
		return math.MaxInt64, err
	}
	return at, nil
}

// latestStart returns the latest start of a window in a store of that kind, noWindow if there is none. There are no scans from the end,
// so it looks for the last start behind which there is nothing, by halves.
func latestStart(r state.Reader, store int, kind state.Kind) (int64, error) {
	last, ok, err := firstFrom(r, store, kind, math.MinInt64)
	if err != nil || !ok {
		return noWindow, err
	}
	for end := int64(math.MaxInt64); last < end; {
		middle := last + int64(uint64(end-last)/2) + 1 // end-last may not fit, and is right as a number without a sign
		at, ok, err := firstFrom(r, store, kind, middle)
		switch {
		case err != nil:
			return noWindow, err
		case ok:
			last = at
		default:
			end = middle - 1
		}
	}
	return last, nil
}

// firstFrom returns the first start at or after from.
func firstFrom(r state.Reader, store int, kind state.Kind, from int64) (start int64, ok bool, err error) {
	_, end := kind.Entries()
	for e, err := range r.Scan(store, kind.AppendTime(nil, from), end) {
		if err != nil {
			return 0, false, err
		}
		at, ok := kind.TimeOf(e.Key)
		return at, ok, nil
	}
	return 0, false, nil
}
