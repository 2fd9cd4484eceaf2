package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/topology/topologytest"
	"github.com/headrace/headrace/window"
)

func day(hour, minute int) time.Time { return time.Date(2001, 1, 1, hour, minute, 0, 0, time.UTC) }

// The app without a broker: what leaves one airport is counted by the timetable's windows, with the city's name; a flight whose news
// comes after its window has closed corrects it, and one that comes an hour later is set aside as it was read; an end mark closes windows and is no flight. A crash in the middle
// changes nothing.
func TestFlights(t *testing.T) {
	t.Parallel()
	for _, crash := range []bool{false, true} {
		d := topologytest.New(t, topologytest.Build(t, Flights), topologytest.Partitions(2))
		table := topologytest.Input(d, airports)
		table.Pipe(day(0, 0), "ATL", Airport{IATA: "ATL", City: "Atlanta", State: "GA"})
		table.Pipe(day(0, 0), "JFK", Airport{IATA: "JFK", City: "New York", State: "NY"})

		in := topologytest.Input(d, flights)
		fly := func(partition, row int, scheduled time.Time, delay int, from, to string) {
			heard := scheduled.Add(time.Duration(max(delay, 0)) * time.Minute)
			in.PipeTo(partition, heard, from+"-"+to, Flight{Row: row, Scheduled: scheduled, Delay: delay, Origin: from, Destination: to})
		}
		fly(0, 1, day(1, 0), 10, "ATL", "BOS")
		fly(1, 2, day(2, 0), -5, "JFK", "BOS")
		fly(1, 3, day(5, 59), 30, "ATL", "MIA")
		fly(0, 4, day(6, 0), 0, "ATL", "BOS")
		if crash {
			d.Crash()
		}
		// Both partitions pass 06:00 by the disorder of 15 minutes: the first windows close.
		fly(0, 5, day(6, 15), 0, "ATL", "BOS")
		fly(1, 6, day(6, 20), 0, "JFK", "BOS")
		fly(1, 7, day(5, 0), 90, "ATL", "LAX")
		if crash {
			d.Crash()
		}
		// And both pass 07:00: what was closed at 06:00 is not corrected any more.
		fly(0, 8, day(7, 15), 0, "ATL", "BOS")
		fly(1, 9, day(7, 20), 0, "JFK", "BOS")
		fly(0, 10, day(5, 30), 120, "ATL", "LAX")
		for p := range 2 {
			in.PipeTo(p, day(23, 0), "end-mark", Flight{EndMark: true, Scheduled: day(23, 0)})
		}

		got, corrections := map[window.Key[string]]Stats{}, 0
		for _, r := range topologytest.Output(d, delays).All() {
			rev, revised := r.Header("x-rev")
			if _, again := got[r.Key]; again != revised || revised && rev != "1" {
				t.Errorf("crash %v: window %v comes again %v, with revision %q", crash, r.Key, again, rev)
			}
			if revised {
				corrections++
			}
			got[r.Key] = r.Value
		}
		at := func(airport string, hour int) window.Key[string] {
			return window.Key[string]{Key: airport, Start: day(hour, 0).UnixMilli(), End: day(hour+6, 0).UnixMilli()}
		}
		want := map[window.Key[string]]Stats{
			at("ATL", 0): {Airport: "ATL", City: "Atlanta", State: "GA", Count: 3, Sum: 130, Mean: 130 / 3.0, Max: 90},
			at("JFK", 0): {Airport: "JFK", City: "New York", State: "NY", Count: 1, Sum: -5, Mean: -5, Max: -5},
			at("ATL", 6): {Airport: "ATL", City: "Atlanta", State: "GA", Count: 3, Sum: 0, Mean: 0, Max: 0},
			at("JFK", 6): {Airport: "JFK", City: "New York", State: "NY", Count: 2, Sum: 0, Mean: 0, Max: 0},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("crash %v: windows (-want +got):\n%s", crash, diff)
		}

		late := topologytest.Output(d, topology.Topic(lateTopic, serde.String(), serde.JSON[Flight]())).All()
		if corrections != 1 {
			t.Errorf("crash %v: %d corrections, want that by flight 7", crash, corrections)
		}
		if len(late) != 1 || late[0].Value.Row != 10 {
			t.Fatalf("crash %v: set aside %v, want flight 10 alone", crash, late)
		}
		if reason, _ := late[0].Header("x-late-reason"); reason != "window-closed" {
			t.Errorf("crash %v: reason %q", crash, reason)
		}
	}
}
