package oracle

// What of event time a task can have met, as it is called in the table of a simulation.
const (
	SawCorrected        = "corrected window"
	SawTakenBack        = "correction that takes back"
	SawSubtracted       = "value taken out again"
	SawNothing          = "correction of nothing"
	SawDeleted          = "result that is a deletion"
	SawBeyond           = "too late to be corrected"
	SawEarly            = "early result by time"
	SawEarlyCount       = "early result by count"
	SawFinal            = "final result"
	SawDiscarded        = "discarded result"
	SawRetracting       = "result taken back on time"
	SawHeard            = "pane through a topic"
	SawCalendar         = "calendar window"
	SawClocks           = "day of 23 or 25 hours"
	SawGlobal           = "global window"
	SawGap              = "no window"
	SawTwice            = "windows of windows"
	SawSession          = "session"
	SawOwnGap           = "session with gaps of its own"
	SawMerged           = "sessions that grow together"
	SawCorrectedSession = "corrected session"
	SawChannel          = "judged by the channel"
	SawFuture           = "record from the future"
	SawPunctuated       = "watermark said by a record"
	SawSecond           = "watermark of a user's own"
	SawChained          = "correction of a correction"
)

func (b *batch) saw(what string, is bool) {
	if is {
		b.res.Saw[what]++
	}
}

// sawResult notes what a result is.
func (b *batch) sawResult(n *Node, h history, timing string, has bool) {
	b.saw(SawFinal, n.Final)
	b.saw(SawDiscarded, n.Discard && h.results > 0)
	b.saw(SawRetracting, n.TakesBack() && h.stands && timing != late)
	b.saw(SawTakenBack, n.TakesBack() && h.stands && timing == late)
	b.saw(SawDeleted, !has)
	b.saw(SawNothing, timing == late && h.results == 0)
	b.saw(SawEarlyCount, timing == early && n.EarlyCount > 0 && h.since >= n.EarlyCount)
}

// sawWindow notes what a window is that takes a record.
func (b *batch) sawWindow(node int, r rec, start int64, closed bool) {
	n := b.node(node)
	end := b.windows(node).end(start)
	b.saw(SawCorrected, closed)
	b.saw(SawChained, closed && (r.pane.timing == late || r.pane.revision > 0))
	b.saw(SawTwice, r.starts != "")
	b.saw(SawGlobal, n.Win == Global)
	b.saw(SawCalendar, n.Zone != "")
	b.saw(SawClocks, n.Win == Daily && end-start != 24*3_600_000)
}
