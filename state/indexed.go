package state

import "encoding/binary"

// The first byte of a key in a store with an index. Entries come first, so that expiring them is expiring what is lowest.
const (
	entryTag = 0
	indexTag = 1

	lengthSize = 4
)

// indexed says whether stores of this kind have an index by key.
func (k Kind) indexed() bool { return k == SessionKind || k == SlidingKind }

// Timed says whether the entries of a store of this kind belong to stretches of event time: windows or sessions.
func (k Kind) Timed() bool { return k == WindowKind || k.indexed() }

// Local says whether key is one of an index, which no changelog knows of.
func (k Kind) Local(key []byte) bool { return k.indexed() && len(key) > 0 && key[0] == indexTag }

// TimeOf returns what entries of this kind are sorted by: the start of the window, the end of the session. ok is false if key is
// not an entry of such a kind.
func (k Kind) TimeOf(key []byte) (t int64, ok bool) {
	switch {
	case k == WindowKind:
	case k.indexed() && len(key) > 0 && key[0] == entryTag:
		key = key[1:]
	default:
		return 0, false
	}
	t, _, ok = SplitWindowKey(key)
	return t, ok
}

// AppendTime appends what the keys of all entries with that time begin with, see TimeOf. It is a bound for Scan.
func (k Kind) AppendTime(dst []byte, t int64) []byte {
	if k.indexed() {
		dst = append(dst, entryTag)
	}
	return AppendWindowStart(dst, t)
}

// Entries returns bounds for Scan between which are all entries and nothing of an index.
func (k Kind) Entries() (from, to []byte) {
	if k.indexed() {
		return []byte{entryTag}, []byte{indexTag}
	}
	return nil, nil
}

// Index returns the mutation of the index that goes with a mutation of an entry. What it builds is appended to dst, which it returns.
// ok is false where there is no index, and for a key that is not an entry's.
func (k Kind) Index(dst []byte, m Mutation) (index Mutation, _ []byte, ok bool) {
	n := len(dst)
	switch k {
	case SessionKind:
		start, end, key, ok := SplitSessionKey(m.Key)
		if !ok {
			return Mutation{}, dst, false
		}
		dst = AppendSessionIndex(dst, start, end, key)
	case SlidingKind:
		start, key, ok := SplitSlidingKey(m.Key)
		if !ok {
			return Mutation{}, dst, false
		}
		dst = AppendSlidingIndex(dst, start, key)
	default:
		return Mutation{}, dst, false
	}
	index = Mutation{Store: m.Store, Key: dst[n:len(dst):len(dst)]}
	if m.Value != nil {
		index.Value = []byte{}
	}
	return index, dst, true
}

// AppendSessionKey appends the key of a session store to dst. Times are Unix milliseconds.
func AppendSessionKey(dst []byte, start, end int64, key []byte) []byte {
	return append(AppendWindowStart(AppendWindowStart(append(dst, entryTag), end), start), key...)
}

// SplitSessionKey takes the key of a session apart. key aliases b and is not nil. ok is false if b is none.
func SplitSessionKey(b []byte) (start, end int64, key []byte, ok bool) {
	if len(b) < 1+2*startSize || b[0] != entryTag {
		return 0, 0, nil, false
	}
	return ordered8(b[1+startSize:]), ordered8(b[1:]), b[1+2*startSize:], true
}

// AppendSessionIndex appends the key in the index of a session store to dst.
func AppendSessionIndex(dst []byte, start, end int64, key []byte) []byte {
	return AppendWindowStart(AppendSessionsOf(dst, key, end), start)
}

// AppendSessionsOf appends what the keys in the index begin with that are of key's sessions with that end. It is a bound for Scan.
func AppendSessionsOf(dst, key []byte, end int64) []byte {
	return AppendWindowStart(appendIndexed(dst, key), end)
}

// SplitSessionIndex takes a key in the index of a session store apart. key aliases b and is not nil. ok is false if b is none.
func SplitSessionIndex(b []byte) (start, end int64, key []byte, ok bool) {
	key, b, ok = splitIndexed(b)
	if !ok || len(b) != 2*startSize {
		return 0, 0, nil, false
	}
	return ordered8(b[startSize:]), ordered8(b), key, true
}

// AppendSlidingKey appends the key of a store of sliding windows to dst. start is in Unix milliseconds.
func AppendSlidingKey(dst []byte, start int64, key []byte) []byte {
	return AppendWindowKey(append(dst, entryTag), start, key)
}

// SplitSlidingKey takes the key of a sliding window apart. key aliases b and is not nil. ok is false if b is none.
func SplitSlidingKey(b []byte) (start int64, key []byte, ok bool) {
	if len(b) == 0 || b[0] != entryTag {
		return 0, nil, false
	}
	return SplitWindowKey(b[1:])
}

// AppendSlidingIndex appends the key in the index of a store of sliding windows to dst. It is a bound for Scan, too.
func AppendSlidingIndex(dst []byte, start int64, key []byte) []byte {
	return AppendWindowStart(appendIndexed(dst, key), start)
}

// SplitSlidingIndex takes a key in the index of a store of sliding windows apart. key aliases b and is not nil. ok is false if b is none.
func SplitSlidingIndex(b []byte) (start int64, key []byte, ok bool) {
	key, b, ok = splitIndexed(b)
	if !ok || len(b) != startSize {
		return 0, nil, false
	}
	return ordered8(b), key, true
}

// The length comes before the key, so that no key's entries are between those of another one.
func appendIndexed(dst, key []byte) []byte {
	return append(binary.BigEndian.AppendUint32(append(dst, indexTag), uint32(len(key))), key...)
}

func splitIndexed(b []byte) (key, rest []byte, ok bool) {
	if len(b) < 1+lengthSize || b[0] != indexTag {
		return nil, nil, false
	}
	n := uint64(binary.BigEndian.Uint32(b[1:]))
	b = b[1+lengthSize:]
	if uint64(len(b)) < n {
		return nil, nil, false
	}
	return b[:n:n], b[n:], true
}

func ordered8(b []byte) int64 { return int64(binary.BigEndian.Uint64(b) ^ (1 << 63)) }
