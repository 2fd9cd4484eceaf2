package state

import "errors"

// ErrCorrupt says that what a backend keeps on disk is damaged: a checksum does not hold, a file is missing or cannot be parsed.
// [Provider.Open], [Backend.Apply] and every read may return an error that wraps it.
//
// State is a copy of its changelog, so this is repaired by closing the backend, calling [Durable.Remove] for its task, and opening
// it anew: all stores of the task are empty then and are restored from the start of their changelogs. A disk that is full or does
// not answer is no corruption, and its errors do not wrap ErrCorrupt: nothing has to be thrown away for those.
var ErrCorrupt = errors.New("state is damaged on disk")

// Sized is what a [Backend] is, too, if it can tell how much room it takes.
type Sized interface {
	// Size is about how many bytes the backend takes where it keeps what it has: on disk, or in memory if nowhere else. It belongs to
	// the writer, as Apply does, and is cheap enough to be called every few seconds.
	Size() int64
}

// Durable is what a [Provider] is, too, if its state outlives the process. It holds a place, a directory say, against other
// processes, from the first call of any method but Close until Close.
//
// All methods are safe for concurrent use.
type Durable interface {
	Provider

	// Instance returns an id that belongs to the place: made at random when the place is first used, and the same ever after,
	// over restarts and upgrades. It consists of lower-case letters and digits. No two processes that run can have the same
	// one, since the place is held; a copy of the place would break that, and must not be put to use beside the original.
	//
	// A process that comes back under the same id can keep its group membership and its transactional ids. Kafka Streams: the
	// process id kept in the state directory.
	Instance() (string, error)

	// Remove deletes all that is kept of a task, which must not be open. A task of which nothing is kept is no error.
	Remove(task string) error

	// Close lets go of the place. It fails, and lets go of nothing, while a backend is open. The provider may be used again
	// after it, and then holds the place anew.
	Close() error
}
