package avro_test

import (
	"testing"
	"time"

	"github.com/linkedin/goavro/v2"
)

func flight() Flight {
	gate := "D7"
	return Flight{Carrier: "UA", Departs: time.UnixMilli(978307200000).UTC(), Delay: -5, Gate: &gate}
}

func BenchmarkAppend(b *testing.B) {
	v := flight()
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if buf, err = flightSerde.Append(buf[:0], v); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	in, err := flightSerde.Append(nil, flight())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := flightSerde.Decode(in); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeAll(b *testing.B) {
	s := must[all](b, allSchema)
	in, err := s.Append(nil, sample())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Decode(in); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecodeGoavro is what decoding a Flight costs by goavro, whose result is not a struct yet.
func BenchmarkDecodeGoavro(b *testing.B) {
	in, err := flightSerde.Append(nil, flight())
	if err != nil {
		b.Fatal(err)
	}
	codec, err := goavro.NewCodec(flightSerde.Schema())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := codec.NativeFromBinary(in); err != nil {
			b.Fatal(err)
		}
	}
}
