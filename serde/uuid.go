package serde

import (
	"encoding/hex"
	"fmt"
)

// UUID is the serde of Kafka's UUIDSerializer, which writes text: the 36
// characters 8-4-4-4-12 in lower-case hexadecimal. The value is the 16 bytes
// that the text stands for; their order is the order of the text.
//
// Decode takes upper case, too, but no shortened groups, which Java does take.
func UUID() Ordered[[16]byte] { return uuidSerde{} }

const uuidLen = 36

// uuidGroups are the bounds of the groups in the value and where each begins in the text.
var uuidGroups = [...]struct{ from, to, at int }{{0, 4, 0}, {4, 6, 9}, {6, 8, 14}, {8, 10, 19}, {10, 16, 24}}

type uuidSerde struct{}

func (uuidSerde) Append(dst []byte, v [16]byte) ([]byte, error) {
	for i, g := range uuidGroups {
		if i > 0 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, v[g.from:g.to])
	}
	return dst, nil
}

func (uuidSerde) Decode(b []byte) ([16]byte, error) {
	var v [16]byte
	if len(b) != uuidLen {
		return v, wrongLength("UUID", uuidLen, len(b))
	}
	for i, g := range uuidGroups {
		if i > 0 && b[g.at-1] != '-' {
			return [16]byte{}, fmt.Errorf("serde: UUID: want '-' at byte %d, got 0x%02x", g.at-1, b[g.at-1])
		}
		if _, err := hex.Decode(v[g.from:g.to], b[g.at:g.at+2*(g.to-g.from)]); err != nil {
			return [16]byte{}, fmt.Errorf("serde: UUID: group at byte %d: %w", g.at, err)
		}
	}
	return v, nil
}

func (uuidSerde) OrderedWidth() int { return uuidLen }
