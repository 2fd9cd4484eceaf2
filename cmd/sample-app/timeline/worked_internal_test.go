package timeline

const sec = 1000

// corrected is the worked example: the fifty-ninth second comes when its minute has closed.
func corrected() *Timeline {
	rec := func(t, w int64, label string) Record { return Record{Time: t * sec, Watermark: w * sec, Label: label} }
	t := &Timeline{
		Title: "late by 5 s: corrected", Subtitle: "tumbling 1m0s, disorder 5 s, corrected within 30 s",
		Records: []Record{rec(10, 5, "5"), rec(50, 45, "7"), rec(62, 57, "11"), rec(70, 65, "2"), rec(59, 65, "3"), rec(125, 120, "1")},
		Windows: []Window{
			{Start: 0, End: 60 * sec, Closed: 3, Gone: 5, Results: []Result{{After: 3, Value: "12"}, {After: 4, Value: "15", Revision: 1}}},
			{Start: 60 * sec, End: 120 * sec, Closed: 5, Gone: Never, Results: []Result{{After: 5, Value: "13"}}},
			{Start: 120 * sec, End: 180 * sec, Closed: Never, Gone: Never, Open: "1"},
		},
	}
	t.Records[4].Fate, t.Records[4].Note = Corrected, "5 s late"
	return t
}

func retracted() *Timeline {
	t := corrected()
	t.Title = "the same, retracted"
	t.Windows[0].Results = []Result{{After: 3, Value: "+12"}, {After: 4, Value: "−12", Revision: 1, Retraction: true}, {After: 4, Value: "+15", Revision: 1}}
	return t
}

func dropped() *Timeline {
	t := corrected()
	t.Title, t.Subtitle = "the same, dropped", "tumbling 1m0s, disorder 5 s"
	t.Records[4].Fate = Dropped
	t.Windows[0].Results, t.Windows[0].Gone, t.Windows[1].Gone = t.Windows[0].Results[:1], 3, 5
	t.Records[2].Fate = OutOfOrder
	return t
}

// hopping has windows that overlap, and one record that is late for one of its windows only.
func hopping() *Timeline {
	rec := func(t, w int64, label string) Record { return Record{Time: t * sec, Watermark: w * sec, Label: label} }
	t := &Timeline{
		Title: "hopping windows", Subtitle: "60 s, every 30 s",
		Records: []Record{rec(35, 30, "4"), rec(65, 60, "8"), rec(50, 60, "1"), rec(100, 95, "2")},
		Windows: []Window{
			{Start: 0, End: 60 * sec, Closed: 1, Gone: 1, Results: []Result{{After: 1, Value: "4"}}},
			{Start: 30 * sec, End: 90 * sec, Closed: 3, Gone: 3, Results: []Result{{After: 3, Value: "13"}}},
			{Start: 60 * sec, End: 120 * sec, Closed: Never, Gone: Never, Open: "10"},
			{Start: 90 * sec, End: 150 * sec, Closed: Never, Gone: Never, Open: "2"},
		},
	}
	t.Records[2].Fate, t.Records[2].Note = Sidelined, "late for the first"
	return t
}
