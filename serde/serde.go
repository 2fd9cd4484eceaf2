// Package serde turns values into the bytes of a Kafka record and back.
//
// The plain serdes ([String], [Bytes], [Int64], …) write byte for byte what the
// serializers of Kafka's Java client write, so that a Java service can read our
// topics and the other way round. The serdes whose names begin with Ordered
// are for keys that are ranged over: comparing their bytes compares the values.
// [JSON] is for everything else, and package serde/avro for Apache Avro, though
// not in the framing of Confluent's schema registry.
//
// Null is not a value here: a record whose key or value is null never reaches a
// Serde, the framework deals with it. Empty bytes are a value like any other.
package serde

import "fmt"

// Serde encodes values of T as bytes and decodes them.
//
// A Serde is safe for concurrent use by many goroutines.
//
// Append appends the encoding of v to dst and returns the longer slice, as the
// built-in append does. It must not keep dst, nor parts of it. After an error
// the returned slice is not used.
//
// The bytes given to Decode are immutable: the caller neither changes nor reuses
// them, so the value may alias them ([Bytes] does). Decode must not change them.
// It is given whatever is on the topic and must answer malformed input with an
// error, not a panic.
//
// Kafka Streams calls this a Serde as well.
type Serde[T any] interface {
	Append(dst []byte, v T) ([]byte, error)
	Decode(b []byte) (T, error)
}

// wrongLength is the error for an encoding whose length says that another
// serializer wrote it.
func wrongLength(name string, want, got int) error {
	return fmt.Errorf("serde: %s: want %d bytes, got %d; the topic was probably written with another serializer", name, want, got)
}
