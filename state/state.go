package state

import (
	"fmt"
	"iter"
)

// Kind says how the keys of a store are laid out.
type Kind uint8

const (
	// KeyValueKind is a store of the last value of each key. Kafka Streams: timestamped key-value store.
	KeyValueKind Kind = iota + 1
	// WindowKind is a store of one value for each window and key. Kafka Streams: timestamped window store.
	WindowKind
	// SessionKind is a store of one value for each session and key, and finds the sessions of a key. Kafka Streams: session store.
	SessionKind
	// SlidingKind is a store of one value for each window and key that finds the windows of a key, too. Kafka Streams: timestamped
	// window store.
	SlidingKind
)

// String returns the kind's name as docs and errors write it.
func (k Kind) String() string {
	switch k {
	case KeyValueKind:
		return "key-value"
	case WindowKind:
		return "window"
	case SessionKind:
		return "session"
	case SlidingKind:
		return "sliding window"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Spec is what a topology says of a store: enough to open it, to name its changelog and to map its entries to records.
type Spec struct {
	// Name is the store's name, unique in a topology. Its changelog topic is <app>-<name>-changelog.
	Name string
	// Kind is the layout of its keys.
	Kind Kind
	// SourceTopic names the topic that already is this store's changelog: a table read from a topic. Empty means that the
	// store has a changelog topic of its own and that its mutations are written there.
	SourceTopic string
	// Retention is how long after its start a window is kept, in milliseconds: size plus grace. Of a session it is how long after its
	// end. Zero for key-value stores.
	Retention int64
}

// Position says up to where in its changelog partition a store has been applied.
//
// The zero Position means that nothing has been applied.
type Position struct {
	// TopicID is the id that the broker gave the changelog topic: a topic deleted and made again has another one.
	TopicID [16]byte
	// Offset is the next changelog offset to read.
	Offset int64
	// LeaderEpoch is the epoch of the last record applied, -1 if unknown.
	LeaderEpoch int32
	// AppliedAt is the wall time of the last apply, in Unix milliseconds.
	AppliedAt int64
}

// Entry is a key with its value, in store layout. The bytes are immutable.
type Entry struct {
	Key, Value []byte
}

// Mutation is one change of a store, in store layout. A nil Value deletes the key.
type Mutation struct {
	Store int // index into the specs with which the backend was opened
	Key   []byte
	Value []byte
	// Below says that every key below Key is deleted, and Key is left alone. Value means nothing then.
	Below bool
}

// Reader reads stores in store layout. Returned bytes are immutable and stay valid for as long as the caller holds them. An empty
// value is a value: only ok tells whether there is one.
type Reader interface {
	// Get returns the value of key, and whether there is one.
	Get(store int, key []byte) (value []byte, ok bool, err error)
	// Scan returns the entries with from <= key < to in ascending order of the keys' bytes. A nil from or to is no bound; an
	// empty to is one that nothing is below. An error comes last, with the zero Entry. Ending the loop early frees what the
	// scan held.
	Scan(store int, from, to []byte) iter.Seq2[Entry, error]
}

// Backend holds the committed state of all stores of one task.
//
// One goroutine writes: Apply, SetPosition and Close are never called concurrently with each other. Get, Scan and Position are
// called by the writer; every other goroutine reads through a Snapshot. A loop over Scan must have ended before the writer
// changes the backend.
type Backend interface {
	Reader

	// Apply makes the mutations and the new positions visible and durable together: after a crash either all of them are
	// there or none. Later mutations of a key win. A nil entry in positions leaves that store's position as it is;
	// positions has one element for each spec. The mutations' bytes are immutable and may be kept. A wrong number of positions
	// and a mutation of a store that there is not are errors that change nothing.
	Apply(mutations iter.Seq[Mutation], positions []*Position) error

	// Position returns the position of the last Apply, the zero Position if there was none.
	Position(store int) Position

	// Wipe empties one store and forgets its position: it will be restored from the start of its changelog.
	Wipe(store int) error

	// Snapshot returns a stable view for readers on other goroutines. It is safe for concurrent use with everything but Close.
	Snapshot() (Snapshot, error)

	// Close releases the backend. What had been applied is there again when the provider opens it anew, if it keeps state.
	// Everything fails after it, but closing again.
	Close() error
}

// Snapshot is an unchanging view of a backend. It is safe for concurrent use and must be released.
type Snapshot interface {
	Reader
	Release()
}

// Provider opens the backends of an app's tasks. It is safe for concurrent use.
type Provider interface {
	// Open opens the backend of the task, which holds one store for each of the specs, in their order. A task is open at most
	// once at a time: opening it again before it was closed is an error. A store that was kept from an earlier opening is
	// known by its name and kind; what no spec claims is dropped for good.
	Open(task string, specs []Spec) (Backend, error)
}

// Store is one store as its owner lends it to the code that uses it: to a task's operators, with writes going to the open
// transaction, or to a reader, where writes fail. Keys and values are in store layout. Typed views are made over it.
//
// A Store belongs to the goroutine of its owner.
type Store interface {
	Get(key []byte) (value []byte, ok bool, err error)
	Scan(from, to []byte) iter.Seq2[Entry, error]
	// Put and Delete copy what they keep. A nil value is an empty one.
	Put(key, value []byte) error
	Delete(key []byte) error
	// Time is the event time, in Unix milliseconds, that a write gets which names none: that of the record in process.
	Time() int64
}

// Host is whatever typed handles can be opened on: a task, a test driver.
type Host interface {
	// OpenStore returns the store of that name. It fails if there is none, if it is of another kind, or if the asking operator
	// did not declare that it uses it.
	OpenStore(name string, kind Kind) (Store, error)
}
