package wire

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
)

const (
	commitFormat = 1

	// commitPrefix tells our metadata from others': Kafka's default is the empty string, kgo's the member id.
	commitPrefix = "hr1:"

	// MaxMetadata is how long the metadata of an offset may become, in bytes. Brokers refuse what is over offset.metadata.max.bytes,
	// 4096 by default.
	MaxMetadata = 3500
)

// AppendCommit appends c in format 1.
func AppendCommit(dst []byte, c Commit) []byte {
	dst = append(dst, commitFormat)
	dst = appendString(dst, c.TransactionalID)
	dst = binary.AppendUvarint(dst, c.Sequence)

	dst = appendTime(dst, c.Source.MaxTime)
	dst = appendTime(dst, c.Source.Watermark)
	dst = binary.AppendUvarint(dst, uint64(c.Source.Producers))
	dst = binary.AppendUvarint(dst, uint64(len(c.Source.Channels)))
	// Neighbours are close in both: a channel is its distance from the one before it.
	var producer int32
	var watermark int64
	for _, ch := range c.Source.Channels {
		dst = binary.AppendUvarint(dst, uint64(ch.Producer-producer))
		dst = appendTime(dst, ch.Watermark-watermark)
		producer, watermark = ch.Producer, ch.Watermark
	}

	dst = binary.AppendUvarint(dst, uint64(len(c.Operators)))
	for _, op := range c.Operators {
		dst = appendString(dst, op.Name)
		dst = binary.AppendUvarint(dst, uint64(len(op.Values)))
		for _, v := range op.Values {
			dst = appendTime(dst, v)
		}
	}
	return dst
}

// DecodeCommitBytes decodes what AppendCommit appended.
func DecodeCommitBytes(b []byte) (Commit, error) {
	r := read("commit", b, commitFormat)
	c := Commit{TransactionalID: r.string(), Sequence: r.uvarint()}
	c.Source = SourceClock{MaxTime: r.time(), Watermark: r.time(), Producers: r.int32()}
	if n := r.count(2); n > 0 {
		c.Source.Channels = make([]Channel, n)
		var producer int64
		var watermark int64
		for i := range c.Source.Channels {
			step := r.int32()
			producer += int64(step)
			watermark += r.time()
			if i > 0 && step == 0 || producer > int64(c.Source.Producers)-1 {
				r.fail("the channels are not in ascending order below the number of producers")
				break
			}
			c.Source.Channels[i] = Channel{Producer: int32(producer), Watermark: watermark}
		}
	}
	if n := r.count(2); n > 0 {
		c.Operators = make([]OperatorClock, n)
		for i := range c.Operators {
			c.Operators[i].Name = r.string()
			if n := r.count(1); n > 0 {
				c.Operators[i].Values = make([]int64, n)
				for j := range c.Operators[i].Values {
					c.Operators[i].Values[j] = r.time()
				}
			}
		}
	}
	if err := r.end(); err != nil {
		return Commit{}, err
	}
	return c, nil
}

// EncodeCommit returns c as the metadata of an offset: a prefix, then base64, as metadata is a Kafka string. The caller compares
// its length with MaxMetadata.
func EncodeCommit(c Commit) string {
	return commitPrefix + base64.RawStdEncoding.EncodeToString(AppendCommit(nil, c))
}

// DecodeCommit decodes the metadata of an offset. It returns false, and no error, for metadata that another program has written,
// the empty one included.
func DecodeCommit(metadata string) (c Commit, ours bool, err error) {
	text, ours := strings.CutPrefix(metadata, commitPrefix)
	if !ours {
		return Commit{}, false, nil
	}
	b, err := base64.RawStdEncoding.Strict().DecodeString(text)
	if err != nil {
		return Commit{}, true, fmt.Errorf("wire: commit: %w: %w", ErrCorrupt, err)
	}
	c, err = DecodeCommitBytes(b)
	return c, true, err
}
