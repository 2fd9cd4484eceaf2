package topology

import (
	"encoding/binary"
	"errors"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/state"
)

// heldBack is a change that Suppress keeps back.
type heldBack struct {
	since   int64 // what its time is counted from
	low     int64 // the smallest event time that the key's changes have had since
	at      int64 // its event time
	pane    Pane
	headers []Header
	null    bool
	value   []byte
}

// heldBackFormat is the number of the encoding of heldBack, and the flags that it has.
const (
	heldBackFormat = 1

	heldBackNull    = 1
	heldBackPane    = 2
	heldBackHeaders = 4
)

var errHeldBack = errors.New("a change is not as this version writes it; was the store another one's, or has a newer program written it?")

// append appends the change in format 1, without its value.
func (k *heldBack) append(dst []byte) []byte {
	flags := byte(0)
	if k.null {
		flags |= heldBackNull
	}
	if k.pane != (Pane{}) {
		flags |= heldBackPane
	}
	if len(k.headers) > 0 {
		flags |= heldBackHeaders
	}
	dst = append(dst, heldBackFormat, flags)
	dst = binary.BigEndian.AppendUint64(dst, uint64(k.since))
	dst = binary.BigEndian.AppendUint64(dst, uint64(k.low))
	if flags&heldBackPane != 0 {
		dst = append(dst, byte(k.pane.Timing))
		dst = binary.AppendUvarint(dst, uint64(k.pane.Revision))
	}
	if flags&heldBackHeaders != 0 {
		dst = binary.AppendUvarint(dst, uint64(len(k.headers)))
		for _, h := range k.headers {
			dst = append(binary.AppendUvarint(dst, uint64(len(h.Key))), h.Key...)
			if h.Value == nil {
				dst = append(dst, 0)
				continue
			}
			dst = append(binary.AppendUvarint(dst, uint64(len(h.Value))+1), h.Value...)
		}
	}
	return dst
}

// decodeHeldBack takes a change as it is stored. Its bytes are those of stored.
func decodeHeldBack(stored []byte) (k heldBack, err error) {
	at, b, err := state.SplitValue(stored)
	if err != nil {
		return k, err
	}
	if len(b) < 18 || b[0] != heldBackFormat || b[1] > heldBackNull|heldBackPane|heldBackHeaders {
		return k, errHeldBack
	}
	flags := b[1]
	k.at, k.null = at, flags&heldBackNull != 0
	k.since, k.low = int64(binary.BigEndian.Uint64(b[2:])), int64(binary.BigEndian.Uint64(b[10:]))
	b = b[18:]
	if flags&heldBackPane != 0 {
		if len(b) < 2 || b[0] > byte(graph.Late) {
			return k, errHeldBack
		}
		k.pane.Timing = Timing(b[0])
		revision, n := binary.Uvarint(b[1:])
		if n <= 0 || revision > 1<<31-1 {
			return k, errHeldBack
		}
		k.pane.Revision, b = int32(revision), b[1+n:]
	}
	if flags&heldBackHeaders != 0 {
		count, n := binary.Uvarint(b)
		if n <= 0 || count > uint64(len(b)) {
			return k, errHeldBack
		}
		b = b[n:]
		k.headers = make([]Header, count)
		for i := range k.headers {
			size, n := binary.Uvarint(b)
			if n <= 0 || size > uint64(len(b)-n) {
				return k, errHeldBack
			}
			k.headers[i].Key, b = string(b[n:n+int(size)]), b[n+int(size):]
			size, n = binary.Uvarint(b)
			if n <= 0 || size > uint64(len(b)-n)+1 {
				return k, errHeldBack
			}
			if b = b[n:]; size > 0 {
				k.headers[i].Value, b = b[:size-1:size-1], b[size-1:]
			}
		}
	}
	if k.null && len(b) > 0 {
		return k, errHeldBack
	}
	k.value = b
	return k, nil
}
