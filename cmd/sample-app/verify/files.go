package verify

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"time"
)

// A flight of the file, and what the order of the feed says about it. Times are in milliseconds since 1970.
type flight struct {
	row                 int
	scheduled, heard    int64
	delay, distance     int
	origin, destination string

	seen              int64 // the watermark of its own partition when it was fed
	mayLate, mustLate bool
	may, must         bool // be sidelined
}

func (f *flight) key() string { return f.origin + "-" + f.destination }

func (f *flight) window() windowKey {
	return windowKey{airport: f.origin, start: floor(f.scheduled, windowSize)}
}

type airport struct{ city, state string }

// copyShift is how far each repetition of the file lies behind the one before.
const copyShift = 90 * 24 * time.Hour

// readFlights returns n flights in file order; where the file ends it starts again, 90 days later.
func readFlights(gz []byte, n int) ([]flight, error) {
	zr, err := gzip.NewReader(bytes.NewReader(gz))
	if err != nil {
		return nil, fmt.Errorf("verify: flights: not a gzip file: %w", err)
	}
	var file []struct {
		Date                string
		Delay, Distance     int
		Origin, Destination string
	}
	if err := json.NewDecoder(zr).Decode(&file); err != nil {
		return nil, fmt.Errorf("verify: flights: %w", err)
	}
	if len(file) == 0 {
		return nil, fmt.Errorf("verify: flights: the file has none")
	}
	flights := make([]flight, n)
	for i := range flights {
		f := file[i%len(file)]
		due, err := time.Parse("2006/01/02 15:04", f.Date)
		if err != nil {
			return nil, fmt.Errorf("verify: flights: row %d: %w", i%len(file)+1, err)
		}
		due = due.Add(time.Duration(i/len(file)) * copyShift)
		heard := due.Add(time.Duration(max(f.Delay, 0)) * time.Minute)
		flights[i] = flight{
			row: i + 1, scheduled: due.UnixMilli(), heard: heard.UnixMilli(),
			delay: f.Delay, distance: f.Distance, origin: f.Origin, destination: f.Destination,
		}
	}
	return flights, nil
}

func readAirports(gz []byte) (map[string]airport, error) {
	zr, err := gzip.NewReader(bytes.NewReader(gz))
	if err != nil {
		return nil, fmt.Errorf("verify: airports: not a gzip file: %w", err)
	}
	rows, err := csv.NewReader(zr).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("verify: airports: %w", err)
	}
	airports := make(map[string]airport, len(rows))
	for i, r := range rows {
		if len(r) < 4 {
			return nil, fmt.Errorf("verify: airports: line %d has %d fields, want iata,name,city,state", i+1, len(r))
		}
		if i > 0 { // the header
			airports[r[0]] = airport{city: r[2], state: r[3]}
		}
	}
	return airports, nil
}
