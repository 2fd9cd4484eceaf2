// Package changelog maps a store's mutations to the records of its changelog topic and back, and knows how the topics that an app
// makes for itself are named and configured. It has no Kafka client: what it returns is written and read by others.
//
// The records are those that Kafka Streams writes, so that an app can move over with its state:
//
//	key-value store   key                                      → value
//	window store      key ‖ 8-byte start ‖ 4-byte sequence (0)  → value
//	sliding windows   as those of a window store
//	session store     key ‖ 8-byte end ‖ 8-byte start           → value
//
// Numbers are big-endian, start and end are in Unix milliseconds. The event time of the value is the record's timestamp. A deleted key
// is a tombstone: a null value. A table that is read from a topic has that topic for its changelog; its records are the user's and
// map in the same way. The index of a store is not in its changelog: whoever restores the store makes it again, with state.Kind.Index.
//
// These formats have no version of their own: they are Kafka Streams' and must not change.
package changelog
