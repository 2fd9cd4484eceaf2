package main

import (
	"time"

	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/window"
)

// The topics of the app. flights and airports come in, airport-delays and flights-late go out.
const (
	flightsTopic  = feedTopic
	airportsTopic = "airports"
	delaysTopic   = "airport-delays"
	lateTopic     = "flights-late"

	// delayStats is the store of the open windows. Its operator's watermark decides what is late.
	delayStats = "delay-stats"
)

// Flight is a flight as the feeder sends it; City and State come from the airports table.
type Flight struct {
	Row         int       `json:"row,omitempty"`
	Scheduled   time.Time `json:"scheduled"`
	Delay       int       `json:"delay"` // minutes; early flights have a negative one
	Distance    int       `json:"distance"`
	Origin      string    `json:"origin"`
	Destination string    `json:"destination"`
	// EndMark says that this is no flight: the feeder sends one to each partition when it is done.
	EndMark bool `json:"endMark,omitempty"`

	City  string `json:"-"`
	State string `json:"-"`
}

// Airport is an entry of the airports table.
type Airport struct {
	IATA  string `json:"iata"`
	Name  string `json:"name"`
	City  string `json:"city"`
	State string `json:"state"`
}

// Stats are the delays of the flights that left one airport in one window, in minutes.
type Stats struct {
	Airport string  `json:"airport"`
	City    string  `json:"city"`
	State   string  `json:"state"`
	Count   int64   `json:"count"`
	Sum     int64   `json:"sum"`
	Mean    float64 `json:"mean"`
	Max     int64   `json:"max"`
}

// Add returns the stats with one more flight.
func (s Stats) Add(f Flight) Stats {
	delay := int64(f.Delay)
	if s.Count == 0 || delay > s.Max {
		s.Max = delay
	}
	s.Airport, s.City, s.State = f.Origin, f.City, f.State
	s.Count++
	s.Sum += delay
	s.Mean = float64(s.Sum) / float64(s.Count)
	return s
}

var (
	flights = topology.Topic(flightsTopic, serde.String(), serde.JSON[Flight]()).
		EventTime(func(r topology.Record[string, Flight]) time.Time { return r.Value.Scheduled }).
		Watermarks(window.BoundedDisorder(feedDisorder))
	airports = topology.Topic(airportsTopic, serde.String(), serde.JSON[Airport]())
	delays   = topology.Topic(delaysTopic, window.KeySerde(serde.String()).Size(feedWindow), serde.JSON[Stats]())
)

// Flights is the app: how late do flights leave, by airport and six hours of the timetable?
func Flights() (*topology.Topology, error) {
	b := topology.NewBuilder()

	flown := topology.From(b, flights).
		Filter(func(_ string, f Flight) bool { return !f.EndMark })
	byOrigin := topology.GroupBy(flown, "by-origin",
		func(_ string, f Flight) string { return f.Origin }, serde.String(), serde.JSON[Flight]())
	named := topology.JoinTable(byOrigin.Stream(), topology.TableFrom(b, "airports", airports),
		func(f Flight, a Airport) Flight { f.City, f.State = a.City, a.State; return f })

	perWindow := topology.Windowed(named.GroupByKey(), window.Tumbling(feedWindow),
		window.CorrectWithin(feedHorizon).Otherwise(window.Sideline(lateTopic)))
	topology.Aggregate(perWindow, delayStats, serde.JSON[Stats](), Stats.Add, topology.EmitOnClose()).
		To(delays)

	return b.Build()
}
