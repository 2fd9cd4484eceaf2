// Package avro is [serde.Serde] for Apache Avro: records of a schema as Go structs, in Avro's binary encoding.
//
// The schema is the JSON text of an .avsc file. Embed it, or read it with os.ReadFile:
//
//	//go:embed flight.avsc
//	var flightSchema string
//
//	type Flight struct {
//		Carrier string    `avro:"carrier"`
//		Departs time.Time `avro:"departs"`
//		Gate    *string   `avro:"gate"` // union of null and string
//	}
//
//	var flights = topology.Topic("flights", serde.String(), avro.Of[Flight](flightSchema))
//
// [New] returns the mistakes in schema and type, and [Of] keeps them for Err, Append and Decode.
//
// # Go types
//
// T is held against the schema once, and everything has to fit: each field of a record needs a Go field and each exported Go field a
// field of the record, since what is missing on either side would be lost on the way from one topic to the next. A tag gives the name in
// the schema, which otherwise is the Go field's own; `avro:"-"` leaves a Go field out. Fields of embedded structs count as those of the
// struct around them. To read a part of a record, give a schema of that part, and the whole by [WrittenBy].
//
//	null                          struct{}
//	boolean                       bool
//	int, long                     any integer type; a value beyond the range of either side is an error
//	float, double                 float32, float64
//	bytes                         []byte
//	string                        string
//	enum                          string; one that is no symbol is an error
//	fixed                         [N]byte, or []byte of that length
//	array                         slice
//	map                           map with strings as keys
//	record                        struct
//	union of null and X           *X; a slice, a map and *big.Rat also without the pointer: nil is null
//	union of one                  what its branch takes
//	other unions                  struct with a pointer, slice or map for each branch but null, see below
//	date                          time.Time: its calendar day where it is, read as midnight UTC
//	time-millis, time-micros      time.Duration since midnight
//	timestamp-millis, …           time.Time, read in UTC
//	local-timestamp-millis, …     time.Time: its calendar and clock where it is, read as if in UTC
//	decimal                       *big.Rat; more digits than the schema has are an error, nothing is rounded
//	uuid                          string or [16]byte (on fixed: only [16]byte)
//	duration                      Duration
//
// Instead, a logical type may be held by what its underlying type takes, except that time.Duration is not a timestamp. What is finer than
// the unit of a time or timestamp is dropped (downwards). Types defined on those above count as well, other than on time.Time. A pointer
// to such a type is allowed where there is no null, and its nil is then an error of Append.
//
// A union of more than null and one type is a struct with a field for each branch, tagged with the branch's name: the full or the short
// name of a named type, or "string", "array" and so on. One of the fields is set; none is null, or an error where the union has no null.
//
//	type Payment struct { // ["null", "Card", {"type": "record", "name": "bank.Transfer", …}, "string"]
//		Card     *Card     `avro:"Card"`
//		Transfer *Transfer `avro:"bank.Transfer"`
//		Voucher  *string   `avro:"string"`
//	}
//
// nil slices and maps are empty outside of unions, and what is empty is read as empty and not nil. A key that a map has twice is an error.
// Strings need not be UTF-8: they are kept as they are. Null as a Kafka value, a tombstone, never gets here; the Avro type null is a value.
//
// # Evolution
//
// With [WrittenBy], what was written with one schema is read as another. These rules of the specification's Schema Resolution hold, and
// are applied when the serde is made, so that what can never be read is an error of [New]:
//
//   - Records match by their short name, or by an alias of the reader's; likewise enums, and fixed with the same size.
//   - Fields match by name, in any order, or by an alias of the reader's field. What only the writer has is skipped. What only the reader
//     has takes its default; without one it is an error of [New].
//   - int is read as long, float, double; long as float, double (rounded); float as double; string as bytes and bytes as string.
//   - A symbol that the reader's enum lacks becomes its default; without one, a value with that symbol is an error of Decode.
//   - Arrays and maps resolve their items.
//   - A type is read as the branch of the reader's union that is of the same type and name, else as the first that matches. (The
//     specification takes the first that matches, Java this one.)
//   - A union is read branch by branch. A branch that cannot be read is an error of Decode when it comes, all of them are one of New.
//   - A default of a union is of the first branch that it fits.
//
// Beyond the specification, two logical types, or decimals of two precisions or scales, do not match: a number of microseconds would be
// read as one of milliseconds.
//
// # Hostile bytes
//
// Decode answers any bytes with a value or an error. Lengths and counts are held against what is left before anything is allocated, depth
// against [MaxDepth] and memory against [MaxSize]. Bytes left over are an error. The schema is checked by linkedin/goavro, bytes are not
// decoded by it: it allocates by the counts that it reads.
//
// A plain value does not say which schema wrote it. If it was another than the serde knows, it may decode to nonsense; [SingleObject]
// tells. The encoding of Confluent's schema registry, which Kafka Streams' SpecificAvroSerde writes, is neither of the two.
package avro
