package avro_test

import (
	"fmt"
	"time"

	"github.com/headrace/headrace/serde/avro"
)

const flightSchema = `{
	"type": "record", "name": "Flight", "namespace": "flights",
	"fields": [
		{"name": "carrier", "type": "string"},
		{"name": "departs", "type": {"type": "long", "logicalType": "timestamp-millis"}},
		{"name": "delay", "type": "int"},
		{"name": "gate", "type": ["null", "string"], "default": null}
	]
}`

type Flight struct {
	Carrier string    `avro:"carrier"`
	Departs time.Time `avro:"departs"`
	Delay   int       `avro:"delay"`
	Gate    *string   `avro:"gate"`
}

// A serde in a variable of the package, as topologies declare them.
var flightSerde = avro.Of[Flight](flightSchema)

func ExampleOf() {
	gate := "D7"
	b, err := flightSerde.Append(nil, Flight{Carrier: "UA", Departs: time.UnixMilli(978307200000), Delay: -5, Gate: &gate})
	if err != nil {
		fmt.Println(err)
		return
	}
	v, err := flightSerde.Decode(b)
	fmt.Printf("%x\n%s %s %d %s %v\n", b, v.Carrier, v.Departs, v.Delay, *v.Gate, err)
	// Output:
	// 04554180d0b9faf8380902044437
	// UA 2001-01-01 00:00:00 +0000 UTC -5 D7 <nil>
}

func ExampleNew() {
	type Wrong struct {
		Carrier []byte    `avro:"carrier"`
		Departs time.Time `avro:"departs"`
		Delay   int       `avro:"delay"`
		Gate    string    `avro:"gate"`
	}
	_, err := avro.New[Wrong](flightSchema)
	fmt.Println(err)
	// Output:
	// avro: Serde[avro_test.Wrong]: field carrier (Go avro_test.Wrong.Carrier): Go type []uint8 cannot hold Avro type string; use string
	// field gate (Go avro_test.Wrong.Gate): Go type string has no nil for the null of Avro type union [null, string]; use *string
}

// An older program writes the topic: it calls the carrier airline, has the delay as an int, a field more and a field less.
func ExampleWrittenBy() {
	const old = `{"type": "record", "name": "Flight", "fields": [
		{"name": "airline", "type": "string"},
		{"name": "delay", "type": "int"},
		{"name": "tail", "type": "string"}
	]}`
	const now = `{"type": "record", "name": "Flight", "fields": [
		{"name": "carrier", "type": "string", "aliases": ["airline"]},
		{"name": "delay", "type": "double"},
		{"name": "gate", "type": ["null", "string"], "default": null}
	]}`
	type Flight struct {
		Carrier string  `avro:"carrier"`
		Delay   float64 `avro:"delay"`
		Gate    *string `avro:"gate"`
	}
	s := avro.Of[Flight](now, avro.WrittenBy(old))
	v, err := s.Decode([]byte("\x04UA\x09\x0cN12345"))
	fmt.Printf("%s %g %v %v\n", v.Carrier, v.Delay, v.Gate, err)
	// Output:
	// UA -5 <nil> <nil>
}
