// Package data carries the files that the sample app lives on: real flights and airports, as they were compressed.
// PROVENANCE.md beside it says where they come from and what is odd about them.
package data

import _ "embed" // for the files

// Flights is flights-20k.json.gz: a gzipped JSON array of 20,000 flights in the order of their scheduled time. Do not modify.
//
//go:embed flights-20k.json.gz
var Flights []byte

// Airports is airports.csv.gz: a gzipped CSV file of 3,376 airports with a header line. Do not modify.
//
//go:embed airports.csv.gz
var Airports []byte
