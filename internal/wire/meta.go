package wire

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
)

const (
	// referenceFormat is a number of the same row as those of Commit, behind the same prefix, so that a program that does not know it refuses
	// the metadata and does not take it for another's.
	referenceFormat = 129
	metaFormat      = 1
)

// Reference is the metadata of a committed offset whose Commit is too long to stand there: it stands in a record of the meta topic that was
// written with the offset, in one transaction.
type Reference struct {
	// TransactionalID and Sequence are those of the Commit, and name the transaction as they do there.
	TransactionalID string
	Sequence        uint64
	// Partition and Offset say where the record is. An Offset below 0 is not known.
	Partition int32
	Offset    int64
	// Slot is that of the record's key.
	Slot uint8
}

// EncodeReference returns r as the metadata of an offset.
func EncodeReference(r Reference) string {
	b := appendString([]byte{referenceFormat}, r.TransactionalID)
	b = binary.AppendUvarint(b, r.Sequence)
	b = binary.AppendUvarint(b, uint64(r.Partition))
	b = appendTime(b, r.Offset)
	b = append(b, r.Slot)
	return commitPrefix + base64.RawStdEncoding.EncodeToString(b)
}

// DecodeReference decodes the metadata of an offset if it is a reference. It returns false, and no error, for any other, which is
// DecodeCommit's.
func DecodeReference(metadata string) (ref Reference, is bool, err error) {
	text, ours := strings.CutPrefix(metadata, commitPrefix)
	if !ours {
		return Reference{}, false, nil
	}
	b, err := base64.RawStdEncoding.Strict().DecodeString(text)
	if err != nil || len(b) == 0 || b[0] != referenceFormat {
		return Reference{}, false, nil
	}
	r := read("reference", b, referenceFormat)
	ref = Reference{TransactionalID: r.string(), Sequence: r.uvarint(), Partition: r.int32(), Offset: r.time(), Slot: r.byte()}
	if err := r.end(); err != nil {
		return Reference{}, true, err
	}
	return ref, true, nil
}

// Meta is a record of the meta topic: the Commit of an offset, with the partition whose offset it is.
type Meta struct {
	Topic     string
	Partition int32
	Commit    Commit
}

// AppendMeta appends m in format 1: the value of its record.
func AppendMeta(dst []byte, m Meta) []byte {
	dst = append(dst, metaFormat)
	dst = appendString(dst, m.Topic)
	dst = binary.AppendUvarint(dst, uint64(m.Partition))
	return AppendCommit(dst, m.Commit)
}

// DecodeMeta decodes what AppendMeta appended.
func DecodeMeta(b []byte) (Meta, error) {
	r := read("meta record", b, metaFormat)
	m := Meta{Topic: r.string(), Partition: r.int32()}
	if r.err != nil {
		return Meta{}, r.err
	}
	var err error
	if m.Commit, err = DecodeCommitBytes(r.b); err != nil {
		return Meta{}, err
	}
	return m, nil
}

// MetaKey is the key of a Meta's record. A partition has two, of slot 0 and 1, in turn: what is written with a commit that may come to nothing
// never takes the place, once the topic is compacted, of what the committed offset refers to.
func MetaKey(topic string, partition int32, slot uint8) []byte {
	return fmt.Appendf(nil, "%s/%d/%d", topic, partition, slot)
}
