package verify

import (
	"fmt"
	"slices"
	"strings"
)

// A Report says what the app wrote and whether it is right. Times are in milliseconds since 1970, delays in minutes.
type Report struct {
	// Records is how many flights were fed, Windows how many windows have an answer, Equal how many of these the app got right.
	Records, Windows, Equal int
	// Sidelined is how many flights were sidelined, Must how many had to be, May how many could be.
	Sidelined, Must, May int
	// MustCorrect is how many flights had to correct a window, MayCorrect how many could.
	MustCorrect, MayCorrect int
	// Half is how many windows were out when half of the feed was in, -1 if nobody counted.
	Half int
	// LatenessChecked repeats the option.
	LatenessChecked bool

	// Missing counts windows that did not come and flights that had to be sidelined, or to correct a window, and did not; Extra counts
	// windows that nobody asked for, further results of a window that are no revision, flights that were sidelined or corrected a
	// window without being late, or were sidelined twice; Wrong counts results, revisions and late records that say something else than
	// they should.
	Missing, Extra, Wrong int
	// General is what is wrong with the run as a whole.
	General []string
	// Examples are up to ten of the faults that are counted, of as many kinds as there are.
	Examples []string

	// Results are the windows that the app put out, the last result of each, by start and airport.
	Results []Window
	// Corrections are the results that came when their window had closed.
	Corrections []Correction
	// Late are the flights that it sidelined, by row.
	Late []Late
}

// A Window is a result as it was read from the topic.
type Window struct {
	Airport, City, State string
	Start, End           int64
	Count, Sum           int64
	Mean                 float64
	Max                  int64
}

// A Correction is a result that came when its window had closed, with the one before it. Delay is that of the flight that it has more.
type Correction struct {
	Airport, City string
	Start, End    int64
	Revision      int
	Delay         int64
	CountBefore   int64
	MeanBefore    float64
	Count         int64
	Mean          float64
}

// A Late is a flight that was sidelined, with what the file says of it. Watermark is the app's, from the header.
type Late struct {
	Row                        int
	Airport, City, Destination string
	Scheduled                  int64
	Delay                      int
	WindowStart, WindowEnd     int64
	Watermark                  int64
}

// OK says whether everything that was checked is right.
func (r Report) OK() bool {
	return r.Missing == 0 && r.Extra == 0 && r.Wrong == 0 && len(r.General) == 0 && r.Equal == r.Windows
}

// Verdict is the report in one line, which starts with "verified: " or "not verified: ".
func (r Report) Verdict() string {
	bounds := func(must, may int) string {
		if !r.LatenessChecked {
			return fmt.Sprintf("lateness not checked, at most %d could", may)
		}
		return fmt.Sprintf("%d had to be, at most %d could", must, may)
	}
	counts := fmt.Sprintf("windows equal the batch answer, %d corrections (%s), %d flights sidelined (%s); %d missing, %d extra, %d wrong",
		len(r.Corrections), bounds(r.MustCorrect, r.MayCorrect), r.Sidelined, bounds(r.Must, r.May), r.Missing, r.Extra, r.Wrong)
	if r.OK() {
		return fmt.Sprintf("verified: %d %s", r.Windows, counts)
	}
	return strings.Join(append([]string{fmt.Sprintf("not verified: %d of %d %s", r.Equal, r.Windows, counts)}, r.General...), "; ")
}

// String is the examples, a line each, and then the verdict. It does not end in a newline.
func (r Report) String() string {
	return strings.Join(append(slices.Clone(r.Examples), r.Verdict()), "\n")
}

// A tally is what a fault is counted as; explained faults are counted elsewhere and only told.
type tally int

const (
	missing tally = iota
	extra
	wrong
	explained
)

// faults collects what is wrong.
type faults struct {
	count   [explained + 1]int
	kinds   []string // in the order of their first fault
	texts   map[string][]string
	general []string
}

// maxExamples is how many faults a report tells in words.
const maxExamples = 10

func (f *faults) add(as tally, kind, text string) {
	f.count[as]++
	if f.texts == nil {
		f.texts = map[string][]string{}
	}
	if f.texts[kind] == nil {
		f.kinds = append(f.kinds, kind)
	}
	if len(f.texts[kind]) < maxExamples {
		f.texts[kind] = append(f.texts[kind], text)
	}
}

// examples takes from each kind in turn, so that a thousand faults of one kind do not hide the one of another.
func (f *faults) examples() []string {
	var out []string
	for i := range maxExamples {
		for _, kind := range f.kinds {
			if i < len(f.texts[kind]) && len(out) < maxExamples {
				out = append(out, f.texts[kind][i])
			}
		}
	}
	return out
}
